"""What is told of lanes to people: who has them, what is open, how much they may give, where a record lies.

Nothing is changed by looking, and no queue is loaded for it: of one that nobody uses its rows tell what they can.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.queues import rows

if TYPE_CHECKING:
    from gateway.broker.queues.queue import Queue
    from gateway.broker.queues.rows import Rows
    from semantics.lanes.lane import Lane
    from semantics.lanes.runs import Run

PAGE = 5_000
"""Runs that are looked at before the loop may do something else."""
log = logging.getLogger("magnetar.queues")

MOST_REFUSALS = 1_000
_METADATA, _WHY = 200, 400
"""characters that are kept"""


class Refusal(NamedTuple):
    """A commit of a lane that was refused for what it says."""

    offset: int
    metadata: str
    why: str
    at: int
    """ms since 1970"""


class Refusals:
    """The last one of each lane, by the store's id of its partition. In memory only, and of so many lanes."""

    def __init__(self) -> None:
        self._last: dict[int, Refusal] = {}

    def note(self, lane: int, offset: int, metadata: str | None, why: str, at: int) -> None:
        """A commit was refused."""
        self._last.pop(lane, None)
        self._last[lane] = Refusal(offset, _short(metadata or "", _METADATA), _short(why, _WHY), at)
        if len(self._last) > MOST_REFUSALS:
            del self._last[next(iter(self._last))]

    def of(self, lane: int) -> Refusal | None:
        """The last one of a lane, if it is remembered."""
        return self._last.get(lane)

    def forget(self, lane: int) -> None:
        """The lane is gone."""
        self._last.pop(lane, None)


class Strangers:
    """Groups that name deliveries of a queue topic, and are not called like its subscription: what they say has no
    effect, and the log tells it once of each, as long as they are remembered.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], None] = {}

    def note(self, group: str, topic: str, subscription: str) -> None:
        """One has committed."""
        if (group, topic) in self._known:
            return
        if len(self._known) >= MOST_REFUSALS:
            del self._known[next(iter(self._known))]
        self._known[group, topic] = None
        log.warning(
            "commits of this group acknowledge nothing and name nothing: group.id is the subscription's name",
            extra={"group": group, "topic": topic, "subscription": subscription},
        )


class LaneView(NamedTuple):
    """A lane as it is now."""

    lane: int
    member: str | None
    """who has it"""
    start: int
    """the first offset that can be read"""
    first_open: int
    """where the group goes on: what OffsetFetch answers"""
    end: int
    open: int
    """deliveries that are not settled"""
    sent: int
    """of these: sent to somebody since the gateway started"""
    window: int
    """how many may be open, as commits of late say"""
    allowed: int
    """how many may be open: the window, or less while there are suspects"""
    rate: float
    """deliveries acknowledged a second"""
    suspects: int
    """records that were in the hands of consumers that crashed; all lanes of Shared have the same"""
    waits: bool
    """whether somebody waits at its end for more"""

    @property
    def full(self) -> bool:
        """Whether it is given nothing before something of it is settled, or of another lane of its member."""
        return self.open >= self.allowed


def lanes_of(queue: Queue, now: int) -> list[LaneView]:
    """Of a queue topic at work. `now`: monotonic ms."""
    lanes = queue.lanes
    return [
        LaneView(
            at.index,
            lanes.owners[at.index],
            at.lane.start,
            at.lane.open,
            at.lane.end,
            at.lane.opened,
            sum(end - begin for begin, end in at.lane.sent_and_open()),
            at.lane.window.size,
            lanes.bound(at.index),
            at.lane.window.rate(now),
            lanes.suspects(at.index).left,
            bool(at.watchers),
        )
        for at in queue.at
    ]


def resting(store: Rows, partitions: Sequence[int], owners: Mapping[int, str]) -> list[LaneView]:
    """Of one that nobody has used since the gateway started, by the store's ids of its partitions and who has which
    lane. Raises StoreError, LaneError.
    """
    found: list[LaneView] = []
    for index, partition in enumerate(partitions):
        lane = rows.read_state(store, partition)
        size = lane.window.size
        found.append(
            LaneView(
                index,
                owners.get(index),
                lane.start,
                lane.open,
                lane.end,
                lane.opened,
                0,
                size,
                size,
                0.0,
                0,
                False,
            )
        )
    return found


class Delivery(NamedTuple):
    """A record on a lane."""

    lane: int
    offset: int
    """in the lane"""
    open: bool
    sent: bool
    """whether somebody was sent it since the gateway started"""
    suspected: bool
    """whether its record was in the hands of a consumer that crashed"""


def delivery(queue: Queue, index: int, offset: int, run: Run) -> Delivery:
    """The one at an offset of a lane, which lies in this run."""
    lane = queue.at[index].lane
    (source_offset,) = run.offsets(offset, offset + 1)
    return Delivery(
        index,
        offset,
        next(lane.open_ranges(offset, offset + 1), None) is not None,
        next(lane.served.within(offset, offset + 1), None) is not None,
        queue.lanes.suspects(index).has(run.source, source_offset, source_offset),
    )


def run_at(lane: Lane, offset: int) -> Run | None:
    """The run that has the delivery at an offset, if it is still known."""
    return next((piece.run for piece in lane.pieces(offset, offset + 1)), None)


def search(queue: Queue, source: int, offset: int, lanes: Sequence[int]) -> Iterator[Delivery | None]:
    """Each lane's last delivery of a record of a source, as far as it is still known; None now and then, when the loop
    may do something else.
    """
    looked = 0
    for index in lanes:
        for run in reversed(list(queue.at[index].lane.runs)):
            looked += 1
            if looked % PAGE == 0:
                yield None
            if run.source != source or not run.first <= offset <= run.last:
                continue
            found = _position(run, offset)
            if found is not None:
                yield delivery(queue, index, run.at + found, run)
                break


def _position(run: Run, offset: int) -> int | None:
    """Which of a run's deliveries is of a source offset."""
    if run.steps is None:
        return offset - run.first
    offsets = run.offsets(run.at, run.end)
    return offsets.index(offset) if offset in offsets else None


def open_by_source(queue: Queue) -> list[dict[int, tuple[int, int]]]:
    """Of each lane (open, sent of these) by source."""
    found: list[dict[int, tuple[int, int]]] = []
    for at in queue.at:
        lane = at.lane
        counts: dict[int, tuple[int, int]] = {}
        for ranges, sent in ((lane.open_ranges(lane.open, lane.end), 0), (lane.sent_and_open(), 1)):
            for begin, end in ranges:
                for piece in lane.pieces(begin, end):
                    there = counts.get(piece.run.source, (0, 0))
                    number = piece.number
                    counts[piece.run.source] = (
                        (there[0], there[1] + number) if sent else (there[0] + number, there[1])
                    )
        found.append(counts)
    return found


def nth_open(lane: Lane, number: int) -> int | None:
    """The lane offset of the n-th open delivery, from 1."""
    for begin, end in lane.open_ranges(lane.open, lane.end):
        if number <= end - begin:
            return begin + number - 1
        number -= end - begin
    return None


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
