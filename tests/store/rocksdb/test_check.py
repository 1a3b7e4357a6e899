"""Batches held against their CRC and against each other: how far a segment is good, and what is wrong then."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import batch
from store.rocksdb import check
from store.rocksdb.files import Files


class Bytes(Files):
    """A file in memory; a check that reads on and on would never end."""

    def __init__(self, data: bytes) -> None:
        super().__init__(Path())
        self._data = data
        self._reads = 0

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        self._reads += 1
        assert self._reads < 20, "it goes round in circles"
        return self._data[position : position + size]


@pytest.mark.parametrize("behind", [0, 1, 7, 8, 60, 61, 100])
@pytest.mark.parametrize("short", [False, True])
def test_behind_a_gap_is_something_else_or_nothing(behind: int, short: bool) -> None:
    """A batch that leaves a gap is not waited for when its follower cannot be there."""
    first, late = batch.build(0, b"x" * 20), batch.build(5, b"y" * 20)
    data = first + late
    end = len(data) + behind
    if not short:
        data += bytes(behind)
    checked = check.check(Bytes(data), 0, 0, end, 0)
    follower = behind >= batch.HEADER_BYTES
    assert checked.batches == (1 if follower else 2)
    assert checked.position == (len(first) if follower else len(first) + len(late))
    assert bool(checked.problem) == (behind > 0)


@pytest.mark.parametrize(
    ("doubts", "looked_at"),
    [
        (None, [0, 1, 2, 3]),
        ([], []),
        ([(0, 1)], [0]),
        ([(99, 100)], [0]),
        ([(99, 101)], [0, 1]),
        ([(100, 101)], [1]),
        ([(10, 20), (30, 40), (250, 260)], [0, 2]),
        ([(150, 151), (399, 1000)], [1, 3]),
    ],
)
def test_batches_without_doubt_are_not_held_against_their_crc(
    doubts: list[tuple[int, int]] | None, looked_at: list[int]
) -> None:
    batches = [bytearray(batch.build(nth, b"x" * (100 - 68), timestamp=1)) for nth in range(4)]
    size = len(batches[0])
    assert [len(each) for each in batches] == [size] * 4
    # of batches of 100 bytes
    scaled = doubts and [(start * size // 100, -(-end * size // 100)) for start, end in doubts]
    whole = check.sound(b"".join(batches), 0, 4 * size, 0, 4, doubts=scaled)
    assert (whole.batches, whole.problem, whole.position) == (4, "", 4 * size)
    for nth in range(4):
        damaged = [bytearray(each) for each in batches]
        damaged[nth][-1] ^= 1
        found = check.sound(b"".join(damaged), 0, 4 * size, 0, 4, doubts=scaled)
        assert (found.problem == "a wrong CRC") == (nth in looked_at)
    damaged = [bytearray(each) for each in batches]
    damaged[2][7] = 9
    assert check.sound(b"".join(damaged), 0, 4 * size, 0, 4, doubts=scaled).batches == 2, (
        "headers are looked at"
    )
