from __future__ import annotations

import random
from array import array

import pytest

from semantics.subscriptions import due
from semantics.subscriptions.chunks import SHIFT
from semantics.subscriptions.due import DueTimes
from semantics.subscriptions.leases import unpack
from semantics.subscriptions.rows import CursorRow, due_key


class Kept:
    """Due times with their rows, and which offsets are DELAYED: in memory, and as the rows of their chunks say."""

    def __init__(self) -> None:
        self.times = DueTimes()
        self.rows: dict[bytes, CursorRow] = {}
        self.delayed: set[int] = set()
        self.stored: set[int] = set()
        self.woken: set[int] = set()

    def delay(self, delayed: list[tuple[int, int]]) -> None:
        self.times.add_all(delayed)
        self.delayed.update(offset for offset, _ in delayed)

    def commit(self, *chunks: int) -> None:
        """Of these chunks a row is written, too."""
        self.times.said(chunks)
        self.woken.difference_update(chunks)
        for row in self.times.writes():
            if row.value is None:
                del self.rows[row.key]  # never a row that is not there
            else:
                assert row.key not in self.rows
                self.rows[row.key] = row
        assert len(self.rows) == self.times.stored
        self.stored = {offset for offset in self.stored if offset >> SHIFT not in chunks} | self.delayed

    def load(self, at_once: int = 10**6) -> None:
        while (wanted := self.times.needs) is not None:
            self.commit()
            found = [self.rows[key] for key in sorted(self.rows) if key >= wanted.key]
            most = min(at_once, wanted.limit)
            self.times.loaded(found[:most], len(found) <= most)

    def restart(self) -> None:
        self.times = DueTimes()
        self.times.stored = len(self.rows)
        self.times.horizon = (0, 0)
        self.delayed = set(self.stored)
        self.woken = set()

    def pop(self, wall: int) -> list[int]:
        """The offsets due by then."""
        popped = self.times.pop(wall)
        backed_off, delayed = ([at for run in runs for at in spread(run)] for runs in popped)
        found = [offset for offset in delayed if offset in self.delayed]
        self.delayed.difference_update(found)
        self.woken.update(offset >> SHIFT for offset in found)
        self.times.over(self.woken)
        return backed_off + found


