"""Bytes and a schema as something that JSON can carry. Runs in the worker's process: nothing here is to be trusted with
the gateway's own.

Values are counted: a few bytes can mean a great many of them, such as a million elements that have none.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import uuid
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import msgspec

LIBRARIES = (
    "fastavro", "google.protobuf.json_format", "google.protobuf.message_factory", "gateway.payloads.proto_text",
)  # fmt: skip
"""What it imports: not the gateway."""
MOST_VALUES = 50_000
DEEPEST = 64
_INT64 = range(-(2**63), 2**63)


class UnreadableError(ValueError):
    """These bytes are not what the schema says, or more than is shown. The text is for a person."""


def avro(schema: str, others: Sequence[tuple[str, str]], data: bytes) -> Any:
    """A value in Avro's binary encoding. `others`: schemas that it refers to, each behind those that it refers to."""
    import fastavro

    named: dict[str, Any] = {}
    for _, text in others:
        fastavro.parse_schema(msgspec.json.decode(text), named_schemas=named)
    parsed: Any = fastavro.parse_schema(msgspec.json.decode(schema), named_schemas=named)
    source = BytesIO(data)
    value = fastavro.schemaless_reader(source, parsed, None)
    if left := len(data) - source.tell():
        raise UnreadableError(f"{left} bytes are left over")
    return plain(value)


def protobuf(schema: str, others: Sequence[tuple[str, str]], data: bytes) -> Any:
    """A message, behind the path to its type in the schema as Confluent's serializers write it."""
    from google.protobuf import json_format, message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    from gateway.payloads import well_known
    from gateway.payloads.proto_text import parsed

    pool = DescriptorPool()
    files = [parsed(name, text) for name, text in others] + [parsed("schema.proto", schema)]
    have = {file.name for file in files}
    imported = [name for file in files for name in file.dependency if name not in have]
    for file in [*map(FileDescriptorProto.FromString, well_known.needed(imported)), *files]:
        pool.Add(file)
    path, at = _path(data)
    kinds: Any = files[-1].message_type
    names = [files[-1].package] if files[-1].package else []
    for index in path:
        if index >= len(kinds):
            raise UnreadableError("it names a message that the schema does not have")
        names.append(kinds[index].name)
        # those that are made of maps have no place in the text
        kinds = [each for each in kinds[index].nested_type if not each.options.map_entry]
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(".".join(names)))()
    message.ParseFromString(data[at:])
    return plain(json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool))


def _path(data: bytes) -> tuple[list[int], int]:
    """(which message of the file, and which in that, …; where its bytes begin)."""
    count, at = _zigzag(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= DEEPEST:
        raise UnreadableError("the path to its message makes no sense")
    path = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        if index < 0:
            raise UnreadableError("the path to its message makes no sense")
        path.append(index)
    return path, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    for place in range(at, min(at + 10, len(data))):
        found |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return (found >> 1) ^ -(found & 1), place + 1
    raise UnreadableError("the path to its message ends in the middle")


def plain(value: Any) -> Any:
    """The same with what JSON has. Raises UnreadableError for what is too much, or nested too deep."""
    return _Plain().of(value, 0)


class _Plain:
    def __init__(self) -> None:
        self._left = MOST_VALUES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise UnreadableError(f"it has more than {MOST_VALUES:,} values")
        if depth > DEEPEST:
            raise UnreadableError(f"it is nested more than {DEEPEST} deep")
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            return value if value in _INT64 else str(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, bytes | bytearray):
            return base64.b64encode(value).decode()
        if isinstance(value, Mapping):
            return {str(name): self.of(each, depth + 1) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(each, depth + 1) for each in value]
        if isinstance(value, datetime.datetime | datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, decimal.Decimal | uuid.UUID):
            return str(value)
        return repr(value)[:1000]
