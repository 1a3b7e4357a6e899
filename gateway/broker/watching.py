"""Key watches: what happens to the messages of a key that somebody asks about, kept in memory for some minutes.

A subscription that is watched tells what it delivers, what consumers say and when its state has changed (`Watching`
in `subscriptions/ports.py`); one that is not has no watch to tell. Which of the delivered records have the key is
found out afterwards, by a task that reads their batches in the order of what happened: it takes a part of the time
only, and where more happens than it can look at, that is told as missed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.wire import records
from gateway.wire.batch import BatchError
from gateway.wire.properties import ordering_key
from semantics.console.key_watch import TICK, History, Place
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from semantics.subscriptions.states import Acquired, RecordState

MOST = 20
"""Watches at once; the one that ended first makes room, else one of the owner with most."""
LONGEST_MS = 3_600_000
WAITING = 10_000
"""What has happened and was not looked at yet."""
IN_A_THREAD = 500
"""A batch of more records is opened in a thread, and so is one that is compressed."""
SLICE_NS = 2_000_000
REST_S = 0.008
"""After a slice: a fifth of the time is the most it takes."""
KNOWN = 200
"""Batches of which it is remembered which records have the keys."""


class Watch:
    """Of one key in one subscription."""

    def __init__(self, key: bytes, since: int, until: int, owner: str) -> None:
        """Times in ms since 1970; `owner`: whose room it takes."""
        self.key = key
        self.owner = owner
        self.since = since
        self.until = until
        self.history = History()


class _Delivered(NamedTuple):
    at: int
    cursor_of: SubscriptionPartition
    consumer: str
    ranges: Sequence[Acquired]


class _Said(NamedTuple):
    at: int
    partition: Partition
    consumer: str
    acks: Sequence[tuple[int, int, bytes]]


class _Looked(NamedTuple):
    at: int
    partition: Partition
    why: str
    states: list[RecordState]
    buries: bool


class Watched:
    """A subscription of which keys are watched, with its retries: what it tells, and what comes of that."""

    def __init__(self, node: Node, clock_ns: Callable[[], int], unfolds_to: int) -> None:
        self._node = node
        self._clock_ns = clock_ns
        self._unfolds_to = unfolds_to
        self.watches: dict[bytes, Watch] = {}
        # the subscription, and those of its retries
        self.rows: dict[int, SubscriptionRow] = {}
        self.missed = 0
        self._waiting: deque[_Delivered | _Said | _Looked] = deque()
        self._task: asyncio.Task[None] | None = None
        # (the store's id of a partition, base offset) -> offset behind, offsets by key
        self._known: dict[tuple[int, int], tuple[int, dict[int, bytes]]] = {}
        # what was delivered was not known yet when it changed
        self._late: set[SubscriptionPartition] = set()
        # offsets of open messages, by the store's id of their partition
        self._open: dict[int, set[int]] = {}

    @property
    def recording(self) -> bool:
        now = self._node.clock.wall_ms()
        return any(each.until > now for each in self.watches.values())

    # -- what is told -----------------------------------------------------------------------------------------------

    def delivered(self, at: SubscriptionPartition, consumer: str, ranges: Sequence[Acquired]) -> None:
        """A consumer is given these."""
        if ranges:
            self._note(_Delivered(self._node.clock.wall_ms(), at, consumer, ranges))

    def acknowledged(
        self, at: SubscriptionPartition, consumer: str, acks: Sequence[tuple[int, int, bytes]]
    ) -> None:
        """A consumer's verdicts were taken."""
        self._note(_Said(self._node.clock.wall_ms(), at.partition, consumer, list(acks)))

    def ticked(self, at: SubscriptionPartition) -> None:
        """Locks may have run out."""
        self._look(at, TICK)

    def changed(self, at: SubscriptionPartition) -> None:
        """Something of the cursor is to be stored."""
        self._look(at, "")

    def _look(self, at: SubscriptionPartition, why: str) -> None:
        offsets, cursor = self._open.get(at.id), at.cursor
        if offsets and cursor is not None:
            states = [cursor.look(offset) for offset in offsets]
            buries = at.subscription.config.subscription.dead_letters
            self._note(_Looked(self._node.clock.wall_ms(), at.partition, why, states, buries))

    def _note(self, happened: _Delivered | _Said | _Looked) -> None:
        if len(self._waiting) >= WAITING:
            self.missed += 1
            return
        self._waiting.append(happened)
        if self._task is None:
            self._task = self._node.loop.create_task(self._go_through())

    async def settled(self) -> None:
        """Until all that has happened was looked at."""
        while (task := self._task) is not None:
            await asyncio.wait([task])

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # -- what comes of it -------------------------------------------------------------------------------------------

    async def _go_through(self) -> None:
        try:
            begun = self._clock_ns()
            while self._waiting:
                happened = self._waiting.popleft()
                if isinstance(happened, _Delivered):
                    await self._deliver(happened)
                elif isinstance(happened, _Said):
                    self._hear(happened)
                else:
                    self._see(happened)
                if self._clock_ns() - begun >= SLICE_NS:
                    await asyncio.sleep(REST_S)
                    begun = self._clock_ns()
                if not self._waiting:
                    late, self._late = self._late, set()
                    for at in late:
                        self._look(at, "")
        finally:
            self._task = None

    async def _deliver(self, happened: _Delivered) -> None:
        partition = happened.cursor_of.partition
        for first, last, count in happened.ranges:
            try:
                found = await self._having(partition, first, last)
            except (KafkaError, StoreError, BatchError, IndexError):
                self.missed += 1
                continue
            for offset, key in found:
                watch = self.watches.get(key)
                if watch is not None and watch.until > happened.at:
                    place = Place(partition.topic.name, partition.index, offset)
                    watch.history.delivered(happened.at, place, happened.consumer, count)
                    self._open.setdefault(partition.id, set()).add(offset)
                    self._late.add(happened.cursor_of)

    def _hear(self, happened: _Said) -> None:
        partition = happened.partition
        offsets = self._open.get(partition.id)
        if not offsets:
            return
        for first, last, types in happened.acks:
            for offset in [each for each in offsets if first <= each <= last]:
                verdict = types[0] if len(types) == 1 else types[offset - first]
                place = Place(partition.topic.name, partition.index, offset)
                for watch in self.watches.values():
                    watch.history.said(happened.at, place, happened.consumer, verdict)

    def _see(self, happened: _Looked) -> None:
        partition = happened.partition
        for state in happened.states:
            place = Place(partition.topic.name, partition.index, state.offset)
            for watch in self.watches.values():
                watch.history.looked(happened.at, place, state, happened.why, buries=happened.buries)
        still = {
            place.offset
            for watch in self.watches.values()
            for place in watch.history.open()
            if (place.topic, place.partition) == (partition.topic.name, partition.index)
        }
        self._open[partition.id] = still

    # -- which records have a key -----------------------------------------------------------------------------------

    async def _having(self, partition: Partition, first: int, last: int) -> list[tuple[int, bytes]]:
        """Records of watched keys from one offset to another. Raises KafkaError, StoreError, BatchError, IndexError."""
        found: list[tuple[int, bytes]] = []
        at = first
        while at <= last:
            known = self._known_at(partition.id, at)
            if known is None:
                behind = await self._read(partition, at)
                known = self._known_at(partition.id, at) or (max(behind, at + 1), {})
            behind, offsets = known
            found += [
                (offset, key) for offset, key in offsets.items() if at <= offset <= min(last, behind - 1)
            ]
            at = behind
        return found

    def _known_at(self, number: int, offset: int) -> tuple[int, dict[int, bytes]] | None:
        return next(
            (
                known
                for (of, base), known in reversed(self._known.items())
                if of == number and base <= offset < known[0]
            ),
            None,
        )

    async def _read(self, partition: Partition, offset: int) -> int:
        """Get to know the batch that holds an offset; the offset behind it."""
        buffers = partition.read(offset, 1)
        data = b"".join(buffers if isinstance(buffers, list) else await buffers)
        if not data:
            return offset + 1
        header = records.header(data)
        batch, having = data[: header.size], dict[int, bytes]()
        keys = frozenset(self.watches)
        if header.codec or any(key in batch for key in keys):
            look = partial(_having, batch, header.base_offset, keys, self._unfolds_to)
            large = header.codec or header.count > IN_A_THREAD
            having = await asyncio.to_thread(look) if large else look()
        if len(self._known) >= KNOWN:
            del self._known[next(iter(self._known))]
        self._known[partition.id, header.base_offset] = header.next_offset, having
        return header.next_offset

    def forget_known(self) -> None:
        """Another key is watched: what was read may have some of it."""
        self._known.clear()


