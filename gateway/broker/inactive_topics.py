"""Topics that nobody uses are deleted: Pulsar's policies of inactive topics.

Nobody uses a topic while it has no producers, no consumers and nothing that retention keeps; and either no
subscriptions, or none with a backlog (`delete_when_subscriptions_caught_up`). Consumer groups that have committed
offsets are subscriptions, too. How long that is so is counted by a clock that nobody sets, and from the gateway's start
at the earliest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.fetch_sessions import Wanted
from gateway.broker.limited import Limited
from gateway.broker.pages import each_committed
from gateway.broker.standing import start_of
from store.api import StoreError
from store.transient import first_offset

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.publishers import Publishing
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.config.topic_configs import TopicConfig
    from gateway.coordinators import offsets

log = logging.getLogger("magnetar.topics")

LATELY_MS = 120_000
"""For so long who has come to a partition's end counts as its reader: some clients ask only now and then."""

_SLICE = 100
"""Topics that are looked at before others have their turn."""

Committed = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition, the lowest offset that a consumer group has committed."""


class _Idle(NamedTuple):
    """A topic that nobody uses, as far as offsets of consumer groups do not say so."""

    name: str
    limit: int
    """ms"""


class InactiveTopics:
    """A job of housekeeping."""

    def __init__(
        self,
        node: Node,
        *,
        catalog: Catalog,
        in_use: InUse,
        subscriptions: Subscriptions,
        limit_of: Callable[[Topic], int],
        when_caught_up: Callable[[Topic], bool],
        publishing: Callable[[], Iterable[Publishing]],
        read_by_members: Callable[[Topic], bool],
        effective: Callable[[Topic], TopicConfig],
        delete: Callable[[str, Callable[[Topic], bool]], Awaitable[bool]],
    ) -> None:
        """`limit_of` says for how long a topic may be unused, in ms, 0 for ever; `when_caught_up` whether subscriptions
        without a backlog do not count; `publishing` has the connections that there are; `read_by_members` says whether
        members of a consumer group have partitions of it; `delete` deletes a topic if what it is then passes, and says
        whether it has.
        """
        self._node = node
        self._catalog = catalog
        self._limited = Limited(node, catalog, limit_of)
        self._limit_of = limit_of
        self._in_use = in_use
        self._subscriptions = subscriptions
        self._when_caught_up = when_caught_up
        self._publishing = publishing
        self._read_by_members = read_by_members
        self._effective = effective
        self._delete = delete
        # since when each is unused: monotonic ms
        self._unused: dict[bytes, int] = {}

    async def apply(self) -> None:
        """Delete those whose time is over."""
        seen: set[bytes] = set()
        idle: dict[bytes, _Idle] = {}
        async for topic, limit in self._limited.topics():
            seen.add(topic.topic_id)
            with _or_later(topic.name):
                if await self._used(topic):
                    self._unused.pop(topic.topic_id, None)
                else:
                    idle[topic.topic_id] = _Idle(topic.name, limit)
        self._unused = {topic_id: since for topic_id, since in self._unused.items() if topic_id in seen}
        if not idle:
            return
        try:
            committed = await self._committed(idle)
        except StoreError as error:
            log.info("inactive topics are looked at later", extra={"topics": len(idle), "reason": str(error)})
            return
        for count, (topic_id, (name, limit)) in enumerate(idle.items(), 1):
            if count % _SLICE == 0:
                await asyncio.sleep(0)
            with _or_later(name):
                await self._idle(topic_id, name, limit, committed.get(topic_id, {}))

    async def _idle(self, topic_id: bytes, name: str, limit: int, committed: Mapping[int, int]) -> None:
        """Delete a topic if no group uses it, and its time is over. Raises KafkaError, StoreError, KeyError,
        ValueError.
        """
        if committed:
            topic = self._catalog.by_id(topic_id)
            if topic is None or self._read_by_groups(topic, committed):
                self._unused.pop(topic_id, None)
                return
        now = self._node.clock.monotonic_ms()
        unused = now - self._unused.setdefault(topic_id, now)
        if unused < limit:
            return

        def still(there: Topic) -> bool:
            # it was waited for: another may be called so, somebody may have come, or said that it stays
            return (
                there.topic_id == topic_id
                and 0 < self._limit_of(there) <= unused
                and not self._busy(there)
                and not self._retained(there)
                and not self._read_by_groups(there, committed)
                and not any(self._counts(there, row) for row in self._subscriptions.of_topic(topic_id))
            )

        if await self._delete(name, still):
            log.info(
                "a topic was deleted that nobody has used", extra={"topic": name, "seconds": limit // 1000}
            )

    async def _used(self, topic: Topic) -> bool:
        """Whether it is used, consumer groups without members left out. Raises KafkaError, StoreError, KeyError,
        ValueError.
        """
        if self._busy(topic) or self._retained(topic):
            return True
        async for row in self._subscriptions.each_of_topic(topic.topic_id):
            if self._counts(topic, row):
                return True
        return False

    def _counts(self, topic: Topic, row: SubscriptionRow) -> bool:
        """Whether a subscription uses it. Raises StoreError, KeyError, ValueError."""
        if not self._when_caught_up(topic) or self._subscriptions.configs.consumers(row):
            return True
        store = self._node.store
        return any(
            start_of(store, self._subscriptions, row, index, partition) < store.log(partition).end_offset
            for index, partition in enumerate(topic.partitions)
        )

    def _read_by_groups(self, topic: Topic, committed: Mapping[int, int]) -> bool:
        """Whether what groups have committed uses it. Raises StoreError, KeyError."""
        store = self._node.store
        if topic.transient:
            # what it had before the gateway started does not count
            first = first_offset(store.leader_epoch(topic.partitions[0]))
            committed = {index: offset for index, offset in committed.items() if offset >= first}
        if committed and not self._when_caught_up(topic):
            return True
        logs = [store.log(partition) for partition in topic.partitions]
        return any(
            max(offset, logs[index].start_offset) < logs[index].end_offset
            for index, offset in committed.items()
            if index < len(logs)
        )

    def _busy(self, topic: Topic) -> bool:
        """Whether somebody is there who has published to it, or reads it."""
        if any(topic.topic_id in each.topics for each in self._publishing()):
            return True
        if self._read_by_members(topic):
            return True
        runtime = self._in_use.topic(topic.name.encode())
        partitions = [each for each in runtime.partitions if each is not None] if runtime is not None else []
        now = self._node.clock.monotonic_ms()
        return any(
            each.coming
            or now - each.asked_at < LATELY_MS
            or any(isinstance(who, Wanted) for who in each.watchers)
            for each in partitions
        )

    def _retained(self, topic: Topic) -> bool:
        """Whether retention keeps something of it."""
        if topic.transient:
            # it has none
            return False
        config = self._effective(topic)
        now = self._node.clock.wall_ms()
        for partition in topic.partitions:
            stored = self._node.store.log(partition)
            if stored.end_offset == stored.start_offset:
                continue
            newest = max(
                (max(each.max_timestamp, each.created_at) for each in stored.segments()), default=now
            )
            if not config.delete or config.retention_ms < 0 or newest + config.retention_ms > now:
                return True
        return False

    async def _committed(self, idle: Container[bytes]) -> Committed:
        """Of those topics. Raises StoreError."""
        found: dict[bytes, dict[int, int]] = {}

        def take(place: offsets.Place, row: offsets.Committed) -> None:
            if row.topic_id in idle:
                of_topic = found.setdefault(row.topic_id, {})
                of_topic[place.partition] = min(of_topic.get(place.partition, row.offset), row.offset)

        await each_committed(self._node.store, take)
        return found


@contextlib.contextmanager
def _or_later(name: str) -> Iterator[None]:
    """What goes wrong with one topic is no reason not to look at the others."""
    try:
        yield
    # rows that cannot be read are ValueErrors
    except (KafkaError, StoreError, KeyError, ValueError) as error:
        log.info("an inactive topic is looked at later", extra={"topic": name, "reason": str(error)})
