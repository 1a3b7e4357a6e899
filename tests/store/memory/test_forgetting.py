"""A store in memory with bounds: what it forgets, when, and what it says of that."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import memory
from store.api import Append, DropLog, Durability, Trim, Write
from store.memory.log import MemoryLog
from store.transient import FIRST_OFFSETS, FIRST_TRANSIENT, Forgotten
from tests.store.making import Clock, batches

ALL, ONE, SEGMENT = 40_000, 10_000, 1_000
A, B = FIRST_TRANSIENT, FIRST_TRANSIENT + 1


class Kept:
    """A store, what it has forgotten, and a hand that holds logs as partitions in use do."""

    def __init__(self, max_bytes: int = ALL, one: int = ONE, epoch: int = 1) -> None:
        self.clock = Clock()
        self.store = memory.open_forgetting(
            clock=self.clock, ages=self.clock, epoch=epoch, max_bytes=max_bytes
        )
        self.told: list[Forgotten] = []
        self.store.forgot = self.told.append
        self.logs = {partition: self.store.log(partition) for partition in (A, B)}
        for partition, log in self.logs.items():
            log.configure(segment_bytes=SEGMENT, segment_ms=100)
            self.store.bound(partition, one)

    def commit(self, *writes: Write) -> None:
        told: list[object] = []
        self.store.commit(writes, Durability.OS, told.append)
        assert told == [None]

    def put(self, partition: int, *sizes: int) -> None:
        log = self.logs[partition]
        made = batches(log.end_offset, sizes)
        self.commit(Append(partition, log.end_offset, log.end_offset + len(sizes), 0, made, 1))

    def offsets(self, partition: int) -> list[int]:
        log = self.logs[partition]
        return [
            int.from_bytes(bytes(each[:8]), "big")
            for each in log.read(log.start_offset, 1 << 30)  # type: ignore[union-attr]
        ]


def test_offsets_lie_above_those_of_the_starts_before() -> None:
    first, second = Kept(epoch=1), Kept(epoch=2)
    first.put(A, 10)
    assert first.offsets(A) == [FIRST_OFFSETS]
    assert second.logs[A].start_offset == second.logs[A].end_offset == 2 * FIRST_OFFSETS
    second.put(A, 10)
    assert second.offsets(A) == [2 * FIRST_OFFSETS]
    assert (
        second.store.log(A).position_of(2 * FIRST_OFFSETS).ledger
        != first.store.log(A).position_of(FIRST_OFFSETS).ledger
    )


def test_a_log_keeps_the_newest_of_its_bytes() -> None:
    kept = Kept()
    for _ in range(30):
        kept.put(A, 500)
    log = kept.logs[A]
    assert ONE - 2 * SEGMENT < log.size <= ONE
    assert kept.offsets(A)[-1] == log.end_offset - 1 == FIRST_OFFSETS + 29
    assert kept.offsets(A)[0] == log.start_offset
    assert sum(each.messages for each in kept.told) == log.start_offset - FIRST_OFFSETS
    assert {each.partition for each in kept.told} == {A}


def test_what_comes_in_one_commit_is_not_forgotten_as_a_whole() -> None:
    kept = Kept()
    kept.put(A, *[500] * 100)
    assert ONE - 2 * SEGMENT < kept.logs[A].size <= ONE
    assert kept.offsets(A)[-1] == FIRST_OFFSETS + 99


def test_of_all_logs_the_oldest_goes_first() -> None:
    kept = Kept(max_bytes=5_000)
    kept.put(A, 900)
    kept.put(B, 900)
    kept.put(A, 900)
    for _ in range(4):
        kept.put(B, 900)
    assert kept.store.size <= 5_000
    assert kept.offsets(A) == [FIRST_OFFSETS + 1]
    assert kept.offsets(B)[-1] == FIRST_OFFSETS + 4
    kept.put(A, 900)
    assert [each.partition for each in kept.told] == [A, B, A], "in the order in which they came"


def test_it_says_how_much_nobody_had_read() -> None:
    kept = Kept()
    kept.put(A, 100, 100, 100)
    read = len(batches(0, [100])[0])
    kept.logs[A].read(FIRST_OFFSETS, 2 * read + read // 2)
    looked = kept.logs[A].look(FIRST_OFFSETS, 4 * read)
    assert isinstance(looked, list)
    assert len(looked) == 3, "whoever looks gives it to nobody"
    kept.clock.now += 1_000
    assert kept.store.forget_before(kept.clock.now) is None
    (gone,) = kept.told
    assert (gone.partition, gone.messages) == (A, 3)
    assert gone.unread == 1
    assert gone.size == 3 * read


def test_age_is_that_of_what_was_written_last() -> None:
    kept = Kept()
    begun = kept.clock.now
    kept.put(A, 100)
    kept.clock.now += 50
    kept.put(B, 100)
    kept.put(A, 100)
    kept.clock.now += 100
    kept.put(A, 100)
    assert kept.store.forget_before(begun + 50) == begun + 50
    assert kept.told == []
    assert kept.store.forget_before(begun + 51) == begun + 150
    assert [(each.partition, each.messages) for each in kept.told] == [(B, 1), (A, 2)]
    assert kept.offsets(A) == [FIRST_OFFSETS + 2]
    assert kept.store.forget_before(begun + 151) is None
    assert kept.store.size == 0


def by_age(kept: Kept) -> None:
    kept.clock.now += 1
    kept.store.forget_before(kept.clock.now)


def by_the_bound_of_all(kept: Kept) -> None:
    kept.store.bound(B, 0)
    while not kept.told:
        kept.put(B, 800)


def by_a_trim(kept: Kept) -> None:
    kept.commit(Trim(A, FIRST_OFFSETS + 2))


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("emptied", [by_age, by_the_bound_of_all, by_a_trim])
def test_a_log_that_has_nothing_goes_on_where_it_was(emptied: Callable[[Kept], None], held: bool) -> None:
    kept = Kept()
    kept.put(A, 100, 100)
    if not held:
        del kept.logs[A]
        gc.collect()
    emptied(kept)
    assert A not in kept.store._logs, "only its end is kept"
    log = kept.store.log(A)
    assert log.start_offset == log.end_offset == FIRST_OFFSETS + 2
    assert log.epoch_end(kept.store.leader_epoch(A)) == (1, FIRST_OFFSETS + 2)
    with pytest.raises(ValueError, match="below the end"):
        kept.commit(Append(A, FIRST_OFFSETS + 1, FIRST_OFFSETS + 2, 0, batches(FIRST_OFFSETS + 1, [10])))
    kept.logs[A] = log
    kept.put(A, 100)
    assert kept.offsets(A) == [FIRST_OFFSETS + 2]


def test_a_batch_that_is_too_much_by_itself_leaves_a_log_with_nothing_that_goes_on() -> None:
    kept = Kept()
    kept.put(A, 100)
    kept.put(A, 2 * ONE)
    assert (kept.offsets(A), kept.store.size) == ([], 0)
    assert A not in kept.store._logs
    kept.put(A, 100)
    assert kept.offsets(A) == [FIRST_OFFSETS + 2]


@pytest.mark.parametrize("others", [10, 1_000])
def test_what_is_forgotten_costs_no_look_at_the_logs_that_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    kept = Kept(max_bytes=1 << 30)
    kept.put(A, 100)
    kept.put(B, 100)
    kept.clock.now += 10
    for number in range(others):
        log = kept.logs[100 + number] = kept.store.log(FIRST_TRANSIENT + 100 + number)
        kept.commit(
            Append(log.partition, log.end_offset, log.end_offset + 1, 0, batches(log.end_offset, [10]), 1)
        )
    looked: set[int] = set()
    oldest = vars(MemoryLog)["oldest"].fget

    def seen(log: MemoryLog) -> object:
        looked.add(log.partition)
        return oldest(log)

    monkeypatch.setattr(MemoryLog, "oldest", property(seen))
    assert kept.store.forget_before(kept.clock.now) == kept.clock.now
    assert [each.partition for each in kept.told] == [A, B]
    assert looked - {A, B} <= {FIRST_TRANSIENT + 100}, "the next one"


def test_logs_that_nobody_has_written_to_cost_nothing() -> None:
    kept = Kept()
    for number in range(1_000):
        assert kept.store.log(FIRST_TRANSIENT + 100 + number).size == 0
    gc.collect()
    assert len(kept.store._empty) == 2, "those that somebody holds"


class Step(NamedTuple):
    kind: str
    partition: int
    number: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["put", "put", "put", "trim", "wait", "forget", "drop"]),
        st.sampled_from([A, B]),
        st.integers(1, 1_500),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_the_rest_of_a_log_is_whole_and_within_its_bounds(steps: list[Step]) -> None:
    kept = Kept(max_bytes=6_000, one=4_000)
    ends = {A: FIRST_OFFSETS, B: FIRST_OFFSETS}
    trimmed = {A: 0, B: 0}
    there = {A, B}
    for kind, partition, number in steps:
        if partition not in there:
            continue
        log = kept.logs[partition]
        if kind == "put":
            kept.put(partition, number)
            ends[partition] += 1
        elif kind == "trim":
            to = min(log.end_offset, log.start_offset + number % 3)
            trimmed[partition] += max(0, to - log.start_offset)
            kept.commit(Trim(partition, to))
        elif kind == "wait":
            kept.clock.now += number
        elif kind == "forget":
            kept.store.forget_before(kept.clock.now - 500)
        else:
            kept.commit(DropLog(partition))
            there.discard(partition)
            assert log.stale
        assert kept.store.size == sum(kept.logs[each].size for each in there) <= 6_000
        for each in there:
            mine = kept.logs[each]
            assert mine.size <= 4_000
            assert mine.end_offset == ends[each]
            forgotten = sum(gone.messages for gone in kept.told if gone.partition == each)
            assert mine.start_offset == FIRST_OFFSETS + trimmed[each] + forgotten
            found = kept.offsets(each)
            assert found == list(range(mine.start_offset, mine.end_offset))
            assert kept.store.log(each) is mine
