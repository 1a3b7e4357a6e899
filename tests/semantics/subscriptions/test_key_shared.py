"""Who may have which record when slots belong to consumers. Strict by default; what holds a key back: test_slots.py."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from semantics.subscriptions.deliveries import FILL_UP
from semantics.subscriptions.states import Draining, Ending
from tests.semantics.subscriptions.driving import (
    ACCEPT,
    HALVES,
    HIGH,
    LOW,
    RELEASE,
    WALL,
    Driver,
    Owners,
    all_of,
    evenly,
    keyed,
    left_over,
)


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
    keyed_state = driver.cursor._records.keyed
    assert keyed_state is not None
    assert keyed_state.queued == 0
    assert not left_over(keyed_state)
