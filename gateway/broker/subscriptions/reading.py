"""From stored batches to what a consumer is sent: read, look for delays and keys, tell the cursor, take what it gives.

Redeliveries come first. The records that the cursor has not seen yet follow: batches are read where the cursor
stands, told to it, and as a rule acquired as they were read, so that the bytes that came from the store leave as they
are. Where records of a batch were acquired singly, the batch goes out as it is stored when a good part of it was, and
is built anew of those records otherwise.

An offset that was acquired and cannot be sent is given back before the answer leaves. Reads that need a disk make the
whole fetch awaitable; while it waits the consumer may go, the cursor be thrown away, or others fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions import telling
from gateway.broker.subscriptions.stored import Plain, Stored, pick, skim, walk
from gateway.wire import delivery
from semantics.subscriptions.states import Acquired, Batch
from store.api import Buffer, Corrupt, StoreError
from store.pending import Asking, Pending, drive

if TYPE_CHECKING:
    from gateway.broker.subscriptions.partition import SubscriptionPartition

log = logging.getLogger("magnetar.subscriptions")

RAW_SHARE = 4
"""A stored batch is sent as it is when at least one in so many of its records was acquired."""

_SPAN = 65_536
_NEAR_BYTES = 16 * 1024
"""Redeliveries with no more than about so many bytes between them, within so many offsets, are read in one go."""

_LEAST_BYTES = 4096
_LEAST_AGAIN = 1024

_KEYS_AHEAD = 4
"""Key_Shared: so many times the records asked for are looked at in one go, since others own most of them."""

_TURN = 1000
"""Offsets that a fetch may pass over, delayed or of other consumers' keys, before others have their turn."""

_PASSED_AT_MOST = 20_000
"""A fetch that passed over so many ends with what it has, be it nothing: its client asks again."""

_WORK = 4 * 1024 * 1024
"""Bytes that are unfolded in one turn of the loop to send records of batches: some milliseconds' work."""
_CUT = 16 * 1024
"""To make a batch of some records of one that is open takes as long as to unfold so many bytes."""


class Delivery(NamedTuple):
    """What a fetch gave: batches, the acquired ranges in them (ascending), and how many bytes that is."""

    buffers: Sequence[Buffer]
    acquired: Sequence[Acquired]
    size: int


NOTHING = Delivery((), (), 0)


def fetch(
    at: SubscriptionPartition, consumer: str, limit: int, max_bytes: int, most: int
) -> Pending[Delivery]:
    """See `SubscriptionPartition.fetch`."""
    found = drive(Fetching(at, consumer, limit, max_bytes, most).run())
    return found if type(found) is Delivery else _serving(at, cast("Awaitable[Delivery]", found))


async def _serving(at: SubscriptionPartition, found: Awaitable[Delivery]) -> Delivery:
    try:
        return await found
    finally:
        # Others may have been left waiting beside what this one had in hand.
        at.serve_soon()


