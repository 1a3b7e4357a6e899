"""Backlog quotas at work: backlogs measured when something arrives, messages evicted, publishers made to wait.

Nobody walks through topics for it. A partition whose topic has a quota has a gate (`quota_gate.py`), which asks for a
measurement when what it knows is used up: where the slowest subscription stands, how many bytes lie behind that, and
how old the first of them is. What follows is `semantics.backlog_quota`'s to say.

Messages too old are evicted by the job of time to live, for which a quota by age with eviction is one more: it finds
those that wait though nothing arrives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.broker.standing import start_of
from gateway.broker.subscriptions import positions
from gateway.wire.batch import BatchError
from gateway.wire.delivery import headers_of
from semantics.backlog_quota import Quota, Usage, Verdict, judge
from semantics.subscriptions.rows import RowError
from store.api import StoreError
from store.steps import step

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from gateway.broker.catalog import Topic
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.partition import Partition
    from gateway.broker.quota_gate import Gate
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.registry import Subscriptions
    from store.api import Log

log = logging.getLogger("magnetar.quota")

TRIES = 3
"""So often one is begun anew because what it goes by has changed."""
AGAIN_MS = 1000
"""So long a measurement counts that could say nothing."""
STRETCH = 64 * 1024
"""Bytes that are looked through for a time."""


class Standing(NamedTuple):
    """Of a partition's slowest subscription."""

    start: int | None
    """the first offset that it has open; None where there is no subscription"""
    usage: Usage


