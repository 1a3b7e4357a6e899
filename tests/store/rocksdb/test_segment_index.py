"""Where a log's segments and its sparse index say that an offset or a time is to be looked for."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from store.api import Append, Durability, Trim
from store.batch import build
from store.rocksdb import RocksStore
from store.rocksdb.segment_index import SegmentIndex
from store.rocksdb.segments import Segment
from tests.store.rocksdb.starting import in_a_loop, opened

BATCHES, SIZE = 60, 1500


async def filled(data: Path) -> tuple[RocksStore, SegmentIndex]:
    """Three segments of 20 batches, one record and 1.5 KB each, sent at 1,000 times their offset; 20 to 24 is a gap."""
    store = await opened(data, tail_cache_bytes=0)
    log = store.log(1)
    log.configure(segment_bytes=20 * len(build(0, b"x" * SIZE, timestamp=1)))
    for nth in range(BATCHES):
        base = nth if nth < 20 else nth + 5
        made = build(base, b"x" * SIZE, timestamp=1000 * base)
        await store.write([Append(1, base, base + 1, 1000 * base, [made])], Durability.OS)
    return store, log._index


def spans(segments: list[Segment]) -> list[tuple[int, int]]:
    return [(each.base, each.next_offset) for each in segments]


@in_a_loop
async def test_segments_are_told_in_order_and_go_with_a_trim(data: Path) -> None:
    store, index = await filled(data)
    assert spans(index.segments()) == [(0, 20), (25, 45), (45, 65)]
    active = index.active()
    assert active is not None
    assert spans([active]) == [(45, 65)]
    assert (index.start, index.end) == (0, 65)
    await store.write([Trim(1, 30)], Durability.OS)
    assert spans(index.segments()) == [(25, 45), (45, 65)]
    assert (index.start, index.end) == (30, 65)
    await store.close()
    store = await opened(data)
    assert spans(store.log(1)._index.segments()) == [(25, 45), (45, 65)], "from the rows"
    await store.close()


@in_a_loop
async def test_an_offset_in_a_gap_is_looked_for_in_the_next_segment(data: Path) -> None:
    store, index = await filled(data)
    found = [index.segment_of(offset) for offset in (0, 19, 20, 24, 25, 64)]
    assert [each.base if each is not None else -1 for each in found] == [0, 0, 25, 25, 25, 45]
    assert index.segment_of(65) is None
    first, second, last = index.segments()
    assert index.segment_after(first) == second
    assert index.segment_after(last) is None
    await store.close()


@in_a_loop
async def test_the_index_leads_to_a_place_before_the_batch_and_not_far(data: Path) -> None:
    store, index = await filled(data)
    size = len(build(0, b"x" * SIZE, timestamp=1))
    for segment in index.segments():
        for nth, offset in enumerate(range(segment.base, segment.next_offset)):
            position, due = index.floor(segment, offset)
            assert (position, due) == (size * (due - segment.base), due)
            assert 0 <= size * nth - position <= 4096 + size
            assert due < index.bound(segment, position, due) <= due + 4
    await store.close()


@in_a_loop
async def test_a_search_by_time_begins_behind_all_that_is_too_old(data: Path) -> None:
    store, index = await filled(data)
    _, second, _ = index.segments()
    for wanted in range(25, 45):
        position, due = index.before_time(second, 1000 * wanted, 0)
        assert due <= wanted <= due + 4, "no batch before it is as young"
        assert index.before_time(second, 1000 * wanted, 40)[1] >= 37, "nothing below the start is wanted"
        assert position == index.floor(second, due)[0]
    await store.close()


@pytest.mark.parametrize("seed", range(6))
def test_an_offset_that_all_before_a_position_lie_below(tmp_path: Path, seed: int) -> None:
    asyncio.run(_all_lie_below(tmp_path, seed))


async def _all_lie_below(data: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = await opened(data, tail_cache_bytes=0)
    log = store.log(1)
    log.configure(segment_bytes=3_000_000)
    # segment's base, position, offset behind the batch
    places: list[tuple[int, int, int]] = []
    base = position = segment = 0
    for nth in range(400):
        # large ones with few records and small ones with many, in stretches; gaps
        few = seed == 0 or (nth // 60) % 2
        count = 1 if few else chance.randrange(1, 5000)
        made = build(base, b"x" * chance.randrange(1, 40_000 if few else 3_000), timestamp=1, records=count)
        if position + len(made) > 3_000_000:
            segment, position = base, 0
        places.append((segment, position, base + count))
        await store.write([Append(1, base, base + count, 1, [made])], Durability.OS)
        position += len(made)
        base += count + chance.choice((0, 0, 7, 100))
    index = log._index
    found = {each.base: each for each in index.segments()}
    assert len(found) > 1
    far = 0
    for nth, (segment, position, following) in enumerate(places):
        of = found[segment]
        end = min(of.size, position + chance.choice((1, 100_000, 300_000, 1 << 20)))
        due = following - 1
        below = index.below(of, position, due, end)
        inside = [each for each in places[nth:] if each[0] == segment and each[1] < end]
        assert below >= max(each[2] for each in inside)
        assert below <= of.next_offset
        # bytes that it is too far
        behind = [each[1] for each in places[nth:] if each[0] == segment and each[2] <= below]
        far = max(far, behind[-1] - end)
    if seed == 0:
        assert far < (1 << 18) + 200_000, "near, where offsets are spread evenly"
    await store.close()
