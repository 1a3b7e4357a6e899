"""A short form of `make powercut`: one short recording a policy, a few images of each; and a gateway that cheats."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.proofs.powercut import cuts, order, recording, served
from tests.proofs.powercut.__main__ import worst
from tests.proofs.powercut.cuts import Tally

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="the recorder is preloaded, as only Linux does it"),
]


def examined(made: recording.Recording, chosen: list[cuts.Cut]) -> Tally:
    tally = Tally()
    for part in cuts.all_of(made, chosen, 1):
        tally.merge(part)
    return tally


@pytest.mark.parametrize("policy", recording.POLICIES)
def test_nothing_acknowledged_is_lost_and_nothing_is_half_there(tmp_path: Path, policy: str) -> None:
    made = recording.record(tmp_path / "recording", policy, 1.0, 7)
    assert recording.complete(made) == [], "the recorder saw everything"
    checked = order.Order(made).run()
    assert checked.violations == []
    assert (checked.checked["batches"] > 100) == (policy != "os")
    chosen = cuts.choose(made, 30, 7)
    tally = examined(made, chosen)
    assert tally.images > 30, "a recovery was cut too"
    assert tally.failed == []
    assert tally.seen["dead letters"], "images with dead letters"
    assert (tally.lossy == 0) == (policy == "fsync"), "under os some images lost something"
    assert served.look(made, served.some(chosen, 1)).failed == []


@pytest.mark.parametrize("broken", ["no-wal-sync", "no-segment-sync"])
def test_a_gateway_that_skips_a_sync_is_found_out(tmp_path: Path, broken: str) -> None:
    made = recording.record(tmp_path / "recording", "fsync", 0.7, 7, broken=broken)
    assert order.Order(made).run().violations
    assert examined(made, worst(made, 10, 7)).failed


def test_a_gateway_that_buries_in_two_commits_is_found_out(tmp_path: Path) -> None:
    made = recording.record(tmp_path / "recording", "fsync", 1.0, 7, broken="bury-in-two")
    tally = examined(made, worst(made, 15, 7))
    assert any("dead letter" in problem for _, problems in tally.failed for problem in problems)
