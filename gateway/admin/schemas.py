"""Payloads that Confluent's serializers wrote in Avro or Protobuf, by a schema that is in reach.

The gateway asks no registry. But registries of this kind keep all they know in the topic `_schemas` of the Kafka that
they work for. Where that is in the namespace of the record's topic, and who asks may read it, its schemas are in reach:
nothing else is. It is read once, and then only what was added; what is kept of it is bounded.
"""

from __future__ import annotations

from functools import partial
from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gateway.admin.slices import Pace
from gateway.admin.topics import loaded
from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import prefix_of
from gateway.payloads.frames import Question
from gateway.wire import records
from gateway.wire.batch import CONTROL, TRANSACTIONAL, BatchError
from semantics.access.acl import Operation
from semantics.console.decoding import PREFIX, schema_of
from store.api import Corrupt, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from store.api import Write

NAME = "_schemas"
"""As registries call their topic, if nobody tells them otherwise."""
KINDS = ("AVRO", "PROTOBUF")
LARGEST = 64 * 1024
"""Bytes of a payload that is decoded."""
LARGEST_SCHEMA = 128 * 1024
"""Characters of a schema, and of all that it refers to four times as many."""
LONGEST_SUBJECT = 1_000
"""Characters of a subject's name."""
MOST_KEPT = 16 * 1024 * 1024
"""Bytes of memory of what is kept of one topic."""
MOST_OTHERS = 50
"""Schemas that one refers to."""
MOST_TOPICS = 16
"""Of registries that are known at once: those that were asked last."""
MOST_READ = 64 * 1024 * 1024
"""Bytes of a registry's topic that are read at once, stored and unfolded; whoever asks next reads on."""
PAGE_S = 1.0
"""Seconds of a processor that the payloads of one page are decoded for."""
PAGE_BYTES = 1024 * 1024
"""Of JSON that is made for one page."""
_STRETCH = 256 * 1024
_AT_ONCE = 64 * 1024
"""Bytes of a batch that is taken apart on the loop."""


class Reference(msgspec.Struct):
    """Another schema, and the name by which one refers to it."""

    name: str
    subject: str
    version: int


class Row(msgspec.Struct):
    """A value of a registry's topic."""

    subject: str
    version: int
    id: int
    schema: str
    schemaType: str = "AVRO"  # noqa: N815
    references: list[Reference] | None = None


class _Key(msgspec.Struct):
    keytype: str = ""


_row = msgspec.json.Decoder(Row).decode
_key = msgspec.json.Decoder(_Key).decode


class Told(NamedTuple):
    """What a payload says."""

    # AVRO or PROTOBUF; empty where no schema is in reach
    kind: str = ""
    # as JSON; empty where it is not decoded
    json: bytes = b""
    why_not: str = ""
    # the number of the schema that it begins with, which a registry in reach does not have
    missing: int | None = None


class Registry:
    """What is known of one registry's topic."""

    def __init__(self) -> None:
        self.read_to = 0
        self._by_id: dict[int, Row] = {}
        self._by_version: dict[tuple[str, int], int] = {}
        self._size = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """A record. What is deleted stays: there may be payloads of it."""
        if not value or not key or len(value) > 2 * LARGEST_SCHEMA or len(key) > 2 * LARGEST_SCHEMA:
            return
        try:
            if _key(key).keytype != "SCHEMA":
                return
            row = _row(value)
        except (msgspec.DecodeError, RecursionError):
            return
        if len(row.schema) > LARGEST_SCHEMA or len(row.subject) > LONGEST_SUBJECT:
            return
        if row.id not in self._by_id:
            size = _size_of(row)
            if self._size + size > MOST_KEPT:
                return
            self._size += size
            self._by_id[row.id] = row
        named = getsizeof(row.subject) + 500
        if (row.subject, row.version) not in self._by_version and self._size + named <= MOST_KEPT:
            self._size += named
            self._by_version[row.subject, row.version] = row.id

    def schema(self, schema_id: int) -> Row | None:
        return self._by_id.get(schema_id)

    def others(self, row: Row) -> list[tuple[str, str]] | None:
        """What it refers to, each behind what that refers to itself; None where some is not known, or too much."""
        found: dict[str, str] = {}
        under_way: set[str] = set()
        # (a reference, whether what it refers to is there)
        left = [(each, False) for each in reversed(row.references or [])]
        size = 0
        while left:
            reference, done = left.pop()
            if reference.name in found or (not done and reference.name in under_way):
                continue
            number = self._by_version.get((reference.subject, reference.version))
            other = self._by_id.get(number) if number is not None else None
            if other is None or len(under_way) > MOST_OTHERS:
                return None
            if done:
                size += len(other.schema)
                if size > 4 * LARGEST_SCHEMA:
                    return None
                found[reference.name] = other.schema
                continue
            under_way.add(reference.name)
            left.append((reference, True))
            left += [(each, False) for each in reversed((other.references or [])[: MOST_OTHERS + 1])]
        return list(found.items())


def _size_of(row: Row) -> int:
    """Bytes of memory that it takes, and 500 for what it lies in."""
    others = sum(getsizeof(each.name) + getsizeof(each.subject) + 200 for each in row.references or ())
    return getsizeof(row.schema) + getsizeof(row.subject) + getsizeof(row.schemaType) + others + 500


