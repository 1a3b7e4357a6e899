"""The proof in short: some kills of each kind, and gateways that break a promise, which must be noticed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.proofs.soak.run import Failed, Plan, Soak
from tests.proofs.soak.sabotage import SABOTAGES
from tests.proofs.soak.steps import STEPS, When

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed_under_load(
    tmp_path: Path, durability: str
) -> None:
    seed = random.randrange(1 << 31)
    # the moments that matter most, and a few others
    named = [step for step in STEPS if step.name in ("segment.half", "writebatch.before", "writebatch.after")]
    others = random.Random(seed).sample([step for step in STEPS if step.when is When.SERVING], 2)
    steps = tuple(step._replace(passes=((1, 1),)) for step in [*named, *others])
    soak = Soak(Plan(seed, kills=3, durabilities=(durability,), steps=steps, quiet=True), tmp_path)
    try:
        soak.run()
    except Failed as error:
        pytest.fail(f"{error} (seed {seed})\n" + "\n".join(soak.violations))
    assert soak.figures.random_kills >= 3
    assert soak.figures.step_kills == len(steps)
    assert soak.oracle.seen["acknowledged"] > 0
    assert soak.oracle.seen["read again"] > 0


@pytest.mark.parametrize("promise", sorted(SABOTAGES))
def test_a_broken_promise_is_noticed(tmp_path: Path, promise: str) -> None:
    soak = Soak(Plan(1, kills=30, durabilities=("os",), steps=(), sabotage=promise, quiet=True), tmp_path)
    with pytest.raises(Failed):
        soak.run()
    assert soak.violations
