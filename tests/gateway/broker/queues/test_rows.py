"""Rows of lanes: a lane comes back as it was, beside others, and goes whole."""

from __future__ import annotations

import pytest

from gateway.broker.queues import rows
from semantics.lanes.lane import Lane, LaneError
from semantics.lanes.marks import Marks, parse
from semantics.lanes.runs import RunError
from store import memory
from store.api import Durability, Family, Put, Store, Write

LANE, OTHER = 7, 8


def put(store: Store, *writes: Write) -> None:
    store.commit(writes, Durability.OS, lambda outcome: None)


def stored(store: Store, number: int) -> Lane:
    """A lane of three deliveries that were given in one turn and two of another, and the first of which is nacked."""
    lane = Lane()
    put(store, rows.writes_runs(number, lane.give(3, [(10, 12, 0)])), rows.writes_state(number, lane))
    put(store, rows.writes_runs(number, lane.give(4, [(5, 5, 2), (9, 9, 2)])))
    lane.serve(0, 5)
    marks = parse("ack1;n=0")
    assert marks is not None
    lane.commit(1, marks, 0)
    put(store, rows.writes_state(number, lane))
    return lane


def test_what_was_never_given_is_a_new_lane() -> None:
    lane, begins = rows.read(memory.open(), LANE)
    assert (lane.start, lane.open, lane.end, begins) == (0, 0, 0, [])


def test_a_lane_comes_back_beside_others() -> None:
    store = memory.open()
    for number in (LANE - 1, LANE, OTHER, LANE << 8):
        stored(store, number)
    lane, begins = rows.read(store, LANE)
    assert begins == [0, 3]
    assert (lane.start, lane.open, lane.end) == (0, 1, 5)
    assert [(piece.run.source, piece.ranges()) for piece in lane.pieces(0, 5)] == [
        (3, [(10, 12)]),
        (4, [(5, 5), (9, 9)]),
    ]
    assert [piece.run.failed for piece in lane.pieces(0, 5)] == [0, 2]


def test_a_row_of_runs_goes_alone_and_a_lane_with_all_it_has() -> None:
    store = memory.open()
    lane = stored(store, LANE)
    stored(store, OTHER)
    lane.commit(4, Marks(), 0)
    lane.trim(3)
    put(store, rows.writes_gone(LANE, 0, 0), rows.writes_state(LANE, lane))
    again, begins = rows.read(store, LANE)
    assert (again.start, begins) == (3, [3])
    put(store, rows.writes_deleted(LANE))
    assert [key[:4] for key, _ in store.scan(Family.LANE)] == [OTHER.to_bytes(4, "big")] * 3


def test_rows_that_make_no_sense_are_not_read() -> None:
    store = memory.open()
    stored(store, LANE)
    key, value = next(iter(store.scan(Family.LANE, LANE.to_bytes(4, "big") + b"r")))
    put(store, Put(Family.LANE, key, value[:-1]))
    with pytest.raises(RunError):
        rows.read(store, LANE)
    put(store, Put(Family.LANE, key, value), Put(Family.LANE, LANE.to_bytes(4, "big") + b"s", b"\1"))
    with pytest.raises(LaneError):
        rows.read(store, LANE)
