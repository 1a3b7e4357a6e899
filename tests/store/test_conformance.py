"""What every driver must do: the contract of `store/api.py`, one test a promise. Here logs; rows and commits are in
test_conformance_commits.py.
"""

from __future__ import annotations

from typing import cast

import pytest

from store import limits
from store.api import (
    Buffer,
    DropLog,
    Durability,
    Family,
    Put,
    Store,
    Stored,
    Trim,
    of_partition,
)
from tests.store.making import (
    Clock,
    append,
    bases,
    content,
    joined,
    load,
    opened,
    soon,
    with_store,
    write,
)

# logs


@with_store
async def test_a_log_that_was_never_written_is_empty(store: Store, clock: Clock) -> None:
    log = await opened(store, 1)
    assert store.log(1) is log
    assert (log.start_offset, log.end_offset, log.size, log.stale, log.refuses) == (0, 0, 0, False, "")
    assert await soon(log.read(0, 1000)) == []
    assert await soon(log.batch_at_or_after(0)) == []
    assert await soon(log.max_timestamp_batch()) == []
    assert log.epoch_end(5) == (-1, -1)
    assert log.segments() == []
    assert log.ledgers() == []


@with_store
async def test_what_is_appended_is_read(store: Store, clock: Clock) -> None:
    first, second = append(1, 0, [100, 200]), append(1, 2, [300])
    await write(store, first)
    await write(store, second)
    log = store.log(1)
    assert log.end_offset == 3
    assert log.size == sum(map(len, [*first.batches, *second.batches]))
    assert await content(log) == joined([*first.batches, *second.batches])
    assert await content(log, 1) == joined([first.batches[1], *second.batches])


@with_store
async def test_a_log_object_shows_what_is_committed_after_it_was_opened(store: Store, clock: Clock) -> None:
    log = await opened(store, 1)
    await write(store, append(1, 0))
    assert log.end_offset == 1
    assert store.log(1) is log


@with_store
async def test_the_first_append_makes_a_log(store: Store, clock: Clock) -> None:
    log = await opened(store, 1)
    await write(store, append(1, 0), append(2, 0), append(1, 1))
    assert log.end_offset == 2
    assert store.log(2).end_offset == 1
    # at any offset: gaps are legal
    await write(store, append(3, 10))
    assert (store.log(3).start_offset, store.log(3).end_offset) == (0, 11)


@with_store
async def test_an_empty_log_can_be_trimmed_where_it_is(store: Store, clock: Clock) -> None:
    await write(store, Trim(1, 0))
    assert (store.log(1).start_offset, store.log(1).end_offset) == (0, 0)
    with pytest.raises(ValueError, match="beyond the end"):
        await write(store, Trim(2, 1))
    await write(store, append(1, 0))
    assert bases(await content(store.log(1))) == [0]


@with_store
async def test_several_appends_of_one_commit_follow_each_other(store: Store, clock: Clock) -> None:
    await write(store, *(append(1, base, [60]) for base in range(20)))
    assert bases(await content(store.log(1))) == list(range(20))


@with_store
async def test_gaps_are_legal(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0), append(1, 10), append(1, 12))
    log = store.log(1)
    assert log.end_offset == 13
    for offset, first in [(0, 0), (1, 10), (9, 10), (10, 10), (11, 12), (12, 12)]:
        assert bases(joined(await soon(log.read(offset, 1000))))[0] == first
        assert log.position_of(offset).entry == [0, 10, 12].index(first)


@with_store
async def test_batches_of_many_records(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [50, 50], records=10))
    log = store.log(1)
    assert log.end_offset == 20
    assert bases(joined(await soon(log.read(13, 1000)))) == [10]
    assert log.position_of(13)[1:] == (1, 3)


