"""The proof of the drain would notice: an output that lacks what was acknowledged, or has something twice."""

from __future__ import annotations

from typing import Any

from tests.proofs.drain.output import wrong


def rows(*places: tuple[int, int, bytes]) -> list[dict[str, Any]]:
    return [{"partition": lane, "offset": offset, "value": value} for lane, offset, value in places]


WRITTEN = rows((0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c"))


def test_what_is_acknowledged_may_be_less_than_what_is_written() -> None:
    assert wrong(WRITTEN, {0: 2, 1: 1}) is None
    assert wrong(WRITTEN, {0: 1, 1: 0}) is None
    assert wrong([], {}) is None


def test_what_is_acknowledged_and_not_written() -> None:
    assert wrong(WRITTEN, {0: 3, 1: 1}) == "lane 0 is acknowledged up to 3, and 2 is not in the output"
    assert wrong(WRITTEN[1:], {0: 2}) == "lane 0 is acknowledged up to 2, and 0 is not in the output"


def test_a_delivery_or_a_message_that_is_written_twice() -> None:
    assert wrong([*WRITTEN, WRITTEN[0]], {}) == "delivery (0, 0) is in the output 2 times"
    assert wrong([*WRITTEN, *rows((1, 1, b"a"))], {}) == "message b'a' was delivered and written twice"
