"""The short form of `make simulate` for queue topics, and the proof that it can fail: broken lanes are found out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proofs.simulate.lanes.sabotage import SABOTAGES, sabotaged
from tests.proofs.simulate.lanes.scenarios import LaneScenario, scenarios
from tests.proofs.simulate.lanes.world import LanesWorld, run

SCENARIOS = {scenario.name: replace(scenario, messages=800) for scenario in scenarios()}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_every_record_ends_once_and_every_delivery_keeps_the_promises(scenario: LaneScenario) -> None:
    world = LanesWorld(scenario, seed=2)
    run(world)
    counts = world.oracle.counts
    # what the run was to go through did happen
    assert counts["acked"] > scenario.messages * 0.8
    assert counts["redelivered"] > 0 or not scenario.nacks
    assert counts["dead"] > 0 or not scenario.bad
    assert counts["left"] + counts["crashed"] > 0 or scenario.leaves < 0.001
    assert counts["nacked"] or not scenario.nacks


@st.composite
def lives(draw: st.DrawFn) -> LaneScenario:
    """Small ones, in which everything meets everything."""
    share = st.sampled_from([0.0, 0.01, 0.1])
    return LaneScenario(
        "any",
        draw(st.sampled_from(["shared", "key_shared"])),
        lanes=draw(st.integers(1, 4)),
        members=draw(st.integers(1, 4)),
        messages=draw(st.integers(20, 150)),
        partitions=draw(st.integers(1, 3)),
        keys=draw(st.integers(1, 12)),
        limit=draw(st.integers(1, 5)),
        nack_ms=draw(st.sampled_from([0, 5, 300])),
        publish=draw(st.sampled_from([0.02, 0.3])),
        poison=tuple(draw(st.lists(st.integers(0, 149), max_size=2))),
        nacks=draw(share),
        leaves=draw(share),
        dies=draw(share),
        stalls=draw(st.sampled_from([0.0, 0.3])),
        repeats=draw(share),
        above=draw(share),
        static=draw(share),
        new=draw(st.sampled_from([0.0, 0.5, 1.0])),
        transacts=draw(st.sampled_from([0.0, 0.5, 1.0])),
        strangers=draw(st.sampled_from([0.0, 0.3, 1.0])),
        aborts=draw(st.sampled_from([0.0, 0.2])),
        forgets=draw(share),
        kills=draw(share),
        fails=draw(share),
        slow=draw(share),
        cold=draw(st.sampled_from([0.0, 0.5])),
        asked=draw(share),
        changes=draw(share),
    )


@given(lives(), st.integers(0, 1000))
def test_any_life_keeps_the_promises(scenario: LaneScenario, seed: int) -> None:
    run(LanesWorld(scenario, seed))


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_broken_promise_is_found_out(name: str) -> None:
    scenario, _ = SABOTAGES[name]
    with sabotaged(name):
        assert any(_is_found_out(LanesWorld(SCENARIOS[scenario], seed)) for seed in range(6))


def _is_found_out(world: LanesWorld) -> bool:
    try:
        run(world, limit=5_000)
    except Exception:  # Broken, or it falls over its own state
        return True
    return False
