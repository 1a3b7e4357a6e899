"""Whose fault it is that a request could not be served."""

from __future__ import annotations

import struct
from types import FunctionType

import pytest

from gateway.wire.malformed import Malformed, malformed


def failing(name: str, error: Exception) -> Exception:
    """It was raised in a module of that name."""

    def fail() -> None:
        raise raised

    there = FunctionType(fail.__code__, {"__name__": name}, closure=fail.__closure__)
    raised = error.with_traceback(None)
    try:
        there()
    except Exception as caught:
        return caught
    raise AssertionError


@pytest.mark.parametrize("error", [IndexError("past the end"), struct.error("too short")])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gateway.wire.codec", True),
        ("gateway.apis.fetch", True),
        ("gateway.connection", True),
        ("gateway.broker.queues.lane", False),
        ("semantics.subscriptions.in_order", False),
        ("store.rocksdb.log", False),
    ],
)
def test_it_is_the_clients_only_where_bytes_are_read(error: Exception, name: str, expected: bool) -> None:
    assert malformed(failing(name, error)) is expected


def test_what_says_so_itself_is() -> None:
    assert malformed(failing("store.api", Malformed("no such version")))
    assert not malformed(failing("gateway.wire.codec", KeyError("t")))
