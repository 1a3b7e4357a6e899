"""An edit that makes of JSON what is none."""

from __future__ import annotations

import pytest

from semantics.console.broken_json import LONGEST, where_broken


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        (b'{"a": 1}', b'{"a": 1, "b": [2]}', ""),
        (b'{"a": 1}', b'{"a": 1', "line 1, column 8: Expecting ',' delimiter"),
        (b'{"a": 1}', b'{\n  "a": 1,\n  b: 2\n}', "line 3, column 3: "),
        (b'{"a": 1}', b"", "line 1, column 1: Expecting value"),
        (b'{"a": 1}', b'{"a": 1} x', "line 1, column 10: Extra data"),
        (b"[1]", b'["\xff"]', "byte 3: no UTF-8"),
        (b"[1]", b"[" * 10_000, "it is nested too deep"),
        (b"[1]", b"[" + b"9" * 10_000 + b"]", ""),
        (b"plain", b"{", ""),
        (b"\xff", b"{", ""),
        (None, b"{", ""),
        (b"{}", None, ""),
        (b"{}", b"{" + b" " * LONGEST, ""),
    ],
)
def test_where_it_breaks(was: bytes | None, now: bytes | None, says: str) -> None:
    found = where_broken(was, now)
    assert found.startswith(says) if says else found == ""
