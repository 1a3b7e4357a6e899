"""Which topics a consumer subscribed to, read from the metadata that it joins with, and what it was given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.coordinators import subscription


def subscribe(version: int, *topics: bytes) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic for topic in topics)
    return version.to_bytes(2, "big", signed=True) + len(topics).to_bytes(4, "big") + names


@pytest.mark.parametrize("rest", [b"", b"\xff\xff\xff\xff", b"\0\0\0\x02ab\0\0\0\0\xff\xff\xff\xff"])
@pytest.mark.parametrize("version", [0, 1, 3])
def test_topics_of_a_subscription(version: int, rest: bytes) -> None:
    assert subscription.topics(subscribe(version, b"a", b"bc", b"\xc3\xbc") + rest) == frozenset(
        {"a", "bc", "ü"}
    )


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\0",
        b"range",
        subscribe(-1, b"a"),
        subscribe(0, b"\xff"),
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\0\0\0\x01\0\x05abc",
        b"\0\0\0\0\0\x01\xff\xffabc",
        b"\0\0\0\0\0\x02\0\x01a",
    ],
)
def test_what_is_no_subscription(metadata: bytes) -> None:
    assert subscription.topics(metadata) is None


def given_to(version: int, *topics: tuple[bytes, tuple[int, ...]]) -> bytes:
    """ConsumerProtocolAssignment."""
    parts = [version.to_bytes(2, "big", signed=True), len(topics).to_bytes(4, "big")]
    for name, partitions in topics:
        parts += [len(name).to_bytes(2, "big"), name, len(partitions).to_bytes(4, "big")]
        parts += [index.to_bytes(4, "big", signed=True) for index in partitions]
    return b"".join(parts)


@pytest.mark.parametrize("rest", [b"", b"\xff\xff\xff\xff", b"\0\0\0\x02ab"])
@pytest.mark.parametrize("version", [0, 1, 3])
def test_partitions_of_an_assignment(version: int, rest: bytes) -> None:
    metadata = given_to(version, (b"a", (0, 2)), (b"\xc3\xbc", ()), (b"bc", (7,)), (b"a", (1,)))
    assert subscription.assignment(metadata + rest) == {"a": [0, 2, 1], "ü": [], "bc": [7]}
    assert subscription.assignment(given_to(version)) == {}


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\0",
        b"A",
        given_to(-1, (b"a", (1,))),
        given_to(0, (b"\xff", (1,))),
        # as many topics, or partitions, as there cannot be
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\0\0\0\x01\0\x01a\x7f\xff\xff\xff",
        b"\0\0\0\0\0\x01\0\x01a\xff\xff\xff\xff",
        b"\0\0\0\0\0\x01\xff\xffa\0\0\0\0",
        *(given_to(1, (b"topic", (1, 2)), (b"b", (3,)))[:end] for end in range(1, 31)),
    ],
)
def test_what_is_no_assignment_gives_nothing(metadata: bytes) -> None:
    assert subscription.assignment(metadata) == {}


@given(st.binary(max_size=60))
def test_any_bytes_are_an_assignment_or_none(metadata: bytes) -> None:
    found = subscription.assignment(metadata)
    assert sum(map(len, found.values())) <= len(metadata) // 4


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(metadata: bytes) -> None:
    found = subscription.topics(metadata)
    assert found is None or all(isinstance(topic, str) for topic in found)
