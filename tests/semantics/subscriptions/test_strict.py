"""What is decided of many records at once is what is decided of them one by one."""

from __future__ import annotations

import random
from array import array
from typing import Any

import numpy as np
import pytest

from semantics.subscriptions import strict
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Batch, Ending
from tests.semantics.subscriptions.driving import ACCEPT, REJECT, RELEASE, WALL, Owners

NAMES = ("a", "b", "c")
FEW = {"one by one": 10**9, "together": 0}


class Pair:
    """Two cursors that are told the same; each answer is compared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, config: SubscriptionConfig) -> None:
        self._patch = monkeypatch
        self.cursors = {way: Cursor.fresh(config, 0) for way in FEW}

    def __getattr__(self, name: str) -> Any:
        def both(*args: Any) -> Any:
            answers = {}
            for way, cursor in self.cursors.items():
                self._patch.setattr(strict, "FEW", FEW[way])
                if name == "say" and way == "together" and self._accept(cursor, *args):
                    answers[way] = None
                else:
                    answers[way] = getattr(cursor, "acknowledge" if name == "say" else name)(*args)
            assert answers["together"] == answers["one by one"], name
            return answers["together"]

        return both

    def _accept(
        self, cursor: Cursor, consumer: str, batches: list[tuple[int, int, bytes]], now: int, wall: int
    ) -> bool:
        if not batches or any(types != ACCEPT for _, _, types in batches):
            return False
        firsts, lasts, _ = zip(*batches, strict=True)
        return cursor.accept(consumer, np.array(firsts, np.int64), np.array(lasts, np.int64))


@pytest.mark.parametrize("keys", [3, 40, 600, 20_000])
@pytest.mark.parametrize("seed", range(3))
def test_both_ways_give_the_same_records_and_rows(
    monkeypatch: pytest.MonkeyPatch, keys: int, seed: int
) -> None:
    dice = random.Random(f"{keys} {seed}")
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
        ),
    )
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
            plane = array("H", [dice.choice(slots) for _ in range(count)])
            later = [(fed + at, wall + 50) for at in range(count) if dice.random() < 0.01]
            pair.feed([Batch(fed, fed + count, plane, later)], now, wall)
            fed += count
        name = dice.choice(NAMES)
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
