"""Who may have which record when slots belong to consumers. The default mode is strict."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from semantics.subscriptions.cursor import FILL_UP
from semantics.subscriptions.states import Batch, Draining, Ending, Reason
from tests.semantics.subscriptions.driving import (
    ACCEPT,
    REJECT,
    RELEASE,
    WALL,
    Driver,
    Owners,
    all_of,
    left_over,
)

LOW, HIGH = 10, 60_000
"""a's slot and b's"""


def evenly(names: list[str]) -> Owners:
    edges = [65_536 * place // max(len(names), 1) for place in range(len(names) + 1)]
    return Owners(*((*edge, name) for edge, name in zip(pairwise(edges), names, strict=True)))


HALVES = Owners((0, 32_768, "a"), (32_768, 65_536, "b"))


def keyed(slots: list[int], owners: Owners = HALVES, **config: Any) -> Driver:
    driver = Driver(type="key_shared", **config)
    driver.cursor.reassign(owners, 0)
    driver.feed(len(slots), slots)
    return driver


def test_each_gets_its_own_slots() -> None:
    driver = keyed([LOW, HIGH, LOW + 1, HIGH + 1])
    assert driver.poll("a") == [0, 2]
    assert driver.poll("b") == [1, 3]


def test_nobody_gets_what_nobody_owns() -> None:
    driver = keyed([5, 500, 5], Owners((100, 1_000, "a")))
    assert driver.poll("a") == [1]
    seen = driver.cursor.look(0)
    assert (seen.state, seen.owner, seen.reason) == ("BLOCKED", None, "nobody owns its slot")
    driver.cursor.reassign(all_of("b"), 1)
    assert driver.poll("b") == [0]


def test_who_is_not_named_gets_nothing() -> None:
    driver = keyed([LOW])
    driver.attach("c")
    assert driver.poll("c") == []
    assert not driver.cursor.can_serve("c", 1)


def test_strict_has_one_of_a_key_in_hand() -> None:
    driver = keyed([LOW, LOW, LOW, LOW + 1])
    assert driver.poll("a") == [0, 3]
    assert driver.state(1, 2) == ["BLOCKED", "BLOCKED"]
    assert driver.cursor.look(1).reason == "a has a record of its slot"
    driver.say(ACCEPT, 0)
    assert driver.state(1, 2) == ["AVAILABLE", "BLOCKED"]
    assert driver.poll("a") == [1]


def test_strict_holds_a_key_back_while_an_earlier_one_waits_after_a_nack() -> None:
    driver = keyed([LOW, LOW], nack_delay_ms=100)
    driver.poll("a")
    driver.say(RELEASE, 0)
    assert driver.poll("a") == []
    assert "nacked" in (driver.cursor.look(1).reason or "")
    driver.pass_time(100)
    assert driver.poll("a") == [0]
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == [1]


def test_strict_holds_a_key_back_until_its_dead_are_buried() -> None:
    driver = keyed([LOW, LOW])
    driver.poll("a")
    driver.say(REJECT, 0)
    assert driver.poll("a") == []
    [dying] = driver.cursor.dying(9)
    driver.cursor.not_buried([(dying.first, dying.last)], "full", WALL + 50)
    assert driver.poll("a") == []
    driver.pass_time(50)
    driver.cursor.dying(9)
    driver.cursor.buried([(0, 0)])
    assert driver.poll("a") == [1]


def test_strict_lets_an_earlier_record_go_before_one_that_waits_behind_it() -> None:
    driver = keyed([], nack_delay_ms=1_000, delivery_limit=3)
    driver.feed(4, [LOW] * 4, delayed=[(0, WALL + 100), (1, WALL + 200)])
    assert driver.poll("a") == [2]
    driver.pass_time(100)
    assert driver.poll("a") == []
    driver.say(RELEASE, 2)
    assert driver.state(0, 2, 3) == ["AVAILABLE", "BACKOFF", "BLOCKED"]
    assert driver.poll("a") == [0]
    driver.say(RELEASE, 0)
    driver.pass_time(100)
    # 1 is behind 0, which waits now
    assert driver.poll("a") == []
    driver.pass_time(900)
    assert driver.poll("a") == [0]
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == [1]
    driver.say(ACCEPT, 1)
    assert driver.poll("a") == [2]
    driver.say(ACCEPT, 2)
    assert driver.poll("a") == [3]


def test_strict_lets_an_earlier_record_go_before_a_dead_one_that_cannot_be_buried() -> None:
    driver = keyed([])
    driver.feed(3, [LOW] * 3, delayed=[(0, WALL + 100)])
    assert driver.poll("a") == [1]
    driver.say(REJECT, 1)
    driver.cursor.dying(9)
    driver.cursor.not_buried([(1, 1)], "full", WALL + 10**9)
    driver.pass_time(100)
    assert driver.poll("a") == [0]
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == []
    driver.crash()
    driver.cursor.reassign(HALVES, driver.now)
    driver.feed(3, [LOW] * 3)
    assert driver.poll("a") == []
    driver.cursor.dying(9)
    driver.cursor.buried([(1, 1)])
    assert driver.poll("a") == [2]


@pytest.mark.parametrize("crash", [False, True])
def test_what_cannot_be_opened_has_no_key_and_holds_nobody_back(crash: bool) -> None:
    driver = keyed([])
    driver.cursor.feed([Batch(0, 3, None, dead=[(0, 2, Reason.CORRUPT)])], 0, WALL)
    driver.feed(2, [0, 0])
    if crash:
        driver.crash()
        driver.cursor.reassign(HALVES, driver.now)
        driver.cursor.feed([Batch(0, 3, None, dead=[(0, 2, Reason.CORRUPT)])], 0, WALL)
        driver.feed(2, [0, 0])
    driver.cursor.dying(2)
    driver.cursor.not_buried([(0, 1)], "full", WALL + 10**9)
    assert (driver.cursor.look(2).slot, driver.cursor.look(2).owner) == (None, None)
    assert driver.poll("a") == [3]
    driver.say(ACCEPT, 3)
    assert driver.poll("a") == [4]


def test_strict_waits_for_the_dead_of_a_batch_just_read() -> None:
    driver = keyed([])
    driver.feed(3, [LOW, LOW, LOW], dead=[(0, 1, Reason.MAX_DELIVERIES)])
    assert driver.poll("a") == []
    driver.cursor.dying(9)
    driver.cursor.buried([(0, 0)])
    assert driver.poll("a") == []
    driver.cursor.buried([(1, 1)])
    assert driver.poll("a") == [2]


def test_without_dead_letters_a_dropped_record_frees_its_key() -> None:
    driver = keyed([LOW, LOW], dead_letters=False)
    driver.poll("a")
    driver.say(REJECT, 0)
    assert driver.poll("a") == [1]


def test_not_strict_gives_its_holder_more_of_a_key_in_order() -> None:
    driver = keyed([LOW, LOW, LOW], strict=False, nack_delay_ms=100)
    assert driver.poll("a", 2) == [0, 1]
    driver.say(RELEASE, 0)
    assert driver.poll("a") == [2]  # a nack with a wait holds nothing back, as in Pulsar
    driver.pass_time(100)
    assert driver.poll("a") == [0]


@pytest.mark.parametrize("strict", [True, False])
def test_a_slot_drains_before_its_new_owner_gets_of_it(strict: bool) -> None:
    driver = keyed([LOW, LOW, HIGH], strict=strict)
    driver.poll("a", 1)
    driver.cursor.reassign(all_of("b"), 77)
    assert driver.cursor.draining() == [Draining(LOW, "a", "b", 77, 1)]
    assert driver.poll("b") == [2]
    assert driver.cursor.look(1).consumer == "a"
    driver.cursor.reassign(all_of("b"), 99)
    assert driver.cursor.draining()[0].since == 77
    driver.say(ACCEPT, 0)
    assert driver.cursor.draining() == []
    assert driver.poll("b") == [1]


def test_a_slot_that_comes_home_is_not_draining() -> None:
    driver = keyed([LOW, LOW], strict=False)
    driver.poll("a", 1)
    driver.cursor.reassign(all_of("b"), 5)
    assert driver.poll("b") == []
    driver.cursor.reassign(HALVES, 6)
    assert driver.cursor.draining() == []
    assert driver.poll("a") == [1]


def test_how_many_a_draining_slot_has_in_hand() -> None:
    driver = keyed([LOW] * 5, strict=False)
    driver.poll("a", 3)
    driver.cursor.reassign(all_of("b"), 5)
    assert driver.cursor.draining() == [Draining(LOW, "a", "b", 5, 3)]
    driver.say(ACCEPT, 1)
    driver.say(RELEASE, 2)
    assert driver.poll("b") == []
    assert driver.cursor.draining() == [Draining(LOW, "a", "b", 5, 1)]
    driver.say(ACCEPT, 0)
    assert driver.poll("b") == [2, 3, 4]


def test_out_of_order_does_not_wait_for_other_holders() -> None:
    driver = keyed([LOW, LOW], allow_out_of_order=True)
    driver.poll("a", 1)
    driver.cursor.reassign(all_of("b"), 5)
    assert driver.poll("b") == [1]
    assert driver.cursor.draining() == []


def test_what_a_crash_leaves_goes_before_what_waited_for_it() -> None:
    for strict in (True, False):
        driver = keyed([LOW, LOW, LOW], strict=strict)
        driver.poll("a", 1)
        driver.poll("a", 1)
        driver.cursor.detach("a", Ending.CRASHED, 1, WALL)
        driver.cursor.reassign(all_of("b"), 1)
        assert driver.poll("b", 1) == [0]
        driver.say(ACCEPT, 0, by="b")
        assert driver.poll("b", 1) == [1]


def test_a_delayed_record_goes_first_when_it_is_due_before_the_next_is_taken() -> None:
    driver = keyed([])
    driver.feed(4, [LOW] * 4, delayed=[(0, WALL + 100)])
    assert driver.poll("a") == [1]
    driver.pass_time(100)
    assert driver.poll("a") == []
    driver.say(RELEASE, 1)
    assert driver.poll("a") == [0]
    assert driver.state(1) == ["BLOCKED"]
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == [1]


def test_the_look_ahead_is_bounded_and_delayed_records_are_not_in_it() -> None:
    driver = keyed([LOW] * 10, lookahead=10)
    driver.poll("a")
    assert driver.cursor.wants_more("b")
    driver.feed(1, [LOW])
    assert not driver.cursor.wants_more("b")
    assert not driver.cursor.can_serve("b", 99)
    driver.say(ACCEPT, 0)
    driver.poll("a")
    assert driver.cursor.wants_more("b")
    driver.feed(50, [LOW] * 50, delayed=[(at, WALL + 100) for at in range(11, 61)])
    assert driver.cursor.wants_more("b")


def test_far_ahead_is_read_for_who_has_nothing_and_not_to_bring_more_to_who_has() -> None:
    slots = list(range(FILL_UP))
    driver = keyed(slots)
    driver.poll("a", 1)
    assert driver.cursor.wants_more("b", given=1)
    driver.feed(1, [LOW])
    assert not driver.cursor.wants_more("b", given=1)
    assert driver.cursor.wants_more("b")


def test_a_seek_keeps_the_owners() -> None:
    driver = keyed([LOW, HIGH])
    driver.poll("a")
    driver.cursor.seek(0)
    driver.feed(2, [LOW, HIGH])
    assert driver.poll("a") == [0]
    assert driver.poll("b") == [1]


def test_a_trim_frees_the_slots_of_what_it_takes() -> None:
    driver = keyed([LOW, LOW, LOW, HIGH])
    driver.poll("a")
    driver.cursor.trimmed(2)
    assert driver.poll("a") == [2]
    assert driver.poll("b") == [3]


def test_strictness_may_change_while_records_are_in_hand() -> None:
    driver = keyed([LOW] * 6, strict=False)
    driver.poll("a", 2)
    driver.cursor.reconfigure(Driver(type="key_shared").config)
    assert driver.poll("a") == []
    driver.say(ACCEPT, 0)
    assert driver.poll("a") == []
    driver.say(ACCEPT, 1)
    assert driver.poll("a") == [2]
    driver.cursor.reconfigure(Driver(type="key_shared", allow_out_of_order=True).config)
    driver.cursor.reassign(all_of("b"), 0)
    assert driver.poll("b", 1) == [3]
    driver.cursor.reconfigure(Driver(type="key_shared", strict=False).config)
    assert driver.poll("b") == []
    assert driver.cursor.look(4).reason == "several have records of its slot"
    driver.say(ACCEPT, 2)
    driver.say(ACCEPT, 3, by="b")
    assert driver.poll("b") == [4, 5]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", [{"strict": True}, {"strict": False}, {"allow_out_of_order": True}])
def test_under_load_all_is_delivered_and_keys_keep_their_order(mode: dict[str, bool], seed: int) -> None:
    """Consumers take, nack, crash, leave and join over many chunks. First deliveries of a slot ascend (unless out of
    order is allowed), nobody has a slot that another holds, and everything ends.
    """
    dice = random.Random(seed)
    driver = keyed([], HALVES, nack_delay_ms=20, delivery_limit=0, max_locks=500, lookahead=2_000, **mode)
    slots = [dice.randrange(65_536) for _ in range(200)]
    total = 20_000
    slot_of: dict[int, int] = {}
    names = ["a", "b"]
    held: dict[str, set[int]] = {name: set() for name in names}
    settled: set[int] = set()
    first_seen: dict[int, list[int]] = {}
    delivered: set[int] = set()
    rounds = 0
    while len(settled) < total:
        rounds += 1
        assert rounds < 20_000
        if dice.random() < 0.02 or not names:
            if names and (len(names) > 4 or dice.random() < 0.5):
                leaver = names.pop(dice.randrange(len(names)))
                driver.cursor.detach(leaver, dice.choice(list(Ending)), driver.now, driver.wall)
                held.pop(leaver)
            else:
                name = f"c{rounds}"
                names.append(name)
                held[name] = set()
                driver.attach(name)
            driver.cursor.reassign(evenly(names), driver.now)
            continue
        name = dice.choice(names)
        while driver.cursor.read < total and driver.cursor.wants_more(name):
            count = min(dice.randrange(1, 400), total - driver.cursor.read)
            chosen = [dice.choice(slots) for _ in range(count)]
            slot_of.update(enumerate(chosen, driver.cursor.read))
            driver.feed(count, chosen)
        offsets = driver.poll(name, dice.choice([1, 5, 100, 1_000]))
        for offset in offsets:
            slot = slot_of[offset]
            if not mode.get("allow_out_of_order"):
                others = [at for who, some in held.items() if who != name for at in some]
                assert slot not in {slot_of[at] for at in others}
            if offset not in delivered:
                delivered.add(offset)
                first_seen.setdefault(slot, []).append(offset)
            held[name].add(offset)
        if mode.get("strict"):
            of_slots = [slot_of[at] for some in held.values() for at in some]
            assert len(of_slots) == len(set(of_slots))
        for offset in sorted(held[name]):
            if dice.random() < 0.7:
                kind = ACCEPT if dice.random() < 0.9 else RELEASE
                assert driver.say(kind, offset, by=name) is None
                held[name].remove(offset)
                if kind == ACCEPT:
                    settled.add(offset)
        driver.pass_time(dice.randrange(5))
    assert driver.cursor.start == driver.cursor.read == total
    if not mode.get("allow_out_of_order"):
        assert all(before < after for seen in first_seen.values() for before, after in pairwise(seen))
    keyed_state = driver.cursor._keyed
    assert keyed_state is not None
    assert keyed_state.queued == 0
    assert not left_over(keyed_state)
