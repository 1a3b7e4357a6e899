"""One pass of compaction over a partition: what it may come to, the process that does it, and what is stored of it.

1. What is due is decided from segments, the last stable offset and where subscriptions stand (`semantics.compaction`).
2. What is new is synced: else a power cut may take a key's last record when the one before is gone.
3. Rows of aborted transactions that nobody can ask about go: an earlier pass took their records. Their markers go with
   this one, and not before: who is told of a transaction passes over all that its producer wrote, up to a marker.
4. A process of its own reads the segments and writes new ones (`gateway.compaction`).
5. Each is swapped in by a commit of its own, oldest first, if that may still be (`compaction_guard.py`). When the pass
   ends in between, some are new and some are old: no record that is the last of its key is ever missing, and the next
   pass begins anew.
6. When all are, it is stored how far the log is clean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker import aborted_transactions
from gateway.broker.compaction_guard import Guard, PutOff
from gateway.broker.errors import KafkaError
from gateway.broker.standing import slowest
from gateway.compaction.messages import Segment, Work, pack_aborted
from gateway.compaction.running import PassFailed
from semantics.compaction import (
    MARKERS_MS,
    NEVER,
    Done,
    Policy,
    Verdict,
    after,
    decide,
    decode,
    encode,
    horizon,
)
from store.api import Durability, Family, Put, Refused, Roll, StoreError, Swap

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.topics import Topics
    from gateway.compaction.messages import Finished
    from gateway.compaction.running import Receiver
    from gateway.config.topic_configs import TopicConfig
    from store.api import Store
    from store.rewriting import Place, Rewritten

    Run = Callable[[Work, Receiver], Awaitable[Finished]]

_PAGE = 1000
"""Rows that are read in one go."""


class Outcome(NamedTuple):
    """Of a pass: bytes that were read, and by how many the log became smaller; the offset that it came to, and that
    which it would have come to with a larger map of keys.
    """

    read: int
    removed: int
    end: int
    planned: int


class Compacting:
    """See the module."""

    def __init__(
        self,
        node: Node,
        *,
        watch: ClockWatch,
        topics: Topics,
        in_use: InUse,
        subscriptions: Subscriptions,
        effective: Callable[[Topic], TopicConfig],
        unfolds_to: int,
        run: Run,
    ) -> None:
        """`run` does the work; a batch may unfold to so many bytes."""
        self._node = node
        self._watch = watch
        self._topics = topics
        self._in_use = in_use
        self._subscriptions = subscriptions
        self._effective = effective
        self._unfolds_to = unfolds_to
        self._run = run

    # -- what is due --------------------------------------------------------------------------------------------------

    def policy(self, topic: Topic) -> Policy:
        """What counts for a topic."""
        config = self._effective(topic)
        return Policy(
            config.min_compaction_lag_ms,
            # by age nothing is done while the clock cannot be believed
            config.max_compaction_lag_ms if self._watch.trusted else NEVER,
            config.min_dirty_ratio,
            config.delete_retention_ms,
            config.compaction_threshold,
        )

    def done(self, topic: Topic, index: int) -> Done:
        """What became of a partition so far. Raises KafkaError, StoreError."""
        log = self._in_use.log_of(topic, index)
        row = self._node.store.get(Family.COMPACTION, _key(topic.partitions[index]))
        return decode(row, log.end_offset)

    def guess(self, topic: Topic, index: int) -> Verdict:
        """What a pass would do, if nobody stood in its way: quickly found. Raises KafkaError, StoreError."""
        log = self._in_use.log_of(topic, index)
        return decide(
            log.segments(),
            self.policy(topic),
            self.done(topic, index),
            self._node.clock.wall_ms(),
            start=log.start_offset,
            stable=log.end_offset,
        )

    async def verdict(self, topic: Topic, index: int, asked: bool) -> tuple[Partition, Verdict]:
        """What it would do. Raises KafkaError, StoreError."""
        partition, verdict, _ = await self._verdict(topic, index, asked)
        return partition, verdict

    async def holder(self, topic: Topic, index: int) -> tuple[str, int] | None:
        """The subscription for which a pass that somebody asks for now would come no further, and the first offset that
        it has open; None when none is in the way. Raises KafkaError, StoreError, KeyError.
        """
        partition, verdict, (offset, group) = await self._verdict(topic, index, asked=True)
        stable = partition.last_stable_offset
        if group is None or not verdict.end == offset < stable or verdict.first_dirty >= stable:
            return None
        return group, offset

    async def _verdict(
        self, topic: Topic, index: int, asked: bool
    ) -> tuple[Partition, Verdict, tuple[int, str | None]]:
        offset, group = await slowest(self._node.store, self._subscriptions, topic, index)
        found = self._in_use.open(topic, index)
        partition = await found if isinstance(found, Awaitable) else found
        verdict = decide(
            partition.log.segments(),
            self.policy(topic),
            self.done(topic, index),
            self._node.clock.wall_ms(),
            start=partition.log.start_offset,
            stable=partition.last_stable_offset,
            held=offset if group is not None else None,
            asked=asked,
        )
        return partition, verdict, (offset, group)

    # -- a pass -------------------------------------------------------------------------------------------------------

    async def compact(self, topic: Topic, index: int, asked: bool, memory: int) -> Outcome | None:
        """One pass, None when there is nothing to do. `asked`: see `decide`; the map of keys may have so many bytes.

        Raises PutOff, PassFailed, KafkaError, StoreError, KeyError.
        """
        guard = Guard(self._node, self._in_use, self._subscriptions, self._effective, topic, index)
        try:
            return await self._compact(guard, guard.look(), index, asked, memory)
        except (KafkaError, StoreError, KeyError):
            # is it because the topic is deleted?
            guard.look()
            raise

    async def _compact(
        self, guard: Guard, topic: Topic, index: int, asked: bool, memory: int
    ) -> Outcome | None:
        partition, verdict = await self.verdict(topic, index, asked)
        if not (verdict.due or verdict.roll):
            return None
        number = topic.partitions[index]
        if verdict.roll:
            await self._node.write([Roll(number)])
            # what came meanwhile has begun another segment
            partition, verdict = await self.verdict(topic, index, asked)
            if verdict.roll or not verdict.due:
                return None
        now = self._node.clock.wall_ms()
        policy, done = self.policy(topic), self.done(topic, index)
        trusted = self._watch.trusted
        markers_ms = max(policy.delete_retention_ms, MARKERS_MS)
        markers_to = horizon(done, markers_ms, now) if trusted else 0
        config, settings = self._effective(topic), self._node.settings
        work = Work(
            await self._segments(partition, verdict.end),
            verdict.first_dirty,
            verdict.end,
            not any(each.active and each.size for each in partition.log.segments()),
            horizon(done, policy.delete_retention_ms, now) if trusted else 0,
            markers_to,
            pack_aborted(await self._aborted(number, verdict.end)),
            config.segment_bytes,
            memory,
            self._unfolds_to,
            settings.float("log.cleaner.io.max.bytes.per.second"),
        )
        if not work.segments:
            # a store without files, or all was trimmed meanwhile
            return None
        # What takes the place of earlier records must not be lost with the power when these are gone. Below, it was
        # on the disk before an earlier pass.
        syncing = self._node.store.sync([(number, verdict.first_dirty)])
        if syncing is not None:
            await syncing
        gone = aborted_transactions.below(self._node.store, number, markers_to)
        if gone:
            await self._node.write(gone)
        receiving = _Receiving(
            self._node.store, self._topics, self._in_use, guard, topic, index, work, verdict.late_to
        )
        try:
            finished = await self._run(work, receiving)
        except PassFailed as error:
            receiving.check_there(error)
            raise
        await self._finish(guard, topic, index, finished.end, policy)
        return Outcome(finished.read, receiving.removed, finished.end, work.end)

    async def _segments(self, partition: Partition, end: int) -> list[Segment]:
        """The closed ones up to that which has the offset before `end`, a few at a time."""
        found: list[Segment] = []
        for each in partition.log.segments():
            if each.active or each.base_offset >= end:
                break
            found += map(Segment.of, partition.log.sources(each.base_offset, each.next_offset))
            await asyncio.sleep(0)
        return found

    async def _aborted(self, number: int, end: int) -> list[tuple[int, int, int]]:
        """(first offset, marker, producer) of the transactions that were aborted in what lies before `end`."""
        found: list[tuple[int, int, int]] = []
        prefix = aborted_transactions.prefix(number)
        start = prefix
        while True:
            page = list(self._node.store.scan(Family.ABORTED, prefix, start, _PAGE))
            for each in (aborted_transactions.decode(*row) for row in page):
                if each.first < end:
                    found.append((each.first, each.marker, each.producer_id))
            if len(page) < _PAGE:
                return found
            start = page[-1][0] + b"\0"
            await asyncio.sleep(0)

    async def _finish(self, guard: Guard, topic: Topic, index: int, end: int, policy: Policy) -> None:
        number = topic.partitions[index]
        # not while the topic is deleted, and not when it was: nothing is to be left of it
        async with self._topics.changing(topic.name):
            guard.look()
            done = after(self.done(topic, index), end, self._node.clock.wall_ms(), policy.delete_retention_ms)
            await self._node.write([Put(Family.COMPACTION, _key(number), encode(done))])


class _Receiving:
    """See `running.Receiver`: a partition and its store."""

    def __init__(
        self,
        store: Store,
        topics: Topics,
        in_use: InUse,
        guard: Guard,
        topic: Topic,
        index: int,
        work: Work,
        late_to: int,
    ) -> None:
        """`late_to`: below it subscriptions hold nothing."""
        # those that stand as the pass found them, by number
        self._left = {each.number: each for each in work.segments}
        self._end = work.end
        self._late_to = late_to
        # bytes that the log became smaller by
        self.removed = 0
        self._store = store
        self._topics = topics
        self._in_use = in_use
        self._guard = guard
        self._topic = topic
        self._index = index
        self._number = topic.partitions[index]

    async def reserve(self, base_offset: int) -> Place:
        (place,) = await self._store.reserve(self._number, [base_offset])
        return place

    async def swap(self, old: tuple[tuple[int, int], ...], new: Rewritten | None) -> None:
        # nobody subscribes meanwhile, gives the topic another policy or deletes it
        async with self._topics.changing(self._topic.name):
            try:
                await self._check(old)
            except BaseException:
                if new is not None:
                    self.unreserve(new.place)
                raise
            await self._swap(old, new)
        gone = [self._left.pop(number) for _, number in old]
        self.removed += sum([each.size for each in gone]) - (new.size if new is not None else 0)

    async def _check(self, old: tuple[tuple[int, int], ...]) -> None:
        """Whether these may go. Raises PutOff, StoreError, KeyError."""
        end = min(self._end, self._left[old[-1][1]].next_offset)
        if end > self._late_to:
            await self._guard.check(end)
        else:
            self._guard.look()

    async def _swap(self, old: tuple[tuple[int, int], ...], new: Rewritten | None) -> None:
        try:
            # a swap shares its commit with no records, so it is in no turn
            await self._store.write([Swap(self._number, old, new)], Durability.OS)
        except (Refused, KeyError) as error:
            if new is not None:
                self.unreserve(new.place)
            self.check_there(error)
            raise
        except StoreError:
            # It may have been made all the same, and the next start knows. The log is read anew; where it ends is what
            # it was.
            runtime = self._in_use.topic_by_id(self._topic.topic_id)
            partition = runtime.partitions[self._index] if runtime is not None else None
            if partition is not None and partition.log.stale:
                partition.log = self._store.log(self._number)
            raise

    def check_there(self, error: Exception) -> None:
        """Raises PutOff when segments that the pass goes by are gone or others, as when the log was trimmed."""
        try:
            there = {each.number for each in self._store.log(self._number).segments()}
        except (KeyError, StoreError):
            return
        if not self._left.keys() <= there:
            raise PutOff("Segments were removed meanwhile.") from error

    def unreserve(self, place: Place) -> None:
        self._store.unreserve(self._number, [place])


def _key(number: int) -> bytes:
    return number.to_bytes(4, "big")
