"""Verifiers of nobody look like those of somebody."""

from __future__ import annotations

from collections import Counter

from gateway.auth.credentials import LEAST_ITERATIONS, SALT, SHA_256, SHA_512
from gateway.auth.decoys import Decoys

LETTERS = set(b"0123456789abcdefghijklmnopqrstuvwxyz")


def test_a_name_has_the_same_decoy_each_time_and_another_secret_gives_another() -> None:
    decoys, again, other = Decoys(b"s"), Decoys(b"s"), Decoys(b"t")
    for mechanism in (SHA_256, SHA_512):
        found = decoys.of("ada", mechanism)
        assert found == again.of("ada", mechanism)
        assert found.salt != other.of("ada", mechanism).salt
        assert found.salt != decoys.of("bob", mechanism).salt
        assert found.mechanism == mechanism
    assert decoys.of("ada", SHA_256).salt != b""


def test_each_mechanism_has_a_salt_of_its_own_as_users_have() -> None:
    decoys = Decoys(b"s")
    for name in ("ada", "bob", "cora", "dan"):
        assert decoys.of(name, SHA_256).salt != decoys.of(name, SHA_512).salt


def test_they_are_as_magnetars_tool_and_as_kafkas_make_them() -> None:
    decoys = Decoys(b"s")
    found = [decoys.of(f"user-{n}", SHA_256) for n in range(400)]
    kafkas = [each for each in found if LETTERS.issuperset(each.salt)]
    lengths = Counter(len(each.salt) for each in kafkas)
    assert set(lengths) <= {23, 24, 25, 26}
    # of numbers of 130 bits, to the base of 36
    assert lengths[25] + lengths[26] > 0.9 * len(kafkas)
    assert min(lengths[25], lengths[26]) > 0.2 * len(kafkas)
    ours = [each for each in found if each not in kafkas]
    assert {len(each.salt) for each in ours} == {SALT}
    assert 100 < len(ours) < 300
    assert {each.iterations for each in found} == {LEAST_ITERATIONS}


def test_a_password_in_clear_is_checked_against_one_too() -> None:
    decoys = Decoys(b"s")
    assert decoys.of("\ud800")[0::2][:2] == (SHA_256, LEAST_ITERATIONS)
    assert len(decoys.of("a", SHA_512).stored_key) == 64