@with_store
async def test_programming_errors_are_raised_and_change_nothing(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [50, 50]))
    with pytest.raises(ValueError, match="below the end"):
        await write(store, Put(Family.META, b"k", b"v"), append(1, 2), append(1, 1))
    with pytest.raises(ValueError, match="beyond the end"):
        await write(store, Trim(1, 3))
    for behind in (append(1, 2), append(1, 3), Trim(1, 0), DropLog(1)):
        with pytest.raises(KeyError):
            await write(store, Put(Family.META, b"k", b"v"), append(9, 0), DropLog(1), behind)
    assert store.get(Family.META, b"k") is None
    await load(store, of_partition(9))
    assert (store.log(1).end_offset, store.log(9).end_offset) == (2, 0)
    await write(store, append(1, 2), append(9, 0))
    assert (store.log(1).end_offset, store.log(9).end_offset) == (3, 1)


@with_store
async def test_offsets_outside_the_log(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [50] * 5))
    await write(store, Trim(1, 2))
    log = store.log(1)
    assert await soon(log.read(5, 100)) == []
    for offset in (1, 6):
        with pytest.raises(IndexError):
            await soon(log.read(offset, 100))


# reading


@with_store
async def test_max_bytes(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [100] * 10))
    log = store.log(1)
    size = 161
    every = await content(log)
    for wanted in (size, size + 1, 3 * size, 3 * size + 50, 10 * size, 11 * size):
        assert joined(await soon(log.read(0, wanted))) == every[:wanted]
    # the first batch comes whole
    for wanted in (0, 1, size - 1):
        assert joined(await soon(log.read(4, wanted))) == every[4 * size : 5 * size]
        assert await soon(log.read(4, wanted, whole_first=False)) == []
    assert joined(await soon(log.read(4, size, whole_first=False))) == every[4 * size : 5 * size]


@with_store
async def test_timestamps(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [50] * 5, timestamps=[10, 30, 20, 30, 40]))
    await write(store, append(1, 5, [50] * 3, timestamps=[40, 35, 15]))
    log = store.log(1)
    wanted = [(0, 0), (10, 0), (11, 1), (30, 1), (31, 4), (40, 4)]
    for timestamp, base in wanted:
        assert bases(joined(await soon(log.batch_at_or_after(timestamp)))) == [base], timestamp
    assert await soon(log.batch_at_or_after(41)) == []
    assert bases(joined(await soon(log.max_timestamp_batch()))) == [4]
    await write(store, Trim(1, 5))
    assert bases(joined(await soon(log.max_timestamp_batch()))) == [5]
    assert bases(joined(await soon(log.batch_at_or_after(0)))) == [5]
    await write(store, Trim(1, 8))
    assert await soon(log.max_timestamp_batch()) == []
    assert await soon(log.batch_at_or_after(0)) == []


@with_store
async def test_leader_epochs(store: Store, clock: Clock) -> None:
    log = await opened(store, 1)
    for base, epoch in [(0, 2), (1, 2), (2, 5), (3, 9)]:
        await write(store, append(1, base, epoch=epoch))
    expected = {1: (-1, -1), 2: (2, 2), 4: (2, 2), 5: (5, 3), 8: (5, 3), 9: (9, 4), 100: (9, 4)}
    assert {asked: log.epoch_end(asked) for asked in expected} == expected


# segments, ledgers, message ids


@with_store
async def test_segments_end_at_a_size(store: Store, clock: Clock) -> None:
    (await opened(store, 1)).configure(segment_bytes=500)
    for base in range(10):
        await write(store, append(1, base, [100], timestamps=[1000 - base]))
    log = store.log(1)
    found = log.segments()
    assert [(each.base_offset, each.next_offset, each.size) for each in found] == [
        (0, 3, 483),
        (3, 6, 483),
        (6, 9, 483),
        (9, 10, 161),
    ]
    assert [(each.max_timestamp, each.max_timestamp_offset) for each in found] == [
        (1000, 0),
        (997, 3),
        (994, 6),
        (991, 9),
    ]
    assert [each.active for each in found] == [False, False, False, True]
    assert bases(await content(log)) == list(range(10))
    for timestamp in (991, 995, 1000):
        assert bases(joined(await soon(log.batch_at_or_after(timestamp)))) == [0]
    # an append larger than a segment has one for itself
    await write(store, append(1, 10, [100] * 8), append(1, 18))
    assert [each.base_offset for each in log.segments()][-2:] == [10, 18]


