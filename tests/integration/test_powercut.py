"""A short form of `make powercut`: one short recording a policy, a few images of each; and a gateway that cheats."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.proofs.powercut import again, cuts, order, recording, served
from tests.proofs.powercut.__main__ import worst
from tests.proofs.powercut.cuts import Cut, Tally

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
    assert bool(checked.checked["batches"]) == (policy != "os")
    assert bool(checked.checked["acknowledgements"]) == (policy == "fsync")
    assert bool(checked.checked["policies said"]) == (policy == "fsync")
    assert bool(checked.checked["ends of transactions"]) == (policy == "fsync")
    assert checked.checked[order.COMMITS]
    chosen = cuts.choose(made, 30, 7)
    tally = examined(made, chosen)
    assert tally.images > 30, "a recovery was cut too"
    assert tally.failed == []
    assert tally.seen["dead letters"], "images with dead letters"
    assert tally.seen["settled by lanes"], "images with what lanes have settled"
    assert tally.seen["ended topics"], "images with topics that have ended"
    assert tally.seen["expired messages"], "images with messages that have expired"
    assert tally.seen["committed transactions"], "images with transactions"
    assert tally.seen["aborted transactions"], "images with transactions that were aborted"
    assert (tally.lossy == 0) == (policy == "fsync"), "under os some images lost something"
    assert served.look(made, served.some(chosen, 1)).failed == []


@pytest.mark.parametrize("broken", ["no-wal-sync", "no-segment-sync"])
def test_a_gateway_that_skips_a_sync_is_found_out(tmp_path: Path, broken: str) -> None:
    made = recording.record(tmp_path / "recording", "fsync", 0.7, 7, broken=broken)
    violations = order.Order(made).run().violations
    assert any("bytes are" in text or "rows are" in text for text in violations)
    assert any("acknowledgement" in text for text in violations) == (broken == "no-wal-sync")
    assert examined(made, worst(made, 10, 7)).failed


def test_a_gateway_that_buries_in_two_commits_is_found_out(tmp_path: Path) -> None:
    made = recording.record(tmp_path / "recording", "fsync", 1.0, 7, broken="bury-in-two")
    assert any("have ended unaccepted" in text for text in order.Order(made).run().violations)
    chosen = worst(made, 15, 7)
    tally = examined(made, chosen)
    assert any("dead letter" in problem for _, problems in tally.failed for problem in problems)
    _made_again(made, next(cut for cut in chosen if str(cut) in dict(tally.failed)), tmp_path / "image")


def test_a_gateway_that_stores_lanes_apart_from_cursors_is_found_out(tmp_path: Path) -> None:
    made = recording.record(tmp_path / "recording", "fsync", 1.5, 7, broken="lanes-in-two")
    tally = examined(made, worst(made, 25, 7))
    assert any("lane" in problem for _, problems in tally.failed for problem in problems)


def test_a_gateway_that_tears_transactions_is_found_out(tmp_path: Path) -> None:
    made = recording.record(tmp_path / "recording", "fsync", 0.7, 7, broken="tear-transactions")
    tally = examined(made, worst(made, 10, 7))
    assert any("is torn" in problem for _, problems in tally.failed for problem in problems)


@pytest.mark.parametrize(
    ("broken", "words"), [("halve-policies", "half said"), ("names-in-two", "is known to have sent")]
)
def test_a_gateway_that_stores_of_policies_in_two_commits_what_is_one_is_found_out(
    tmp_path: Path, broken: str, words: str
) -> None:
    made = recording.record(tmp_path / "recording", "fsync", 0.7, 7, broken=broken)
    tally = examined(made, worst(made, 10, 7))
    assert any(words in problem for _, problems in tally.failed for problem in problems)


def _made_again(made: recording.Recording, cut: Cut, target: Path) -> None:
    """A wrong image, and those of its recovery, can be looked at with what was kept."""
    tally = cuts.look(made, [cut], again=1)
    said = [text for text, _ in tally.failed]
    assert any("recovery-" in text for text in said)
    for text in said:
        *_, kept = ["", *(part for part in text.split() if part.startswith("recovery-"))]
        given = text[text.rindex("--cut") :].split()
        found = CliRunner().invoke(again.main, [str(made.folder / kept), str(target), *given])
        assert found.exit_code == 1, found.output
        assert target.with_name(f"{target.name}.before").is_dir()
        shutil.rmtree(target)
        shutil.rmtree(target.with_name(f"{target.name}.before"))
