"""What the store keeps of lanes.

| family | key | value |
|---|---|---|
| lane | partition u32, `r`, lane offset u64 | runs from that offset on: `semantics.lanes.runs` |
| lane | partition u32, `s` | what the runs do not say: `semantics.lanes.lane.Lane.state` |

The partition is the store's id of the lane's partition, which has no log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Protocol

from semantics.lanes.lane import Lane
from semantics.lanes.runs import Run, decode, encode
from store.api import DeleteRange, Family, Put, Write
from store.transient import first_offset, is_transient

_U32 = struct.Struct(">I")
_RUN_KEY = struct.Struct(">IsQ")
_RUN, _STATE = b"r", b"s"


class Rows(Protocol):
    """A store, as far as it is read here."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...
    def scan(self, family: Family, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]: ...
    def leader_epoch(self, partition: int) -> int: ...


def read(rows: Rows, partition: int) -> tuple[Lane, list[int]]:
    """A lane as it is stored, and where its rows of runs begin; a new one where nothing is. Raises StoreError,
    LaneError, RunError.
    """
    state = rows.get(Family.LANE, _U32.pack(partition) + _STATE)
    if state is None:
        return _new(rows, partition), []
    runs: list[Run] = []
    begins: list[int] = []
    for key, value in rows.scan(Family.LANE, _U32.pack(partition) + _RUN):
        _, _, at = _RUN_KEY.unpack(key)
        begins.append(at)
        runs += decode(at, value)
    return Lane.load(state, runs), begins


def read_state(rows: Rows, partition: int) -> Lane:
    """A lane without its runs: what is open, how large its window is. Raises StoreError, LaneError."""
    state = rows.get(Family.LANE, _U32.pack(partition) + _STATE)
    return Lane.load(state, ()) if state is not None else _new(rows, partition)


def _new(rows: Rows, partition: int) -> Lane:
    """One that never had anything. In memory it begins anew with each start, above all that it had before."""
    return Lane(first_offset(rows.leader_epoch(partition)) if is_transient(partition) else 0)


def writes_runs(partition: int, runs: Sequence[Run]) -> Write:
    """Runs that follow each other, given in one turn."""
    return Put(Family.LANE, _RUN_KEY.pack(partition, _RUN, runs[0].at), encode(runs))


def writes_state(partition: int, lane: Lane) -> Write:
    """All else of a lane."""
    return Put(Family.LANE, _U32.pack(partition) + _STATE, lane.state())


def writes_gone(partition: int, first: int, last: int) -> DeleteRange:
    """Rows of runs are not needed any more: those that begin at lane offsets from `first` to `last`."""
    begin, end = (_RUN_KEY.pack(partition, _RUN, at) for at in (first, last + 1))
    return DeleteRange(Family.LANE, begin, end)


def writes_deleted(partition: int) -> Write:
    """A lane goes with its topic."""
    return DeleteRange(Family.LANE, _U32.pack(partition), _U32.pack(partition + 1))
