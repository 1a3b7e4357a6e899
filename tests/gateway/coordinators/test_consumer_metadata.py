"""What classic consumers say in bytes, and what they are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.coordinators import subscription
from gateway.coordinators.consumer_metadata import NEWEST, Said, assignment, read
from tests.gateway.coordinators.mixed_bench import metadata

OWNED = {("t", 1), ("u", 0), ("t", 3)}


@pytest.mark.parametrize("version", range(5))
def test_a_subscription_of_each_version(version: int) -> None:
    """A version that is not known yet begins as the newest one does."""
    found = read(metadata(["u", "t", "t"], OWNED, version))
    assert found == Said(version, ("t", "u"), frozenset(OWNED if version else ()), None)


def test_a_rack_and_user_data() -> None:
    user, rack = b"\0\0\0\3abc", b"\0\4rack"
    data = b"\0\3\0\0\0\1\0\1t" + user + b"\0\0\0\0" + b"\0\0\0\7" + rack
    assert read(data) == Said(3, ("t",), frozenset(), "rack", b"abc")


@given(st.integers(0, 3), st.data())
def test_bytes_that_are_cut_are_none(version: int, data: st.DataObject) -> None:
    whole = metadata(["t", "u"], OWNED, version)
    assert read(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_one_or_none(data: bytes) -> None:
    found = read(data)
    assert found is None or found.version >= 0


@pytest.mark.parametrize("version", [0, 3, 9])
def test_an_assignment_is_read_as_it_was_made(version: int) -> None:
    made = assignment(version, [("t", [0, 2]), ("u", [])])
    assert subscription.assignment(made) == {"t": [0, 2], "u": []}
    assert int.from_bytes(made[:2], "big") == min(version, NEWEST)
    assert made.endswith(b"\xff" * 4), "no user data"
