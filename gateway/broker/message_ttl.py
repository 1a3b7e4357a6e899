"""Time to live: what no consumer has acknowledged for so long is settled for it, and counted.

Age counts from when a record was sent or is due, the later of both. What is in hand, delayed or dying is not touched:
it goes when it comes back, when its delay has been over for so long, to its dead letters. Plain consumer groups have
no cursors here, and read what is in the log.

Timestamps say where in a log the old end: everything before the first record that is young enough, among those that
come behind what all subscriptions have settled. A record without a timestamp is as old as those around it. Delays lie
in headers, and nobody has looked at those of what no dispatcher has come to: so each segment is looked through once,
and where it has delays that are not over for long enough the cursor is led through it batch by batch. Of what was
appended since the start it may be known that nothing is delayed: then nothing is read.

Who looks at a topic learns when the next of its messages will be too old. Where that is before all topics are looked at
again, it is looked at then, with some others each second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker import offsets_by_time
from gateway.broker.delays_ahead import SLICE, DelaysAhead
from gateway.broker.errors import KafkaError
from gateway.broker.loading import load, until_loaded
from gateway.broker.namespaces import prefix_of
from gateway.broker.soon_old import SoonOld
from gateway.broker.standing import start_of
from gateway.broker.subscriptions import telling
from gateway.broker.subscriptions.stored import walk
from gateway.wire.batch import BatchError
from semantics.retention import Latest, Look
from semantics.subscriptions.rows import RowError
from store.api import Corrupt, StoreError, of_partition
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.subscriptions.stored import Stored
    from gateway.broker.undelayed import Undelayed
    from gateway.config import Settings
    from semantics.names import Namespace
    from semantics.subscriptions.cursor import Cursor
    from store.api import SegmentInfo

log = logging.getLogger("magnetar.ttl")

STRETCH = 64 * 1024
"""Of offsets that a cursor has read so many are settled before others have their turn: it takes 0.5 to 1.5 ms."""
_SLICE = 100
"""Topics that are looked at before others have their turn."""
EACH_SECOND = 100
"""Topics that are looked at in a second because something of them is too old by then."""


class _Old(NamedTuple):
    """What is old of one partition."""

    number: int
    """of the partition"""
    partition: int
    """the store's id"""
    end: int
    """the first record that is not, or the end of the log"""
    since: int
    """ms since 1970: what was due later stays"""
    begin: int
    """where the first subscription stands"""
    longest: int
    """of delays, in ms"""
    retry: bool
    """it is a RETRY topic, whose records have delays of their own"""
    from_publish: bool
    """what is due later goes as well"""


def _cut(first: int, end: int, known: int) -> Iterator[tuple[int, int]]:
    """[first, end) in stretches: what was read costs by the record, the rest nothing."""
    while known - first > STRETCH and end - first > STRETCH:
        yield first, first + STRETCH
        first += STRETCH
    yield first, end


def _shorter(old: int, new: int) -> bool:
    """Whether messages live shorter than before; 0 is for ever."""
    return new > 0 and (old <= 0 or new < old)


