"""The topics there are: rows of the store, read when asked for and kept while in use.

A topic's row is found by its name, `orders` or `shop/eu/orders` (`semantics.names`); a second row leads from its topic
id to the name. A million topics cost disk: only a bounded number of decoded rows is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import msgspec

from gateway.broker.namespaces import Namespaces, prefix_of
from gateway.coordinators.wording import Wording
from semantics import names
from semantics.group_names import home_of
from semantics.names import DEFAULT, NON_PERSISTENT, Namespace, TopicName
from store.api import Delete, DropLog, Family, Put, Store, Write
from store.transient import FIRST_TRANSIENT, is_transient

_NAME = b"t/"
_ID = b"i/"
_PLAIN = b"c/"
_OVER = b"q/"
_GRANTED = b"g/"
_NEXT_PARTITION = b"next-partition-id"
_NEXT_TRANSIENT = b"next-transient-partition-id"
_CACHED = 20_000
COUNT_PAGES = 100
"""Pages that are counted at once: a million topics take some seconds, and nobody who asks waits for them."""
PAGE = 500
"""Rows that are read before the loop may do something else."""


MOST_LANES = 1_000
"""Lanes of a queue topic: a consumer has one at least, or it gets nothing."""


class QueueOf(msgspec.Struct, omit_defaults=True):
    """Whose deliveries a queue topic has: the subscription of this name on the topic with this id, or on all topics
    that match a pattern; then there is no id.
    """

    topic_id: bytes
    subscription: str
    # as `semantics.patterns` reads it
    pattern: str = ""
    # over a pattern: what its lanes go by, and what subscriptions are made with
    overrides: dict[str, str] = {}


class Topic(msgspec.Struct, omit_defaults=True):
    """One topic as the catalog keeps it; its index in `partitions` is Kafka's partition number."""

    name: str
    topic_id: bytes
    partitions: list[int]
    created_at: int
    configs: dict[str, str] = {}
    internal: bool = False
    # Pulsar tells a plain topic from a partitioned one with a single partition; Kafka does not. Plain is what was made
    # without a word of partitions, by `topics create` or by a Kafka client, where one is the default.
    partitioned: bool = True
    # a queue topic: its partitions are lanes, and it has no records of its own
    queue: QueueOf | None = None
    # what somebody has kept with it
    properties: dict[str, str] = {}
    # by role, what it may do, as it was kept before there were rows of ACLs: see kept_permissions.py
    permissions: dict[str, list[str]] = {}
    # partitions that take no more messages, by number
    terminated: list[int] = []
    # policies of single subscriptions, by their names, whether they are there or not
    subscription_policies: dict[str, dict[str, str]] = {}

    @property
    def transient(self) -> bool:
        """Whether its records are in memory only."""
        return is_transient(self.partitions[0])


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Topic)


