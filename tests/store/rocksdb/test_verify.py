"""What `magnetar store verify` finds, says and mends."""

from __future__ import annotations

import asyncio
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
from tests.store.rocksdb.damaging import file_of, flip, place, stored
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


def test_verify_names_every_damaged_range_and_nothing_else(folder: Path) -> None:
    async def main() -> None:
        data = folder / "data"
        store, made = await stored(data)
        await store.close()
        assert verify(data).ok
        own = made[1]
        path = file_of(data, 1)
        flip(path, place(own, 20) + 70)
        flip(path, place(own, 50) + 8, 0x80)
        flip(path, place(own, 399) + 70)
        file_of(data, 2).unlink()
        report = verify(data, naming=lambda database: {1: 'topic "t", partition 0'})
        first, second, third, fourth = report.problems
        assert str(first) == (
            f'topic "t", partition 0: {path.name} at byte {place(own, 20)}: a wrong CRC: '
            "offsets 60 to 62 are damaged"
        )
        assert second.position == place(own, 50)
        assert second.text.startswith("no record batch: offsets 150 to ")
        assert third.text == "a wrong CRC: offsets 1197 to 1199 are damaged"
        assert str(fourth).startswith("log 2: ")
        assert fourth.text == "the file is missing: offsets 0 to 1199 are damaged"
        assert 380 < report.batches < 400
        # nothing is repaired where nothing refuses
        assert verify(data, repair=True).repaired == []

    asyncio.run(main())


def test_repair_does_not_change_what_is_damaged(folder: Path) -> None:
    async def main() -> None:
        data = folder / "data"
        store, made = await stored(data)
        await store.close()
        flip(file_of(data, 1), place(made[1], 20) + 70)
        before = {path: path.read_bytes() for path in (data / "segments").glob("*/*")}
        report = verify(data, repair=True)
        assert (len(report.problems), report.repaired) == (1, [])
        assert {path: path.read_bytes() for path in (data / "segments").glob("*/*")} == before

    asyncio.run(main())
