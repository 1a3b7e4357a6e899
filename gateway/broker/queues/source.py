"""One partition that lanes are given records of: the cursor there, to which each lane is a consumer."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import TYPE_CHECKING

from gateway.wire.opened import Opened
from semantics.lanes.marks import Verb
from semantics.subscriptions.states import Ending
from store.pending import Asking

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gateway.broker.queues.just_read import JustRead
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.lanes.marks import Mark
    from semantics.subscriptions.cursor import Cursor
    from semantics.subscriptions.states import Acquired

AGAIN_MS = 50
_MOST_AGAIN_MS = 5_000
"""When a partition is asked again that could not be had: each time after twice as long, up to this."""

Ranges = Sequence[tuple[int, int]]
"""(first, last), ascending and disjoint"""


class OfLane:
    """See `building.Sharing`."""

    __slots__ = ("_at", "_cursor", "place")

    def __init__(self, at: SubscriptionPartition, cursor: Cursor, place: int) -> None:
        self._at = at
        self._cursor = cursor
        self.place = place

    def places(self, first: int, end: int) -> NDArray[np.uint16]:
        """See `Sharing`."""
        return self._cursor.places(first, end)

    def opened(self, base: int) -> Opened | None:
        """See `Sharing`."""
        found = self._at.reader.scanner.holding(self._at, base)
        return found if isinstance(found, Opened) and found.header.base_offset == base else None


class Source:
    """See the module. What needs the cursor raises KafkaError when it cannot be had."""

    __slots__ = ("again_at", "at", "wait_ms")

    def __init__(self, at: SubscriptionPartition) -> None:
        self.at = at
        self.again_at = 0
        """monotonic ms: before that it is not asked"""
        self.wait_ms = AGAIN_MS

    def put_off(self, now: int) -> int:
        """It could not be had. When it is asked again."""
        self.again_at = now + self.wait_ms
        self.wait_ms = min(2 * self.wait_ms, _MOST_AGAIN_MS)
        return self.again_at

    @property
    def id(self) -> int:
        """The store's id of the partition, as runs name it."""
        return self.at.id

    def hold(self, lane: str, ranges: Ranges) -> list[tuple[int, int]]:
        """The lane is a consumer here, and holds these, as its own rows say. What of it is still its own: the rest was
        settled, or waits for something: see `Cursor.hold_again`. A cursor that was told before, and was not loaded
        since, knows itself what of it is settled: see `Cursor.hold_only`.
        """
        at = self.at
        at.attach(lane)
        cursor, its = at.ready(), at.consumers[lane]
        its.begun += 1
        if its.told is not cursor:
            its.told = cursor
            return cursor.hold_again(lane, ranges, at.node.clock.monotonic_ms())
        held = cursor.hold_only(lane, ranges)
        at.parked.serve_soon()
        return held

    def held(self, lane: str, ranges: Ranges) -> list[tuple[int, int]]:
        """What the lane holds of these by now, ascending."""
        return self.at.ready().holds(lane, ranges)

    def take(self, lane: str, limit: int, max_bytes: int, just_read: JustRead) -> Asking[Sequence[Acquired]]:
        """Up to `limit` records of about so many bytes for a lane, which holds them from now on. What was read of them
        goes into `just_read`.
        """
        found = self.at.reader.take(lane, limit, max_bytes)
        if isinstance(found, Awaitable):
            found = yield found
        if found.acquired:
            # stored with the lane's row, or before it: how far this was read
            self.at.touch()
            if found.read:
                just_read.keep(self.id, found.read)
        return found.acquired

    def may_serve(self, lane: str) -> bool:
        """Whether there may be something for a lane."""
        self.at.ready()
        return self.at.may_serve(lane)

    # -- what becomes of what a lane holds ---------------------------------------------------------------------------

    def settle(self, lane: str, ranges: Ranges) -> None:
        """They are acknowledged."""
        cursor, now, wall = self._cursor()
        cursor.settle(lane, ranges, now, wall)

    def settle_many(self, lane: str, offsets: NDArray[np.int64]) -> None:
        """`settle` for many single offsets, ascending."""
        cursor, now, wall = self._cursor()
        cursor.settle_many(lane, offsets, now, wall)

    def mark(self, lane: str, ranges: Ranges, mark: Mark) -> None:
        """They are nacked, dead, or go to the retry letter topic."""
        self.recall(lane)
        cursor, now, wall = self._cursor()
        if mark.verb is Verb.RETRY:
            waiting, delay_ms = cursor.reconsume_later(lane, ranges, mark.delay_ms, wall)
            if waiting:
                self.at.resend(waiting, delay_ms)
            return
        if mark.verb is Verb.DEAD:
            cursor.reject(lane, ranges, now, wall)
        else:
            cursor.nack(lane, ranges, mark.delay_ms, now, wall)

    def crash(self, lane: str, ranges: Ranges, most: int | None) -> None:
        """They were in the hands of a consumer that was lost: see `Cursor.crash`."""
        self.recall(lane)
        cursor, now, wall = self._cursor()
        cursor.crash(lane, ranges, most, now, wall)
        self.at.parked.serve_soon()

    def crash_many(self, lane: str, offsets: NDArray[np.int64], most: int | None) -> None:
        """`crash` for many single offsets, ascending."""
        self.recall(lane)
        cursor, _, wall = self._cursor()
        cursor.crash_many(lane, offsets, most, wall)
        self.at.parked.serve_soon()

    def give_back_many(self, lane: str, offsets: NDArray[np.int64]) -> None:
        """`give_back` for many single offsets, ascending."""
        self.recall(lane)
        cursor, now, _ = self._cursor()
        cursor.give_back_many(lane, offsets, now)
        self.at.parked.serve_soon()

    def count(self, lane: str, ranges: Ranges, most: int | None) -> bool:
        """One more delivery of these has failed, and the lane holds them still. True: they died of it."""
        cursor, _, wall = self._cursor()
        return cursor.count(lane, ranges, most, wall)

    def let_go(self, lane: str) -> None:
        """The lane is gone."""
        self.at.detach(lane, Ending.STOPPED)

    def give_back(self, lane: str, ranges: Ranges) -> None:
        """They were sent to nobody."""
        self.recall(lane)
        self.at.give_back(lane, ranges)

    def slots_of(self, ranges: Ranges) -> set[int] | None:
        """Key_Shared: of these the slots; None when one of them is not known. Shared has none."""
        return self.at.ready().slots_of(ranges)

    def in_slots(self, lane: str, ranges: Ranges, slots: Collection[int] | None) -> list[tuple[int, int]]:
        """What of these the lane holds in one of these slots, or in one that is not known. None: in any."""
        return self.at.ready().in_slots(lane, ranges, slots)

    def sharing(self, lane: str) -> OfLane | None:
        """Which other lanes have records of the batches that this one reads; None under Shared, or without a cursor."""
        at, cursor = self.at, self.at.cursor
        if not at.key_shared or cursor is None:
            return None
        place = cursor.place_of(lane)
        return OfLane(at, cursor, place) if place else None

    def failures(self, offset: int) -> int:
        """How often a record has failed by now."""
        return self.at.ready().failures(offset)

    def recall(self, lane: str) -> None:
        """Earlier records of keys come back: what is just being taken for the lane while a disk is asked would overtake
        them. It is available again, and whoever takes it ends with nothing.
        """
        at = self.at
        cursor, its = at.cursor, at.consumers.get(lane)
        if at.key_shared and cursor is not None and its is not None and at.reader.waits:
            at.reader.give_up(lane, cursor, at.node.clock.monotonic_ms())
            its.begun += 1

    def _cursor(self) -> tuple[Cursor, int, int]:
        at = self.at
        cursor = at.ready()
        at.touch()
        clock = at.node.clock
        return cursor, clock.monotonic_ms(), clock.wall_ms()
