"""From stored batches to what a consumer is sent: read, look for delays and keys, tell the cursor, take what it gives.

Redeliveries come first. The records that the cursor has not seen yet follow: batches are read where the cursor
stands, told to it, and as a rule acquired as they were read, so that the bytes that came from the store leave as they
are. What is sent of a batch of which only some records were acquired is in `answer.py`.

An offset that was acquired and cannot be sent is given back before the answer leaves. Reads that need a disk make the
whole fetch awaitable; while it waits the consumer may go, the cursor be thrown away, or others fetch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions import telling
from gateway.broker.subscriptions.answer import Answer
from gateway.broker.subscriptions.pointers import Columns, Pointers
from gateway.broker.subscriptions.stored import Plain, Stored, pick, skim, walk
from gateway.broker.subscriptions.telling import Told
from semantics.subscriptions.states import Acquired, Batch
from store.api import Buffer, Corrupt, StoreError
from store.pending import Asking, Pending, drive

if TYPE_CHECKING:
    from gateway.broker.node import Node
    from gateway.broker.subscriptions.consumers import Consumer
    from gateway.broker.subscriptions.scanning import Scanner
    from gateway.broker.subscriptions.timers import Turns
    from semantics.subscriptions.cursor import Cursor

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


class Delivery(NamedTuple):
    """What a fetch gave: batches, the acquired ranges in them (ascending), and how many bytes that is."""

    buffers: Sequence[Buffer]
    acquired: Sequence[Acquired]
    size: int
    read: Sequence[tuple[int, Sequence[Buffer]]] = ()
    """see `Pointers`"""


NOTHING = Delivery((), (), 0)


class Fetched(Told, Protocol):
    """The cursor that a fetch takes of."""

    @property
    def node(self) -> Node: ...

    @property
    def consumers(self) -> Mapping[str, Consumer]: ...

    @property
    def parked(self) -> Served: ...

    @property
    def pacing(self) -> Bounding: ...

    @property
    def readable_to(self) -> int:
        """Up to where its consumers are given records."""
        ...

    def delivered(self, consumer: str, records: int, size: int, now: int, /) -> None:
        """A fetch is about to be answered with that many records."""
        ...

    def withhold(self, consumer: str, since: int, /) -> None:
        """The answer with what a consumer has acquired since then waits: its locks begin with `sent`."""
        ...

    def sent(self, consumer: str, /) -> None:
        """What was withheld is locked from now on."""
        ...

    def unreadable(self, error: StoreError, /) -> KafkaError:
        """A read failed: what to answer."""
        ...


class Bounding(Protocol):
    """How fast it may be given."""

    def bound(self, records: int, size: int, /) -> tuple[int, int]:
        """(records, bytes) of what is asked for that may be given now."""
        ...


class Served(Protocol):
    """Those that wait."""

    def serve_soon(self) -> None:
        """There may be something for them when the loop comes round."""
        ...


class Reader:
    """Reads for the consumers of one subscription on one partition: what its fetches have in common."""

    __slots__ = ("_at", "_under_way", "passing", "record_bytes", "scanner", "turns")

    def __init__(self, at: Fetched, scanner: Scanner, turns: Turns) -> None:
        self._at = at
        self.scanner = scanner
        self.turns = turns
        # fetches that wait for a disk
        self._under_way: set[Fetching] = set()
        # True while one of those that look on passes over records, or has a batch opened: one is enough
        self.passing = False
        # what one record takes in the log, on the whole
        self.record_bytes = 512.0

    @property
    def waits(self) -> bool:
        """Whether a fetch waits for a disk."""
        return bool(self._under_way)

    def fetch(self, consumer: str, limit: int, max_bytes: int, most: int) -> Pending[Delivery]:
        """See `SubscriptionPartition.fetch`."""
        most, max_bytes = self._at.pacing.bound(most, max_bytes)
        if not most:
            return NOTHING
        limit = min(limit, most)
        answer = Answer(self._at, self.scanner, max_bytes)
        found = drive(Fetching(self._at, self, consumer, limit, max_bytes, most, answer).run())
        return found if type(found) is Delivery else self._serving(cast("Awaitable[Delivery]", found))

    def take(self, consumer: str, limit: int, max_bytes: int) -> Pending[Delivery]:
        """The same for who keeps what was acquired, and reads it when it is asked for: the delivery has no buffers."""
        limit, max_bytes = self._at.pacing.bound(limit, max_bytes)
        if not limit:
            return NOTHING
        answer = Columns(self) if self._at.key_shared else Pointers(self)
        found = drive(Fetching(self._at, self, consumer, limit, max_bytes, limit, answer).run())
        return found if type(found) is Delivery else self._serving(cast("Awaitable[Delivery]", found))

    async def _serving(self, found: Awaitable[Delivery]) -> Delivery:
        try:
            return await found
        finally:
            # Others may have been left waiting beside what this one had in hand.
            self._at.parked.serve_soon()

    def begin_wait(self, fetching: Fetching) -> None:
        self._under_way.add(fetching)

    def end_wait(self, fetching: Fetching) -> None:
        self._under_way.discard(fetching)

    def give_up(self, consumer: str, cursor: Cursor, now: int) -> None:
        """A consumer goes: what its fetches have in hand while they wait for a disk was never sent."""
        for each in self._under_way:
            if each.consumer == consumer:
                cursor.give_back(consumer, each.in_hand(), now)

    def measured(self, size: int, records: int) -> None:
        """So many bytes were read for so many records."""
        self.record_bytes += (size / records - self.record_bytes) * 0.25


class Fetching:
    """One fetch of one consumer from one partition."""

    __slots__ = (
        "_answer",
        "_at",
        "_begun",
        "_cursor",
        "_limit",
        "_max_bytes",
        "_most",
        "_now",
        "_reader",
        "_rest",
        "_wall",
        "consumer",
    )

    def __init__(
        self,
        at: Fetched,
        reader: Reader,
        consumer: str,
        limit: int,
        max_bytes: int,
        most: int,
        answer: Answer | Pointers,
    ) -> None:
        self._at = at
        self._reader = reader
        self.consumer = consumer
        self._limit = limit
        self._max_bytes = max_bytes
        # to the end of a batch it may be that many
        self._most = most
        self._answer = answer
        # what was acquired and is still to be read
        self._rest: list[Acquired] = []

    def in_hand(self) -> list[tuple[int, int]]:
        """What is acquired, in the answer or still to be read: ranges of offsets."""
        return [each[:2] for each in (*self._answer.given, *self._rest)]

    def run(self) -> Asking[Delivery]:
        at, reader, consumer, answer = self._at, self._reader, self.consumer, self._answer
        cursor = self._cursor = at.ready()
        counts = at.consumers.get(consumer)
        if counts is None:
            return NOTHING
        counts.asked = self._limit
        self._begun = counts.begun
        clock = at.node.clock
        now = self._now = clock.monotonic_ms()
        self._wall = clock.wall_ms()
        taken = passed = turn = 0
        problem: KafkaError | None = None
        try:
            if cursor.available:
                taken, problem = yield from self._again()
            while (
                taken < self._limit
                and (answer.size < self._max_bytes or not answer.size)
                and problem is None
                # another looks on: when it is through, whoever waits is served
                and not reader.passing
                and cursor.read < at.readable_to
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
                        at.parked.serve_soon()
                        break
                    yield from self._pass(reader.turns.next())
        except BaseException:
            # the connection is gone, or something is wrong here: nothing of this was sent
            self.put_back()
            raise
        if not self._valid():
            # thrown away, or the consumer went, while a disk was asked: what was acquired is not held any more
            return NOTHING
        acquired = answer.given
        if not acquired:
            if problem is not None:
                raise problem
            return NOTHING
        at.delivered(consumer, taken, answer.size, now)
        return Delivery(answer.buffers, acquired, answer.size, answer.read)

    def put_back(self) -> None:
        """What is in hand of this fetch was not sent: it was not delivered."""
        ranges = self.in_hand()
        if ranges and self._valid():
            self._cursor.give_back(self.consumer, ranges, self._now)
        self._answer.clear()
        self._rest = []

    def _valid(self) -> bool:
        """Whether the cursor still knows of what this fetch has in hand."""
        at = self._at
        counts = at.consumers.get(self.consumer)
        return at.cursor is self._cursor and counts is not None and counts.begun == self._begun

    def _wait(self, waits: Awaitable[list[Buffer]]) -> Asking[list[Buffer]]:
        at, reader = self._at, self._reader
        reader.begin_wait(self)
        # their lock would run while nobody has them
        held = bool(self._answer.given or self._rest)
        if held:
            at.withhold(self.consumer, self._now)
        try:
            data: list[Buffer] = yield waits
            return data
        finally:
            reader.end_wait(self)
            if held:
                at.sent(self.consumer)

    def _pass(self, waits: Awaitable[list[Buffer]]) -> Asking[list[Buffer]]:
        """The same, and nobody else looks on meanwhile."""
        reader = self._reader
        reader.passing = True
        try:
            return (yield from self._wait(waits))
        except BaseException:
            self._at.parked.serve_soon()
            raise
        finally:
            reader.passing = False

    def _read(self, offset: int, want: int, room: int, alone: bool = False) -> Asking[list[Buffer]]:
        """About `want` bytes from the batch that holds an offset on; that batch whole if it has no more than `room`, or
        is the first of the answer. `alone`: while a disk is asked nobody else looks on.
        """
        wait = self._pass if alone else self._wait
        data = self._at.partition.log.read(offset, want, whole_first=not self._answer.size)
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

    def _again(self) -> Asking[tuple[int, KafkaError | None]]:
        """Take of what was looked at before: how many records; what went wrong."""
        cursor, answer = self._cursor, self._answer
        if isinstance(answer, Columns):
            return answer.take(cursor.take_many(self.consumer, self._limit, self._now)), None
        self._rest = cursor.poll(self.consumer, self._limit, self._now, self._wall)
        if not self._rest:
            return 0, None
        problem = yield from self._redeliver()
        return sum([last - first for first, last, _ in answer.acquired]) + len(answer.acquired), problem

    def _redeliver(self) -> Asking[KafkaError | None]:
        """Read what was acquired within the window (`rest`); what cannot be sent is given back. What went wrong."""
        at, reader, answer = self._at, self._reader, self._answer
        problem: KafkaError | None = None
        while (rest := self._rest) and (answer.size < self._max_bytes or not answer.size):
            if answer.from_opened(rest):
                continue
            if reader.scanner.spent():
                if answer.acquired:
                    # the rest comes with the next fetch
                    at.parked.serve_soon()
                    break
                yield from self._wait(reader.turns.next())
                if not self._valid():
                    return None
                continue
            # what lies near enough to be read in one go
            first, last, _ = rest[0]
            near = int(_NEAR_BYTES / reader.record_bytes) + 1
            for begin, end, _ in rest:
                if begin - last > near or end - first > _SPAN:
                    break
                last = end
            room = max(self._max_bytes - answer.size, 0)
            want = max(
                min(room, int((last - first + 1) * reader.record_bytes * 1.2)), min(room, _LEAST_AGAIN)
            )
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
            answer.assemble(stored, self._rest)
        if self._rest and self._valid():
            self._cursor.give_back(self.consumer, [each[:2] for each in self._rest], self._now)
            self._rest = []
        return problem

    def _skip(self, end: int, begin: int = 0) -> None:
        """Acquired records from `begin` to below `end` cannot be read: they are gaps."""
        gaps: list[tuple[int, int, bytes]] = []
        kept: list[Acquired] = []
        for each in self._rest:
            first, last, count = each
            if last < begin or first >= end:
                kept.append(each)
                continue
            if first < begin:
                kept.append(Acquired(first, begin - 1, count))
            gaps.append((max(first, begin), min(last, end - 1), b"\0"))
            if last >= end:
                kept.append(Acquired(end, last, count))
        self._rest = kept
        if not gaps:
            return
        self._cursor.acknowledge(self.consumer, gaps, self._now, self._wall)
        self._at.touch()

    # -- what it has not seen -------------------------------------------------------------------------------------

    def _go_forward(self, want: int) -> Asking[int]:
        """Read on where the cursor stands, and take of it what is given: how many records. Raises KafkaError."""
        at, reader, cursor, answer = self._at, self._reader, self._cursor, self._answer
        keys = at.key_shared
        # Key_Shared: what it takes to come to a batch is the same for few records, and what others own is for them.
        look = self._limit * _KEYS_AHEAD if keys else want
        room = max(self._max_bytes - answer.size, 0)
        bytes_wanted = max(min(room, int(look * reader.record_bytes * 1.5)), min(room, _LEAST_BYTES))
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
            plain = skim(data, offset, look, at.readable_to, committed=at.read_committed)
            if plain is not None:
                return self._take_plain(data, offset, want, plain)
        stored = walk(data, offset, at.readable_to)
        records = 0
        for number, each in enumerate(stored, 1):
            records += each.next - (each.base if each.base > offset else offset)
            if records >= look:
                del stored[number:]
                break
        if not stored or (answer.acquired and stored[0].base <= answer.acquired[-1].last):
            # The second part of a batch: an answer has a batch once.
            return 0
        slow = telling.first_slow(at, reader.scanner, stored, offset, self._wall)
        if slow == 0:
            yield from self._pass(reader.scanner.prepare(at, stored[0], keys, self._wall))
            if not self._valid() or cursor.read != offset:
                return 0
            slow = 1
        if slow is not None:
            # what comes behind comes next
            del stored[slow:]
        reader.measured(stored[-1].size, stored[-1].next - stored[-1].base)
        cursor.feed(telling.told(at, reader.scanner, stored, offset, self._wall), self._now, self._wall)
        if isinstance(answer, Columns):
            return self._take_many(answer, offset, want)
        limit = want if keys else self._whole(want, records)
        ranges = cursor.poll(self.consumer, limit, self._now, self._wall)
        return self._take(stored, offset, ranges)

    def _take_many(self, answer: Columns, offset: int, want: int) -> int:
        """Of batches that begin at `offset`, by columns: how many records."""
        taken = self._cursor.take_many(self.consumer, want, self._now)
        if taken and taken.offsets[0] < offset:
            # as in `_take`
            self._cursor.give_back(self.consumer, [each[:2] for each in taken], self._now)
            self._at.parked.serve_soon()
            return 0
        return answer.take(taken)

    def _take_plain(self, data: list[Buffer], offset: int, want: int, plain: Plain) -> int:
        """Batches of which there is nothing to tell: how many of their records are taken."""
        cursor = self._cursor
        end, pieces = plain
        records = end - offset
        cursor.feed((Batch(offset, end),), self._now, self._wall)
        limit = self._whole(want, records)
        ranges = cursor.poll(self.consumer, limit, self._now, self._wall)
        size = sum([stop - begin for _, begin, stop in pieces])
        self._reader.measured(size, records)
        if len(ranges) == 1 and ranges[0][0] == offset and ranges[0][1] == end - 1:
            # All of it: the bytes leave as they came.
            self._answer.add(ranges[0], pieces, size)
            return records
        stored = [each for each in walk(data, offset) if each.base < end]
        return self._take(stored, offset, ranges)

    def _whole(self, want: int, records: int) -> int:
        """How many to take where `want` are left of the limit and whole batches have so many."""
        return want if want >= records else min(records, want + self._most - self._limit)

    def _take(self, stored: list[Stored], offset: int, ranges: list[Acquired]) -> int:
        """Put what was acquired of batches that begin at `offset` into the answer: how many records."""
        at, answer = self._at, self._answer
        old = [each[:2] for each in ranges if each[0] < offset] if ranges and ranges[0][0] < offset else ()
        if old:
            # given back by others meanwhile: they would have to be read first, and come with the next fetch
            if at.key_shared:
                # and nothing of their keys before them
                old = [each[:2] for each in ranges]
            self._cursor.give_back(self.consumer, old, self._now)
            del ranges[: len(old)]
            at.parked.serve_soon()
        records = answer.from_opened(ranges) if at.key_shared else 0
        records += answer.assemble(stored, ranges)
        if ranges:
            # it would have taken too long
            self._cursor.give_back(self.consumer, [each[:2] for each in ranges], self._now)
            at.parked.serve_soon()
        return records