def _having(batch: bytes, base: int, keys: frozenset[bytes], limit: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for record in records.records(batch, limit):
        for key in (record.key, ordering_key(record.headers)):
            if key in keys and key is not None:
                found[base + record.offset_delta] = key
    return found


class Watching:
    """All watches."""

    def __init__(
        self, node: Node, subscriptions: Subscriptions, clock_ns: Callable[[], int], unfolds_to: int
    ) -> None:
        self._node = node
        self._subscriptions = subscriptions
        self._clock_ns = clock_ns
        self._unfolds_to = unfolds_to
        # by the subscription's id
        self._watched: dict[int, Watched] = {}

    def begin(
        self,
        row: SubscriptionRow,
        key: bytes,
        for_ms: int,
        retries: SubscriptionRow | None = None,
        owner: str = "",
    ) -> Watch:
        """Watch a key from now on, in a subscription and that of its retries; one that is watched already goes on for
        so long from now. A new one is of an `owner`, such as a tenant. Raises FullError.
        """
        now = self._node.clock.wall_ms()
        until = now + min(for_ms, LONGEST_MS)
        watched = self._watched.get(row.id)
        if watched is not None and (known := watched.watches.get(key)) is not None:
            if known.until <= now:
                # what happened between is not known
                known = watched.watches[key] = Watch(key, now, until, owner)
            known.until = until
        else:
            self._make_room(owner)
            watched = self._watched.setdefault(row.id, Watched(self._node, self._clock_ns, self._unfolds_to))
            known = watched.watches[key] = Watch(key, now, until, owner)
            watched.forget_known()
        rows = (row,) if retries is None else (row, retries)
        for each in rows:
            watched.rows[each.id] = each
            self._subscriptions.watch(each, watched)
        self._node.call_at(self._node.clock.monotonic_ms() + until - now, partial(self._end, rows))
        return known

    def of(self, row: SubscriptionRow, key: bytes) -> tuple[Watch, Watched] | None:
        """A watch that is under way, or over and still remembered."""
        watched = self._watched.get(row.id)
        known = watched.watches.get(key) if watched is not None else None
        return (known, watched) if known is not None and watched is not None else None

    def close(self) -> None:
        for each in self._watched.values():
            each.close()

    def _end(self, rows: Sequence[SubscriptionRow]) -> None:
        """A watch is over: a subscription with none tells nothing any more."""
        watched = self._watched.get(rows[0].id)
        if watched is None or not watched.recording:
            for row in rows:
                self._subscriptions.watch(row, None)
            return
        # another one goes on, or the wall's clock is behind the one that timers go by
        clock = self._node.clock
        left = max(each.until for each in watched.watches.values()) - clock.wall_ms()
        self._node.call_at(clock.monotonic_ms() + left, partial(self._end, rows))

    def _make_room(self, owner: str) -> None:
        """For one more of an owner. Raises FullError where nobody who watches more can give way."""
        everything = [
            (one.until, number, one.key, one.owner)
            for number, each in self._watched.items()
            for one in each.watches.values()
        ]
        if len(everything) < MOST:
            return
        until, number, key, _ = min(everything)
        if until > self._node.clock.wall_ms():
            have = Counter(each[3] for each in everything)
            most = max(have.values())
            # what one gets and another loses must not be lost again at once
            if most <= have[owner] + 1:
                raise FullError
            _, number, key, _ = min(each for each in everything if have[each[3]] == most)
        watched = self._watched[number]
        del watched.watches[key]
        if not watched.watches:
            del self._watched[number]
            watched.close()
            for row in watched.rows.values():
                if row.id not in self._watched:
                    self._subscriptions.watch(row, None)


class FullError(Exception):
    """There are as many watches as may be, and nobody has many more than who asks."""
