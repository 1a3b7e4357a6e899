"""Rows of committed offsets: keys that sort and scan, values that come back, expiry by the book."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.coordinators import offsets
from gateway.coordinators.group_rows import State
from gateway.coordinators.offsets import Committed, Place, Retention

NAMES = st.text(max_size=20).filter(lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text))
PARTITIONS = st.integers(0, 2**31 - 1)


@given(NAMES, NAMES, PARTITIONS)
def test_a_key_says_its_place(group: str, topic: str, partition: int) -> None:
    assert offsets.place(offsets.key(group, topic, partition)) == Place(group, topic, partition)


@given(st.lists(st.tuples(NAMES, NAMES, PARTITIONS), max_size=20), NAMES)
def test_a_groups_rows_are_one_range_and_no_others(places: list[tuple[str, str, int]], group: str) -> None:
    start, end = offsets.group_range(group)
    for place in [*places, (group, "t", 0)]:
        key = offsets.key(*place)
        assert (start <= key < end) is (place[0] == group)
        assert key.startswith(start) is (place[0] == group)


def test_a_name_that_begins_like_another() -> None:
    prefix = offsets.group_prefix("g")
    assert not offsets.key("gg", "t", 0).startswith(prefix)
    assert not offsets.key("g", "tt", 0).startswith(offsets.topic_prefix(prefix, "t"))


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**62),
    st.integers(-1, 2**62),
    st.binary(min_size=16, max_size=16),
    NAMES,
)
def test_a_value_comes_back(
    offset: int, epoch: int, at: int, expires: int, topic_id: bytes, metadata: str
) -> None:
    value = offsets.encode(offset, epoch, at, expires, topic_id, metadata)
    assert offsets.decode(value) == Committed(offset, epoch, at, expires, topic_id, metadata)


def test_no_metadata_is_the_empty_string() -> None:
    assert offsets.decode(offsets.encode(1, 2, 3, 4, bytes(16), None)).metadata == ""


@pytest.mark.parametrize("value", [b"", b"\1" + bytes(43), b"\2" + bytes(60)])
def test_what_is_no_value(value: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        offsets.decode(value)


@pytest.mark.parametrize(
    ("protocol_type", "state", "subscribed", "rule"),
    [
        (None, State.EMPTY, None, Retention(None, None)),
        ("consumer", State.EMPTY, frozenset(), Retention(99, None)),
        ("connect", State.EMPTY, None, Retention(99, None)),
        ("consumer", State.STABLE, frozenset({"t"}), Retention(None, frozenset({"t"}))),
        ("consumer", State.STABLE, None, None),
        ("connect", State.STABLE, None, None),
        ("consumer", State.PREPARING_REBALANCE, frozenset({"t"}), None),
        ("consumer", State.COMPLETING_REBALANCE, frozenset({"t"}), None),
    ],
)
def test_when_offsets_of_a_group_may_expire(
    protocol_type: str | None, state: State, subscribed: frozenset[str] | None, rule: Retention | None
) -> None:
    assert offsets.retention(protocol_type, state, 99, subscribed) == rule


@pytest.mark.parametrize(
    ("rule", "topic", "committed_at", "expires_at", "gone"),
    [
        (Retention(None, None), "t", 900, -1, True),
        (Retention(None, None), "t", 901, -1, False),
        (Retention(900, None), "t", 999, -1, True),
        (Retention(901, None), "t", 0, -1, False),
        (Retention(None, frozenset({"t"})), "t", 0, -1, False),
        (Retention(None, frozenset({"t"})), "u", 0, -1, True),
        (Retention(901, None), "t", 999, 1000, True),
        (Retention(0, None), "t", 0, 1001, False),
    ],
)
def test_expired(rule: Retention, topic: str, committed_at: int, expires_at: int, gone: bool) -> None:
    committed = Committed(1, 0, committed_at, expires_at, bytes(16), "")
    assert offsets.expired(rule, topic, committed, 1000, 100) is gone


@pytest.mark.parametrize(
    ("metadata", "too_large"),
    [
        (None, False),
        ("", False),
        ("x" * 10, False),
        ("x" * 11, True),
        ("€" * 10, False),
        ("\U0001f600" * 5, False),
        ("\U0001f600" * 6, True),
        # nobody has written the zero that librdkafka sends behind it
        ("x" * 10 + "\0", False),
        ("x" * 11 + "\0", True),
        ("x" * 9 + "\0\0", False),
        ("x" * 10 + "\0\0", True),
    ],
)
def test_metadata_is_measured_as_kafka_does(metadata: str | None, too_large: bool) -> None:
    assert offsets.metadata_too_large(metadata, 10) is too_large