class Catalog:
    """Topics by name and by id. Changes are writes to commit, then `apply` once they are durable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.namespaces = Namespaces(store)
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, str] = {}
        # names of the queue topics over patterns; None until somebody asks
        self._over: set[str] | None = None
        # changes that are on their way to the disk, by name: the rows of before, which count until `changed`, though
        # the new ones may be in the store already
        self._underway: dict[str, Topic | None] = {}
        # names of topics that are on their way to the disk with their first records: their rows may be found before
        self.coming: set[str] = set()
        self.watchers: list[Callable[[str, Topic | None], None]] = []
        """who is told of each topic that comes, changes or (None) goes"""
        self.gone_with: list[Callable[[Topic], list[Write]]] = []
        """who has rows that go with a topic"""
        # topics that are views of what the store has, by name: they have no rows, and are in no list of all topics. One
        # that was made under such a name before there were views wins
        self.views: Mapping[str, Topic] = {}
        # counts every change, so that what is derived from the catalog knows when it is old
        self.version = 0
        # partitions of all topics up to this name in byte order, None for all of them, by namespace; counted when first
        # asked for
        self._counted: Counter[Namespace] = Counter()
        self._counted_to: bytes | None = b""
        self._counting = asyncio.Lock()
        raw = store.get(Family.META, _NEXT_PARTITION)
        self._next_partition = int.from_bytes(raw, "big") if raw else 1
        raw = store.get(Family.META, _NEXT_TRANSIENT)
        self._next_transient = int.from_bytes(raw, "big") if raw else FIRST_TRANSIENT

    def get(self, name: str) -> Topic | None:
        topic = self._by_name.get(name)
        if topic is None:
            if name in self._underway:
                return self._underway[name]
            raw = self._store.get(Family.CATALOG, _NAME + name.encode())
            if raw is None:
                return self.views.get(name)
            topic = self._remember(_decoder.decode(raw))
        return topic

    def is_view(self, topic: Topic) -> bool:
        """Whether it has no records of its own, and no row."""
        return self.views.get(topic.name) is topic

    def by_id(self, topic_id: bytes) -> Topic | None:
        name = self._by_id.get(topic_id)
        if name is None:
            raw = self._store.get(Family.CATALOG, _ID + topic_id)
            if raw is None:
                return next((each for each in self.views.values() if each.topic_id == topic_id), None)
            name = raw.decode()
        topic = self.get(name)
        return topic if topic is not None and topic.topic_id == topic_id else None

    def holds(self, topic: Topic) -> bool:
        """Whether a topic that was asked for earlier is still there: for who has waited since."""
        known = self._by_name.get(topic.name)
        if known is not None:
            return known.topic_id == topic.topic_id
        return self.is_view(topic) or self._store.get(Family.CATALOG, _ID + topic.topic_id) is not None

    def full(self, name: str) -> TopicName:
        """Pulsar's name of the topic that the catalog calls so."""
        topic = self.get(name)
        return self.namespaces.full(name) if topic is None else self.full_of(topic)

    def full_of(self, topic: Topic) -> TopicName:
        """Pulsar's name of a topic."""
        full = self.namespaces.full(topic.name)
        return replace(full, domain=NON_PERSISTENT) if topic.transient else full

    def plain_name(self, topic: Topic) -> str | None:
        """Pulsar's name of a topic without partitions; None of any other."""
        return None if topic.partitioned or len(topic.partitions) != 1 else str(self.full_of(topic))

    def said(self, name: str, home: Namespace = DEFAULT) -> str:
        """What the catalog calls the topic that somebody means by a name, bare or dotted, who is at home there: one of
        its home, unless there is none and the name is that of a topic of another namespace.
        """
        own = prefix_of(home) + name
        if name.count(".") < 2 or not self.namespaces.several or self.get(own) is not None:
            return own
        return self._of_own(name, home) or self.namespaces.elsewhere(name, home) or own

    def _of_own(self, name: str, home: Namespace) -> str | None:
        """The topic of a home that is called by its whole name there; None where a name is no such."""
        rest = names.of_own(name, home)
        own = prefix_of(home)
        return own + rest if rest is not None and self.get(own + name) is None else None

    def wording(self, group_id: str) -> Wording:
        """How the members of a group name topics. Where rights are asked for, nobody asks for those of a group: its
        names are all of its home.
        """
        home = home_of(group_id)
        if self.namespaces.guarded or home in self.namespaces.homes:
            return Wording(prefix_of(home), lambda name: self._of_own(name, home) or prefix_of(home) + name)
        return Wording(prefix_of(home), lambda name: self.said(name, home))

    def collision(self, name: str) -> str | None:
        """An existing topic that differs from `name` only in dots and underscores: Kafka refuses such pairs."""
        plain = self.plain(name)
        raw = self._store.get(Family.CATALOG, _PLAIN + plain.encode())
        other = raw.decode() if raw else plain if plain in self.views else None
        return other if other != name else None

    def plain(self, name: str) -> str:
        """The name without dots: Kafka allows one topic for each, and does so within a namespace."""
        # there are no dots in what stands before the last slash
        return name.replace(".", "_")

    def first_named(self, prefix: str) -> str | None:
        """The first topic in byte order whose name begins so, None where there is none."""
        for key, _ in self._store.scan(Family.CATALOG, _NAME + prefix.encode(), limit=1):
            return key[len(_NAME) :].decode()
        return None

    def names(self) -> list[str]:
        """All topic names, in byte order."""
        skip = len(_NAME)
        return [key[skip:].decode() for key, _ in self._store.scan(Family.CATALOG, _NAME)]

    def topics(self, start: str = "", limit: int | None = None) -> Iterator[Topic]:
        """All topics from the name `start` on, in byte order; fewer than `limit` only where there are no more."""
        while True:
            name, coming = "", 0
            for key, value in self._store.scan(Family.CATALOG, _NAME, _NAME + start.encode(), limit):
                name = key[len(_NAME) :].decode()
                topic = self._by_name.get(name)
                if topic is None:
                    topic = self._underway[name] if name in self._underway else _decoder.decode(value)
                if topic is None:
                    coming += 1
                else:
                    yield topic
            if limit is None or not coming:
                return
            start, limit = name + "\0", coming

    def topics_within(self, prefix: str, start: str = "", limit: int | None = None) -> Iterator[Topic]:
        """The same of those whose names begin with `prefix`."""
        for topic in self.topics(max(prefix, start), limit):
            if not topic.name.startswith(prefix):
                return
            yield topic

    def over_patterns(self) -> list[Topic]:
        """The queue topics over patterns, by name. They are few, and their names stay in memory."""
        if self._over is None:
            skip = len(_OVER)
            self._over = {key[skip:].decode() for key, _ in self._store.scan(Family.CATALOG, _OVER)}
        return [topic for name in sorted(self._over) if (topic := self.get(name)) is not None]

    def granted(self, start: str = "") -> list[Topic]:
        """A page of the topics that had permissions of their own before these were rows of ACLs, by name, from the name
        `start` on.
        """
        skip = len(_GRANTED)
        rows = self._store.scan(Family.CATALOG, _GRANTED, _GRANTED + start.encode(), limit=PAGE)
        found = [self.get(key[skip:].decode()) for key, _ in rows]
        return [topic for topic in found if topic is not None]

    async def every(self, prefix: str = "") -> AsyncIterator[Topic]:
        """All topics by name, or those whose names begin so, in pages, so that a long catalog does not hold up the data
        path.
        """
        start = prefix
        while True:
            page = list(self.topics(start, PAGE))
            for topic in page:
                if not topic.name.startswith(prefix):
                    return
                yield topic
            if len(page) < PAGE:
                return
            # the next name there can be in byte order
            start = page[-1].name + "\0"
            await asyncio.sleep(0)

    async def partition_counts(self) -> Mapping[Namespace, int] | None:
        """Partitions of all topics by namespace, once they are counted: None before.

        Each call counts at most COUNT_PAGES pages, and goes on where the last one ended; then every change counts.
        """
        async with self._counting:
            for _ in range(COUNT_PAGES):
                if self._counted_to is None:
                    break
                start = self._counted_to
                page = list(self.topics((start + b"\0").decode() if start else "", PAGE))
                end = page[-1].name.encode() if len(page) == PAGE else None
                # what is under way counts as it was, until `changed` says otherwise; what goes is no longer found
                for topic in [
                    *(each for each in page if each.name not in self._underway),
                    *(
                        each
                        for each in self._underway.values()
                        if each is not None
                        and start < each.name.encode()
                        and (end is None or each.name.encode() <= end)
                    ),
                ]:
                    self._counted[self.namespaces.full(topic.name).namespace] += len(topic.partitions)
                self._counted_to = end
                await asyncio.sleep(0)
        return self._counted if self._counted_to is None else None

    def partitions_in(self, namespace: Namespace, enough: int) -> int:
        """Partitions of all topics of a namespace, at once. Before all topics are counted those of this one are; the
        count ends when there are more than `enough`.
        """
        if self._counted_to is None:
            return self._counted[namespace]
        found = 0
        prefix = prefix_of(namespace)
        for topic in self.topics(prefix):
            if not topic.name.startswith(prefix) or found > enough:
                break
            if prefix or self.namespaces.full(topic.name).namespace == namespace:
                found += len(topic.partitions)
        return found

    def _count(self, name: str, old: Topic | None, new: Topic | None) -> None:
        if self._counted_to is not None and name.encode() > self._counted_to:
            # it is still to be counted
            return
        namespace = self.namespaces.full(name).namespace
        self._counted[namespace] += (len(new.partitions) if new else 0) - (len(old.partitions) if old else 0)
        if not self._counted[namespace]:
            del self._counted[namespace]

    def partition_topic(self, name: str) -> str | None:
        """A topic that is called as a partition of `name` would be, such as orders-partition-3."""
        prefix = name + names.PARTITION
        skip = len(_NAME)
        # digits stand together in byte order
        for key, _ in self._store.scan(
            Family.CATALOG, _NAME + prefix.encode(), _NAME + prefix.encode() + b"0"
        ):
            found = key[skip:].decode()
            if not found[len(prefix)].isdigit():
                break
            if (named := names.partition_named(found)) is not None and named[0] == name:
                return found
        return None

    @property
    def has_transient(self) -> bool:
        """Whether there has ever been a non-persistent topic."""
        return self._next_transient > FIRST_TRANSIENT

    def allocate(self, count: int, *, transient: bool = False) -> list[int]:
        """Partition ids that were never used. The caller commits `allocation` together with their first use."""
        if transient:
            first = self._next_transient
            self._next_transient += count
        else:
            first = self._next_partition
            self._next_partition += count
        return list(range(first, first + count))

    def allocation(self, topic: Topic) -> Write:
        """That the ids of a topic's partitions are used."""
        if topic.transient:
            return Put(Family.META, _NEXT_TRANSIENT, struct.pack(">Q", self._next_transient))
        return Put(Family.META, _NEXT_PARTITION, struct.pack(">Q", self._next_partition))

    def writes_create(self, topic: Topic) -> list[Write]:
        """The rows. Of its logs nothing is written: the first append to one makes it."""
        name = topic.name.encode()
        writes: list[Write] = [
            Put(Family.CATALOG, _NAME + name, _encoder.encode(topic)),
            Put(Family.CATALOG, _ID + topic.topic_id, name),
            Put(Family.CATALOG, _PLAIN + self.plain(topic.name).encode(), name),
            self.allocation(topic),
        ]
        if topic.queue is not None and topic.queue.pattern:
            writes.append(Put(Family.CATALOG, _OVER + name, b""))
        return writes

    def writes_update(self, topic: Topic, *, grown: bool = False) -> list[Write]:
        writes: list[Write] = [Put(Family.CATALOG, _NAME + topic.name.encode(), _encoder.encode(topic))]
        if grown:
            writes.append(self.allocation(topic))
        return writes

    def writes_ungranted(self, topic: Topic) -> list[Write]:
        """It has none of its own any more."""
        without = msgspec.structs.replace(topic, permissions={})
        return [*self.writes_update(without), Delete(Family.CATALOG, _GRANTED + topic.name.encode())]

    def writes_delete(self, topic: Topic) -> list[Write]:
        writes: list[Write] = [
            Delete(Family.CATALOG, _NAME + topic.name.encode()),
            Delete(Family.CATALOG, _ID + topic.topic_id),
            Delete(Family.CATALOG, _PLAIN + self.plain(topic.name).encode()),
        ]
        if topic.queue is not None and topic.queue.pattern:
            writes.append(Delete(Family.CATALOG, _OVER + topic.name.encode()))
        for gone_with in self.gone_with:
            writes += gone_with(topic)
        writes.extend([DropLog(partition) for partition in topic.partitions])
        return writes

    def writes_renamed(self, before: Topic, after: Topic) -> list[Write]:
        """A topic of another namespace than public/default that an older Magnetar has called by its dotted name
        (`renaming.py`).
        """
        old, full = before.name.encode(), self.namespaces.full(after.name)
        plain = f"{full.namespace.tenant}.{full.namespace.name}.{full.local.replace('.', '_')}"
        keys = (_NAME + old, _PLAIN + plain.encode(), _OVER + old, _GRANTED + old)
        writes: list[Write] = [Delete(Family.CATALOG, key) for key in keys]
        writes += [write for write in self.writes_create(after) if write != self.allocation(after)]
        if after.permissions:
            # of these are made ACLs when it has its name
            writes.append(Put(Family.CATALOG, _GRANTED + after.name.encode(), b""))
        return writes

    def begin(self, writes: Iterable[Write]) -> list[str]:
        """Rows of topics are about to be committed, one change of a name at a time. Answers their names: call `end`
        with them when the commit is told, behind `changed`.
        """
        skip = len(_NAME)
        found = [
            write.key[skip:].decode()
            for write in writes
            if isinstance(write, Put | Delete)
            and write.family is Family.CATALOG
            and write.key.startswith(_NAME)
        ]
        for name in found:
            self._underway[name] = self.get(name)
        return found

    def end(self, changes: Iterable[str]) -> None:
        """They are committed, or will never be."""
        for name in changes:
            self._underway.pop(name, None)

    def changed(self, name: str, topic: Topic | None) -> Topic | None:
        """A committed change that was begun: `topic` is the new row, None if it is gone. Answers the one before."""
        self.version += 1
        before = self._underway.pop(name, None)
        old = self._by_name.pop(name, None)
        if old is not None:
            self._by_id.pop(old.topic_id, None)
        self._count(name, before, topic)
        if self._over is not None:
            self._over.discard(name)
            if topic is not None and topic.queue is not None and topic.queue.pattern:
                self._over.add(name)
        if topic is not None:
            self._remember(topic)
        for watcher in self.watchers:
            watcher(name, topic)
        return before

    def _remember(self, topic: Topic) -> Topic:
        if len(self._by_name) >= _CACHED:
            oldest = self._by_name.pop(next(iter(self._by_name)))
            self._by_id.pop(oldest.topic_id, None)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic.name
        return topic


def partition_owner(rows: Iterable[tuple[bytes, bytes]], partition: int) -> tuple[str, int] | None:
    """(topic, index) of a store partition id, among all rows of the catalog. Slow: for recovery."""
    for key, value in rows:
        if key.startswith(_NAME):
            topic = _decoder.decode(value)
            if partition in topic.partitions:
                return topic.name, topic.partitions.index(partition)
    return None


class _Rows(Protocol):
    def scan(self, family: Family, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]: ...


class _Gets(Protocol):
    def get(self, family: Family, key: bytes) -> bytes | None: ...


def topic_id_of(rows: _Gets, name: str) -> bytes | None:
    """The id of a topic, of a store that is being opened."""
    raw = rows.get(Family.CATALOG, _NAME + name.encode())
    return _decoder.decode(raw).topic_id if raw is not None else None


def partition_names(rows: _Rows) -> dict[int, str]:
    """What clients call each log of a store, by partition id. A row that makes no sense is left out."""
    found: dict[int, str] = {}
    for _, value in rows.scan(Family.CATALOG, _NAME):
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            topic = _decoder.decode(value)
            for index, partition in enumerate(topic.partitions):
                found[partition] = f'topic "{names.dotted(topic.name)}", partition {index}'
    return found
