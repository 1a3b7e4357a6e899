"""The sums of all subscriptions, kept as they change, for lists that are sorted and for what needs attention.

Nothing here is walked for a page. What changes says so by its name in a set: a subscription whose cursor wrote or
delivered (`Counted.changed`), a topic whose log grew (`Traffic.moved`), a group that had something stored
(`GroupKinds.changed`), a topic that came or went (the catalog's watchers). Every few seconds what is in these sets is
looked at again, a slice at a time; a page does so with those of its rows that are in them, or that nobody has looked
at for FRESH_S. What nobody uses is read from its rows once, at the start.

A sweep takes a fiftieth of the loop's time at most: the next one waits so much longer. That is time of the processor,
so that one which waits for a disk, or for others on the machine, is not followed by minutes without any, unless
clients have the loop busy while it waits. What was not told is found by a look at everything, every ten minutes; what
could not be read is looked at again by the next sweep.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from time import thread_time
from typing import TYPE_CHECKING

from gateway.admin import group_consumers, lane_stats, share_stats
from gateway.admin.group_series import GroupSeries
from gateway.admin.groups import backlog, listing, span_of
from gateway.admin.lately import Lately
from gateway.admin.letter_topics import LetterTopics
from gateway.admin.slices import Pace, arrays_ready
from gateway.admin.topics import loaded
from gateway.broker import oldest_open
from gateway.broker.errors import KafkaError
from gateway.broker.first_times import NEVER
from gateway.broker.oldest_open import Rest
from gateway.broker.subscriptions import rows
from gateway.broker.subscriptions.partition import SubscriptionPartition
from semantics.console.attention import Attention
from semantics.console.ranking import Ranking
from semantics.console.standing import Part, Standing, joined
from semantics.policies import TYPE_NAMES
from semantics.subscriptions.rows import RowError
from store.api import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.rows import SubscriptionRow

EVERY_S = 5.0
"""Seconds between two sweeps, at least."""
SHARE = 50
"""A sweep that took so long is followed by a rest of so many times as long."""
ALL_S = 600.0
"""Seconds between two looks at everything."""
FRESH_S, MOST_FRESH = 10.0, 5_000
"""Seconds for which a page believes what it, or another, has looked at and nobody has told a change of; of so many."""
CHUNKS = 128
"""Of a cursor, chunks of 1,024 offsets that are looked at for what is blocked."""

_log = logging.getLogger("magnetar.admin")

Name = tuple[str, str]
"""A topic of the catalog, and a group."""


class Sums:
    """Of a node. `start` it with the loop running, and `stop` it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.ranking = Ranking()
        self.attention = Attention()
        self.series = GroupSeries(self.ranking, self._is_queue)
        # whether everything was looked at once
        self.whole = False
        self._wholly = asyncio.Event()
        self._pending: set[Name] = set()
        self._topics: set[str] = set()
        # group -> topics, of what is ranked
        self._of_group: dict[str, set[str]] = {}
        self._letters = LetterTopics()
        # when something of a subscription at rest is due, which nobody will tell
        self._due: list[tuple[int, Name]] = []
        self._due_of: dict[Name, int] = {}
        self._lately = Lately[Name](FRESH_S, MOST_FRESH)
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    # -- when ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._broker.catalog.watchers.append(self._topic_changed)
        self._broker.group_configs.watch(self._group_changed)
        self._task = self._broker.loop.create_task(self._run())

    def stop(self) -> None:
        watchers = self._broker.catalog.watchers
        if self._topic_changed in watchers:
            watchers.remove(self._topic_changed)
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        loop = self._broker.loop
        looked = -ALL_S
        while True:
            worked = 0.0
            try:
                if loop.time() - looked >= ALL_S:
                    looked = loop.time()
                    worked = await self.look_at_all()
                else:
                    worked = await self.sweep()
                self.series.sample(self._broker.sampling.slot, self._broker.clock.wall_ms())
            except (KafkaError, StoreError) as error:
                _log.warning("the sums of subscriptions cannot be read: %s", error)
            except Exception:
                _log.exception("the sums of subscriptions could not be made")
            await asyncio.sleep(max(EVERY_S, SHARE * worked))

    async def until_whole(self, seconds: float) -> None:
        """Until everything was looked at once, or so long."""
        if not self.whole:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wholly.wait(), seconds)

    @property
    def behind(self) -> int:
        """Subscriptions and topics that have changed and were not looked at since, about."""
        broker = self._broker
        return len(self._pending) + len(self._topics) + len(broker.subscriptions.counted.changed)

    def _is_queue(self, topic: str, group: str) -> bool:
        return self._broker.subscriptions.row(group, topic) is not None

    # -- what ------------------------------------------------------------------------------------------------------

    def _topic_changed(self, name: str, topic: Topic | None) -> None:
        self._topics.add(name)

    def _group_changed(self, group: str) -> None:
        """Its configs are others: those of its subscriptions that nobody uses tell nothing."""
        self._broker.group_kinds.changed.add(group)

    async def look_at_all(self) -> float:
        """Look at each subscription there is: seconds of the loop that took. Raises KafkaError, StoreError."""
        broker, pace = self._broker, Pace(thread_time)
        names = set(self.ranking.names())
        async for row in broker.subscriptions.every():
            topic = broker.catalog.by_id(row.topic_id)
            if topic is not None:
                names.add((topic.name, row.group))
            await pace.rest()
        for listed in await listing(broker):
            names |= await self._of_one_group(listed.group_id)
            await pace.rest()
        for name in names:
            await self._look_alone(name, pace)
        self.whole = True
        self._wholly.set()
        return pace.spent

    async def sweep(self, most: int | None = None) -> float:
        """Look at what has changed, at `most` so many: seconds of the loop that took. What cannot be read at present is
        looked at again by the next.
        """
        pace = Pace(thread_time)
        async with self._lock:
            pace.waited()
            await self._collect(pace)
        for count, name in enumerate(list(self._pending)):
            if count == most:
                break
            self._pending.discard(name)
            await self._look_alone(name, pace)
        return pace.spent

    async def refresh(self, names: list[Name]) -> None:
        """Look at those of these that have changed, or that nobody has looked at for FRESH_S: what somebody has
        forgotten to tell is not wrong for longer. Raises KafkaError, StoreError.
        """
        pace = Pace()
        async with self._lock:
            pace.waited()
            await self._collect(pace)
        for name in names:
            now = self._broker.loop.time()
            if name in self._pending or not self._lately.had(name, now):
                self._pending.discard(name)
                self._lately.note(name, now)
                await self._look_alone(name, pace)

    async def _look_alone(self, name: Name, pace: Pace) -> None:
        """One at a time, so that what is older never comes last; a page waits for one, and not for a whole sweep."""
        waits = self._lock.locked()
        async with self._lock:
            if waits:
                pace.waited()
            await self._look(name, pace)
        await pace.rest()

    async def _collect(self, pace: Pace) -> None:
        """Names of what has changed, from the sets where that is told."""
        broker, pending = self._broker, self._pending
        catalog = broker.catalog
        changed, broker.subscriptions.counted.changed = broker.subscriptions.counted.changed, set()
        for group, topic_id in changed:
            topic = catalog.by_id(topic_id)
            if topic is not None:
                pending.add((topic.name, group))
        moved, broker.traffic.moved = broker.traffic.moved, set()
        for topic_id in moved:
            topic = catalog.by_id(topic_id)
            if topic is not None:
                self._topics.add(topic.name)
        await self._each(self._topics, self._collect_topic, pace)
        await self._each(broker.group_kinds.changed, self._collect_group, pace)
        wall = broker.clock.wall_ms()
        while self._due and self._due[0][0] <= wall:
            due, waiting = heapq.heappop(self._due)
            if self._due_of.get(waiting) == due:
                del self._due_of[waiting]
                pending.add(waiting)

    async def _each(self, told: set[str], collect: Callable[[str], Awaitable[None]], pace: Pace) -> None:
        """Take names from a set as they are collected. One that cannot be read stays there, and keeps no other."""
        failed: Exception | None = None
        for name in list(told):
            # before anything is awaited: what is told from here on is told again
            told.discard(name)
            try:
                await collect(name)
            except BaseException as error:
                told.add(name)
                if not isinstance(error, Exception):
                    raise
                failed = error
            await pace.rest()
        if failed is not None:
            known = isinstance(failed, (KafkaError, StoreError))
            _log.warning(
                "the sums of subscriptions cannot be read: %s", failed, exc_info=None if known else failed
            )

    async def _collect_topic(self, name: str) -> None:
        """Its subscriptions, and those whose dead letters it has."""
        self._pending |= {(name, each.group) for each in self.ranking.of_topic(name)}
        self._pending |= self._letters.whose(name)
        topic = self._broker.catalog.get(name)
        if topic is not None:
            async for row in self._broker.subscriptions.each_of_topic(topic.topic_id):
                self._pending.add((name, row.group))

    async def _collect_group(self, group: str) -> None:
        """The topics that it has, or had, offsets of."""
        self._pending |= await self._of_one_group(group)
        self._pending |= {(topic, group) for topic in self._of_group.get(group, ())}

    async def _of_one_group(self, group: str) -> set[Name]:
        """The topics that a consumer group has committed offsets of."""
        broker = self._broker
        if (loading := broker.group_kinds.load((group,))) is not None:
            await loading
        try:
            committed = broker.groups.all_committed(group)
        except (KafkaError, StoreError, ValueError):
            return set()
        return {(topic.name, group) for topic, _ in committed if topic.queue is None}

    # -- one subscription --------------------------------------------------------------------------------------------

    async def _look(self, name: Name, pace: Pace) -> None:
        topic_name, group = name
        topic = self._broker.catalog.get(topic_name)
        standing = None
        if topic is not None and not topic.internal and topic.queue is None:
            try:
                standing = await self._standing(topic, group, pace)
            except (KafkaError, StoreError, RowError, KeyError, ValueError):
                # it cannot be read at present: what was known of it stays, unless it is gone, until the next look
                if self.ranking.get(*name) is not None:
                    self._pending.add(name)
                    return
        if standing is None:
            self._drop(name)
            return
        self.ranking.put(standing)
        self.attention.note(standing, self._broker.clock.wall_ms())
        self._of_group.setdefault(group, set()).add(topic_name)

    def _drop(self, name: Name) -> None:
        self._pending |= self._letters.leave(name)
        if self.ranking.get(*name) is None:
            return
        self._due_of.pop(name, None)
        self.ranking.drop(*name)
        self.attention.drop(*name)
        topics = self._of_group.get(name[1])
        if topics is not None:
            topics.discard(name[0])
            if not topics:
                del self._of_group[name[1]]

    async def _standing(self, topic: Topic, group: str, pace: Pace) -> Standing | None:
        """How it stands; None when there is none of that name. Raises KafkaError, StoreError, RowError."""
        broker = self._broker
        await loaded(broker, topic.partitions)
        if (loading := broker.group_kinds.load((group,))) is not None:
            await loading
        row = broker.subscriptions.row(group, topic.name)
        if row is not None:
            return await self._shared(topic, row, pace)
        return await self._committed(topic, group, pace)

    async def _shared(self, topic: Topic, row: SubscriptionRow, pace: Pace) -> Standing:
        broker = self._broker
        name = topic.name, row.group
        base = broker.subscriptions.configs.base_of(row)
        parts: list[Part] = []
        for index in range(len(topic.partitions)):
            parts.append(await self._part(row, index, base is not None))
            await pace.rest()
        if base is None:
            dead, letters = await self._dead_letters(topic, row, pace)
        else:
            # they are of the subscription whose RETRY topic it is
            dead, letters = 0, ""
        queue = broker.queues.serving(topic, row.group)
        if queue is not None:
            consumers = lane_stats.readers(broker, queue)
        else:
            consumers = broker.share_groups.members_on(row.group, topic.name)
        kind = TYPE_NAMES[broker.subscriptions.configs.of(row).subscription.type]
        standing = joined(*name, kind, parts, dead, consumers, letters)
        wall = broker.clock.wall_ms()
        if standing.next_due > wall and self._due_of.get(name) != standing.next_due:
            self._due_of[name] = standing.next_due
            heapq.heappush(self._due, (standing.next_due, name))
        return standing

    async def oldest_on(self, topic: Topic, index: int, group: str) -> int:
        """Since when the oldest open message of a subscription on a partition could have been delivered, in ms since
        1970; NEVER where there is none. The group is loaded. Raises KafkaError, StoreError.
        """
        row = self._broker.subscriptions.row(group, topic.name)
        if row is not None:
            base = self._broker.subscriptions.configs.base_of(row)
            return await self._oldest(row, index, base is not None)
        (committed,) = self._broker.groups.committed(group, topic, [index])
        if committed is None:
            return NEVER
        return (await self._committed_part(topic.partitions[index], committed.offset)).oldest

    async def _committed_part(self, number: int, offset: int) -> Part:
        """What a consumer group has still to read of a partition."""
        span = span_of(self._broker.store, number)
        waiting = backlog(span, offset) if span is not None else 0
        if span is None or not waiting:
            return Part()
        oldest = await self._broker.first_times.published(number, max(offset, span.start))
        return Part(unread=waiting, oldest=oldest if oldest <= self._broker.clock.wall_ms() else NEVER)

    async def _oldest(self, row: SubscriptionRow, index: int, retry: bool) -> int:
        times, wall = self._broker.first_times, self._broker.clock.wall_ms()
        at = self._where(row, index)
        if at is None:
            return NEVER
        if isinstance(at, SubscriptionPartition):
            return await oldest_open.at_work(times, at, wall, retry=retry)
        number, found = at
        prefix, rest = rows.prefix(row.id, number), _rest(found)
        return (
            await oldest_open.at_rest(times, self._broker.store, prefix, number, rest, wall, retry=retry)
        )[0]

    async def _part(self, row: SubscriptionRow, index: int, retry: bool) -> Part:
        """One partition: from the cursor if there is one, else from its rows. Raises KafkaError, StoreError."""
        at = self._where(row, index)
        if at is None:
            return Part()
        if isinstance(at, SubscriptionPartition):
            return await self._at_work(at, retry)
        return await self._at_rest(row, *at, retry)

    def _where(
        self, row: SubscriptionRow, index: int
    ) -> SubscriptionPartition | tuple[int, share_stats.Resting] | None:
        """Its cursor on a partition; else what its rows say, with the store's id of the partition."""
        broker = self._broker
        live = broker.subscriptions.in_use(row.group, row.topic_id)
        at = live.partitions.get(index) if live is not None else None
        if at is None or at.cursor is None:
            topic = broker.catalog.by_id(row.topic_id)
            if topic is None or index >= len(topic.partitions):
                return None
            found = share_stats.resting(broker, row, topic.partitions[index])
            if found is not None:
                return topic.partitions[index], found
            live = live or broker.subscriptions.by_id(row.group, row.topic_id)
            if live is None:
                return None
            at = live.partition(index)
        return at

    async def _at_work(self, at: SubscriptionPartition, retry: bool) -> Part:
        cursor, clock = at.ready(), at.node.clock
        if cursor.config.type == "key_shared":
            await arrays_ready()
            cursor = at.ready()
        end = at.partition.high_watermark
        wall = clock.wall_ms()
        counts = cursor.counts
        blocked, whole = cursor.blocked(CHUNKS)
        due = cursor.next_due(clock.monotonic_ms(), wall)[1] if cursor.waiting else None
        part = Part(
            unread=max(0, end - cursor.known),
            available=cursor.available - blocked,
            in_hand=cursor.acquired,
            blocked=blocked,
            backoff=counts.backoff,
            delayed=counts.delayed,
            dying=counts.dying,
            next_due=due if due is not None else NEVER,
            full=cursor.full,
            at_least=not whole,
        )
        oldest = await oldest_open.at_work(self._broker.first_times, at, wall, retry=retry)
        return part._replace(oldest=oldest)

    async def _at_rest(
        self, row: SubscriptionRow, number: int, found: share_stats.Resting, retry: bool
    ) -> Part:
        store, wall = self._broker.store, self._broker.clock.wall_ms()
        rest = _rest(found)
        part = Part(
            unread=max(0, rest.end - found.read),
            available=max(rest.open - rest.delayed - rest.backoff - found.counts.dying, 0),
            backoff=rest.backoff,
            delayed=rest.delayed,
            dying=found.counts.dying,
        )
        oldest, due = await oldest_open.at_rest(
            self._broker.first_times, store, rows.prefix(row.id, number), number, rest, wall, retry=retry
        )
        return part._replace(oldest=oldest, next_due=due)

    async def _dead_letters(self, topic: Topic, row: SubscriptionRow, pace: Pace) -> tuple[int, str]:
        """Letters in its dead letter topic that nobody has seen to; and that topic, where it is not its own: they have
        states by their offsets there, and whose they are nobody counts.
        """
        broker = self._broker
        config = broker.subscriptions.configs.of(row)
        name = config.dead_letters_of(row.group, topic.name)
        self._pending |= self._letters.choose((topic.name, row.group), name)
        several = len(self._letters.whose(name)) > 1
        shared = name if config.dead_letter_topic is not None or several else ""
        letters = broker.catalog.get(name)
        if letters is None:
            return 0, ""
        await loaded(broker, letters.partitions)
        cursors, store = broker.redrive.cursors, broker.store_of(letters)
        total = 0
        for number in letters.partitions:
            if (span := span_of(broker.store, number)) is not None:
                total += cursors.open_of(store, number, span.start, span.end)
            await pace.rest()
        return total, shared

    async def _committed(self, topic: Topic, group: str, pace: Pace) -> Standing | None:
        """A consumer group, by the offsets that it has committed of a topic; None where there are none."""
        broker = self._broker
        if not broker.catalog.namespaces.shows(group, topic.name):
            return None
        found = broker.groups.committed(group, topic, list(range(len(topic.partitions))))
        if all(row is None for row in found):
            return None
        parts: list[Part] = []
        for number, offsets in zip(topic.partitions, found, strict=True):
            parts.append(
                await self._committed_part(number, offsets.offset) if offsets is not None else Part()
            )
            await pace.rest()
        consumers = 0
        if broker.consumer_groups.claims(group) or broker.groups.claims(group):
            with contextlib.suppress(KafkaError):
                consumers = len(group_consumers.of_topic(broker, group, topic.name).each)
        return joined(topic.name, group, group_consumers.type_of(broker, group), parts, 0, consumers)


def _rest(found: share_stats.Resting) -> Rest:
    still = min(found.counts.open, found.read - found.start)
    return Rest(
        found.start, found.read, found.log.end_offset, still, found.counts.delayed, found.counts.backoff
    )
