"""Where a log's segments and its sparse index say that an offset or a time is to be looked for."""

from __future__ import annotations

from pathlib import Path

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
