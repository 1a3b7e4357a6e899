"""The short form of the attack on a gateway that asks who its clients are, and the proof that it can fail."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from gateway.auth import token_keys
from gateway.auth.errors import RefusedError
from tests.gateway.auth.jwt_making import pem, token
from tests.proofs.fuzz import gate, intruders, live, times
from tests.proofs.fuzz.forged import Forger

QUICK = {"half_handshakes": 10, "floods": 1, "before_login": 1, "strangers": 10, "noise": 3, "guesses": 6,
         "tokens": 4, "mutated_exchange": 6, "reauthenticates": 4, "eve": 2, "http": 4}  # fmt: skip


def test_a_forged_token_is_none() -> None:
    key = rsa.generate_private_key(65_537, 2048)
    verifier = token_keys.of_public(pem(key))
    known = token({"alg": "RS256"}, {"sub": "eve"}, key)
    assert token_keys.claims_of(known, verifier) == {"sub": "eve"}
    forger = Forger(random.Random(7), "ada", pem(key), known)
    for _ in range(300):
        made = forger.any()
        try:
            claims = token_keys.claims_of(made, verifier)
        except RefusedError:
            continue
        assert claims is None, made[:300]


def test_a_small_difference_of_times_is_seen_and_none_is_not() -> None:
    pick = random.Random(7)
    some = [pick.gauss(100, 3) for _ in range(times.TRIES)]
    same = [pick.gauss(100, 3) for _ in range(times.TRIES)]
    later = [pick.gauss(101.5, 3) for _ in range(times.TRIES)]
    assert abs(times.z_of(some, same)) < times.MOST_Z
    assert times.z_of(later, some) > times.MOST_Z
    assert times.z_of(some, later) < -times.MOST_Z


@pytest.mark.integration
def test_nobody_gets_in_for_some_seconds(tmp_path: Path) -> None:
    figures = gate.attacked(tmp_path, 11, 4, [QUICK], quiet=True)
    assert figures.wrong == []
    # all of it was tried
    for what in ("strangers", "guesses", "tokens that are none", "logins of eve", "handshakes that are none"):
        assert figures.counts[what] > 0, what
    assert figures.account is not None
    assert figures.account.consumed == figures.account.shared == figures.account.produced > 0


@pytest.mark.integration
def test_who_gets_in_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a gateway that takes any password for the right one."""
    plant = tmp_path / "plant"
    plant.mkdir()
    (plant / "sitecustomize.py").write_text(SABOTAGE)
    monkeypatch.setenv("PYTHONPATH", f"{plant}:{Path.cwd()}")
    monkeypatch.setattr(live, "SETTLE_SECONDS", 1.0)
    figures = gate.attacked(tmp_path / "run", 11, 2, [{"guesses": 10}], quiet=True)
    assert figures.counts[intruders.GOT_IN] > 0
    assert any("somebody got in" in each for each in figures.wrong)
    assert any("topics are" in each and intruders.TAKEN in each for each in figures.wrong)


SABOTAGE = """
import sys
if "serve" in sys.argv:
    import hmac

    # whatever is compared is the same
    hmac.compare_digest = lambda a, b: True
"""
