"""What is decided of many records at once is what is decided of them one by one."""

from __future__ import annotations

import random
from array import array
from typing import Any

import numpy as np
import pytest

from semantics.subscriptions import deep, strict
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Batch, Ending, Reason
from tests.semantics.subscriptions.driving import ACCEPT, REJECT, RELEASE, WALL, Owners
from tests.semantics.subscriptions.small import KEPT, SHARE

NAMES = ("a", "b", "c")
FEW = {"one by one": 10**9, "together": 0}


class Pair:
    """Two cursors that are told the same; each answer is compared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, config: SubscriptionConfig) -> None:
        self._patch = monkeypatch
        self.cursors = {way: Cursor.fresh(config, 0) for way in FEW}

    def __getattr__(self, name: str) -> Any:
        def both(*args: Any) -> Any:
            answers: dict[str, Any] = {}
            for way, cursor in self.cursors.items():
                self._patch.setattr(strict, "FEW", FEW[way])
                if name == "say" and way == "together" and self._accept(cursor, *args):
                    answers[way] = None
                else:
                    answers[way] = getattr(cursor, "acknowledge" if name == "say" else name)(*args)
                if name == "look":
                    # what lies further ahead is told of deep slots only, and which those are may differ
                    answers[way] = answers[way]._replace(reason=(answers[way].reason or "").partition(";")[0])
            assert answers["together"] == answers["one by one"], name
            return answers["together"]

        return both

    def want(self, consumer: str) -> list[int]:
        """Ask whether more is to be read, which lets slots be deep; how many are. Each way has its own: what was met
        one by one is parked, what was looked at together is in a queue, and the two are not weighed alike.
        """
        for cursor in self.cursors.values():
            cursor.wants_more(consumer)
        return [len(cursor.deep()) for cursor in self.cursors.values()]

    def _accept(
        self, cursor: Cursor, consumer: str, batches: list[tuple[int, int, bytes]], now: int, wall: int
    ) -> bool:
        if not batches or any(types != ACCEPT for _, _, types in batches):
            return False
        firsts, lasts, _ = zip(*batches, strict=True)
        return cursor.accept(consumer, np.array(firsts, np.int64), np.array(lasts, np.int64))


@pytest.mark.parametrize("hot", [0, 0.5])
@pytest.mark.parametrize("keys", [3, 40, 600, 20_000])
@pytest.mark.parametrize("seed", range(3))
def test_both_ways_give_the_same_records_and_rows(
    monkeypatch: pytest.MonkeyPatch, keys: int, seed: int, hot: float
) -> None:
    dice = random.Random(f"{keys} {seed}")
    for name, value in {"KEPT": KEPT, "SHARE": SHARE, "LEAST_GROWN": 1}.items():
        monkeypatch.setattr(deep, name, value)
    monkeypatch.setattr(strict, "LEAST_SCANNED", dice.choice([8, 64, 512]))
    nacks = dice.choice([0, 0.02, 0.3])
    pair = Pair(
        monkeypatch,
        SubscriptionConfig(
            type="key_shared",
            delivery_limit=4,
            nack_delay_ms=dice.choice([0, 30]),
            lock_ms=200,
            max_locks=1_500,
            lookahead=100 if hot else 20_000,
        ),
    )
    most_deep = [0, 0]
    slots = [dice.randrange(65_536) for _ in range(keys)]
    now = 0
    fed = 0
    held: dict[str, list[int]] = {}

    def share_out() -> None:
        some = dice.sample(sorted(held), len(held))
        edges = [0, *sorted(dice.sample(range(1, 65_536), len(some) - 1)), 65_536]
        pair.reassign(Owners(*zip(edges, edges[1:], some, strict=False)), now)

    for name in NAMES:
        pair.attach(name, 0)
        held[name] = []
    share_out()
    for step in range(250):
        now += dice.choice([0, 1, 1, 40])
        wall = WALL + now
        pair.tick(now, wall)
        if fed < 9_000 and dice.random() < 0.6:
            count = dice.choice([1, 3, 70, 300, 1_500])
            plane = array(
                "H", [slots[0] if dice.random() < hot else dice.choice(slots) for _ in range(count)]
            )
            later = [(fed + at, wall + 50) for at in range(count) if dice.random() < 0.01]
            pair.feed([Batch(fed, fed + count, plane, later)], now, wall)
            fed += count
        name = dice.choice(NAMES)
        most_deep = [max(each) for each in zip(most_deep, pair.want(name), strict=True)]
        taken = pair.poll(name, dice.choice([1, 5, 100, 500, 1_000]), now, wall)
        held[name] += [at for first, last, _ in taken for at in range(first, last + 1)]
        name = dice.choice(NAMES)
        mine, held[name] = sorted(set(held[name])), []
        if nacks:
            for kind in (RELEASE, REJECT):
                some = [at for at in mine if dice.random() < nacks / 2]
                pair.say(name, [(at, at, kind) for at in some], now, wall)
                mine = [at for at in mine if at not in set(some)]
        # a lock that ran out refuses all of them, in both ways
        pair.say(name, [(at, at, ACCEPT) for at in mine], now, wall)
        if step % 50 == 49:
            dying = pair.dying(1_000)
            pair.buried([(each.first, each.last) for each in dying])
            gone = dice.choice(NAMES)
            pair.detach(gone, dice.choice(list(Ending)), now, wall)
            pair.attach(gone, now)
            held[gone] = []
            share_out()
            pair.writes()
            pair.stats()
        assert pair.draining() is not None
    for offset in range(0, fed, 97):
        pair.look(offset)
    pair.writes()
    pair.stats()
    assert all(most_deep) == bool(hot)


def test_batches_that_come_together_are_taken_in_as_they_are_one_by_one() -> None:
    dice = random.Random(3)
    slots = [dice.randrange(65_536) for _ in range(50)]
    config = SubscriptionConfig(type="key_shared", delivery_limit=4)
    cursors = [Cursor.fresh(config, 0) for _ in range(2)]
    for cursor in cursors:
        cursor.attach("a", 0)
        cursor.reassign(Owners((0, 65_536, "a")), 0)
    end = 0
    for _ in range(60):
        batches = []
        for _ in range(dice.randrange(1, 12)):
            # now and then there is nothing between two
            first = end + dice.choice([0, 0, 0, 3, 2_000])
            end = first + dice.choice([1, 30, 90, 700])
            batches.append(
                Batch(
                    first,
                    end,
                    array("H", [dice.choice(slots) for _ in range(first, end)]),
                    [(first, WALL + 50)] if dice.random() < 0.3 else (),
                    [(end - 1, end - 1, Reason.MAX_DELIVERIES)] if dice.random() < 0.3 else (),
                    skip=dice.random() < 0.2,
                )
            )
        cursors[0].feed(batches, 0, WALL)
        for batch in batches:
            cursors[1].feed([batch], 0, WALL)
        together, one_by_one = [
            (
                cursor.poll("a", 100, 0, WALL),
                cursor.stats(),
                [cursor.look(at) for at in range(max(cursor.start, end - 3_000), end, 7)],
                cursor.writes(),
            )
            for cursor in cursors
        ]
        assert together == one_by_one
        for cursor, taken in zip(cursors, (together[0], one_by_one[0]), strict=True):
            cursor.acknowledge("a", [(first, last, ACCEPT) for first, last, _ in taken], 0, WALL)
