"""Retention at work: what `semantics.retention` decides, on logs and subscriptions as they are.

For each log of which the policy would take something, and that is subscribed to:

1. Where do the subscriptions stand? Of cursors in memory it is asked, of the others a few rows are read, a page at a
   time; none is loaded for it. Where that is not enough, segments are looked through for delays (`delays_ahead`).
2. What they still have open below the point is settled and counted, in commits of its own, cursor by cursor.
3. When that is done, and nobody stands before the point, the log is trimmed. Whatever has happened meanwhile, a reset,
   a new subscription, a commit that failed, puts this off until the next round.

A gateway that dies in between has counted what it took, once, and trims when it runs again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker import aborted_transactions
from gateway.broker.delays_ahead import DelaysAhead
from gateway.broker.errors import KafkaError
from gateway.broker.loading import load
from gateway.broker.subscriptions import rows
from semantics.retention import DELAYED, Hold, Place, Policy, Verdict, decide
from semantics.subscriptions import rows as cursor_rows
from semantics.subscriptions.chunks import SHIFT
from semantics.subscriptions.rows import RowError
from store.api import StoreError, Trim, Write, of_partition

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.group_holds import GroupHolds
    from gateway.broker.node import Node
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.topic_runtime import TopicRuntime
    from gateway.broker.topics import Topics
    from gateway.broker.undelayed import Undelayed
    from gateway.config.topic_configs import TopicConfig
    from store.api import Log, SegmentInfo

log = logging.getLogger("magnetar.housekeeping")

_SLICE = 200
"""Topics looked at before others get their turn."""
PAGE = 50
"""Subscriptions, or cursors that lose something, before others get their turn."""
ROWS = 500
"""Rows of chunks looked at in one go."""
HOLDS = 10
"""Subscriptions that are named where a part of a log is kept for them."""
SOON_MS = 30_000
"""What was read of a cursor that is not in memory is believed for so long. One that was loaded and used meanwhile is
still in memory at the end of it, since cursors stay for a minute: then the cursor is asked."""

UNREADABLE = "UNREADABLE"
BACKOFF = "BACKOFF"


class Kept(NamedTuple):
    """What a log has beyond its policy, as the last round found it."""

    size: int
    records: int
    holds: Sequence[Hold]
    """Who needs it, by offset: at most HOLDS."""
    subscriptions: int
    """How many need it."""
    at: int
    """ms since 1970"""


class _Point(NamedTuple):
    """Where a log may be trimmed."""

    point: int
    places: list[Place]
    """Of its subscriptions."""
    read_at: int
    """When, monotonic ms."""


class Retention:
    """A job of housekeeping. `kept` is by the store's ids of partitions; what is within its policy is not there."""

    def __init__(
        self,
        node: Node,
        *,
        watch: ClockWatch,
        catalog: Catalog,
        topics: Topics,
        subscriptions: Subscriptions,
        effective: Callable[[Topic], TopicConfig],
        in_use: Callable[[], list[TopicRuntime]],
        unfolds_to: int,
        load_lanes: Callable[[Topic, str], None],
        undelayed: Undelayed,
        groups: GroupHolds,
    ) -> None:
        """`effective` says how a topic is configured, `in_use` which topics are in memory; `load_lanes` has the lanes
        that serve a group's subscription on a topic say what they hold of it. A batch that is looked
        through for delays may unfold to so many bytes.
        """
        self._node = node
        self._watch = watch
        self._catalog = catalog
        self._topics = topics
        self._subscriptions = subscriptions
        self._effective = effective
        self._in_use = in_use
        self._load_lanes = load_lanes
        self._groups = groups
        self.kept: dict[int, Kept] = {}
        self.delays = DelaysAhead(
            lambda partition: node.store.log(partition), node.clock, unfolds_to, undelayed.since
        )

    async def apply(self) -> None:
        """Trim what retention.ms and retention.bytes no longer keep."""
        there: set[int] = set()
        count = 0
        # in pages: a million topics at once would take half a gigabyte
        async for topic in self._catalog.every():
            count += 1
            if count % _SLICE == 0:
                await asyncio.sleep(0)
            try:
                await self._topic(topic, there)
            except (KafkaError, StoreError, KeyError, IndexError) as error:
                # it was deleted meanwhile, or cannot be read or trimmed: others are not to wait for it
                log.info("retention is put off", extra={"topic": topic.name, "reason": str(error)})
        self.kept = {partition: kept for partition, kept in self.kept.items() if partition in there}
        self.delays.keep(there)

    async def trim(self, topic: Topic, index: int | None = None) -> None:
        """The same of one topic, or of one partition of it, now. A round that is under way may come to it as well: each
        looks again before it deletes. Raises KafkaError, StoreError, KeyError, IndexError.
        """
        await self._topic(topic, set(), index)

    def _policy(self, topic: Topic) -> Policy | None:
        """None where nothing is ever taken."""
        config = self._effective(topic)
        # by size only while the clock cannot be believed
        ms = config.retention_ms if self._watch.trusted else -1
        if not config.delete or (ms < 0 and config.retention_bytes < 0):
            return None
        return Policy(ms, config.retention_bytes, config.retention_ms_set, config.retention_bytes_evict)

    async def _topic(self, topic: Topic, there: set[int], only: int | None = None) -> None:
        policy = self._policy(topic)
        if policy is None:
            return
        loading = load(self._node.store, map(of_partition, topic.partitions))
        if loading is not None:
            await loading
        now = self._node.clock.wall_ms()
        found: list[tuple[int, list[SegmentInfo]]] = []
        for index, partition in enumerate(topic.partitions):
            if only not in (None, index):
                continue
            stored = self._node.store.log(partition)
            segments = stored.segments()
            if decide(segments, policy, stored.end_offset, now).policy > stored.start_offset:
                found.append((index, segments))
        if not found:
            return
        subscribed: list[SubscriptionRow] = []
        longest = 0
        async for row in self._subscriptions.each_of_topic(topic.topic_id):
            subscribed.append(row)
            longest = max(longest, self._subscriptions.configs.of(row).subscription.max_sent_delay_ms)
        # a limit of Kafka's own kind takes what groups have not read, as Kafka does
        kafkas = policy.expires or (policy.evicts and policy.size >= 0)
        groups = {} if kafkas else await self._groups.of(topic)
        points: dict[int, _Point] = {}
        for index, segments in found:
            partition = topic.partitions[index]
            there.add(partition)
            stored = self._log(topic, partition)
            if not subscribed:
                verdict = decide(segments, policy, stored.end_offset, now, groups.get(index, ()))
                self._tell(partition, stored, verdict)
                points[partition] = _Point(verdict.point, [], self._node.clock.monotonic_ms())
                continue
            places, verdict, read_at = await self._decide(
                topic, index, segments, policy, subscribed, longest, groups.get(index, ())
            )
            self._tell(partition, self._log(topic, partition), verdict)
            if verdict.point > stored.start_offset:
                await self._expire(topic, index, verdict.point, subscribed, places)
                points[partition] = _Point(verdict.point, places, read_at)
        # Not while it is deleted: a trim behind the drop would spoil the group of everybody else.
        async with self._topics.changing(topic.name):
            current = self._catalog.get(topic.name)
            # what it may delete may have been changed meanwhile
            if current is not None and current.topic_id == topic.topic_id and self._policy(current) == policy:
                await self._trim(topic, points, subscribed)

    def _log(self, topic: Topic, partition: int) -> Log:
        """Raises KeyError when the topic was deleted meanwhile, or is about to be."""
        if not self._catalog.holds(topic):
            raise KeyError(topic.name)
        return self._node.store.log(partition)

    # -- what goes --------------------------------------------------------------------------------------------------

    async def _decide(
        self,
        topic: Topic,
        index: int,
        segments: list[SegmentInfo],
        policy: Policy,
        subscribed: list[SubscriptionRow],
        longest: int,
        groups: Sequence[Place],
    ) -> tuple[list[Place], Verdict, int]:
        """Where the subscriptions stand, what goes, and when they stood there (monotonic ms). No delay is longer than
        `longest` ms. `groups`: consumer groups that hold what they have not read.
        """
        partition = topic.partitions[index]
        retry = self._subscriptions.configs.retries_into(topic.name) is not None
        places: list[Place] = []
        read_at = 0
        read, looked = True, False
        while True:
            stored = self._log(topic, partition)
            now = self._node.clock.wall_ms()
            if read:
                read_at = self._node.clock.monotonic_ms()
                before = decide(segments, policy, stored.end_offset, now).policy
                places = await self._places(topic, index, before, subscribed)
                read, looked = False, False
            first = min(each.start for each in places)
            verdict = decide(
                segments,
                policy,
                stored.end_offset,
                now,
                [*places, *groups],
                lambda segment, begin=first: self.delays.latest(partition, segment, begin, longest, retry),  # type: ignore[misc]
            )
            if verdict.look is not None:
                begin = max(first, stored.start_offset)
                await self.delays.look(partition, verdict.look, begin, longest, retry)
                looked = True
            elif looked:
                # that may have taken long
                read = True
            else:
                return places, verdict, read_at

    async def _places(
        self, topic: Topic, index: int, before: int, subscribed: list[SubscriptionRow]
    ) -> list[Place]:
        """Where each subscription stands, and what it holds below an offset."""
        places: list[Place] = []
        for count, row in enumerate(subscribed, 1):
            self._load_lanes(topic, row.group)
            at = self._in_memory(row, index)
            if at is not None:
                places.append(_place(row.group, at, before))
            else:
                place = await self._stored(row, topic.partitions[index], before)
                if place.held is not None and self._behind(row, topic.partitions[index], place.state):
                    place = self._woken(row, index, before) or place
                places.append(place)
            if count % PAGE == 0:
                await asyncio.sleep(0)
        return places

    def _in_memory(self, row: SubscriptionRow, index: int) -> SubscriptionPartition | None:
        """The cursor's home if it is loaded, or its last rows are on their way."""
        subscription = self._subscriptions.in_use(row.group, row.topic_id)
        at = subscription.partitions.get(index) if subscription is not None else None
        return at if at is not None and (at.cursor is not None or at.unsaved) else None

    async def _stored(self, row: SubscriptionRow, partition: int, before: int) -> Place:
        """The same of a cursor that is a few rows; nothing of it is in anybody's hands."""
        store = self._node.store
        log_start = store.log(partition).start_offset
        prefix = rows.prefix(row.id, partition)
        try:
            stands = rows.stands(store, prefix)
            if stands is None:
                return Place(row.group, log_start, log_start)
            start, known = max(stands.start, log_start), max(stands.read, log_start)
            if start >= min(before, known) or (stands.counts is not None and not any(stands.counts[1:])):
                return Place(row.group, start, known)
            number = start >> SHIFT
            while number << SHIFT < before:
                page = rows.chunks(store, prefix, number, ROWS)
                for number, value in page:
                    held = cursor_rows.first_held(number, value, start, before)
                    if held is not None:
                        return Place(row.group, start, known, *held)
                if len(page) < ROWS:
                    break
                number += 1
                await asyncio.sleep(0)
        except RowError:
            log.exception("the cursor of group %s on %s cannot be read", row.group, row.topic)
            return Place(row.group, log_start, log_start, log_start, UNREADABLE)
        return Place(row.group, start, known)

    def _behind(self, row: SubscriptionRow, partition: int, state: str) -> bool:
        """Whether a cursor that is not loaded says of some records that they wait, though their time has come; or logs
        say of some of them that they are settled.
        """
        store, prefix = self._node.store, rows.prefix(row.id, partition)
        if state == UNREADABLE:
            return False
        if rows.logged(store, prefix):
            return True
        if state in (DELAYED, BACKOFF):
            for first in rows.due(store, prefix, b"", 1):
                return cursor_rows.read_due_key(first.key)[0] <= self._node.clock.wall_ms()
        return False

    def _woken(self, row: SubscriptionRow, index: int, before: int) -> Place | None:
        """Where it stands when it is loaded, which sees to what is due; the rest of that is for its timer."""
        subscription = self._subscriptions.by_id(row.group, row.topic_id)
        if subscription is None or subscription.id != row.id:
            return None
        at = subscription.partition(index)
        at.ready()
        at.tick()
        return _place(row.group, at, before)

    def _tell(self, partition: int, stored: Log, verdict: Verdict) -> None:
        if not verdict.kept:
            self.kept.pop(partition, None)
            return
        begin = max(verdict.point, stored.start_offset)
        holds = verdict.holds
        self.kept[partition] = Kept(
            verdict.kept, verdict.policy - begin, holds[:HOLDS], len(holds), self._node.clock.wall_ms()
        )

    # -- taking it --------------------------------------------------------------------------------------------------

    async def _expire(
        self, topic: Topic, index: int, point: int, subscribed: list[SubscriptionRow], places: list[Place]
    ) -> None:
        """Settle and count what subscriptions have open below a point, durably; `places` say where they stand then."""
        page: list[tuple[int, SubscriptionPartition, bool]] = []
        records = count = 0
        for number, (row, place) in enumerate(zip(subscribed, places, strict=True)):
            if place.start >= point:
                continue
            subscription = self._subscriptions.by_id(row.group, row.topic_id)
            if subscription is None or subscription.id != row.id:
                continue
            used = index in subscription.partitions
            at = subscription.partition(index)
            cursor = at.ready()
            if cursor.start >= point or cursor.first_held(point) is not None:
                continue
            records += cursor.expire(point)
            count += 1
            at.touch()
            page.append((number, at, used))
            if len(page) == PAGE:
                await self._expired(page, places)
        await self._expired(page, places)
        if records:
            where = {"topic": topic.name, "partition": index}
            log.info(
                "retention takes unacknowledged records",
                extra={**where, "subscriptions": count, "records": records},
            )

    async def _expired(
        self, page: list[tuple[int, SubscriptionPartition, bool]], places: list[Place]
    ) -> None:
        """Wait until that is stored, and let go of what was loaded for it."""
        if not page:
            return
        await self._node.write(())
        for number, at, used in page:
            if at.cursor is not None:
                places[number] = _place(places[number].name, at, -1)
                if not used:
                    at.subscription.let_go(at.index)
        page.clear()

    async def _trim(self, topic: Topic, points: dict[int, _Point], subscribed: list[SubscriptionRow]) -> None:
        """The last look, and in the same turn the commit."""
        writes: list[Write] = []
        trimmed = 0
        known = {row.id for row in subscribed}
        if any(row.id not in known for row in rows.of_topic(self._node.store, topic.topic_id)):
            # somebody has just subscribed
            return
        now = self._node.clock.monotonic_ms()
        for index, partition in enumerate(topic.partitions):
            found = points.get(partition)
            if found is None or (found.places and now - found.read_at > SOON_MS):
                continue
            stored = self._node.store.log(partition)
            if found.point > stored.start_offset and self._passed(found, index, subscribed):
                start = min(found.point, stored.end_offset)
                trimmed += 1
                writes += [
                    Trim(partition, start),
                    *aborted_transactions.below(self._node.store, partition, start),
                ]
        if not writes:
            return
        await self._node.write(writes)
        log.info("retention", extra={"topic": topic.name, "partitions": trimmed})
        for partition in topic.partitions:
            self.delays.forget(partition, self._node.store.log(partition).start_offset)
        for runtime in self._in_use():
            if runtime.topic_id == topic.topic_id:
                for each in runtime.partitions:
                    if each is not None:
                        each.changed()

    def _passed(self, found: _Point, index: int, subscribed: list[SubscriptionRow]) -> bool:
        """Whether no subscription stands before a point, after all that has happened since it was found."""
        for row, place in zip(subscribed, found.places, strict=True):
            at = self._in_memory(row, index)
            if at is None:
                if place.start < found.point:
                    return False
            elif at.subscription.id != row.id or at.cursor is None or at.cursor.start < found.point:
                return False
        return True


def _place(name: str, at: SubscriptionPartition, before: int) -> Place:
    cursor = at.cursor
    if cursor is None:
        # what it says is on its way to the store: the next round knows
        start = at.partition.log_start
        return Place(name, start, start, start, UNREADABLE)
    held = cursor.first_held(before)
    return Place(name, cursor.start, cursor.known, *(held or ()))