class MessageTtl:
    """A job of housekeeping."""

    def __init__(
        self,
        node: Delivering,
        *,
        watch: ClockWatch,
        catalog: Catalog,
        subscriptions: Subscriptions,
        ttl_of: Callable[[Topic], int],
        from_publish: Callable[[Topic], bool],
        load_lanes: Callable[[Topic, str], None],
        undelayed: Undelayed,
    ) -> None:
        """`ttl_of` says a topic's time to live in ms, 0 for none; `from_publish` whether it counts from when a message
        was sent, due or not; `load_lanes` has the lanes that serve a group's
        subscription on a topic say what they hold of it.
        """
        self._node = node
        self._watch = watch
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._ttl_of = ttl_of
        self._from_publish = from_publish
        self._load_lanes = load_lanes
        self._tasks: set[asyncio.Task[None]] = set()
        self._soon = SoonOld()
        # namespaces whose topics are gone through, and whether they are to be once more
        self._shorter: dict[Namespace, bool] = {}
        # what there was (versions of catalog and namespaces, the settings) when no topic had a time to live
        self._without: tuple[int, int, Settings] | None = None
        self.delays = DelaysAhead(
            lambda partition: node.store.log(partition),
            node.clock,
            node.decompression_limit,
            undelayed.since,
        )

    async def apply(self) -> None:
        """Settle what has become too old, of all topics."""
        seen: set[int] = set()
        count = 0
        now = self._catalog.version, self._catalog.namespaces.version, self._node.settings
        if now == self._without:
            # a million topics are not gone through twice a minute for nothing
            return
        limited = False
        async for topic in self._catalog.every():
            count += 1
            if count % _SLICE == 0:
                await asyncio.sleep(0)
            # the clock may have jumped meanwhile
            ttl = self._ttl_of(topic) if self._watch.trusted else 0
            limited = limited or ttl > 0 or not self._watch.trusted
            if ttl <= 0 or topic.queue is not None:
                continue
            await self._try(topic, ttl, seen)
        self._without = None if limited else now
        self.delays.keep(seen)

    @property
    def busy(self) -> bool:
        """Whether what `changed` has begun goes on."""
        return bool(self._tasks)

    def changed(self, before: Topic, topic: Topic) -> None:
        """A topic's configs are others now. If its messages may wait less long, who said so need not wait for the next
        `apply`.
        """
        ttl = self._ttl_of(topic)
        if _shorter(self._ttl_of(before), ttl) and topic.queue is None and self._watch.trusted:
            self._begin(self._try(topic, ttl, set()))

    def namespace_changed(self, namespace: Namespace, old: int, new: int) -> None:
        """The same for the topics of a namespace, where those that say nothing themselves have another time to live
        now, in ms.
        """
        if not _shorter(old, new) or not self._watch.trusted:
            return
        under_way = namespace in self._shorter
        self._shorter[namespace] = True
        if not under_way:
            self._begin(self._namespace(namespace))

    async def _namespace(self, namespace: Namespace) -> None:
        full = self._catalog.namespaces.full
        try:
            while self._shorter[namespace]:
                self._shorter[namespace] = False
                async for topic in self._catalog.every(prefix_of(namespace)):
                    if full(topic.name).namespace == namespace:
                        await self._look(topic)
        finally:
            del self._shorter[namespace]

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = self._node.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def soon(self) -> None:
        """Settle what has become too old of topics of which that was to be expected, of some of them."""
        for topic_id in self._soon.take(self._node.clock.wall_ms(), EACH_SECOND):
            topic = self._catalog.by_id(topic_id)
            if topic is not None:
                await self._look(topic)

    async def _look(self, topic: Topic) -> None:
        # the clock may have jumped meanwhile
        ttl = self._ttl_of(topic) if self._watch.trusted else 0
        if ttl > 0 and topic.queue is None:
            await self._try(topic, ttl, set())

    async def _try(self, topic: Topic, ttl: int, seen: set[int]) -> None:
        try:
            await self._topic(topic, ttl, seen)
        except (KafkaError, StoreError, BatchError, RowError, KeyError, IndexError) as error:
            # it was deleted meanwhile, or cannot be read: others are not to wait for it
            log.info("time to live is put off", extra={"topic": topic.name, "reason": str(error)})

    async def expire(
        self, topic: Topic, ttl: int, *, index: int | None = None, group: str | None = None
    ) -> int:
        """Settle what is older than so many ms, of one topic, now: of one partition of it, or of one subscription,
        where they are said. How many messages that were. Raises KafkaError, StoreError, BatchError, RowError,
        KeyError, IndexError.
        """
        return await self._topic(topic, ttl, set(), index, group)

    async def _topic(
        self, topic: Topic, ttl: int, seen: set[int], only: int | None = None, group: str | None = None
    ) -> int:
        subscribed: list[SubscriptionRow] = []
        longest = 0
        async for row in self._subscriptions.each_of_topic(topic.topic_id):
            if group in (None, row.group):
                subscribed.append(row)
                longest = max(longest, self._subscriptions.configs.of(row).subscription.max_sent_delay_ms)
        if not subscribed:
            return 0
        total, whole = 0, only is None and group is None
        # when the next will be too old: one that comes now, if there is no other
        next_old = self._node.clock.wall_ms() + ttl + 1
        retry = self._subscriptions.configs.retries_into(topic.name) is not None
        loading = load(self._node.store, map(of_partition, topic.partitions))
        if loading is not None:
            await loading
        for index, partition in enumerate(topic.partitions):
            if only not in (None, index):
                continue
            begin = min([self._start(row, index, partition) for row in subscribed])
            since = self._node.clock.wall_ms() - ttl
            if begin >= self._node.store.log(partition).end_offset:
                continue
            end, stamp = await self._first_young(topic, index, since, begin)
            next_old = min(next_old, stamp + ttl + 1)
            if begin >= end:
                continue
            seen.add(partition)
            self.delays.forget(partition, self._node.store.log(partition).start_offset)
            old = _Old(
                index, partition, end, since, begin, longest, retry, not retry and self._from_publish(topic)
            )
            taken = 0
            for row in subscribed:
                taken += await self._subscription(topic, row, old)
            if taken:
                log.info(
                    "messages expired",
                    extra={"topic": topic.name, "partition": index, "messages": taken, "ttl_ms": ttl},
                )
            total += taken
        if whole:
            interval = self._node.settings.integer("message.expiry.check.interval.ms")
            before = self._node.clock.wall_ms() + interval
            self._soon.say(topic.topic_id, next_old if next_old < before else None)
        return total

    def _start(self, row: SubscriptionRow, index: int, partition: int) -> int:
        return start_of(self._node.store, self._subscriptions, row, index, partition)

    async def _first_young(self, topic: Topic, index: int, since: int, begin: int) -> tuple[int, int]:
        """The first record from `begin` on that is not older than that, or the end of the log, and a time that no
        record from there on is older than: what all have settled keeps nothing that comes behind it. Raises KafkaError,
        StoreError, BatchError, KeyError.
        """
        node = self._node
        partition = await until_loaded(partial(node.in_use.partition, topic, index))
        end = partition.high_watermark
        found = await offsets_by_time.first_at_or_after(partition, since, node.decompression_limit, begin)
        if found is not None:
            end, stamp = min(end, found[1]), found[0]
        else:
            stamp = node.clock.wall_ms()
        for segment in partition.log.segments():
            if segment.next_offset > begin and segment.max_timestamp < 0 and segment.created_at >= since:
                # nothing says how old they are but their file
                return min(end, segment.base_offset), min(stamp, segment.created_at)
        return end, stamp

    # -- one subscription -------------------------------------------------------------------------------------------

    @step("expire.before", "expire.after")
    async def _subscription(self, topic: Topic, row: SubscriptionRow, old: _Old) -> int:
        """Settle what is old of a subscription, durably: how many there were."""
        if self._start(row, old.number, old.partition) >= old.end:
            return 0
        self._load_lanes(topic, row.group)
        subscription = self._subscriptions.by_id(row.group, row.topic_id)
        if subscription is None or subscription.id != row.id:
            return 0
        used = old.number in subscription.partitions
        at = subscription.partition(old.number)
        cursor = at.ready()
        # what is due by now is due, whoever would have looked
        at.tick()
        taken = 0
        async for first, end, plain in self._stretches(cursor, old):
            if not self._valid(at, cursor) or cursor.needs_due is not None or first > cursor.known:
                break
            if plain:
                taken += cursor.expire_open(first, end, delayed=old.from_publish)
                at.touch()
                if end < old.end:
                    await asyncio.sleep(0)
                continue
            some = await self._slowly(at, cursor, first, end, old)
            taken += some or 0
            if some is None:
                break
        if taken:
            await self._node.write(())
        if not used and at.cursor is not None:
            at.subscription.let_go(at.index)
        return taken

    async def _stretches(self, cursor: Cursor, old: _Old) -> AsyncIterator[tuple[int, int, bool]]:
        """The old part of the log as (first, end, whether nothing in it is delayed or was not long ago), in stretches
        of which none holds others up for long. Raises StoreError, IndexError.
        """
        for segment in self._node.store.log(old.partition).segments():
            first, end = max(segment.base_offset, cursor.start), min(segment.next_offset, old.end)
            if first >= end:
                continue
            if old.from_publish:
                for stretch in _cut(first, end, cursor.known):
                    yield *stretch, True
                continue
            latest = self._latest(segment, old)
            if latest is None or not (latest.complete or latest.due >= old.since):
                look = Look(segment, old.since)
                await self.delays.look(old.partition, look, old.begin, old.longest, old.retry)
                latest = self._latest(segment, old)
            plain = latest is not None and latest.complete and latest.due < old.since
            # what has delays is gone through in slices of its own
            for stretch in _cut(first, end, cursor.known) if plain else ((first, end),):
                yield *stretch, plain

    def _latest(self, segment: SegmentInfo, old: _Old) -> Latest | None:
        return self.delays.latest(old.partition, segment, old.begin, old.longest, old.retry)

    @staticmethod
    def _valid(at: SubscriptionPartition, cursor: Cursor) -> bool:
        """Whether the cursor still is the one that counts: others had their turn."""
        return at.cursor is cursor and not at.gone and not at.partition.stale

    async def _slowly(
        self, at: SubscriptionPartition, cursor: Cursor, first: int, end: int, old: _Old
    ) -> int | None:
        """The same for what has delays: the cursor reads it first, and what was due not long ago stays. None when it
        came no further. Raises StoreError, IndexError.
        """
        taken = 0
        position = min(first, cursor.read)
        while position < end:
            try:
                data = at.partition.log.look(position, SLICE)
                if not isinstance(data, list):
                    data = await data
            except Corrupt:
                # the reader's business, and the policy's for damage
                return None
            stored = [each for each in walk(data, position) if each.base < end]
            if not stored:
                return None
            young = await self.delays.due_since(stored, old.since, old.longest, old.retry)
            if not await self._read_on(at, cursor, stored[-1].next, stored):
                return None
            stop = min(stored[-1].next, end)
            taken += cursor.expire_open(max(first, position), stop, young)
            at.touch()
            position = stored[-1].next
            await asyncio.sleep(0)
            if not self._valid(at, cursor):
                return None
        return taken

    async def _read_on(
        self, at: SubscriptionPartition, cursor: Cursor, until: int, stored: Iterable[Stored]
    ) -> bool:
        """Tell the cursor of batches that it has not looked at. Whether it has by now."""
        scanner, clock = at.reader.scanner, self._node.clock
        prepared = -1
        while self._valid(at, cursor) and cursor.needs_due is None:
            offset = cursor.read
            ahead = [each for each in stored if each.next > offset]
            if offset >= until or not ahead:
                return True
            wall = clock.wall_ms()
            slow = telling.first_slow(at, scanner, ahead, offset, wall)
            if slow == 0 and prepared != ahead[0].base:
                prepared = ahead[0].base
                await scanner.prepare(at, ahead[0], at.key_shared, wall)
                continue
            if slow:
                del ahead[slow:]
            cursor.feed(telling.told(at, scanner, ahead, offset, wall), clock.monotonic_ms(), wall)
            at.touch()
            if cursor.read == offset:
                return False
            await asyncio.sleep(0)
        return False
