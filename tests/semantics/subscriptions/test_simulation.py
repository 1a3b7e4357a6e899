"""The short form of `make simulate`, and the proof that it can fail: cursors that break a promise are found out."""

from __future__ import annotations

import pytest

from tests.proofs.simulate.sabotage import SABOTAGES
from tests.proofs.simulate.scenarios import Scenario, scenarios
from tests.proofs.simulate.world import World

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_every_message_ends_once_and_every_delivery_keeps_the_promises(scenario: Scenario) -> None:
    world = World(scenario, seed=1)
    world.run()
    counts = world.ledger.counts
    # what the run was to go through did happen
    if scenario.administer_ms:
        assert min(counts[each] for each in ("acked", "expired", "sought")) > 0
    else:
        assert counts["acked"] > scenario.messages * 0.8
    assert min(counts[each] for each in ("redelivered", "timed out", "nacked")) > 0
    assert counts["dead" if scenario.config.dead_letters else "dropped"]
    assert world.crashes > 1 or not scenario.crash_every_ms
    assert world.joined > scenario.consumers


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_broken_promise_is_found_out(name: str) -> None:
    cursor, scenario = SABOTAGES[name]
    assert any(_is_found_out(World(SCENARIOS[scenario], seed, cursor)) for seed in range(5))


def _is_found_out(world: World) -> bool:
    try:
        world.run(limit_ms=5 * 60_000)
    except Exception:  # Broken, or it falls over its own state
        return True
    return False
