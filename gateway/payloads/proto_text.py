"""A .proto text as a descriptor: as much of the language as says how bytes are to be read.

Registries keep Protobuf schemas as texts, and the runtime of Protobuf reads descriptors only. Messages, enums, fields,
maps and oneofs are read. Services, extensions and options change nothing about bytes that are shown here, and are
skipped; groups and editions are refused. What a name refers to is found out by the runtime.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST = 32
"""Messages inside of each other."""

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>\.?[A-Za-z_][\w.]*)|(?P<number>[-+]?[0-9][\w.+-]*)|(?P<mark>[{}\[\]()<>=;,:.+-])""",
    re.DOTALL,
)
_LABELS = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_TYPES = {
    name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip


class ProtoError(ValueError):
    """A text that is none, or says what is not read here."""


def parsed(name: str, text: str) -> FileDescriptorProto:
    """The descriptor of a file of this name. Raises ProtoError."""
    return _Reader(text).file(name)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ProtoError(f"There is {text[at : at + 10]!r} where nothing like that may be.")
        at = found.end()
        if found.lastgroup is not None:
            yield found.group()
    yield ""


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens)

    # -- words ------------------------------------------------------------------------------------------------------

    def _take(self) -> str:
        taken = self._next
        if not taken:
            raise ProtoError("It ends in the middle.")
        self._next = next(self._tokens)
        return taken

    def _expect(self, *marks: str) -> None:
        for mark in marks:
            if (found := self._take()) != mark:
                raise ProtoError(f"There is {found[:40]!r} where {mark!r} must be.")

    def _is(self, mark: str) -> bool:
        """Take it if it is next."""
        if self._next != mark:
            return False
        self._take()
        return True

    def _number(self) -> int:
        try:
            return int(self._take(), 0)
        except ValueError:
            raise ProtoError("A number is none.") from None

    def _string(self) -> str:
        return self._take()[1:-1]

    def _skip(self) -> None:
        """A statement: until its semicolon, or its block is over."""
        depth = 0
        while True:
            taken = self._take()
            depth += (taken in "{[") - (taken in "}]")
            if not depth and taken in ";}":
                return

    def _refuse(self, what: str) -> NoReturn:
        raise ProtoError(f"{what} is not read here.")

    # -- statements -------------------------------------------------------------------------------------------------

    def file(self, name: str) -> FileDescriptorProto:
        file = FileDescriptorProto(name=name)
        while self._next:
            word = self._next
            if word in ("message", "enum"):
                self._take()
                if word == "message":
                    self._message(file.message_type.add(), file.syntax, 0)
                else:
                    self._enum(file.enum_type.add())
            elif word == "syntax":
                self._expect("syntax", "=")
                syntax = self._string()
                if syntax not in ("proto2", "proto3"):
                    self._refuse(f"syntax {syntax[:20]!r}")
                file.syntax = syntax
                self._expect(";")
            elif word == "edition":
                self._refuse("An edition")
            elif word == "package":
                self._take()
                file.package = self._take()
                self._expect(";")
            elif word == "import":
                self._take()
                if self._next in ("public", "weak") and self._take() == "public":
                    file.public_dependency.append(len(file.dependency))
                file.dependency.append(self._string())
                self._expect(";")
            elif word in ("option", "service", "extend", ";"):
                self._skip()
            else:
                self._refuse(word[:40])
        return file

    def _enum(self, enum: object) -> None:
        enum.name = self._take()  # type: ignore[attr-defined]
        self._expect("{")
        while not self._is("}"):
            if self._is("option"):
                if not self._is_alias(enum):
                    self._skip()
            elif self._next in ("reserved", ";"):
                self._skip()
            else:
                value = enum.value.add(name=self._take())  # type: ignore[attr-defined]
                self._expect("=")
                value.number = self._number()
                self._skip()

    def _is_alias(self, enum: object) -> bool:
        if self._next != "allow_alias":
            return False
        self._expect("allow_alias", "=")
        enum.options.allow_alias = self._take() == "true"  # type: ignore[attr-defined]
        self._expect(";")
        return True

    def _message(self, message: DescriptorProto, syntax: str, depth: int) -> None:
        if depth > DEEPEST:
            self._refuse("A message that deep inside of others")
        message.name = self._take()
        self._expect("{")
        optional: list[FieldDescriptorProto] = []
        while not self._is("}"):
            word = self._next
            if word in ("option", "reserved", "extensions", "extend", ";"):
                self._skip()
                continue
            word = self._take()
            if word == "message":
                self._message(message.nested_type.add(), syntax, depth + 1)
            elif word == "enum":
                self._enum(message.enum_type.add())
            elif word == "oneof":
                self._oneof(message)
            elif word == "map" and self._next == "<":
                self._map(message)
            elif word in _LABELS:
                field = self._field(message, self._take(), _LABELS[word])
                if word == "optional" and syntax == "proto3":
                    field.proto3_optional = True
                    optional.append(field)
            else:
                self._field(message, word, FieldDescriptorProto.LABEL_OPTIONAL)
        # the oneofs of these stand behind the others
        for field in optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._take())
        self._expect("{")
        while not self._is("}"):
            if self._next in ("option", ";"):
                self._skip()
            else:
                field = self._field(message, self._take(), FieldDescriptorProto.LABEL_OPTIONAL)
                field.oneof_index = index

    def _map(self, message: DescriptorProto) -> None:
        self._expect("<")
        key = self._take()
        self._expect(",")
        value = self._take()
        self._expect(">")
        field = FieldDescriptorProto(name=self._take(), label=FieldDescriptorProto.LABEL_REPEATED)
        entry = message.nested_type.add(name=_camel(field.name) + "Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            inner = entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            _typed(inner, kind)
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, entry.name
        self._expect("=")
        field.number = self._number()
        self._skip()
        message.field.append(field)

    def _field(
        self, message: DescriptorProto, kind: str, label: FieldDescriptorProto.Label
    ) -> FieldDescriptorProto:
        if kind == "group":
            self._refuse("A group")
        field = message.field.add(name=self._take(), label=label)
        _typed(field, kind)
        self._expect("=")
        field.number = self._number()
        # what follows in brackets says nothing about how bytes are read
        self._skip()
        return field


def _typed(field: FieldDescriptorProto, kind: str) -> None:
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        # message or enum: the runtime finds that out
        field.type_name = kind


def _camel(name: str) -> str:
    return "".join([part[:1].upper() + part[1:] for part in name.split("_")])
