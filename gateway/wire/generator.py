"""What generated encoders and decoders have in common: lines, names, and what a version says of a field."""

from __future__ import annotations

import struct
from typing import Any

from gateway.wire import primitives, schema
from gateway.wire.malformed import Malformed
from gateway.wire.schema import Field
from gateway.wire.varint import encode_uvarint

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Primitive types of a fixed width, as `struct` writes them."""


class Generator:
    """Lines of code being written, and the run of fixed-width values that waits to be merged."""

    direction = ""

    def __init__(self, name: str, version: int, classes: dict[str, Any]) -> None:
        message = schema.load(name)
        if version not in message.versions:
            raise LookupError(
                f"{name} has versions {message.versions.first} to {message.versions.last}, not {version}"
            )
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.title = f"{name} v{version}"
        self.classes = classes
        self.names: dict[str, Any] = {
            "Malformed": Malformed,
            "uvarint": primitives.uvarint,
            "varint": encode_uvarint,
            "skip_tags": primitives.skip_tags,
            "pack_long": primitives.pack_long,
            "unpack_from": struct.unpack_from,
            "ONE": primitives.ONE_BYTE,
        }
        self.lines: list[str] = []
        self.depth = 1
        self.counter = 0
        # (format character, variable or expression); "x" is a zero byte and has none
        self.run: list[tuple[str, str]] = []

    def generate(self) -> str:
        raise NotImplementedError

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def constant(self, stem: str, value: Any) -> str:
        self.names[stem] = value
        return stem

    def packer(self, run: list[tuple[str, str]], method: str) -> str:
        letters = "".join(letter for letter, _ in run)
        name = f"{method}_{letters.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + letters), method)
        return name

    def split(self, fields: tuple[Field, ...]) -> tuple[list[Field], list[Field]]:
        """The fields of this version: those in the body, and the tagged ones by tag."""
        here = [field for field in fields if self.version in field.versions]
        body = [field for field in here if self.version not in field.tagged]
        tagged = [field for field in here if self.version in field.tagged]
        return body, sorted(tagged, key=lambda field: field.tag)

    def default(self, field: Field) -> str:
        if field.default is None:
            return "None"
        if field.array:
            return "[]"
        if field.fields is not None:
            return self.class_name(field) + "()"
        return repr(field.default)

    def class_name(self, field: Field) -> str:
        return self.constant(f"C_{field.type}", self.classes[field.type])

    def nullable(self, field: Field) -> bool:
        return self.version in field.nullable

    def smallest(self, field: Field) -> int:
        """The fewest bytes one element of a field takes: what an array's count is checked against."""
        if field.fields is not None:
            body, _ = self.split(field.fields)
            return sum(self.smallest_whole(inner) for inner in body) + self.flexible
        if field.type in FIXED:
            return struct.calcsize(">" + FIXED[field.type])
        if self.flexible:
            return 1
        return 2 if field.type == "string" else 4

    def smallest_whole(self, field: Field) -> int:
        if field.array:
            return 1 if self.flexible else 4
        if field.fields is not None and self.nullable(field):
            return 1
        return self.smallest(field)