@with_store
async def test_segments_end_at_an_age(store: Store, clock: Clock) -> None:
    (await opened(store, 1)).configure(segment_ms=1000)
    await write(store, append(1, 0))
    clock.now += 999
    await write(store, append(1, 1))
    clock.now += 1
    await write(store, append(1, 2))
    found = store.log(1).segments()
    assert [each.base_offset for each in found] == [0, 2]
    assert found[1].created_at == clock.now


@with_store
async def test_message_ids(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [50] * 30), append(2, 0), append(1, 30, [9000, 50, 50]))
    clock.now += limits.Rollover().most_ms
    await write(store, append(1, 33, [50] * 200, records=2))
    log = store.log(1)
    ledgers = log.ledgers()
    assert [(each.first_offset, each.entries) for each in ledgers] == [(0, 33), (33, 200)]
    assert sum(each.size for each in ledgers) == log.size
    assert len({each.ledger for each in [*ledgers, *store.log(2).ledgers()]}) == 3
    for offset in (0, 1, 29, 30, 31, 32):
        assert log.position_of(offset) == (ledgers[0].ledger, offset, 0)
        assert log.offset_of(ledgers[0].ledger, offset) == offset
    for offset in (33, 34, 233, 432):
        assert log.position_of(offset) == (ledgers[1].ledger, (offset - 33) // 2, (offset - 33) % 2)
    assert log.offset_of(ledgers[1].ledger, 100) == 233
    for ledger, entry in [
        (ledgers[0].ledger, 33),
        (ledgers[1].ledger, 200),
        (99, 0),
        (ledgers[0].ledger, -1),
    ]:
        with pytest.raises(KeyError):
            log.offset_of(ledger, entry)
    for offset in (-1, 433):
        with pytest.raises(IndexError):
            log.position_of(offset)


@with_store
async def test_the_message_id_of_a_gap_is_that_of_the_next_ledger_when_one_began_behind_it(
    store: Store, clock: Clock
) -> None:
    await write(store, append(1, 0))
    clock.now += limits.Rollover().most_ms
    await write(store, append(1, 6))
    log = store.log(1)
    assert [log.position_of(offset) for offset in (1, 5, 6)] == [(log.ledgers()[1].ledger, 0, 0)] * 3


@with_store
async def test_ledgers_end_at_a_number_of_entries(store: Store, clock: Clock) -> None:
    store.rollover = limits.Rollover(entries=50_000, least_ms=0)
    at, part = 0, 5000
    for _ in range(10):
        await write(store, append(1, at, [0] * part))
        at += part
    log = store.log(1)
    assert [each.entries for each in log.ledgers()] == [50_000]
    await write(store, append(1, at))
    assert [each.entries for each in log.ledgers()] == [50_000, 1]
    assert log.position_of(at - 1).entry == 49_999
    assert log.position_of(at)[1:] == (0, 0)
    assert log.offset_of(log.ledgers()[0].ledger, 31_234) == 31_234


@with_store
async def test_ledgers_end_at_a_size(store: Store, clock: Clock) -> None:
    size = len(append(1, 0).batches[0])
    store.rollover = limits.Rollover(size=2 * size, least_ms=0)
    for base in range(5):
        await write(store, append(1, base))
    assert [each.entries for each in store.log(1).ledgers()] == [2, 2, 1]


@with_store
async def test_ledgers_end_at_an_age(store: Store, clock: Clock) -> None:
    store.rollover = limits.Rollover(least_ms=0, most_ms=60_000)
    for base, step in enumerate((0, 59_999, 1, 59_999)):
        clock.now += step
        await write(store, append(1, base))
    assert [each.first_offset for each in store.log(1).ledgers()] == [0, 2]


@with_store
async def test_ledgers_stay_open_for_their_shortest_time(store: Store, clock: Clock) -> None:
    store.rollover = limits.Rollover(entries=2, least_ms=1000)
    for base, step in enumerate((0, 0, 999, 1, 1)):
        clock.now += step
        await write(store, append(1, base))
    assert [each.entries for each in store.log(1).ledgers()] == [4, 1], "longer than that, as in Pulsar"
    # also where the longest time is shorter
    store.rollover = limits.Rollover(least_ms=1000, most_ms=10)
    for base, step in ((5, 1000), (6, 1)):
        clock.now += step
        await write(store, append(1, base))
    assert [each.entries for each in store.log(1).ledgers()] == [4, 2, 1]


@with_store
async def test_what_is_said_of_ledgers_later_holds_for_those_that_are_open(
    store: Store, clock: Clock
) -> None:
    for base in range(3):
        await write(store, append(1, base))
    store.rollover = limits.Rollover(entries=1, least_ms=0)
    await write(store, append(1, 3))
    assert [each.entries for each in store.log(1).ledgers()] == [3, 1]


@with_store
async def test_other_ways_to_read_give_the_same_bytes(store: Store, clock: Clock) -> None:
    """Bytes that are lent, and those that were just written: as `read`, or nothing."""
    end = 0
    for size in (100, 30_000, 7, 90_000):
        await write(store, append(1, end, [size]))
        end += 1
    log = store.log(1)
    for offset in range(end):
        for most in (1, 50_000, 1 << 20):
            expected = joined(await soon(log.read(offset, most)))
            lent = bytearray()
            for piece in await soon(log.lend(offset, most, least=10_000)):
                if isinstance(piece, Stored):
                    into = memoryview(bytearray(len(piece)))
                    assert piece.read_into(into)
                    piece.release()
                    piece = into
                lent += piece
            assert lent == expected
            recent = log.read_at_once(offset, most, least=1 << 30)
            assert recent is None or joined(cast("list[Buffer]", recent)) == expected
    assert log.read_at_once(end - 1, 1, least=1 << 30) is not None, "it was written just now"
    assert await soon(log.lend(end, 1 << 20, least=1)) == []
    with pytest.raises(IndexError):
        await soon(log.lend(end + 1, 1 << 20, least=1))


# trimming and dropping


@with_store
async def test_trim_moves_the_start_and_drops_whole_segments(store: Store, clock: Clock) -> None:
    (await opened(store, 1)).configure(segment_bytes=500)
    for base in range(10):
        await write(store, append(1, base, [100]))
    log = store.log(1)
    await write(store, Trim(1, 5))
    assert log.start_offset == 5
    assert [each.base_offset for each in log.segments()] == [3, 6, 9]
    assert log.size == 7 * 161
    assert bases(await content(log)) == [5, 6, 7, 8, 9]
    assert bases(joined(await soon(log.batch_at_or_after(0)))) == [5]
    # never back
    await write(store, Trim(1, 2))
    assert log.start_offset == 5
    with pytest.raises(KeyError):
        log.offset_of(log.ledgers()[0].ledger, 2)
    assert log.offset_of(log.ledgers()[0].ledger, 5) == 5
    # everything: the active segment goes too, and the log goes on
    await write(store, Trim(1, 10))
    assert (log.start_offset, log.end_offset, log.size, log.segments()) == (10, 10, 0, [])
    await write(store, append(1, 10, [100]))
    assert bases(await content(log)) == [10]
    assert log.position_of(10).entry == 10


@with_store
async def test_trim_within_a_batch_keeps_the_batch(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [50] * 3, records=10))
    await write(store, Trim(1, 15))
    log = store.log(1)
    assert log.start_offset == 15
    assert bases(joined(await soon(log.read(15, 10)))) == [10]
    assert log.position_of(15)[1:] == (1, 5)
    assert log.offset_of(log.ledgers()[0].ledger, 1) == 10


