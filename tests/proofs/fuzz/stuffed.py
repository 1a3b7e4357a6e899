"""Requests as large as a connection lets them be, filled with as much work as their schema allows.

Each array of each request, in turn, gets as many of its smallest elements as the limit on the frame leaves room for.
What that costs to decode, in time and memory, is what one client can do to the loop that all share.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from gateway.apis.registry import LARGEST, SMALL_REQUEST
from gateway.wire import codec, compiler, schema
from gateway.wire.schema import Field


def limit_of(key: int) -> int:
    """The largest frame of an API. Produce's is a setting: what its own decoder makes of many parts is the same."""
    return LARGEST.get(key, SMALL_REQUEST) if key else 8 << 20


def stuffed(
    key: int, version: int, size: int | None = None, only: tuple[Field, ...] | None = None
) -> Iterator[tuple[str, bytes]]:
    """(path of the array, frame) for each array of a request (or one); `size` in bytes, by default the limit."""
    name = schema.api_name(key) + "Request"
    message = schema.load(name)
    classes = compiler.classes(name)
    header = codec.encode_request_header(key, version, 1, None)
    room = (size or limit_of(key)) - len(header)
    for path in [only] if only is not None else _arrays(message.fields, version, ()):
        one = len(codec.encode_request(key, version, _filled(classes, message.fields, version, path, 1)))
        two = len(codec.encode_request(key, version, _filled(classes, message.fields, version, path, 2)))
        if two <= one:
            continue
        count = (room - one) // (two - one) - 8
        body = codec.encode_request(key, version, _filled(classes, message.fields, version, path, count))
        yield ".".join(field.name for field in path), header + body


def any_stuffed(key: int, version: int, seed: object) -> bytes | None:
    """One of these, of an array that is picked; None for a request without arrays."""
    paths = list(_arrays(schema.load(schema.api_name(key) + "Request").fields, version, ()))
    if not paths:
        return None
    path = random.Random(str(seed)).choice(paths)
    return next((frame for _, frame in stuffed(key, version, only=path)), None)


def _arrays(fields: tuple[Field, ...], version: int, above: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    for field in fields:
        if version not in field.versions:
            continue
        if field.array:
            yield (*above, field)
        if field.fields is not None:
            yield from _arrays(field.fields, version, (*above, field))


def _filled(
    classes: dict[str, Any], fields: tuple[Field, ...], version: int, path: tuple[Field, ...], count: int
) -> Any:
    """A message in which the array at `path` has `count` elements, those above it one."""
    message = _smallest(classes[""], fields, version)
    holder = message
    for step in path[:-1]:
        inner = _element(classes, step, version)
        setattr(holder, step.attribute, [inner] if step.array else inner)
        holder = inner
    last = path[-1]
    setattr(holder, last.attribute, [_element(classes, last, version)] * count)
    return message


def _element(classes: dict[str, Any], field: Field, version: int) -> Any:
    if field.fields is not None:
        return _smallest(classes[field.type], field.fields, version)
    return {"string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "bool": False}.get(field.type, 0)


def _smallest(cls: Any, fields: tuple[Field, ...], version: int) -> Any:
    values: dict[str, Any] = {}
    for field in fields:
        if field.array:
            values[field.attribute] = []
        elif version in field.nullable:
            values[field.attribute] = None
        elif field.fields is None:
            values[field.attribute] = {
                "string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "bool": False
            }.get(field.type, 0)  # fmt: skip
    return cls(**values)
