"""Rows of groups that were damaged are refused in words, whatever the damage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.coordinators import group_rows
from gateway.coordinators.group_rows import ClassicRow, Kind, RowError, ShareMemberRow, ShareRow, State

SHARE = ShareRow(
    group_rows.VERSION,
    Kind.SHARE,
    State.STABLE,
    1_700_000_000_000,
    "share",
    3,
    2,
    [("käse", b"t" * 16, 4)],
    [ShareMemberRow("m", None, "client", "/127.0.0.1", ["käse"], 3, 2)],
)
CLASSIC = ClassicRow(
    group_rows.VERSION, Kind.CLASSIC, State.EMPTY, 1_700_000_000_000, "consumer", 7, "range", "läufer", []
)


@pytest.mark.parametrize(("read", "row"), [(group_rows.share, SHARE), (group_rows.classic, CLASSIC)])
def test_every_changed_byte_is_read_or_refused(
    read: Callable[[bytes], object], row: ShareRow | ClassicRow
) -> None:
    stored = group_rows.put("g", row).value
    assert read(stored) == row
    refused = 0
    for at in range(len(stored)):
        for byte in range(256):
            try:
                read(stored[:at] + bytes([byte]) + stored[at + 1 :])
            except RowError:
                refused += 1
    assert refused > 100
