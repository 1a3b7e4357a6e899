"""A search in large buffers says what Python's own does, wherever the bytes lie."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire import searching
from gateway.wire.searching import LEAST, holds
from tests.examples import examples

NEEDLE = b"pulsar-deliver-"


def each_kind(data: bytes) -> list[bytes | bytearray | memoryview]:
    """The same bytes as all that buffers may be."""
    around = bytearray(b"-" + data + b"r-")
    return [
        data,
        bytearray(data),
        memoryview(bytearray(data)),
        memoryview(data),
        memoryview(around)[1:-2],
        memoryview(bytes(around))[1:-2],
    ]


@settings(max_examples=examples(200))
@given(
    st.lists(st.sampled_from([NEEDLE, NEEDLE[:-1], NEEDLE[1:], b"\0", b"p" * 5, b"x" * LEAST]), max_size=5),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_it_says_what_python_says(parts: list[bytes], skip: int, cut: int) -> None:
    data = b"".join(parts)
    end = max(len(data) - cut, skip)
    for buffer in each_kind(data):
        assert holds(buffer, NEEDLE) is (NEEDLE in data)
        assert holds(buffer, NEEDLE, skip, end) is (NEEDLE in data[skip:end])


@pytest.mark.parametrize("there", [True, False])
def test_it_does_so_without_the_library_too(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(searching, "_memmem", None)
    data = bytes(2 * LEAST) + (NEEDLE if there else b"")
    assert [holds(buffer, NEEDLE) for buffer in each_kind(data)] == [there] * 6


@pytest.mark.parametrize("cut", [0, 1, len(NEEDLE)])
def test_what_lies_behind_the_end_is_not_found(cut: int) -> None:
    data = bytes(2 * LEAST) + NEEDLE
    for buffer in each_kind(data):
        assert holds(buffer, NEEDLE, 0, len(data) - cut) is (cut == 0)


def test_what_was_searched_can_be_written_and_resized_again() -> None:
    data = bytearray(2 * LEAST)
    assert not holds(memoryview(data), NEEDLE)
    data += NEEDLE
    assert holds(data, NEEDLE)
