"""Which topics a consumer subscribed to, read from the metadata that it joins with."""

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


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(metadata: bytes) -> None:
    found = subscription.topics(metadata)
    assert found is None or all(isinstance(topic, str) for topic in found)
