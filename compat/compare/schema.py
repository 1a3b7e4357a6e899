"""Apache Kafka's message schemas, out of the jar of the Kafka that is compared with, and what they say of bytes.

`encode` makes a request from plain values; it can also make what a client should not send. `walk` takes an answer
apart without changing a byte: every leaf keeps the bytes it was read from, so that putting them together again gives
the answer. It shares no code with the gateway's codec.
"""

from __future__ import annotations

import json
import re
import struct
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from compat.peers.kafka.jars import ensure_jars

NO_END = 32767
_COMMENTS = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FORMATS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}


class Malformed(Exception):
    """The bytes are not what the schema says."""


class Versions(NamedTuple):
    """An inclusive range."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Field(NamedTuple):
    """One field; `fields` are those of a struct, None for a plain type. `tag` is -1 outside the tagged section."""

    name: str
    type: str
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any
    fields: tuple[Field, ...] | None
    key: bool


class Message(NamedTuple):
    """A request, a response or a header."""

    name: str
    api_key: int
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


class Node(NamedTuple):
    """A piece of an answer: a leaf with its bytes, or a struct or an array with what is in it.

    `raw` of an array is its count, of a struct its tagged section's count; a null array or struct is a leaf. `children`
    of an array are named by their place. `pieces` have the order of the bytes: those of a struct, then its tags.
    """

    field: Field
    value: Any
    raw: bytes
    children: tuple[Node, ...] | None = None
    array: bool = False


@cache
def load(name: str) -> Message:
    """The schema of `ProduceRequest`. LookupError when Kafka has none."""
    try:
        row = json.loads(_COMMENTS.sub("", _archive().read(f"common/message/{name}.json").decode()))
    except KeyError:
        raise LookupError(f"Kafka has no message {name}") from None
    structs = {each["name"]: each["fields"] for each in row.get("commonStructs", ())}
    return Message(
        row["name"],
        row.get("apiKey", -1),
        _versions(row["validVersions"]),
        _versions(row.get("flexibleVersions", "none")),
        _fields(row.get("fields", ()), structs),
    )


@cache
def api_keys() -> dict[str, int]:
    """The key of each API that has a request schema, by name."""
    names = [path.removeprefix("common/message/") for path in _archive().namelist()]
    found = [load(name.removesuffix(".json")) for name in names if name.endswith("Request.json")]
    return {each.name.removesuffix("Request"): each.api_key for each in found if each.versions.last >= 0}


def encode(message: Message, version: int, body: Mapping[str, Any], *, tags: bytes = b"\0") -> bytes:
    """The bytes of a message; what `body` leaves out has its default, what this version does not have is left out.

    `tags` is the tagged section at the end of the outermost struct where nothing else is in it. Raises KeyError for a
    name that no version of the message has.
    """
    out = bytearray()
    _encode_struct(out, message.fields, version, version in message.flexible, body, message.name, tags)
    return bytes(out)


def walk(message: Message, version: int, data: bytes) -> Node:
    """An answer taken apart. Raises Malformed, also for bytes that are left over."""
    top = Field("", "struct", False, Versions(0, NO_END), _NEVER, _NEVER, -1, None, message.fields, False)
    reader = _Reader(data, version, version in message.flexible)
    node = reader.struct(top)
    if reader.position != len(data):
        raise Malformed(f"{len(data) - reader.position} bytes are left over")
    return node


def plain(node: Node) -> Any:
    """The values alone: dicts, lists and leaves."""
    if node.children is None:
        return node.value
    if node.array:
        return [plain(each) for each in node.children]
    return {each.field.name: plain(each) for each in node.children}


# -- reading the schemas ---------------------------------------------------------------------------------------------

_NEVER = Versions(0, -1)


@cache
def _archive() -> zipfile.ZipFile:
    (jar,) = ensure_jars().glob("kafka-clients-*.jar")
    return zipfile.ZipFile(jar)


def _versions(text: str) -> Versions:
    if text == "none":
        return _NEVER
    first, dash, last = text.partition("-")
    if first.endswith("+"):
        return Versions(int(first[:-1]), NO_END)
    return Versions(int(first), int(last) if dash else int(first))


def _fields(rows: Iterable[Mapping[str, Any]], structs: Mapping[str, Any]) -> tuple[Field, ...]:
    made = []
    for row in rows:
        kind = row["type"].removeprefix("[]")
        inner = row.get("fields") or structs.get(kind)
        made.append(
            Field(
                _WORDS.sub("_", row["name"]).lower(),
                kind,
                row["type"].startswith("[]"),
                _versions(row["versions"]),
                _versions(row.get("nullableVersions", "none")),
                _versions(row.get("taggedVersions", "none")),
                row.get("tag", -1),
                _default(row, kind, inner is not None),
                None if inner is None else _fields(inner, structs),
                row.get("mapKey", False),
            )
        )
    return tuple(made)


def _default(row: Mapping[str, Any], kind: str, struct_of: bool) -> Any:
    given = row.get("default")
    if given == "null":
        return None
    if row["type"].startswith("[]"):
        return []
    if struct_of:
        return {}
    if kind in ("string", "bytes", "records", "uuid"):
        return {"string": given or "", "uuid": uuid.UUID(int=0)}.get(kind, b"")
    if kind == "bool":
        return str(given).lower() == "true"
    return float(given or 0) if kind == "float64" else int(str(given or 0), 0)


# -- writing ---------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_struct(
    out: bytearray,
    fields: tuple[Field, ...],
    version: int,
    flexible: bool,
    body: Mapping[str, Any],
    where: str,
    tags: bytes = b"\0",
) -> None:
    unknown = set(body) - {field.name for field in fields}
    if unknown:
        raise KeyError(f"{where} has no field {', '.join(sorted(unknown))}")
    tagged = []
    for field in fields:
        if version not in field.versions:
            continue
        value = body.get(field.name, field.default)
        if version in field.tagged:
            if field.name in body:
                inside = bytearray()
                _encode_value(inside, field, version, flexible, value, field.array, where)
                tagged.append((field.tag, bytes(inside)))
        else:
            _encode_value(out, field, version, flexible, value, field.array, where)
    if flexible:
        if not tagged:
            out += tags
            return
        out += varint(len(tagged))
        for tag, data in sorted(tagged):
            out += varint(tag) + varint(len(data)) + data


def _encode_value(
    out: bytearray, field: Field, version: int, flexible: bool, value: Any, array: bool, where: str
) -> None:
    where = f"{where}.{field.name}"
    if array:
        if value is None:
            out += b"\0" if flexible else b"\xff\xff\xff\xff"
            return
        out += varint(len(value) + 1) if flexible else struct.pack(">i", len(value))
        for each in value:
            _encode_value(out, field, version, flexible, each, False, where)
    elif field.fields is not None:
        if not field.array and version in field.nullable:
            out += b"\xff" if value is None else b"\1"
        if value is not None:
            _encode_struct(out, field.fields, version, flexible, value, where)
    elif field.type in _FORMATS:
        out += struct.pack(_FORMATS[field.type], value)
    elif field.type == "uuid":
        out += value.bytes
    else:
        data = value.encode() if isinstance(value, str) else value
        short = field.type == "string"
        if data is None:
            out += b"\0" if flexible else b"\xff\xff" if short else b"\xff\xff\xff\xff"
        else:
            out += varint(len(data) + 1) if flexible else struct.pack(">h" if short else ">i", len(data))
            out += data


# -- taking apart ----------------------------------------------------------------------------------------------------


class _Reader:
    """A position in the bytes of one message."""

    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.data = data
        self.version = version
        self.flexible = flexible
        self.position = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.position + count > len(self.data):
            raise Malformed(f"{count} bytes wanted at {self.position} of {len(self.data)}")
        self.position += count
        return self.data[self.position - count : self.position]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def struct(self, field: Field) -> Node:
        assert field.fields is not None
        here = [each for each in field.fields if self.version in each.versions]
        children = [self.value(each, each.array) for each in here if self.version not in each.tagged]
        raw = b""
        if self.flexible:
            start = self.position
            count = self.varint()
            raw = self.data[start : self.position]
            known = {each.tag: each for each in here if self.version in each.tagged}
            for _ in range(count):
                children.append(self.tag(known))
        return Node(field, None, raw, tuple(children))

    def tag(self, known: Mapping[int, Field]) -> Node:
        start = self.position
        tag, size = self.varint(), self.varint()
        head, end = self.data[start : self.position], self.position + size
        field = known.get(tag)
        if field is None:
            data = self.take(size)
            return Node(_unknown(tag), data, head + data)
        node = self.value(field, field.array)
        if self.position != end:
            raise Malformed(f"tag {tag} is not {size} bytes long")
        # The size of what is inside follows from it, so only the tag counts.
        return node._replace(raw=varint(tag) + node.raw)

    def value(self, field: Field, array: bool) -> Node:
        start = self.position
        if array:
            count = self.varint() - 1 if self.flexible else struct.unpack(">i", self.take(4))[0]
            raw = self.data[start : self.position]
            if count < 0:
                return Node(field, None, raw)
            items = tuple(self.value(field, False) for _ in range(count))
            return Node(field, None, raw, items, array=True)
        if field.fields is not None:
            if not field.array and self.version in field.nullable and self.take(1) == b"\xff":
                return Node(field, None, b"\xff")
            return self.struct(field)
        value = self.leaf(field)
        return Node(field, value, self.data[start : self.position])

    def leaf(self, field: Field) -> Any:
        if field.type in _FORMATS:
            layout = _FORMATS[field.type]
            return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        if field.type == "uuid":
            return uuid.UUID(bytes=self.take(16))
        if self.flexible:
            size = self.varint() - 1
        elif field.type == "string":
            size = struct.unpack(">h", self.take(2))[0]
        else:
            size = struct.unpack(">i", self.take(4))[0]
        if size < 0:
            return None
        data = self.take(size)
        return data.decode() if field.type == "string" else data


def _unknown(tag: int) -> Field:
    return Field(f"tag_{tag}", "bytes", False, _NEVER, _NEVER, _NEVER, tag, None, None, False)
