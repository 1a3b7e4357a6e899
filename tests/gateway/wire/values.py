"""All messages that have schemas, their bytes, and random ones of them, for the tests of the codec."""

from __future__ import annotations

import random
from typing import Any

from gateway.wire import codec, compiler, schema
from gateway.wire.schema import Field

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


class Values:
    """Makes messages; `tame` keeps numbers to what an oracle with richer types than the wire's can hold."""

    def __init__(self, seed: object, *, tame: bool = False) -> None:
        self.random = random.Random(str(seed))
        self.tame = tame

    def message(self, name: str, version: int) -> Any:
        """A message with every field of the version set to something."""
        message = schema.load(name)
        self.version = version
        self.classes = compiler.classes(name)
        return self.struct(self.classes[""], message.fields)

    def struct_of(self, name: str, version: int, field: Field) -> Any:
        """One struct of a message."""
        assert field.fields is not None
        self.version = version
        self.classes = compiler.classes(name)
        return self.struct(self.classes[field.type], field.fields)

    def struct(self, cls: Any, fields: tuple[Field, ...]) -> Any:
        present = [field for field in fields if self.version in field.versions]
        return cls(**{field.attribute: self.value(field) for field in present})

    def value(self, field: Field) -> Any:
        if self.version in field.nullable and self.random.random() < 0.25:
            return None
        if self.version in field.tagged and self.random.random() < 0.5:
            return getattr(self.struct_default(field), field.attribute)
        if field.array:
            count = self.random.choice((0, 1, 2, 3)) if self.random.random() < 0.97 else 20
            return [self.one(field) for _ in range(count)]
        return self.one(field)

    def struct_default(self, field: Field) -> Any:
        return next(cls() for cls in self.classes.values() if hasattr(cls(), field.attribute))

    def one(self, field: Field) -> Any:
        if field.fields is not None:
            return self.struct(self.classes[field.type], field.fields)
        return self.primitive(field)

    def primitive(self, field: Field) -> Any:
        pick = self.random
        if field.type in _RANGES:
            low, high = _RANGES[field.type]
            if self.tame and ("time" in field.attribute or field.attribute.endswith("_ms")):
                return pick.randint(0, 2**30)
            if self.tame and field.attribute.endswith("error_code"):
                return pick.randint(-1, 120)
            return pick.choice((low, high, 0, -1 if low else 1, pick.randint(low, high)))
        if field.type == "bool":
            return pick.random() < 0.5
        if field.type == "float64":
            return pick.choice((0.0, -1.5, 1e300))
        if field.type == "uuid":
            return pick.randbytes(16)
        if field.type == "string":
            length = pick.choice((0, 1, 5, 30)) if pick.random() < 0.97 else 300
            return "".join(pick.choice("abc-_.é鯨🐳") for _ in range(length))
        return pick.randbytes(pick.choice((0, 1, 100, 200)))


MESSAGES = [name for name in schema.names() if schema.load(name).key >= 0]


PAIRS = [
    (name, version)
    for name in MESSAGES
    for version in range(schema.load(name).versions.first, schema.load(name).versions.last + 1)
]


def encode(name: str, version: int, message: Any) -> bytes:
    key = schema.load(name).key
    if name.endswith("Request"):
        return codec.encode_request(key, version, message)
    return codec.encode_response(key, version, message)


def decode(name: str, version: int, data: bytes) -> Any:
    key = schema.load(name).key
    if name.endswith("Request"):
        return codec.decode_request(key, version, data)
    return codec.decode_response(key, version, data)


def versions_of(name: str) -> range:
    versions = schema.load(name).versions
    return range(versions.first, versions.last + 1)
