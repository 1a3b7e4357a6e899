"""A key with more traffic than one record at a time allows does not keep the look-ahead from the others."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest

from semantics.subscriptions import deliveries
from semantics.subscriptions.states import Deep
from tests.semantics.subscriptions.driving import ACCEPT, RELEASE, Driver, Owners, all_of, left_over

HOT = 10
HALVES = Owners((0, 32_768, "a"), (32_768, 65_536, "b"))


class Load:
    """Two members, a log that is read as a fetch reads it, and answers that are accepted with the next poll."""

    def __init__(self, slots: list[int], **config: Any) -> None:
        self.driver = Driver(type="key_shared", **config)
        self.driver.cursor.reassign(HALVES, 0)
        self.slots = slots
        self.end = 0
        """up to where there is a log"""
        self.held: dict[str, list[int]] = {"a": [], "b": []}
        self.order: dict[int, list[int]] = {}
        """slot -> the offsets of it that were accepted"""

    def fetch(self, name: str, limit: int = 500) -> int:
        """How many records of slots other than HOT it is given."""
        driver, cursor = self.driver, self.driver.cursor
        driver.say(ACCEPT, *self.held[name], by=name)
        for at in self.held[name]:
            self.order.setdefault(self.slots[at], []).append(at)
        got = driver.poll(name, limit)
        passed = 0
        while (
            len(got) < limit
            and passed < 20_000
            and cursor.read < self.end
            and cursor.wants_more(name, len(got))
        ):
            count = min(4 * (limit - len(got)), self.end - cursor.read)
            driver.feed(count, array("H", self.slots[cursor.read : cursor.read + count]))
            passed += count
            got += driver.poll(name, limit - len(got))
        self.held[name] = got
        return sum(self.slots[at] != HOT for at in got)

    def rounds(self, number: int) -> int:
        """How many records of others than HOT come in so many rounds."""
        return sum(self.fetch(name) for _ in range(number) for name in "ab")

    def drain(self) -> None:
        while self.driver.cursor.start < self.end:
            before = self.driver.cursor.start, self.driver.cursor.acquired
            self.rounds(1)
            assert (self.driver.cursor.start, self.driver.cursor.acquired) != before, "stuck"
        assert self.order.keys() == set(self.slots[: self.end])
        for slot, offsets in self.order.items():
            assert offsets == sorted(offsets), f"slot {slot} is out of order"
        assert sum(map(len, self.order.values())) == self.end
        keyed = self.driver.cursor._records.keyed
        assert keyed is not None
        assert not left_over(keyed)


def traffic(share: float, hot: int = 1, keys: int = 10_000, records: int = 150_000) -> list[int]:
    """Slots of records, of which `share` have one of so many hot ones, the first of them HOT."""
    dice = random.Random(5)
    others = [dice.randrange(1_000, 65_536) for _ in range(keys)]
    return [
        HOT + dice.randrange(hot) if dice.random() < share else dice.choice(others) for _ in range(records)
    ]


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_a_hot_key_takes_nothing_from_the_speed_of_the_others(share: float) -> None:
    without, beside = Load(traffic(0, records=250_000)), Load(traffic(share, records=250_000))
    without.end = beside.end = 250_000
    for load in (without, beside):
        load.rounds(100)  # by then much of it waits
    assert beside.rounds(20) >= 0.8 * without.rounds(20)


def test_behind_a_burst_of_one_key_the_others_come_at_once() -> None:
    dice = random.Random(1)
    load = Load([HOT] * 60_000 + [dice.randrange(1_000, 65_536) for _ in range(2_000)])
    load.end = len(load.slots)
    # some fetches read on past the burst, and then there are the others; a key that is there twice comes twice
    assert load.rounds(8) >= 1_900


def test_a_small_look_ahead_is_no_slots_alone_either() -> None:
    load = Load([HOT] * 1_000 + [50_000], lookahead=100)
    load.end = 1_001
    assert load.fetch("b") == 1


def test_a_hundred_hot_keys_are_no_more_in_the_way_than_one() -> None:
    without, beside = Load(traffic(0)), Load(traffic(0.5, hot=100))
    without.end = beside.end = 150_000
    for load in (without, beside):
        load.rounds(40)
    others = sum(len(offsets) for slot, offsets in beside.order.items() if slot >= 1_000)
    assert others >= 0.8 * sum(len(offsets) for offsets in without.order.values())


@pytest.mark.parametrize("hot", [1, 3])
def test_everything_comes_once_and_in_the_order_of_its_slot(hot: int) -> None:
    load = Load(traffic(0.3, hot=hot, keys=300, records=6_000), lookahead=500)
    load.end = 6_000
    load.drain()


def deepen(count: int = 3_000, **config: Any) -> Load:
    """Behind `count` records of HOT one of b's is read."""
    load = Load([HOT] * count + [50_000] + [HOT] * 10_000, lookahead=1_500, **config)
    load.end = count + 1
    assert [load.fetch("b") for _ in range(count // 20_000 + 1)][-1] == 1
    return load


def test_a_deep_slot_is_told_and_says_why_its_records_wait() -> None:
    load = deepen()
    cursor = load.driver.cursor
    assert cursor.deep() == [Deep(HOT, "a", 3_000)]
    assert load.driver.state(0, 1, 2_999) == ["AVAILABLE", "AVAILABLE", "AVAILABLE"]
    assert (
        cursor.look(2_999).reason
        == "an earlier record of its slot goes first; 2999 earlier records of it wait"
    )
    assert load.driver.poll("a") == [0]
    assert cursor.look(2_999).reason == "a has a record of its slot; 2998 earlier records of it wait"
    assert cursor.look(2_999).consumer == "a"
    assert cursor.deep() == [Deep(HOT, "a", 2_999)]
    assert cursor.stats()["available"] == 2_999


def test_the_records_of_a_deep_slot_come_one_after_the_other() -> None:
    load = deepen()
    for at in range(2_999):
        assert load.driver.poll("a") == [at]
        load.driver.say(ACCEPT, at)
    assert load.driver.cursor.deep() == []
    assert load.driver.poll("a") == [2_999]


def test_a_deep_slot_that_another_owns_now_goes_on_where_it_was() -> None:
    load = deepen()
    driver = load.driver
    assert driver.poll("a") == [0]
    driver.cursor.reassign(all_of("b"), 7)
    assert driver.poll("b") == []
    assert [each.slot for each in driver.cursor.draining()] == [HOT]
    driver.say(ACCEPT, 0)
    for at in range(1, 60):
        assert driver.poll("b") == [at]
        driver.say(ACCEPT, at, by="b")
    assert driver.cursor.deep() == [Deep(HOT, "b", 2_940)]


@pytest.mark.parametrize("delay", [0, 100])
def test_a_nacked_record_of_a_deep_slot_comes_before_all_others_of_it(delay: int) -> None:
    load = deepen(nack_delay_ms=delay, delivery_limit=0)
    driver = load.driver
    for at in range(40):
        assert driver.poll("a") == [at]
        driver.say(RELEASE, at)
        if delay:
            assert driver.poll("a") == []
            assert driver.state(at, at + 1, 2_999) == ["BACKOFF", "BLOCKED", "BLOCKED"]
            driver.pass_time(delay)
        assert driver.poll("a") == [at]
        driver.say(ACCEPT, at)


def test_what_becomes_due_before_the_rest_of_a_deep_slot_goes_first_and_what_lies_behind_later() -> None:
    driver = Load([], lookahead=1_500).driver
    wall = driver.wall
    driver.feed(3_000, [HOT] * 3_000, delayed=[(at, wall + 100) for at in (0, 1, 2_500)])
    assert driver.poll("a") == [2]
    assert driver.cursor.wants_more("b")
    assert driver.cursor.deep() == [Deep(HOT, "a", 2_996)]
    driver.pass_time(100)
    driver.say(ACCEPT, 2)
    seen = []
    while got := driver.poll("a"):
        seen += got
        driver.say(ACCEPT, *got)
    assert seen == [0, 1, *range(3, 3_000)]


def test_a_restart_reads_a_deep_slot_again_in_its_order() -> None:
    load = deepen()
    driver = load.driver
    for at in range(50):
        assert driver.poll("a") == [at]
        driver.say(ACCEPT, at)
    driver.say(ACCEPT, 3_000, by="b")
    driver.crash()
    driver.cursor.reassign(HALVES, 0)
    assert driver.cursor.read == 50
    load.held = {"a": [], "b": []}
    load.end = 3_500
    load.fetch("b")
    assert driver.cursor.read == load.end
    assert driver.cursor.deep() == [Deep(HOT, "a", 3_449)]
    for at in range(50, 100):
        assert driver.poll("a") == [at]
        driver.say(ACCEPT, at)


def test_a_trim_within_a_deep_slot_leaves_the_rest_in_order() -> None:
    load = deepen(40_000)
    driver = load.driver
    assert driver.poll("a") == [0]
    driver.cursor.trimmed(20_000)
    assert driver.poll("a") == [20_000]
    assert [(each.slot, each.waiting < 20_000) for each in driver.cursor.deep()] == [(HOT, True)]
    driver.say(ACCEPT, 20_000)
    assert driver.poll("a") == [20_001]


def test_the_window_bounds_what_a_deep_slot_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "WINDOW", 8)
    load = Load([HOT] * 20_000, lookahead=1_500)
    load.end = 20_000
    for _ in range(10):
        load.fetch("b")
    driver = load.driver
    assert 7 * 1_024 < driver.cursor.read <= 8 * 1_024 + 2_000
    assert driver.cursor.window_full
    assert not driver.cursor.wants_more("b")
    assert not driver.cursor.can_serve("b", load.end)
    for at in range(3 * 1_024):
        assert driver.poll("a") == [at]
        driver.say(ACCEPT, at)
    assert not driver.cursor.window_full
    assert driver.cursor.wants_more("b")
    # what is known from before a start is read again, however much that is
    driver.crash(log_end=load.end)
    driver.cursor.reassign(HALVES, 0)
    known = driver.cursor._records.window.known
    monkeypatch.setattr(deliveries, "WINDOW", 2)
    while driver.cursor.read < known:
        assert driver.cursor.wants_more("b")
        driver.feed(min(500, known - driver.cursor.read), [HOT] * min(500, known - driver.cursor.read))
    assert not driver.cursor.wants_more("b")


def test_slots_that_are_all_alike_stay_shallow() -> None:
    """Where there are few keys, and each has much, the look-ahead is nobody's alone."""
    load = Load([at % 2_000 + 20_000 for at in range(60_000)], lookahead=20_000)
    load.end = 60_000
    for name in "aabb":
        load.fetch(name)
    assert load.driver.cursor.deep() == []