class BacklogQuotas:
    """Of all topics."""

    def __init__(
        self,
        node: Delivering,
        *,
        watch: ClockWatch,
        subscriptions: Subscriptions,
        load_lanes: Callable[[Topic, str], None],
        expire: Callable[[Topic, int, int], Awaitable[object]],
    ) -> None:
        """`load_lanes` has the lanes that serve a group's subscription on a topic say what they hold of it; `expire`
        settles what is older than so many ms, of one partition.
        """
        self._node = node
        self._watch = watch
        self._subscriptions = subscriptions
        self._load_lanes = load_lanes
        self._expire = expire
        self._tasks: set[asyncio.Task[None]] = set()
        self.evicting: set[int] = set()
        """Partitions, by the store's id, of which messages are being evicted."""

    # -- measured ---------------------------------------------------------------------------------------------------

    def measure(self, partition: Partition, gate: Gate) -> asyncio.Future[None]:
        """Begin to measure a partition's backlog, or join who does. The future is done when its gate knows."""
        if gate.measuring is None:
            task = gate.measuring = self._run(self._measure(partition, gate))
            task.add_done_callback(lambda _: setattr(gate, "measuring", None))
        return gate.measuring

    async def _measure(self, partition: Partition, gate: Gate) -> None:
        for _ in range(TRIES):
            version, quota = gate.version, gate.quota
            verdict = await self._judged(partition, quota)
            if gate.version == version:
                break
            # by a quota that is another one now, or before a subscription went back
        gate.measured(verdict, self._node.clock.wall_ms())
        if (verdict.evict_to >= 0 or verdict.evict_before >= 0) and partition.id not in self.evicting:
            self.evicting.add(partition.id)
            task = self._run(self._evict(partition, gate, quota, verdict))
            task.add_done_callback(lambda _: self.evicting.discard(partition.id))

    async def _judged(self, partition: Partition, quota: Quota) -> Verdict:
        if not quota.limits:
            return Verdict()
        trusted = self._watch.trusted
        if not trusted:
            # ages mean nothing while the clock cannot be believed
            quota = quota._replace(age=-1)
        try:
            usage = await self.usage(partition, with_age=quota.age >= 0)
        except (KafkaError, StoreError, RowError, KeyError) as error:
            # it was deleted meanwhile, or cannot be read: whoever appends is told by the partition
            log.info(
                "a backlog cannot be measured",
                extra={"topic": partition.topic.name, "partition": partition.index, "reason": str(error)},
            )
            usage = None
        now = self._node.clock.wall_ms()
        if usage is None:
            # there is no subscription, either, where there is no backlog
            return Verdict(until=now + AGAIN_MS)
        verdict = judge(quota, usage, now)
        return verdict if trusted else verdict._replace(until=now + AGAIN_MS)

    async def usage(self, partition: Partition, *, with_age: bool = True) -> Usage | None:
        """What the slowest subscription of a partition has not acknowledged; None where there is none. Raises
        StoreError, RowError, KeyError.
        """
        found = await self.usage_of(partition.topic.topic, partition.index, partition.log, with_age=with_age)
        if found.start is None:
            return None
        if found.start >= partition.next_offset:
            return Usage(0, -1)
        # what is on its way to the disk counts
        return Usage(partition.log.size_from(found.start) + partition.coming, found.usage.oldest)

    async def usage_of(self, topic: Topic, index: int, stored: Log, *, with_age: bool = True) -> Standing:
        """The same as far as it is stored, of a partition that may not be in use; and where the slowest subscription
        stands.
        """
        start: int | None = None
        number = topic.partitions[index]
        async for row in self._subscriptions.each_of_topic(topic.topic_id):
            its = start_of(self._node.store, self._subscriptions, row, index, number)
            start = its if start is None else min(start, its)
        return Standing(start, await usage_from(start, stored, with_age=with_age))

    # -- evicted ----------------------------------------------------------------------------------------------------

    async def _evict(self, partition: Partition, gate: Gate, quota: Quota, verdict: Verdict) -> None:
        topic = partition.topic.topic
        try:
            if verdict.evict_to >= 0:
                await self._evict_size(topic, partition, verdict.evict_to)
            # it may be another one by now, or none
            if verdict.evict_before >= 0 and gate.quota == quota:
                await self._expire(topic, quota.age, partition.index)
        except (KafkaError, StoreError, BatchError, RowError, KeyError, IndexError) as error:
            log.info(
                "eviction is put off",
                extra={"topic": topic.name, "partition": partition.index, "reason": str(error)},
            )

    @step("evict.before", "evict.after")
    async def _evict_size(self, topic: Topic, partition: Partition, most: int) -> None:
        """Settle the oldest messages for those subscriptions that have more than so many bytes behind them, durably."""
        index = partition.index
        # what is on its way to the disk is part of the backlog, and can go only when it is there
        await self._node.write(())
        point = _first_within(partition.log, most)
        taken = subscribed = 0
        async for row in self._subscriptions.each_of_topic(topic.topic_id):
            if start_of(self._node.store, self._subscriptions, row, index, partition.id) >= point:
                continue
            await until_loaded(lambda group=row.group: self._load_lanes(topic, group))  # type: ignore[misc]
            subscription = self._subscriptions.by_id(row.group, row.topic_id)
            if subscription is None or subscription.id != row.id:
                continue
            used = index in subscription.partitions
            at = subscription.partition(index)
            before = at.ready().stats()["expired"]
            positions.move([(at, point)], lambda cursor, offset: cursor.expire(offset))
            taken += at.ready().stats()["expired"] - before
            subscribed += 1
            if not used:
                await self._node.write(())
                if at.cursor is not None:
                    at.subscription.let_go(at.index)
        await self._node.write(())
        if taken:
            self._node.metrics.evicted.value += taken
            log.info(
                "messages evicted",
                extra={
                    "topic": topic.name,
                    "partition": index,
                    "messages": taken,
                    "subscriptions": subscribed,
                    "quota": partition.topic.config.quota.size,
                },
            )

    def _run(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def usage_from(start: int | None, stored: Log, *, with_age: bool = True) -> Usage:
    """What a subscription has not acknowledged whose first open message is at `start`; nothing where there is none.
    Raises StoreError.
    """
    if start is None or start >= stored.end_offset:
        return Usage(0, -1)
    oldest = await _published(stored, start) if with_age else -1
    return Usage(stored.size_from(start), oldest)


async def _published(stored: Log, offset: int) -> int:
    """When the batch that holds an offset was published, ms since 1970; -1 where nobody can say. One without a time is
    as old as the next one that has one, or as its segment.
    """
    offset = max(offset, stored.start_offset)
    try:
        found = stored.read(offset, STRETCH)
        buffers = found if isinstance(found, list) else await found
        for _, _, header in headers_of(buffers):
            if header.max_timestamp >= 0:
                return header.max_timestamp
    except (StoreError, IndexError, BatchError):
        return -1
    return next((each.created_at for each in stored.segments() if each.next_offset > offset), -1)


def _first_within(stored: Log, most: int) -> int:
    """The first offset from which on a log has no more than so many bytes."""
    low, high = stored.start_offset, stored.end_offset
    while low < high:
        middle = (low + high) // 2
        if stored.size_from(middle) <= most:
            high = middle
        else:
            low = middle + 1
    return low
