"""A folded batch: the same parts as from the batch itself, in less memory."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import compression, delivery
from gateway.wire.batch import Buffer
from gateway.wire.folded import BLOCK, Folded
from gateway.wire.opened import Opened
from gateway.wire.records import Record, build_batch

BASE = 700


def batch(sizes: list[int], codec: int = compression.LZ4, every: int = 1) -> bytes:
    """One record of each size, their bytes hardly compressible; offsets in steps of `every`."""
    dice = random.Random(3)
    listed = [
        Record(n * every, 9_000 - n * 7, b"k%d" % n, dice.randbytes(size), []) for n, size in enumerate(sizes)
    ]
    return build_batch(listed, BASE, codec, last_offset_delta=len(sizes) * every - 1)


sizes = st.lists(
    st.sampled_from([0, 1, 90, 200, 5_000, BLOCK - 1, BLOCK, 3 * BLOCK]), min_size=1, max_size=30
)


@given(sizes, st.sampled_from([0, compression.LZ4, compression.ZSTD]), st.sampled_from([1, 3]), st.data())
def test_its_parts_are_those_of_the_batch(
    found: list[int], codec: int, every: int, data: st.DataObject
) -> None:
    stored = batch(found, codec, every)
    folded = Folded(Opened(stored))
    chosen = sorted(data.draw(st.sets(st.integers(0, len(found) * every - 1), min_size=1)))
    ranges = [(BASE + n, BASE + n) for n in chosen]
    part: Buffer | None = folded.part(ranges)
    assert delivery.subset(stored, ranges) == (stored if part is None else part)


def test_a_batch_is_opened_again_without_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = batch([90] * 300)
    opened = Opened(stored)
    starts = opened.starts()
    assert isinstance(starts, array)
    monkeypatch.setattr(Opened, "_boundaries", lambda self: self._starts)
    assert Opened(stored, starts=starts).subset([(BASE + 250, BASE + 251)]) == opened.subset(
        [(BASE + 250, BASE + 251)]
    )


def test_it_takes_less_than_what_it_was_made_of() -> None:
    stored = build_batch([Record(n, 9_000, None, b"%d" % n + bytes(100), []) for n in range(10_000)], BASE, 0)
    opened = Opened(stored)
    folded = Folded(opened)
    assert folded.size < len(opened.payload) // 4
    assert (folded.payload, folded.batch) == (b"", b"")