@with_store
async def test_trim_forgets_ledgers_and_epochs_that_ended_below(store: Store, clock: Clock) -> None:
    for base in range(4):
        await write(store, append(1, base, epoch=base + 1))
        clock.now += limits.Rollover().most_ms
    log = store.log(1)
    assert [each.first_offset for each in log.ledgers()] == [0, 1, 2, 3]
    await write(store, Trim(1, 2))
    assert [each.first_offset for each in log.ledgers()] == [2, 3]
    assert (log.epoch_end(2), log.epoch_end(3), log.epoch_end(4)) == ((-1, -1), (3, 3), (4, 4))
    await write(store, Trim(1, 4))
    assert [each.first_offset for each in log.ledgers()] == [3]
    assert log.epoch_end(9) == (4, 4)


@with_store
async def test_append_and_trim_in_one_commit(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [50] * 3), Trim(1, 3), append(1, 3))
    log = store.log(1)
    assert (log.start_offset, log.end_offset) == (3, 4)
    assert bases(await content(log)) == [3]


OF_A_LOG = (Family.DEDUP, Family.ABORTED, Family.LETTER)
"""Families that others keep for a log, under its number."""


@with_store
async def test_a_dropped_log_is_gone_with_all_it_had(store: Store, clock: Clock) -> None:
    def kept(partition: int) -> list[Put]:
        return [Put(family, partition.to_bytes(4, "big") + b"of it", b"x") for family in OF_A_LOG]

    await write(store, append(1, 0), append(2, 0), *kept(1), *kept(2))
    log = store.log(1)
    await write(store, DropLog(1))
    assert log.stale
    assert store.log(1) is not log
    assert (store.log(1).end_offset, store.log(1).size, store.log(1).segments()) == (0, 0, [])
    for family in OF_A_LOG:
        assert [key[:4] for key, _ in await soon(store.page(family))] == [b"\0\0\0\2"]
    assert bases(await content(store.log(2))) == [0]


