"""Verifiers of nobody look like those of somebody."""

from __future__ import annotations

from collections import Counter

from gateway.auth.credentials import SHA_256, SHA_512, UserRow, Verifier
from gateway.auth.decoys import Decoys, shape_of

LETTERS = b"0ab9z"


def row(*verifiers: tuple[str, bytes, int]) -> UserRow:
    return UserRow({each[0]: Verifier(*each, b"k", b"k") for each in verifiers})


def test_a_name_has_the_same_decoy_each_time_and_another_secret_gives_another() -> None:
    decoys, again, other = Decoys(b"s"), Decoys(b"s"), Decoys(b"t")
    for mechanism in (SHA_256, SHA_512):
        found = decoys.of("ada", mechanism)
        assert found == again.of("ada", mechanism)
        assert found.salt != other.of("ada", mechanism).salt
        assert found.salt != decoys.of("bob", mechanism).salt
        assert found.mechanism == mechanism
    assert decoys.of("ada", SHA_256).salt != b""


def test_they_are_drawn_from_the_users_there_are() -> None:
    decoys = Decoys(b"s")
    rows = [row((SHA_256, b"\xff" * 20, 4096)), row((SHA_256, LETTERS, 8192)), row((SHA_256, LETTERS, 8192))]
    for each in rows:
        decoys.add(each)
    seen = Counter(shape_of(decoys.of(f"user-{n}", SHA_256)) for n in range(300))
    assert set(seen) == {shape_of(each.verifiers[SHA_256]) for each in rows}
    # two of three have the second shape
    assert 150 < seen[shape_of(rows[1].verifiers[SHA_256])] < 250
    for each in rows[1:]:
        decoys.remove(each)
    assert {shape_of(decoys.of(f"user-{n}", SHA_256)) for n in range(50)} == {
        shape_of(rows[0].verifiers[SHA_256])
    }


def test_a_password_in_clear_takes_as_long_for_nobody_as_for_somebody() -> None:
    decoys = Decoys(b"s")
    # a user with both is checked against SHA-256
    decoys.add(row((SHA_256, LETTERS, 4096), (SHA_512, LETTERS, 16_384)))
    assert decoys.of("nobody")[0::2][:2] == (SHA_256, 4096)
    decoys.remove(row((SHA_256, LETTERS, 4096), (SHA_512, LETTERS, 16_384)))
    decoys.add(row((SHA_512, LETTERS, 10_000)))
    assert decoys.of("nobody")[0::2][:2] == (SHA_512, 10_000)


def test_with_nobody_there_is_one_all_the_same() -> None:
    decoys = Decoys(b"s")
    assert decoys.of("\ud800")[0::2][:2] == (SHA_256, 4096)
    assert len(decoys.of("a", SHA_512).stored_key) == 64
