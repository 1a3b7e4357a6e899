"""What `magnetar store verify` finds, says and mends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store.api import (
    Durability,
    Locked,
    StoreError,
)
from store.rocksdb.verify import verify
from tests.store.making import append
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files


@in_a_loop
async def test_verify_counts_and_shows_progress(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0, [500] * 100), append(2, 0, [30_000] * 20)], Durability.OS)
    size = store.log(1).size + store.log(2).size
    with pytest.raises(Locked):
        verify(data)
    await store.close()
    shown: list[tuple[int, int]] = []
    report = verify(data, progress=lambda done, total: shown.append((done, total)))
    assert (report.ok, report.logs, report.segments, report.batches, report.bytes) == (True, 2, 2, 120, size)
    assert shown == sorted(shown)
    assert shown[-1] == (size, size)


@in_a_loop
async def test_verify_finds_one_wrong_bit_and_extra_bytes(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0, [500] * 100)], Durability.OS)
    await store.close()
    (path,) = segment_files(data)
    with path.open("r+b") as file:
        file.seek(40 * 561 + 300)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))
        file.seek(0, os.SEEK_END)
        file.write(b"extra")
    report = verify(data)
    assert [(each.position, each.acknowledged) for each in report.problems] == [
        (40 * 561, True),
        (56_100, False),
    ]
    assert "CRC" in str(report.problems[0])
    report = verify(data, repair=True)
    assert len(report.repaired) == 1
    assert path.stat().st_size == 56_100
    assert [each.acknowledged for each in verify(data).problems] == [True]


def test_verify_without_a_store(folder: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        verify(folder)
