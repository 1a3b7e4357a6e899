"""The short form of `make interplay`, and that its oracle sees what is broken."""

from __future__ import annotations

import pytest

from tests.proofs.interplay.__main__ import Job, run
from tests.proofs.interplay.sabotage import SABOTAGES


@pytest.mark.parametrize("seed", range(1, 9))
def test_every_message_is_as_the_policies_have_it(seed: int) -> None:
    _, broken, counts = run(Job(seed, 150))
    assert broken is None
    assert counts["published"]


@pytest.mark.parametrize("sabotage", sorted(SABOTAGES))
def test_a_rule_that_is_broken_is_seen(sabotage: str) -> None:
    assert any(run(Job(seed, 150, sabotage))[1] for seed in range(1, 30))