class Fetching:
    """One fetch of one consumer from one partition."""

    __slots__ = (
        "_at",
        "_buffers",
        "_cursor",
        "_limit",
        "_max_bytes",
        "_most",
        "_now",
        "_size",
        "_wall",
        "acquired",
        "consumer",
        "rest",
    )

    def __init__(
        self, at: SubscriptionPartition, consumer: str, limit: int, max_bytes: int, most: int
    ) -> None:
        self._at = at
        self.consumer = consumer
        self._limit = limit
        self._max_bytes = max_bytes
        # to the end of a batch it may be that many
        self._most = most
        self._buffers: list[Buffer] = []
        self._size = 0
        # what is in the answer so far, and what was acquired and is still to be read
        self.acquired: list[Acquired] = []
        self.rest: list[Acquired] = []

    def run(self) -> Asking[Delivery]:
        at, consumer = self._at, self.consumer
        cursor = self._cursor = at.ready()
        counts = at.consumers.get(consumer)
        if counts is None:
            return NOTHING
        counts.asked = self._limit
        clock = at.node.clock
        now = self._now = clock.monotonic_ms()
        self._wall = clock.wall_ms()
        acquired = self.acquired
        taken = passed = turn = 0
        problem: KafkaError | None = None
        try:
            if cursor.available:
                self.rest = cursor.poll(consumer, self._limit, now, self._wall)
                if self.rest:
                    problem = yield from self._redeliver()
                    for each in acquired:
                        taken += each[1] - each[0] + 1
            while (
                taken < self._limit
                and (self._size < self._max_bytes or not self._size)
                and problem is None
                # another looks on: when it is through, whoever waits is served
                and not at.passing
                and cursor.read < at.partition.high_watermark
                and self._valid()
                and cursor.wants_more(consumer, taken)
            ):
                before = cursor.read
                try:
                    found = yield from self._go_forward(self._limit - taken)
                    taken += found
                    passed += cursor.read - before - found
                except KafkaError as error:
                    problem = error
                if cursor.read == before:
                    break
                if passed >= turn + _TURN:
                    turn = passed
                    if taken or passed >= _PASSED_AT_MOST:
                        # whoever parks now, for there was nothing for it, is to look on
                        at.serve_soon()
                        break
                    yield from self._pass(at.registry.turns.next())
        except BaseException:
            # the connection is gone, or something is wrong here: nothing of this was sent
            self.put_back()
            raise
        if not self._valid():
            # thrown away, or the consumer went, while a disk was asked: what was acquired is not held any more
            return NOTHING
        if not acquired:
            if problem is not None:
                raise problem
            return NOTHING
        at.delivered(consumer, taken, self._size, now)
        return Delivery(self._buffers, acquired, self._size)

    def put_back(self) -> None:
        """What is in hand of this fetch was not sent: it was not delivered."""
        ranges = [each[:2] for each in (*self.acquired, *self.rest)]
        if ranges and self._valid():
            self._cursor.give_back(self.consumer, ranges, self._now)
        self.acquired, self.rest = [], []

    def _valid(self) -> bool:
        """Whether the cursor still knows of what this fetch has in hand."""
        return self._at.cursor is self._cursor and self.consumer in self._at.consumers

    def _wait(self, waits: Awaitable[list[Buffer]]) -> Asking[list[Buffer]]:
        at = self._at
        at.reading.add(self)
        # their lock would run while nobody has them
        held = [*self.acquired, *self.rest]
        if held:
            at.withhold(self.consumer, held)
        try:
            data: list[Buffer] = yield waits
            return data
        finally:
            at.reading.discard(self)
            if held:
                at.sent(self.consumer)

    def _pass(self, waits: Awaitable[list[Buffer]]) -> Asking[list[Buffer]]:
        """The same, and nobody else looks on meanwhile."""
        at = self._at
        at.passing = True
        try:
            return (yield from self._wait(waits))
        except BaseException:
            at.serve_soon()
            raise
        finally:
            at.passing = False

    def _read(self, offset: int, want: int, room: int, alone: bool = False) -> Asking[list[Buffer]]:
        """About `want` bytes from the batch that holds an offset on; that batch whole if it has no more than `room`, or
        is the first of the answer. `alone`: while a disk is asked nobody else looks on.
        """
        wait = self._pass if alone else self._wait
        data = self._at.partition.log.read(offset, want, whole_first=not self._size)
        if type(data) is not list:
            data = yield from wait(data)  # type: ignore[arg-type]
        if data or want >= room:
            return data
        # no more than that batch: asked for `room`, the log would read as much
        data = self._at.partition.log.read(offset, want, whole_first=True)
        if type(data) is not list:
            data = yield from wait(data)  # type: ignore[arg-type]
        return data if sum(map(len, data)) <= room else []

    # -- what the cursor has seen before --------------------------------------------------------------------------

    def _redeliver(self) -> Asking[KafkaError | None]:
        """Read what was acquired within the window (`rest`); what cannot be sent is given back. What went wrong."""
        at = self._at
        problem: KafkaError | None = None
        while (rest := self.rest) and (self._size < self._max_bytes or not self._size):
            if self._from_opened(rest):
                continue
            if self._spent():
                if self.acquired:
                    # the rest comes with the next fetch
                    at.serve_soon()
                    break
                yield from self._wait(at.registry.turns.next())
                if not self._valid():
                    return None
                continue
            # what lies near enough to be read in one go
            first, last, _ = rest[0]
            near = int(_NEAR_BYTES / at.record_bytes) + 1
            for begin, end, _ in rest:
                if begin - last > near or end - first > _SPAN:
                    break
                last = end
            room = max(self._max_bytes - self._size, 0)
            want = max(min(room, int((last - first + 1) * at.record_bytes * 1.2)), min(room, _LEAST_AGAIN))
            try:
                data = yield from self._read(first, want, room)
            except Corrupt as error:
                if (problem := at.corrupt(error)) is not None:
                    break
                self._skip(error.next_offset)
                continue
            except StoreError as error:
                problem = at.unreadable(error)
                break
            except IndexError:
                # below the log's start by now, or the log was opened anew
                break
            if not self._valid():
                return None
            stored, gaps = pick(data, rest)
            if gaps:
                # a machine that stopped may lose records before others
                for begin, end in gaps:
                    self._skip(end, begin)
            elif not stored:
                break
            self._assemble(stored, self.rest)
        if self.rest and self._valid():
            self._cursor.give_back(self.consumer, [each[:2] for each in self.rest], self._now)
            self.rest = []
        return problem

    def _skip(self, end: int, begin: int = 0) -> None:
        """Acquired records from `begin` to below `end` cannot be read: they are gaps."""
        gaps: list[tuple[int, int, bytes]] = []
        kept: list[Acquired] = []
        for each in self.rest:
            first, last, count = each
            if last < begin or first >= end:
                kept.append(each)
                continue
            if first < begin:
                kept.append(Acquired(first, begin - 1, count))
            gaps.append((max(first, begin), min(last, end - 1), b"\0"))
            if last >= end:
                kept.append(Acquired(end, last, count))
        self.rest = kept
        if not gaps:
            return
        self._cursor.acknowledge(self.consumer, gaps, self._now, self._wall)
        self._at.touch()

    def _from_opened(self, ranges: list[Acquired]) -> int:
        """`_assemble` of the first of `ranges`, as long as they lie in batches that are open: how many records.

        Key_Shared comes to each batch many times, for a few records each time, and so do due times that lie scattered:
        nothing is read for them again.
        """
        at = self._at
        scanner = at.registry.scanner
        holding = scanner.holding
        acquired, buffers = self.acquired, self._buffers
        records = index = 0
        count = len(ranges)
        start = at.partition.log_start
        while index < count and (self._size < self._max_bytes or not self._size) and not self._spent():
            first = ranges[index][0]
            opened = holding(at, first) if first >= start else None
            if opened is None:
                break
            found = opened.header
            following = found.next_offset
            end = index
            while end < count and ranges[end][1] < following:
                end += 1
            parts = ranges[index:end]
            goes_on = end < count and ranges[end][0] < following
            if goes_on:
                # in the next batch
                first, last, deliveries = ranges[end]
                parts.append(Acquired(first, following - 1, deliveries))
            held = sum([last - first for first, last, _ in parts]) + len(parts)
            piece = opened.batch
            if held * RAW_SHARE < found.last_offset_delta + 1:
                scanner.work += _CUT
                try:
                    piece = opened.cut(parts)
                except delivery.Unreadable:
                    log.warning("a batch at offset %d is sent whole: it cannot be opened", found.base_offset)
            if not piece:
                # whole, from the log
                break
            index = end
            if goes_on:
                ranges[end] = Acquired(following, last, deliveries)
            scanner.kept.sent((at.id, found.base_offset), held)
            acquired += parts
            buffers.append(piece)
            self._size += len(piece)
            records += held
        del ranges[:index]
        return records

    def _assemble(self, stored: list[Stored], ranges: list[Acquired]) -> int:
        """Put the batches of `ranges` among `stored` into the answer, and take the ranges away: how many records.

        What a range has beyond the last batch stays, and so does what would take too long now.
        """
        acquired, buffers = self.acquired, self._buffers
        records = index = 0
        count = len(ranges)
        for batch in stored:
            if index == count or (acquired and self._spent()):
                break
            following = batch.next
            parts: list[tuple[int, int]] = []
            held = 0
            while index < count:
                first, last, deliveries = ranges[index]
                if first >= following:
                    break
                if last >= following:
                    parts.append((first, following - 1))
                    held += following - first
                    acquired.append(Acquired(first, following - 1, deliveries))
                    ranges[index] = Acquired(following, last, deliveries)
                    break
                parts.append((first, last))
                held += last - first + 1
                acquired.append(ranges[index])
                index += 1
            if not parts:
                continue
            piece = batch.raw()
            if held * RAW_SHARE < following - batch.base:
                try:
                    piece = self._at.registry.scanner.subset(self._at, batch, parts)
                except delivery.Unreadable:
                    log.warning("a batch at offset %d is sent whole: it cannot be opened", batch.base)
            buffers.append(piece)
            self._size += len(piece)
            records += held
        del ranges[:index]
        return records

    # -- what it has not seen -------------------------------------------------------------------------------------

    def _go_forward(self, want: int) -> Asking[int]:
        """Read on where the cursor stands, and take of it what is given: how many records. Raises KafkaError."""
        at, cursor = self._at, self._cursor
        keys = at.key_shared
        # Key_Shared: what it takes to come to a batch is the same for few records, and what others own is for them.
        look = self._limit * _KEYS_AHEAD if keys else want
        room = max(self._max_bytes - self._size, 0)
        bytes_wanted = max(min(room, int(look * at.record_bytes * 1.5)), min(room, _LEAST_BYTES))
        try:
            # of Key_Shared each consumer would read the same, and only the first of them has use for it
            data = yield from self._read(cursor.read, bytes_wanted, room, alone=keys)
        except Corrupt as error:
            if (problem := at.corrupt(error)) is not None:
                raise problem from error
            if self._valid() and cursor.read < error.next_offset:
                cursor.feed([Batch(cursor.read, error.next_offset, skip=True)], self._now, self._wall)
                at.touch()
            return 0
        except StoreError as error:
            raise at.unreadable(error) from error
        except IndexError:
            return 0
        if not self._valid():
            return 0
        # others may have gone on meanwhile
        offset = cursor.read
        if not (keys or at.retries):
            plain = skim(data, offset, look)
            if plain is not None:
                return self._take_plain(data, offset, want, plain)
        stored = walk(data, offset)
        records = 0
        for number, each in enumerate(stored, 1):
            records += each.next - (each.base if each.base > offset else offset)
            if records >= look:
                del stored[number:]
                break
        if not stored or (self.acquired and stored[0].base <= self.acquired[-1].last):
            # The second part of a batch: an answer has a batch once.
            return 0
        slow = telling.first_slow(at, stored, offset, self._wall)
        if slow == 0:
            scanner = at.registry.scanner
            yield from self._pass(scanner.prepare(at, stored[0], keys, self._wall))
            if not self._valid() or cursor.read != offset:
                return 0
            slow = 1
        if slow is not None:
            # what comes behind comes next
            del stored[slow:]
        at.measured(stored[-1].size, stored[-1].next - stored[-1].base)
        cursor.feed(telling.told(at, stored, offset, self._wall), self._now, self._wall)
        limit = want if keys else self._whole(want, records)
        ranges = cursor.poll(self.consumer, limit, self._now, self._wall)
        return self._take(stored, offset, ranges)

    def _take_plain(self, data: list[Buffer], offset: int, want: int, plain: Plain) -> int:
        """Batches of which there is nothing to tell: how many of their records are taken."""
        cursor = self._cursor
        end, pieces = plain
        records = end - offset
        cursor.feed((Batch(offset, end),), self._now, self._wall)
        limit = self._whole(want, records)
        ranges = cursor.poll(self.consumer, limit, self._now, self._wall)
        size = sum([stop - begin for _, begin, stop in pieces])
        self._at.measured(size, records)
        if len(ranges) == 1 and ranges[0][0] == offset and ranges[0][1] == end - 1:
            # All of it: the bytes leave as they came.
            self.acquired.append(ranges[0])
            buffers = self._buffers
            for buffer, begin, stop in pieces:
                buffers.append(buffer if stop - begin == len(buffer) else memoryview(buffer)[begin:stop])
            self._size += size
            return records
        stored = [each for each in walk(data, offset) if each.base < end]
        return self._take(stored, offset, ranges)

    def _whole(self, want: int, records: int) -> int:
        """How many to take where `want` are left of the limit and whole batches have so many."""
        return want if want >= records else min(records, want + self._most - self._limit)

    def _take(self, stored: list[Stored], offset: int, ranges: list[Acquired]) -> int:
        """Put what was acquired of batches that begin at `offset` into the answer: how many records."""
        at = self._at
        old = [each[:2] for each in ranges if each[0] < offset] if ranges and ranges[0][0] < offset else ()
        if old:
            # given back by others meanwhile: they would have to be read first, and come with the next fetch
            self._cursor.give_back(self.consumer, old, self._now)
            del ranges[: len(old)]
        records = self._from_opened(ranges) if at.key_shared else 0
        records += self._assemble(stored, ranges)
        if ranges:
            # it would have taken too long
            self._cursor.give_back(self.consumer, [each[:2] for each in ranges], self._now)
            at.serve_soon()
        return records

    def _spent(self) -> bool:
        """Whether so much was unfolded in this turn of the loop that others have theirs before there is more of it."""
        scanner = self._at.registry.scanner
        if scanner.work and not scanner.resting:
            scanner.resting = True
            self._at.node.loop.call_soon(scanner.rest)
        return scanner.work >= _WORK