@with_store
async def test_a_log_that_was_never_written_is_dropped_like_any_other(store: Store, clock: Clock) -> None:
    key = (1).to_bytes(4, "big")
    await write(store, *[Put(family, key + b"of it", b"x") for family in OF_A_LOG])
    log = store.log(1)
    await write(store, DropLog(1), DropLog(2))
    assert log.stale
    for family in OF_A_LOG:
        assert await soon(store.page(family)) == []


@with_store
async def test_append_and_drop_in_one_commit(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0))
    await write(store, append(1, 1, [9000]), DropLog(1), append(2, 0), append(3, 0), DropLog(3))
    assert [store.log(partition).end_offset for partition in (1, 2, 3)] == [0, 1, 0]


@with_store
async def test_until_a_drop_was_told_there_is_no_log_and_none_comes_back(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0))
    told: list[str] = []

    def ask(when: str) -> None:
        for writes in ([append(1, 0)], [append(1, 1)], [Trim(1, 0)], [DropLog(1)]):
            with pytest.raises(KeyError):
                store.commit(writes, Durability.OS, lambda outcome: told.append("of a write behind it"))
        with pytest.raises(KeyError):
            store.log(1)
        told.append(when)

    def before(outcome: object) -> None:
        # the drop is in the queue, or behind this callback
        store.commit([DropLog(1), DropLog(2)], Durability.OS, lambda outcome: ask("in the callback"))
        ask("on its way")

    store.commit([Put(Family.META, b"k", b"v")], Durability.OS, before)
    while len(told) < 2:
        await write(store, Put(Family.META, b"last", b""))
    assert told == ["on its way", "in the callback"]
    assert store.log(1).end_offset == 0


@with_store
async def test_the_bytes_behind_an_offset(store: Store, clock: Clock) -> None:
    """Over segments, with a gap, in the middle of batches, behind a trim."""
    await write(store, append(1, 0))
    store.log(1).configure(segment_bytes=20_000)
    end = 1
    for size in (100, 9_000, 7, 9_000, 15_000, 1, 1, 30_000):
        await write(store, append(1, end, [size, size]))
        end += 2
    await write(store, append(1, end + 5, [50]))
    log = store.log(1)
    assert len(log.segments()) > 3

    async def expected(offset: int) -> int:
        return len(joined(await soon(log.read(offset, 1 << 20)))) if offset < log.end_offset else 0

    for offset in range(log.end_offset + 2):
        assert log.size_from(offset) == await expected(offset), offset
    assert log.size_from(0) == log.size
    await write(store, Trim(1, 5))
    for offset in range(5, log.end_offset + 1):
        assert log.size_from(offset) == await expected(offset), offset
