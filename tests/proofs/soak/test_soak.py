"""The proof in short: some kills of each kind, and gateways that break a promise, which must be noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.soak.loads import KINDS
from tests.proofs.soak.run import Failed, Plan, Soak
from tests.proofs.soak.steps import STEPS

pytestmark = pytest.mark.integration
NEWER = ("late", "ring", "compacted", "acked")
"""Kinds that have a short run of their own: all at once have too little of the machine."""
LONGER = ("lane_acks",)
"""Kinds that take half a minute to come to rest: `make soak` alone has them."""


def test_nothing_acknowledged_is_lost_when_the_process_is_killed_under_load(tmp_path: Path) -> None:
    seed = 20261122
    # the moments that matter most; `make soak` has them all, and other seeds
    named = [step for step in STEPS if step.name in ("segment.half", "ack.stored")]
    steps = tuple(step._replace(passes=((1, 1),)) for step in named)
    kinds = tuple(kind for kind in KINDS if kind not in (*NEWER, *LONGER))
    soak = Soak(Plan(seed, kills=2, steps=steps, kinds=kinds, quiet=True), tmp_path)
    try:
        soak.run()
    except Failed as error:
        pytest.fail(f"{error} (seed {seed})\n" + "\n".join(soak.violations))
    assert soak.figures.random_kills >= 2
    assert soak.figures.step_kills == 2 * len(steps)
    assert soak.oracle.seen["acknowledged"] > 0
    assert soak.oracle.seen["read again"] > 0
    assert soak.oracle.seen["share redeliveries"] > 0
    assert soak.oracle.seen["dead letters"] > 0
    assert soak.oracle.seen["transactions whole"] > 0
    assert soak.oracle.seen["transactions aborted"] > 0
    assert soak.oracle.seen["queue acknowledgements"] > 0
    assert soak.oracle.seen["queue deliveries read again"] > 0


def test_transactions_are_whole_when_requests_come_late_and_the_process_is_killed(tmp_path: Path) -> None:
    seed = 20261141
    soak = Soak(Plan(seed, kills=1, steps=(), durabilities=("os",), kinds=NEWER, quiet=True), tmp_path)
    try:
        soak.run()
    except Failed as error:
        pytest.fail(f"{error} (seed {seed})\n" + "\n".join(soak.violations))
    assert soak.oracle.seen["late transactions whole"] > 0
    assert soak.world.late["EndTxn"] > 0
    assert soak.world.late["Produce"] > 0
    assert soak.oracle.seen["zombies"] > 0
    assert soak.oracle.seen["hops"] > 0
    assert soak.oracle.seen["records compacted away"] > 0
    assert soak.oracle.seen["messages acknowledged in transactions"] > 0


@pytest.mark.parametrize("promise", ["answer-early", "cut-logs", "forget-producers"])
def test_a_broken_promise_is_noticed(tmp_path: Path, promise: str) -> None:
    # whoever looks for what is committed waits for it long
    kinds = tuple(kind for kind in KINDS if kind not in ("transactions", *NEWER, *LONGER))
    plan = Plan(1, kills=30, durabilities=("os",), steps=(), sabotage=promise, kinds=kinds, quiet=True)
    soak = Soak(plan, tmp_path)
    with pytest.raises(Failed):
        soak.run()
    assert soak.violations


@pytest.mark.parametrize("promise", ["commit-aborted"])
def test_a_broken_promise_of_transactions_is_noticed(tmp_path: Path, promise: str) -> None:
    plan = Plan(
        1, kills=30, durabilities=("os",), steps=(), sabotage=promise, kinds=("transactions",), quiet=True
    )
    soak = Soak(plan, tmp_path)
    with pytest.raises(Failed):
        soak.run()
    assert any("transactions:" in text for text in soak.violations)


@pytest.mark.parametrize(
    ("promise", "kind"),
    [
        ("forget-acks", "shares"),
        ("forget-counts", "shares"),
        ("loose-keys", "shares"),
        ("bury-in-two", "shares"),
        ("forget-counts", "shares_librdkafka"),
    ],
)
def test_a_broken_promise_of_share_groups_is_noticed(tmp_path: Path, promise: str, kind: str) -> None:
    plan = Plan(1, kills=30, durabilities=("os",), steps=(), sabotage=promise, kinds=(kind,), quiet=True)
    soak = Soak(plan, tmp_path)
    with pytest.raises(Failed):
        soak.run()
    assert any("share group" in text for text in soak.violations)