def spread(run: int) -> range:
    first, length = unpack(run)
    return range(first, first + length)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for a handful."""
    monkeypatch.setattr(due, "MOST", 64)
    monkeypatch.setattr(due, "FEW", 16)
    monkeypatch.setattr(due, "CROWDED", 256)
    monkeypatch.setattr(due, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(due, "RUNS_A_ROW", 4)


def test_in_their_order_and_not_before() -> None:
    kept = Kept()
    for at, offset in ((30, 1), (10, 2), (20, 3), (10, 4)):
        kept.times.add(at, offset, 1)
    assert kept.times.next() == 10
    assert kept.pop(9) == []
    assert kept.pop(20) == [2, 4, 3]
    assert kept.times.next() == 30
    assert kept.times.of(1) == 30
    assert kept.times.of(2) is None


def test_what_is_due_together_shares_a_row() -> None:
    kept = Kept()
    for offset in range(0, 1000, 2):
        kept.times.add(77, offset, 1)
    kept.commit()
    assert len(kept.rows) == 1
    assert len(kept.pop(77)) == 500
    kept.commit()
    assert kept.rows == {}


def test_what_comes_due_before_it_is_written_never_is() -> None:
    kept = Kept()
    kept.times.add(5, 1, 1)
    assert kept.pop(5) == [1]
    kept.commit()
    assert kept.rows == {}


@pytest.mark.parametrize("seed", range(24))
def test_nothing_is_lost_or_twice_or_early_with_little_memory(seed: int, small: None) -> None:
    dice = random.Random(seed)
    kept, wall, offset = Kept(), 0, 0
    expected: dict[int, int] = {}
    popped: dict[int, int] = {}
    spread = dice.choice([3, 50, 2000, 100_000])
    for _ in range(400):
        delayed = []
        for _ in range(dice.randrange(12)):
            at = wall + 1 + dice.randrange(spread)
            expected[offset] = at
            if dice.random() < 0.5:
                kept.times.add(at, offset, 1)
            else:
                delayed.append((offset, at))
            offset += dice.choice([1, 2, 2000])
        kept.delay(delayed)
        # what is due in a bucket that has begun stays, and what was woken may be loaded again
        if spread >= 2000:
            assert kept.times._size <= 64 + 12 + 10
        if dice.random() < 0.9:
            kept.commit(*dice.sample(sorted(kept.woken), len(kept.woken) // 2))
        if dice.random() < 0.1:
            kept.commit()
            awake = {each for each in kept.stored if each not in kept.delayed}
            kept.restart()
            popped = {each: when for each, when in popped.items() if each not in awake}
        kept.load(at_once=dice.choice([1, 3, 100]))
        wall += dice.randrange(spread // 2 + 1)
        while True:  # as long as something is due that is in the rows only
            for found in kept.pop(wall):
                assert found not in popped
                popped[found] = wall
            kept.load()
            if (upcoming := kept.times.next()) is None or upcoming > wall:
                break
        assert {found for found, at in expected.items() if at <= wall} == set(popped)
    kept.load()
    while kept.times.next() is not None:
        popped.update(dict.fromkeys(kept.pop(10**9), 0))
        kept.load()
    kept.commit(*kept.woken)
    assert popped.keys() == expected.keys()
    assert kept.rows == {}


def test_many_due_at_the_same_moment_are_loaded_by_parts(small: None) -> None:
    kept = Kept()
    for offset in range(0, 2000, 2):
        kept.times.add(999, offset, 1)
        if not offset % 100:
            kept.commit()
    kept.commit()
    kept.restart()
    found: list[int] = []
    while len(found) < 1000:
        kept.load()
        kept.times.add(999, 10_000 + len(found), 1)
        assert kept.times._size <= 256 + 8
        found += [offset for offset in kept.pop(999) if offset < 10_000]
    assert found == list(range(0, 2000, 2))
    while kept.times.next() is not None:
        kept.load()
        found += kept.pop(999)
    kept.commit()
    assert kept.rows == {}
    assert len(found) == len(set(found))


def test_a_bundle_stays_until_the_row_of_its_chunk_is_written() -> None:
    kept = Kept()
    kept.delay([(5, 100), (6, 200), (2000, 220), (7, 300)])
    kept.commit(0, 1)
    assert len(kept.rows) == 3
    assert kept.pop(210) == [5, 6]
    kept.commit(0)
    assert len(kept.rows) == 3  # 2000 is due in the same bucket, which is not over
    assert kept.pop(255) == [2000]
    kept.commit()
    assert len(kept.rows) == 2  # chunk 0 has said what woke: only the other bundle is needed, and that of 300
    kept.restart()
    kept.load()
    assert kept.pop(255) == [2000]  # since no row says that it woke
    kept.commit(1)
    assert len(kept.rows) == 1
    assert kept.pop(300) == [7]
    assert kept.times.next() == 511
    kept.pop(511)
    kept.commit(0)
    assert kept.rows == {}


def test_scattered_due_times_take_a_row_a_chunk_and_bucket() -> None:
    dice = random.Random(3)
    kept = Kept()
    kept.delay([(offset, dice.randrange(10 * 256)) for offset in range(3 * 1024)])
    kept.commit(0, 1, 2)
    assert len(kept.rows) == 30
    assert sum(len(row.value or b"") for row in kept.rows.values()) <= 4 * 3 * 1024


def test_rows_from_before_there_were_bundles_wake_what_is_delayed() -> None:
    kept = Kept()
    kept.times.add(50, 3, 2)  # as it was written once for DELAYED, too
    kept.commit()
    kept.restart()
    kept.load()
    assert kept.pop(50) == [3, 4]
    kept.commit()
    assert kept.rows == {}


def test_mending_takes_out_what_the_log_lost() -> None:
    kept = Kept()
    kept.times.add(10, 100, 20)
    kept.times.add(20, 200, 5)
    kept.times.add(20, 110, 1)
    kept.times.add(30, 300, 1)
    kept.commit()
    kept.restart()
    kept.times.mend(115)
    assert kept.times.mending
    kept.load(at_once=1)
    assert not kept.times.mending
    kept.load()
    assert kept.pop(10) == list(range(100, 115))
    assert kept.pop(99) == [110]
    kept.commit()
    assert kept.rows == {}


def test_many_added_in_one_go_are_what_they_are_one_by_one() -> None:
    dice = random.Random(4)
    delayed = [(offset, 100 + dice.randrange(3)) for offset in range(900, 5000) if dice.random() < 0.8]
    single, bulk = Kept(), Kept()
    for offset, at in delayed:
        single.times.add(at, offset, 1)
    bulk.delay(delayed[:70])
    bulk.delay(delayed[70:])
    bulk.commit()
    bulk.restart()
    bulk.load()
    for at in (100, 101, 102):
        assert sorted(bulk.pop(at)) == sorted(single.pop(at)) == [n for n, due in delayed if due == at]


def test_neighbours_that_are_due_together_take_the_room_of_one() -> None:
    kept = Kept()
    kept.delay([(offset, 7) for offset in range(1000, 2100)])
    kept.commit()
    assert kept.times._size == 3  # no run reaches beyond its chunk
    assert sum(len(row.value or b"") for row in kept.rows.values()) == 12
    assert kept.pop(7) == list(range(1000, 2100))


def test_bulk_goes_to_the_rows_beyond_the_memory_there_is(small: None) -> None:
    kept = Kept()
    kept.delay([(offset, 300 + offset * 2) for offset in range(500)])
    assert kept.times._size <= 64
    popped: list[int] = []
    for wall in range(1300):
        kept.load()
        popped += kept.pop(wall)
    assert popped == list(range(500))


def test_a_great_many_that_are_due_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served in between: what is left is due at once."""
    monkeypatch.setattr(due, "POPPED", 10)
    kept = Kept()
    kept.delay([(offset * 2, 5 + offset // 3) for offset in range(40)])
    kept.commit(0)
    parts = []
    while (upcoming := kept.times.next()) is not None and upcoming <= 50:
        parts.append(kept.pop(50))
        kept.commit(0)
    assert [offset for part in parts for offset in part] == [offset * 2 for offset in range(40)]
    assert len(parts) == 4
    assert max(map(len, parts)) <= 12
    kept.pop(255)
    kept.commit()
    assert kept.rows == {}


def test_bundles_that_linger_when_the_clock_is_set_back_are_deleted_once(small: None) -> None:
    """What comes before them fills the memory, so their rows are loaded a second time."""
    kept = Kept()
    kept.delay([(chunk << SHIFT, 10_000) for chunk in range(20)])
    kept.commit()
    assert len(kept.pop(11_000)) == 20
    kept.commit()
    assert len(kept.rows) == kept.times.lingering == 20
    assert kept.pop(0) == []
    kept.delay([(100 << SHIFT | at, 256 * at) for at in range(1, 80)])
    kept.commit()
    assert kept.times.horizon is not None
    for wall in range(0, 12_000, 1_000):
        kept.pop(wall)
        kept.commit()
        kept.load()
    kept.commit(*range(20))  # says that the first twenty woke
    assert kept.times.stored == len(kept.rows)
    assert kept.delayed
    kept.restart()
    kept.load()
    assert kept.times.next() is not None


def test_due_times_of_several_offsets_and_what_is_forgotten() -> None:
    times = DueTimes()
    times.add(5_000, 10, 4)
    times.add(6_000, 20, 1)
    times.add_all([(2_000, 7_000), (2_001, 7_000), (5_000, 9_000)])
    assert times.of_all([9, 10, 13, 14, 20, 2_001, 5_000]) == {
        10: 5_000, 13: 5_000, 20: 6_000, 2_001: 7_000, 5_000: 9_000,
    }  # fmt: skip
    assert times.of_all([]) == {}
    assert sorted(times.known()) == [
        (5_000, 10, 4), (6_000, 20, 1), (7_000, 2_000, 2), (9_000, 5_000, 1),
    ]  # fmt: skip
    list(times.writes())
    times.forget([(11, 12), (20, 20)])
    assert times.of_all([10, 11, 12, 13, 20]) == {10: 5_000, 13: 5_000}
    # the row of what is left is written anew, that of the other goes
    written = [(row.key, row.value is not None) for row in times.writes()]
    assert written == [(due_key(5_000, 10), False), (due_key(6_000, 20), False), (due_key(5_000, 10), True)]
    assert list(times.pop(6_000).runs) == [10 << 10, 13 << 10]
    assert times.pop(6_000) == (array("Q"), array("Q"))
