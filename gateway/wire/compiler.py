"""Turns a schema into straight-line Python: one function per (message, version, encode or decode).

Three ideas make the generated code fast. Fixed-width fields that follow one another, the length in front of a
string or an array included, become a single `struct` call. Nothing is looked up at run time that the version
already decides: no branch on versions, no loop over fields, no descriptor objects. And decoding checks each
length once, against the end of the frame, before it is used; what slips through (a read past the end, a wrong
UTF-8 sequence) raises an exception of Python's own that the codec turns into `Malformed`.

`source()` shows what is generated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.wire import schema
from gateway.wire.decoder import Decoder
from gateway.wire.encoder import Encoder
from gateway.wire.generator import Generator
from gateway.wire.schema import Field

_classes: dict[str, dict[str, Any]] = {}


def classes(name: str) -> dict[str, Any]:
    """The classes of a message by name: its own under "", those of its structs under theirs.

    They are msgspec Structs: slotted, made with keywords, every field with the schema's default, comparable.
    """
    made = _classes.get(name)
    if made is None:
        made = {}
        top = _make_class(name, name, schema.load(name).fields, made)
        for inner, cls in made.items():
            setattr(top, inner, cls)
        made[""] = top
        _classes[name] = made
    return made


def _make_class(message: str, name: str, fields: tuple[Field, ...], made: dict[str, Any]) -> Any:
    members: list[tuple[str, Any, Any]] = []
    for field in fields:
        if field.fields is not None and field.type not in made:
            made[field.type] = _make_class(message, field.type, field.fields, made)
        default: Any
        if field.default is None or (field.fields is None and not field.array):
            default = field.default
        else:
            default = msgspec.field(default_factory=list if field.array else made[field.type])
        members.append((field.attribute, object, default))
    qualified = message if name == message else f"{message}.{name}"
    return msgspec.defstruct(
        name, members, module="gateway.wire.messages", namespace={"__qualname__": qualified}
    )


def compile_decoder(name: str, version: int) -> Callable[[bytes, int, int], Any]:
    """A function `(data, position, end)` to the message found there; `end` is len(data)."""
    decode: Callable[[bytes, int, int], Any] = _run(Decoder(name, version, classes(name)))
    return decode


def compile_encoder(name: str, version: int) -> Callable[[Any], bytes]:
    """A function from a message to its bytes, without any header."""
    encode: Callable[[Any], bytes] = _run(Encoder(name, version, classes(name)))
    return encode


def source(name: str, version: int, direction: str) -> str:
    """The generated code, for people; `direction` is "encode" or "decode"."""
    return (Decoder if direction == "decode" else Encoder)(name, version, classes(name)).generate()


def _run(generator: Generator) -> Any:
    code = compile(generator.generate(), f"<{generator.title} {generator.direction}>", "exec")
    exec(code, generator.names)
    return generator.names[generator.direction]
