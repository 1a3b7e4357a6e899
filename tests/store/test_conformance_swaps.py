"""What every driver must do when segments come into the place of others (compaction): part of the contract of
`store/api.py`, one test a promise.
"""

from __future__ import annotations

import pytest

from store.api import Append, Durability, Family, Outcome, Put, Refused, Roll, Store, Swap, Trim, Write
from store.limits import Rollover
from tests.store.cleaning import clean, closed, swap_of
from tests.store.making import Clock, append, bases, content, load, opened, soon, with_store, write

SIZE = 61 + 50
"""Bytes of a batch of `append`."""


async def filled(store: Store, count: int = 12) -> None:
    """Log 1: a batch at each offset, three to a segment, sent at a time of ten times their offset."""
    log = await opened(store, 1)
    log.configure(segment_bytes=3 * SIZE)
    for base in range(count):
        await write(store, append(1, base, timestamps=[10 * base]))


@with_store
async def test_a_swap_leaves_what_it_has_at_its_offsets_and_under_its_message_ids(
    store: Store, clock: Clock
) -> None:
    store.rollover = Rollover(entries=5, least_ms=0)
    await filled(store)
    log = store.log(1)
    before = {offset: log.position_of(offset) for offset in range(12)}
    assert len({each.ledger for each in before.values()}) == 3
    stay = (1, 2, 4, 7, 8)
    await clean(store, 1, lambda base: base in stay)
    assert store.log(1) is log
    assert not log.stale
    assert (log.start_offset, log.end_offset, log.size) == (0, 12, 8 * SIZE)
    assert bases(await content(log)) == [*stay, 9, 10, 11]
    assert [(each.base_offset, each.next_offset) for each in log.segments()] == [(1, 9), (9, 12)]
    for offset in (*stay, 9, 10, 11):
        assert log.position_of(offset) == before[offset]
        assert log.offset_of(before[offset].ledger, before[offset].entry) == offset
        assert log.size_from(offset) == SIZE * sum(each >= offset for each in (*stay, 9, 10, 11))
    for offset in set(range(9)) - set(stay):
        with pytest.raises(KeyError):
            log.offset_of(before[offset].ledger, before[offset].entry)
        # as everywhere in a gap: the record behind it
        behind = min(each for each in (*stay, 9) if each > offset)
        assert log.position_of(offset) == before[behind]
        assert bases(await content(log, offset))[0] == behind
    await write(store, append(1, 12))
    assert bases(await content(log))[-1] == 12


@with_store
async def test_what_is_left_is_found_by_time(store: Store, clock: Clock) -> None:
    await filled(store)
    await clean(store, 1, lambda base: base in (1, 4, 8))
    log = store.log(1)
    for timestamp, found in ((0, 1), (10, 1), (11, 4), (41, 8), (80, 8), (81, 9)):
        assert bases(b"".join(await soon(log.batch_at_or_after(timestamp)))) == [found]
    (info,) = closed(log)
    assert (info.max_timestamp, info.max_timestamp_offset, info.size) == (80, 8, 3 * SIZE)


@with_store
async def test_a_log_is_cleaned_again_and_again(store: Store, clock: Clock) -> None:
    await filled(store, 15)
    log = store.log(1)
    before = {offset: log.position_of(offset) for offset in range(15)}
    left = set(range(12))
    for gone in ((0, 5, 6), (1, 10), (2, 3, 4, 7, 8, 9)):
        left -= set(gone)
        await clean(store, 1, left.__contains__)
        assert bases(await content(log)) == [*sorted(left), 12, 13, 14]
        for offset in left:
            assert log.position_of(offset) == before[offset]
            assert log.offset_of(before[offset].ledger, before[offset].entry) == offset
    assert sorted(left) == [11]


@with_store
async def test_a_swap_may_leave_nothing(store: Store, clock: Clock) -> None:
    await filled(store)
    await clean(store, 1, lambda base: False)
    log = store.log(1)
    assert (log.start_offset, log.size, bases(await content(log))) == (0, 3 * SIZE, [9, 10, 11])
    assert [(each.base_offset, each.active) for each in log.segments()] == [(9, True)]


@with_store
async def test_a_log_has_no_gap_at_its_end(store: Store, clock: Clock) -> None:
    await filled(store)
    log = store.log(1)
    swap = await swap_of(store, 1, closed(log), lambda base: base == 4)
    await write(store, Roll(1))
    everything = closed(store.log(1))
    assert len(everything) == 4
    old = tuple((each.base_offset, each.number) for each in everything)
    assert swap.new is not None
    for wrong in (
        Swap(1, old, None),
        Swap(1, old, swap.new),
        swap._replace(new=swap.new._replace(next_offset=10)),
    ):
        with pytest.raises(Refused):
            await store.write([wrong], Durability.OS)
        await load(store)
        log = await opened(store, 1)
        assert bases(await content(log)) == [*range(12)]
    await write(store, swap)
    assert bases(await content(log)) == [4, 9, 10, 11]


@with_store
async def test_rows_of_a_swap_are_one_fact_with_it(store: Store, clock: Clock) -> None:
    await filled(store)
    key = (1).to_bytes(4, "big")
    await clean(store, 1, lambda base: base != 4, Put(Family.COMPACTION, key, b"done"))
    assert store.get(Family.COMPACTION, key) == b"done"


@with_store
async def test_a_swap_of_segments_that_are_others_by_now_is_refused_and_nothing_else_fails(
    store: Store, clock: Clock
) -> None:
    await filled(store)
    log = store.log(1)
    stale = await swap_of(store, 1, closed(log), lambda base: base == 8)
    await write(store, Trim(1, 4))
    key = (1).to_bytes(4, "big")
    outcomes: list[Outcome] = []
    writes: list[list[Write]] = [
        [append(1, 12)],
        [stale, Put(Family.COMPACTION, key, b"done")],
        [append(1, 13)],
    ]
    for each in writes:
        store.commit(each, Durability.OS, outcomes.append)
    await store.write([], Durability.OS)
    await load(store)
    assert [type(each) for each in outcomes] == [type(None), Refused, type(None)]
    log = await opened(store, 1)
    assert store.get(Family.COMPACTION, key) is None
    assert bases(await content(log)) == [*range(4, 14)]
    assert stale.new is not None
    store.unreserve(1, [stale.new.place])
    # and what holds is taken
    await clean(store, 1, lambda base: base == 8)
    assert bases(await content(store.log(1))) == [8, 12, 13]


@with_store
async def test_a_roll_closes_the_segment_that_takes_what_comes(store: Store, clock: Clock) -> None:
    await opened(store, 1)
    await write(store, Roll(1))
    assert store.log(1).segments() == []
    await write(store, append(1, 0))
    await write(store, Roll(1))
    await write(store, Roll(1))
    log = store.log(1)
    assert [(each.base_offset, each.active) for each in log.segments()] == [(0, False)]
    assert bases(await content(log)) == [0]
    await clean(store, 1, lambda base: True)
    await write(store, append(1, 1))
    assert [(each.base_offset, each.active) for each in log.segments()] == [(0, False), (1, True)]
    assert bases(await content(log)) == [0, 1]


@with_store
async def test_in_the_commit_of_a_swap_are_only_rows(store: Store, clock: Clock) -> None:
    await filled(store)
    swap = await swap_of(store, 1, closed(store.log(1)), lambda base: True)
    others: list[Append | Trim | Roll] = [append(1, 12), Trim(1, 1), Roll(1)]
    for other in others:
        with pytest.raises(ValueError, match="rows"):
            store.commit([swap, other], Durability.OS, lambda outcome: None)
    await write(store, append(1, 12))