class Schemas:
    """Of one admin server."""

    def __init__(self) -> None:
        self._by_topic: dict[bytes, Registry] = {}

    async def registry(self, broker: Broker, call: Call, topic: Topic) -> Registry | None:
        """That of a topic's namespace, for who may read it. Raises KafkaError, StoreError."""
        namespace = broker.catalog.namespaces.full(topic.name).namespace
        name = prefix_of(namespace) + NAME
        found = broker.catalog.get(name)
        if found is None or found.transient or found.queue is not None or len(found.partitions) != 1:
            return None
        if call.asker.checked and not call.asker.topic(Operation.READ, name, namespace):
            return None
        registry = self._by_topic.pop(found.topic_id, None) or Registry()
        self._by_topic[found.topic_id] = registry
        if len(self._by_topic) > MOST_TOPICS:
            del self._by_topic[next(iter(self._by_topic))]
        await loaded(broker, found.partitions)
        await _read(broker, broker.partition(found, 0), registry)
        return registry

    def follow(self, topic: Topic) -> tuple[list[Write], Callable[[], None]]:
        """What goes with the deletion of a topic: see `Topics.followed_by`."""

        def gone() -> None:
            self._by_topic.pop(topic.topic_id, None)

        return [], gone


async def _read(broker: Broker, partition: Partition, registry: Registry) -> None:
    """What was added. Raises KafkaError, StoreError."""
    pace, left = Pace(), MOST_READ
    while registry.read_to < (end := partition.last_stable_offset) and left > 0:
        before = registry.read_to = max(registry.read_to, partition.log_start)
        try:
            found = partition.read(before, _STRETCH)
            data = b"".join(found if isinstance(found, list) else await found)
        except Corrupt as error:
            registry.read_to = max(error.next_offset, before + 1)
            continue
        except IndexError:
            return
        left -= len(data)
        for position, header in records.batches(data):
            behind = header.base_offset + header.last_offset_delta + 1
            if behind <= registry.read_to or header.base_offset >= end:
                continue
            if not header.attributes & (CONTROL | TRANSACTIONAL):
                batch = data[position : position + header.size]
                for each in await _opened(broker, batch, header):
                    left -= len(each.key or b"") + len(each.value or b"")
                    registry.add(each.key, each.value)
                    await pace.rest()
            registry.read_to = behind
        if registry.read_to == before:
            return
        await pace.rest()


async def _opened(broker: Broker, batch: bytes, header: records.Header) -> list[records.Record]:
    opened = partial(records.records, batch, broker.decompression_limit)
    try:
        if len(batch) <= _AT_ONCE and not header.codec:
            return opened()
        return await broker.loop.run_in_executor(None, opened)
    except BatchError:
        return []


class Page:
    """Payloads of one answer: decoded for so long, and then no more."""

    def __init__(self, context: Context, call: Call) -> None:
        self._context = context
        self._call = call
        self._left, self._room = PAGE_S, PAGE_BYTES
        self._registries: dict[bytes, Registry | None] = {}

    async def told(self, topic: Topic, data: bytes | None, size: int = -1) -> Told:
        """What a key or a value of a topic says, of which there are `size` bytes. Never raises for what it is."""
        schema_id = schema_of(data) if data is not None else None
        if schema_id is None or data is None:
            return Told()
        try:
            registry = await self._registry(topic)
        except (KafkaError, StoreError):
            return Told()
        row = registry.schema(schema_id) if registry is not None else None
        if registry is not None and row is None:
            return Told(missing=schema_id)
        if row is None or row.schemaType not in KINDS:
            return Told()
        assert registry is not None
        if max(size, len(data)) > LARGEST:
            return Told(row.schemaType, why_not=f"it has more than {LARGEST:,} bytes")
        others = registry.others(row)
        if others is None:
            return Told(row.schemaType, why_not="not all that its schema refers to is known")
        if self._left <= 0 or self._room <= 0:
            return Told(row.schemaType, why_not="others on this page took too long, or are too large")
        question = Question(row.schemaType, row.schema, others, data[PREFIX:])
        async with self._context.decoding.of(self._call):
            answer = await self._context.decoders.decode(question)
        self._left -= answer.spent
        self._room -= len(answer.json)
        return Told(row.schemaType, answer.json, answer.why_not)

    async def add(self, topic: Topic, shown: dict[str, Any] | None, data: bytes | None, size: int) -> None:
        """The same in an answer that has these bytes."""
        told = await self.told(topic, data, size)
        if shown is None or not told.kind:
            return
        if told.json:
            shown |= {"kind": told.kind.lower(), "decoded": msgspec.json.decode(told.json)}
            shown.pop("cut", None)
        else:
            shown["notDecoded"] = f"{told.kind}: {told.why_not}"

    async def _registry(self, topic: Topic) -> Registry | None:
        if topic.topic_id not in self._registries:
            self._registries[topic.topic_id] = await self._context.schemas.registry(
                self._context.broker, self._call, topic
            )
        return self._registries[topic.topic_id]
