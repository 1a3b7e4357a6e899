"""The dispatcher of lanes against a list of records that is looked through for each poll."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from semantics.subscriptions import in_order
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.in_order import InOrder
from semantics.subscriptions.states import Batch, Ending, Reason
from tests.examples import FACTOR
from tests.semantics.subscriptions.driving import ACCEPT, REJECT, RELEASE, WALL, Driver, Owners

NAMES = ("lane 0", "lane 1", "lane 2")
TRUSTEE = "transaction t"
SLOTS = (0, 1, 2, 3, 30_000, 60_000)


@dataclass
class Record:
    slot: int
    state: str = "available"
    holder: str | None = None
    count: int = 0
    due: int = 0


class Plain:
    """What the page says, in its plainest form."""

    def __init__(self, limit: int, nack_ms: int) -> None:
        self.records: list[Record] = []
        self.limit, self.nack_ms = limit, nack_ms
        self.owners: dict[int, str] = {}
        # slots of which somebody else than the owner has had records, since when nobody has had none
        self.draining: set[int] = set()

    def look(self, *, anew: bool = False) -> None:
        """Which slots drain now. `anew`: they have other owners."""
        inside = [record for record in self.records if record.state == "held"]
        self.draining &= set() if anew else {record.slot for record in inside}
        self.draining |= {each.slot for each in inside if each.holder != self.owners[each.slot]}

    def may(self, offset: int, consumer: str) -> bool:
        record = self.records[offset]
        if record.state != "available" or self.owners.get(record.slot) != consumer:
            return False
        return not any(
            other.slot == record.slot
            and (
                (other.state == "held" and (other.holder != consumer or other.slot in self.draining))
                or (at < offset and other.state in ("backoff", "dying"))
            )
            for at, other in enumerate(self.records)
        )

    def poll(self, consumer: str, limit: int) -> list[int]:
        found = [at for at in range(len(self.records)) if self.may(at, consumer)][:limit]
        for at in found:
            self.records[at].state, self.records[at].holder = "held", consumer
        return found

    def fail(self, record: Record, now: int, wait: int) -> None:
        record.count += 1
        record.holder = None
        if self.limit and record.count >= self.limit:
            record.state = "dying"
        elif wait:
            record.state, record.due = "backoff", now + wait
        else:
            record.state = "available"

    def tick(self, now: int) -> None:
        for record in self.records:
            if record.state == "backoff" and record.due <= now:
                record.state = "available"


def owners_of(dice: random.Random) -> tuple[Owners, dict[int, str]]:
    edges = [0, *sorted(dice.sample(range(1, 65_536), 2)), 65_536]
    if dice.random() < 0.5:
        edges = [0, *sorted(dice.sample([1, 2, 3, 4, 20_000, 50_000], 2)), 65_536]
    names = dice.sample(NAMES, 3)
    ranges = list(zip(edges, edges[1:], names, strict=False))
    return Owners(*ranges), {
        slot: name for slot in SLOTS for begin, end, name in ranges if begin <= slot < end
    }


@pytest.mark.parametrize("seed", range(60 * FACTOR))
def test_each_poll_gives_what_the_rules_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(in_order, "LEAST_SCANNED", dice.choice([1, 4, 512]))
    limit, nack_ms = dice.choice([0, 2, 3]), dice.choice([0, 50])
    config = SubscriptionConfig(
        type="key_shared",
        lanes=True,
        delivery_limit=limit,
        nack_delay_ms=nack_ms,
        max_locks=10**6,
        receiver_queue=10**6,
        lock_ms=10**9,
    )
    cursor, plain, now = Cursor.fresh(config, 0), Plain(limit, nack_ms), 0
    owners, plain.owners = owners_of(dice)
    for name in NAMES:
        cursor.attach(name, 0)
    cursor.reassign(owners, 0)
    for _ in range(120):
        what = dice.random()
        if what < 0.2:
            slots = [dice.choice(SLOTS) for _ in range(dice.randrange(1, 12))]
            first = len(plain.records)
            cursor.feed([Batch(first, first + len(slots), array("H", slots))], now, WALL + now)
            plain.records += [Record(slot) for slot in slots]
        elif what < 0.55:
            name, room = dice.choice(NAMES), dice.choice([1, 2, 5, 100])
            expected = plain.poll(name, room)
            found = [
                at
                for first, last, _ in cursor.poll(name, room, now, WALL + now)
                for at in range(first, last + 1)
            ]
            assert found == expected
        elif what < 0.85:
            name = dice.choice(NAMES)
            mine = [at for at, record in enumerate(plain.records) if record.holder == name]
            chosen = sorted(dice.sample(mine, dice.randrange(len(mine) + 1)))
            kind = dice.choice([ACCEPT, ACCEPT, RELEASE, REJECT])
            if not chosen:
                continue
            if kind == ACCEPT and dice.random() < 0.5:
                offsets = np.array(chosen, np.int64)
                assert cursor.accept(name, offsets, offsets)
            else:
                assert cursor.acknowledge(name, [(at, at, kind) for at in chosen], now, WALL + now) is None
            for at in chosen:
                record = plain.records[at]
                if kind == RELEASE:
                    plain.fail(record, now, nack_ms)
                else:
                    record.state, record.holder = ("done" if kind == ACCEPT else "dying"), None
        elif what < 0.9:
            now += dice.choice([10, 60])
            cursor.tick(now, WALL + now)
            plain.tick(now)
        elif what < 0.92:
            name = dice.choice(NAMES)
            cursor.detach(name, Ending.CRASHED, now, WALL + now)
            cursor.attach(name, now)
            for record in plain.records:
                if record.holder == name:
                    plain.fail(record, now, 0)
        elif what < 0.94:
            owners, plain.owners = owners_of(dice)
            cursor.reassign(owners, now)
            plain.look(anew=True)
        elif what < 0.96:
            name = dice.choice(NAMES)
            mine = [at for at, record in enumerate(plain.records) if record.holder == name]
            chosen = sorted(dice.sample(mine, dice.randrange(len(mine) + 1)))
            said = [(at, at) for at in chosen]
            assert cursor.entrust(name, TRUSTEE, said, now) == said
            for at in chosen:
                plain.records[at].holder = TRUSTEE
        elif what < 0.98:
            committed = dice.random() < 0.5
            theirs = [at for at, record in enumerate(plain.records) if record.holder == TRUSTEE]
            if committed:
                cursor.settle(TRUSTEE, [(at, at) for at in theirs], now, WALL + now)
            cursor.detach(TRUSTEE, Ending.CRASHED, now, WALL + now)
            for at in theirs:
                record = plain.records[at]
                if committed:
                    record.state, record.holder = "done", None
                else:
                    plain.fail(record, now, 0)
        else:
            buried = cursor.dying(2)
            cursor.buried([each[:2] for each in buried])
            for first, last, *_ in buried:
                for at in range(first, last + 1):
                    assert plain.records[at].state == "dying"
                    plain.records[at].state = "done"
        plain.look()
        assert {each.slot for each in cursor.draining()} == plain.draining


def lanes(**config: Any) -> Driver:
    driver = Driver(type="key_shared", lanes=True, lock_ms=10**9, max_locks=10**6, **config)
    driver.cursor.reassign(Owners((0, 30_000, "a"), (30_000, 65_536, "b")), 0)
    return driver


def test_many_records_of_a_key_are_in_one_hand_in_their_order() -> None:
    driver = lanes()
    driver.feed(6, [5, 5, 40_000, 5, 5, 5])
    assert driver.poll("a", 3) == [0, 1, 3]
    assert driver.poll("a", 3) == [4, 5]
    assert driver.poll("b") == [2]


def test_behind_a_nack_nothing_of_the_key_is_given() -> None:
    driver = lanes(nack_delay_ms=1_000)
    driver.feed(5, [5, 5, 6, 5, 6])
    assert driver.poll("a", 2) == [0, 1]
    driver.say(RELEASE, 0)
    # 1 is in hand already; 3 waits, and the other key does not
    assert driver.poll("a") == [2, 4]
    driver.feed(2, [5, 6])
    assert driver.poll("a") == [6]
    driver.say(ACCEPT, 1)
    assert driver.poll("a") == []
    driver.pass_time(1_000)
    assert driver.poll("a") == [0, 3, 5]


def test_a_key_that_is_held_up_for_long_costs_nothing_while_it_waits() -> None:
    driver = lanes(nack_delay_ms=60_000, lookahead=100)
    driver.feed(1, [5])
    driver.poll("a")
    driver.say(RELEASE, 0)
    for _ in range(50):
        assert driver.cursor.wants_more("a")
        driver.feed(100, [5] * 99 + [6])
        assert len(driver.poll("a")) == 1
        assert driver.cursor.waiting_ahead == 0
    keyed = driver.cursor._records.keyed
    assert isinstance(keyed, InOrder)
    assert len(keyed._aside) == 1
    driver.pass_time(60_000)
    came = driver.poll("a")
    while more := driver.poll("a"):
        came += more
    assert came == sorted(came)
    assert len(came) == 1 + 50 * 99


def test_what_comes_back_from_the_planes_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "FETCHED", 10)
    driver = lanes(nack_delay_ms=1_000)
    driver.feed(1, [5])
    driver.poll("a")
    driver.say(RELEASE, 0)
    driver.feed(3_000, [5, 6, 7] * 1_000)
    assert len(driver.poll("a")) == 2_000
    driver.pass_time(1_000)
    came: list[int] = []
    while len(came) < 21:
        came += driver.poll("a", 7)
    assert came == [0, *range(1, 61, 3)]
    # held up once more in the middle
    driver.say(RELEASE, 58)
    driver.feed(2, [5, 5])
    assert driver.poll("a") == []
    driver.pass_time(1_000)
    came = []
    while some := driver.poll("a", 7):
        came += some
    assert came == [58, *range(61, 3_001, 3), 3_001, 3_002]


def test_a_slot_moves_when_nothing_of_it_is_in_hand() -> None:
    driver = lanes()
    driver.feed(3, [5, 5, 5])
    assert driver.poll("a", 2) == [0, 1]
    driver.cursor.reassign(Owners((0, 65_536, "b")), 0)
    assert driver.poll("b") == []
    assert [(each.slot, each.holder, each.in_hand) for each in driver.cursor.draining()] == [(5, "a", 2)]
    assert driver.cursor.look(2).reason == "a has a record of its slot"
    driver.say(ACCEPT, 0)
    assert driver.poll("b") == []
    driver.say(ACCEPT, 1)
    assert driver.poll("b") == [2]


def test_what_cannot_be_read_is_in_nobodys_way() -> None:
    driver = lanes()
    driver.feed(1, [5], dead=[(0, 0, Reason.CORRUPT)])
    driver.feed(1, [5])
    assert driver.poll("a") == [1]


def test_after_a_restart_what_is_stored_holds_back_as_before() -> None:
    driver = lanes(nack_delay_ms=1_000)
    driver.feed(4, [5, 6, 5, 6])
    driver.poll("a", 1)
    driver.say(RELEASE, 0)
    driver.commit()
    driver.restart()
    driver.load_due()
    driver.cursor.reassign(Owners((0, 65_536, "a")), 0)
    driver.feed(4, [5, 6, 5, 6])
    assert driver.poll("a") == [1, 3]
    driver.pass_time(1_000)
    assert driver.poll("a") == [0, 2]
