"""Topics that nobody uses are deleted: Pulsar's policies of inactive topics.

Nobody uses a topic while it has no producers, no consumers and nothing that retention keeps; and either no
subscriptions, or none with a backlog (`delete_when_subscriptions_caught_up`). Consumer groups that have committed
offsets are subscriptions, too. How long that is so is counted by a clock that nobody sets, and from the gateway's start
at the earliest.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.fetch_sessions import Wanted
from gateway.broker.limited import Limited
from gateway.broker.pages import Rows, each_page
from gateway.broker.standing import start_of
from gateway.coordinators import offsets
from semantics.subscriptions.rows import RowError
from store.api import Family, StoreError
from store.pending import Asking, drive
from store.transient import first_offset

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.publishers import Publishing
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.config.topic_configs import TopicConfig

log = logging.getLogger("magnetar.topics")

LATELY_MS = 120_000
"""For so long who has come to a partition's end counts as its reader: some clients ask only now and then."""

Committed = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition, the lowest offset that a consumer group has committed."""


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
        committed: Committed | None = None
        async for topic, limit in self._limited.topics():
            seen.add(topic.topic_id)
            try:
                if committed is None:
                    committed = await self._committed()
                of_groups = self._that_count(topic, committed.get(topic.topic_id, {}))
                if await self._used(topic, of_groups):
                    self._unused.pop(topic.topic_id, None)
                else:
                    await self._unused_now(topic, limit, of_groups)
            except (KafkaError, StoreError, RowError, KeyError, ValueError) as error:
                log.info(
                    "an inactive topic is looked at later", extra={"topic": topic.name, "reason": str(error)}
                )
        self._unused = {topic_id: since for topic_id, since in self._unused.items() if topic_id in seen}

    async def _unused_now(self, topic: Topic, limit: int, committed: Mapping[int, int]) -> None:
        """Delete it if its time is over. Raises KafkaError, StoreError, RowError, KeyError."""
        now = self._node.clock.monotonic_ms()
        unused = now - self._unused.setdefault(topic.topic_id, now)
        if unused < limit:
            return

        def still(there: Topic) -> bool:
            # it was waited for: another may be called so, somebody may have come, or said that it stays
            return (
                there.topic_id == topic.topic_id
                and 0 < self._limit_of(there) <= unused
                and not self._used_otherwise(there, committed)
                and not any(self._counts(there, row) for row in self._subscriptions.of_topic(there.topic_id))
            )

        if await self._delete(topic.name, still):
            log.info(
                "a topic was deleted that nobody has used",
                extra={"topic": topic.name, "seconds": limit // 1000},
            )

    async def _used(self, topic: Topic, committed: Mapping[int, int]) -> bool:
        """Raises KafkaError, StoreError, RowError, KeyError."""
        if self._used_otherwise(topic, committed):
            return True
        async for row in self._subscriptions.each_of_topic(topic.topic_id):
            if self._counts(topic, row):
                return True
        return False

    def _used_otherwise(self, topic: Topic, committed: Mapping[int, int]) -> bool:
        """Whether it is used, its subscriptions left out. Raises KafkaError, StoreError, KeyError."""
        if self._busy(topic) or self._retained(topic):
            return True
        if committed and not self._when_caught_up(topic):
            return True
        logs = [self._node.store.log(partition) for partition in topic.partitions]
        return any(
            max(offset, logs[index].start_offset) < logs[index].end_offset
            for index, offset in committed.items()
            if index < len(logs)
        )

    def _counts(self, topic: Topic, row: SubscriptionRow) -> bool:
        """Whether a subscription uses it. Raises StoreError, RowError, KeyError."""
        if not self._when_caught_up(topic) or self._subscriptions.configs.consumers(row):
            return True
        store = self._node.store
        return any(
            start_of(store, self._subscriptions, row, index, partition) < store.log(partition).end_offset
            for index, partition in enumerate(topic.partitions)
        )

    def _that_count(self, topic: Topic, committed: Mapping[int, int]) -> Mapping[int, int]:
        """Without those in what a non-persistent topic had before the gateway started."""
        if not topic.transient or not committed:
            return committed
        first = first_offset(self._node.store.leader_epoch(topic.partitions[0]))
        return {index: offset for index, offset in committed.items() if offset >= first}

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

    async def _committed(self) -> Committed:
        found: dict[bytes, dict[int, int]] = {}

        def take(rows: Rows) -> Asking[bool]:
            for key, value in rows:
                place, row = offsets.place(key), offsets.decode(value)
                of_topic = found.setdefault(row.topic_id, {})
                of_topic[place.partition] = min(of_topic.get(place.partition, row.offset), row.offset)
            return True
            yield  # a generator, as `each_page` asks for

        rest = drive(each_page(self._node.store, Family.OFFSET, b"", take))
        if rest is not None and isinstance(rest, Awaitable):
            await rest
        return found
