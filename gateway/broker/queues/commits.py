"""What consumers say of deliveries: a commit of a lane, and what follows for the cursors behind it and for what comes
later of the same keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from gateway.broker.errors import KafkaError
from gateway.broker.queues.queue_port import Dealing
from gateway.wire.errors import Error
from semantics.lanes.lane import by_source, parts
from semantics.lanes.marks import Marks, Verb, parse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gateway.broker.queues.lane import LaneAtWork
    from gateway.broker.queues.queue_port import Says
    from gateway.broker.queues.source import Ranges, Source
    from semantics.lanes.lane import Lane, Piece, Settled
    from semantics.lanes.marks import Mark


class Queue(Dealing, Protocol):
    """What the commits are of."""

    @property
    def at(self) -> list[LaneAtWork]: ...

    def ready(self) -> None:
        """All cursors can be had. Raises KafkaError."""
        ...

    def many(self, pieces: Iterable[Piece], /) -> bool:
        """Whether what is said of these is said by columns."""
        ...

    def columns_of(self, pieces: Iterable[Piece], /) -> Iterator[tuple[Source, NDArray[np.int64]]]:
        """Of each source the offsets, ascending."""
        ...


def commit(
    queue: Queue, index: int, offset: int, metadata: str | None, *, member: bool, saying: Says | None
) -> None:
    """A commit of the subscription's group: joins the open turn. `saying`: it is part of a transaction. Raises
    MarksError, and nothing was done; KafkaError when a cursor cannot be had, and INVALID_RECORD_STATE for what a
    transaction names and was settled before, unless this very transaction has said the same.
    """
    marks = parse(metadata) or Marks()
    at = queue.at[index]
    queue.ready()
    if saying is not None:
        _say_again(queue, at.lane, marks.named, saying)
    # then others may have waited for this one
    ladder = queue.lanes.suspecting
    settled = queue.lanes.commit(index, offset, marks, queue.node.clock.monotonic_ms(), member=member)
    name = at.consumer
    if saying is not None:
        _say(queue, name, settled, saying)
    else:
        _settle(queue, name, settled.acked)
        for piece, mark in settled.marked:
            if (source := queue.sources.get(piece.run.source)) is not None:
                source.mark(name, piece.ranges(), mark)
    for source_id, ranges in by_source(settled.returned).items():
        if (source := queue.sources.get(source_id)) is not None:
            source.give_back(name, ranges)
    if settled.marked:
        # who seeks gives back what it has; what nobody was sent yet is held back from all
        lane, held_up = at.lane, (Verb.NACK,) if marks.seek else (Verb.NACK, Verb.DEAD)
        behind = lane.open_ranges(offset, lane.end) if marks.seek else lane.unsent_and_open(offset)
        nacked = by_source(piece for piece, mark in settled.marked if mark.verb in held_up)
        _take_back(queue, at, behind, nacked)
    if settled.acked or settled.marked or settled.returned:
        at.moved_at = queue.node.clock.monotonic_ms()
        at.touch()
        if ladder:
            queue.give_all()
        else:
            at.give()


def came_back(queue: Queue, partition: int, ranges: Ranges) -> None:
    """A transaction was aborted that had these records of a source. What nobody was sent yet of their keys comes behind
    them.
    """
    source = queue.sources.get(partition)
    if source is None or queue.gone:
        return
    for at in queue.at:
        source.recall(at.consumer)
        lane = at.lane
        _take_back(queue, at, list(lane.unsent_and_open(lane.open)), {partition: ranges})
        at.touch()


def _settle(queue: Queue, lane: str, acked: list[Piece]) -> None:
    if queue.many(acked):
        for its, offsets in queue.columns_of(acked):
            its.settle_many(lane, offsets)
        return
    for source_id, ranges in by_source(acked).items():
        if (source := queue.sources.get(source_id)) is not None:
            source.settle(lane, ranges)


def _say_again(queue: Queue, lane: Lane, named: Iterable[Mark], saying: Says) -> None:
    """What the transaction names and the lane has done with. Raises KafkaError."""
    for mark in named:
        if mark.first < lane.start:
            # of what is forgotten nobody can say what became of it
            raise KafkaError(
                Error.INVALID_RECORD_STATE, f"Offset {mark.first} is below the start {lane.start}."
            )
        # the first one that is refused ends it: very many may be named
        for piece in lane.closed_of(mark):
            if (source := queue.sources.get(piece.run.source)) is not None:
                saying.say_again(source.at, piece.ranges(), mark.verb, mark.delay_ms)


def _say(queue: Queue, lane: str, settled: Settled, saying: Says) -> None:
    """A commit inside of a transaction: the lane has done with these, and the transaction has them."""
    for source_id, ranges in by_source(settled.acked).items():
        if (source := queue.sources.get(source_id)) is not None:
            saying.say(source.at, lane, ranges, Verb.ACK)
    for piece, mark in settled.marked:
        if (source := queue.sources.get(piece.run.source)) is not None:
            source.recall(lane)
            saying.say(source.at, lane, piece.ranges(), mark.verb, mark.delay_ms)


def _take_back(
    queue: Queue, at: LaneAtWork, opened: Iterable[tuple[int, int]], nacked: Mapping[int, Ranges]
) -> None:
    """What of these open ranges is of the keys of what is to come before it, by source, is delivered anew behind that,
    and is not to be read where it is.
    """
    lane = at.lane
    at.taken_back += bool(at.reading)
    slots: set[int] | None = set()
    for source_id, ranges in nacked.items():
        if (source := queue.sources.get(source_id)) is not None and slots is not None:
            found = source.slots_of(ranges)
            slots = slots | found if found is not None else None
    if slots is not None and not slots:
        return
    behind = [piece for begin, end in list(opened) for piece in lane.pieces(begin, end)]
    theirs: dict[int, list[tuple[int, int]]] = {}
    for source_id, ranges in by_source(behind).items():
        if (source := queue.sources.get(source_id)) is not None:
            theirs[source_id] = source.in_slots(at.consumer, ranges, slots)
            source.give_back(at.consumer, theirs[source_id])
    for piece in behind:
        for begin, end, there in parts(piece, theirs.get(piece.run.source, [])):
            if there:
                lane.void(begin, end)
