"""Starts after a crash: what comes back, what is put aside, and what is said of damage."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from store import batch, rocksdb
from store.api import (
    Corrupt,
    DropLog,
    Durability,
    Family,
    Outcome,
    Put,
    Refused,
    Trim,
)
from store.rocksdb import rows
from store.rocksdb.files import Files
from store.rocksdb.verify import verify
from tests.store.making import append, bases, content, soon
from tests.store.rocksdb.faults import crash
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files


@in_a_loop
async def test_epochs_count_starts(data: Path) -> None:
    for epoch in (1, 2, 3):
        store = await opened(data)
        assert store.epoch == store.leader_epoch(1) == store.leader_epoch(2) == epoch
        await (store.close() if epoch != 2 else crash(store))


@in_a_loop
async def test_the_epoch_is_durable_before_anything_is_appended(data: Path) -> None:
    store = await opened(data)
    await crash(store)
    # what a power cut leaves of the second start: all that was synced
    second = await opened(data)
    shutil.copytree(data, data.parent / "image")
    assert second.epoch == 2
    await crash(second)
    third = await rocksdb.open(data.parent / "image", boot="another")
    assert third.epoch == 3
    await third.close()


@in_a_loop
async def test_a_clean_stop_leaves_nothing_to_check(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0)], Durability.OS)
    await store.write([append(1, 1)], Durability.FSYNC)
    await store.close()
    again = await opened(data)
    assert again.notices == []
    for family in (Family.JOURNAL, Family.TOUCHED, Family.DOOMED):
        assert list(again.scan(family)) == []
    assert bases(await content(again.log(1))) == [0, 1]
    await again.close()


@in_a_loop
async def test_a_killed_process_loses_nothing(data: Path) -> None:
    store = await opened(data)
    store.log(1).configure(segment_bytes=2000)
    for base in range(50):
        await store.write(
            [append(1, base), append(2, base), Put(Family.GROUP, b"k", b"%d" % base)], Durability.OS
        )
    before = await content(store.log(1))
    await crash(store)
    again = await opened(data)
    assert again.notices == []
    assert await content(again.log(1)) == before
    assert again.get(Family.GROUP, b"k") == b"49"
    assert len(again.log(1).segments()) > 2
    await again.write([append(1, 50)], Durability.OS)
    await again.close()


@in_a_loop
async def test_damaged_bytes_under_fsync_make_the_log_refuse(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0, [300_000])], Durability.FSYNC)
    await store.write([append(1, 1, [300_000]), append(2, 0)], Durability.FSYNC)
    await crash(store)
    path = segment_files(data)[0]
    with path.open("r+b") as file:
        file.seek(300_061 + 5000)
        file.write(b"????")
    again = await opened(data, boot="another")
    assert any("damaged at offset 1" in notice for notice in again.notices)
    assert again.log(1).refuses
    outcomes: list[Outcome] = []
    again.commit([append(1, 2)], Durability.OS, outcomes.append)
    assert isinstance(outcomes[0], Refused)
    assert not again.log(1).stale
    assert again.log(1).end_offset == 2
    assert bases(b"".join(await soon(again.log(1).read(0, 1000)))) == [0]
    # others are not harmed
    await again.write([append(2, 1)], Durability.FSYNC)
    await again.close()
    # the next start does not forget
    third = await opened(data)
    assert third.log(1).refuses
    await third.close()
    report = verify(data, repair=True)
    assert [(problem.partition, problem.position) for problem in report.problems] == [(1, 300_061)]
    assert [problem.text for problem in report.problems] == ["a wrong CRC: offset 1 is damaged"]
    assert report.repaired == ["log 1: takes records again; what is damaged stays as it is"]
    fourth = await opened(data)
    await fourth.write([append(1, 2)], Durability.FSYNC)
    with pytest.raises(Corrupt):
        await soon(fourth.log(1).read(1, 1000))
    assert bases(b"".join(await soon(fourth.log(1).read(2, 1000)))) == [2]
    await crash(fourth)
    fifth = await opened(data)
    assert (fifth.notices, fifth.log(1).refuses, fifth.log(1).end_offset) == ([], "", 3)
    await fifth.close()
    # somebody brings the bytes back
    good = append(1, 1, [300_000]).batches[0]
    with path.open("r+b") as file:
        file.seek(300_061)
        file.write(good)
    assert verify(data).ok


@in_a_loop
async def test_damage_is_no_power_cut_while_the_machine_runs_on(data: Path) -> None:
    """What stands behind the damage was acknowledged and is there: it is not cut off."""
    store = await opened(data)
    await store.write([append(1, 0, [5000] * 10)], Durability.OS)
    await crash(store)
    with segment_files(data)[0].open("r+b") as file:
        file.seek(3 * 5061 + 2000)
        file.write(b"????")
    again = await opened(data)
    assert ["damaged at offset 3" in notice for notice in again.notices] == [True]
    log = again.log(1)
    assert log.end_offset == 10
    assert bases(b"".join(await soon(log.read(0, 100_000)))) == [0, 1, 2]
    assert bases(b"".join(await soon(log.read(4, 100_000)))) == [4, 5, 6, 7, 8, 9]
    assert log.refuses
    await again.close()
    assert not (data / "quarantine").exists()


@in_a_loop
async def test_the_journal_brings_back_what_the_machine_lost(data: Path) -> None:
    store = await opened(data)
    for base in range(5):
        await store.write([append(partition, base) for partition in range(20)], Durability.FSYNC)
    before = {partition: await content(store.log(partition)) for partition in range(20)}
    await crash(store)
    for number, path in enumerate(segment_files(data)):
        if number % 3 == 0:
            path.unlink()
        else:
            os.truncate(path, number * 7)
    again = await opened(data, boot="another")
    (notice,) = again.notices
    assert notice.startswith("The machine stopped before Magnetar did")
    assert {partition: await content(again.log(partition)) for partition in range(20)} == before
    await again.close()
    assert verify(data).ok


@in_a_loop
async def test_logs_that_an_older_version_made_empty_are_as_if_never_written(data: Path) -> None:
    store = await opened(data)
    keys = [rows.U32.pack(partition) for partition in (1, 2, 3)]
    await store.write([Put(Family.LOG, key, rows.LOG.pack(*rows.LogRow())) for key in keys], Durability.OS)
    await crash(store)
    again = await opened(data)
    assert again.notices == []
    assert [again.log(partition).end_offset for partition in (1, 2, 3)] == [0, 0, 0]
    await again.write([append(1, 0), DropLog(2)], Durability.OS)
    assert [key for key, _ in again.scan(Family.LOG)] == [keys[0], keys[2]]
    await again.close()
    report = verify(data)
    assert (report.ok, report.logs) == (True, 2)


@in_a_loop
async def test_a_machine_that_stops_may_lose_unsynced_commits(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0)], Durability.FSYNC)
    size = max((data / "db").glob("*.log")).stat().st_size
    for base in range(1, 6):
        await store.write([append(1, base)], Durability.OS)
    await crash(store)
    os.truncate(max((data / "db").glob("*.log")), size)
    again = await opened(data, boot="another")
    assert not again.read_only
    assert bases(await content(again.log(1))) == [0]
    assert len(list((data / "quarantine").iterdir())) == 1
    await again.close()


@in_a_loop
async def test_segments_without_a_database(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0)], Durability.OS)
    await store.close()
    shutil.rmtree(data / "db")
    again = await opened(data)
    assert "no database" in again.read_only
    await again.close()
    assert len(segment_files(data)) == 1


@in_a_loop
async def test_ten_thousand_idle_logs_cost_a_start_little(data: Path) -> None:
    """By what is done, not by the clock: no file is opened, and only what was touched is looked at."""
    store = await opened(data)
    # a row each, and no file
    await store.write([Trim(partition, 0) for partition in range(1000)], Durability.OS)
    for partition in range(100):
        await store.write([append(partition, 0)], Durability.OS)
    await store.checkpoint()
    await store.write([append(7, 1)], Durability.OS)
    await crash(store)
    seen: list[int] = []

    class Watched(Files):
        def open(self, partition: int, base_offset: int, number: int, *, write: bool = False) -> int:
            seen.append(partition)
            return super().open(partition, base_offset, number, write=write)

    again = await opened(data, files=Watched)
    assert set(seen) == {7}
    await again.close()


# kill -9

CHILD = """
import asyncio, pathlib, sys
from store import rocksdb
from store.api import *
from tests.store.making import append

async def main():
    store = await rocksdb.open(pathlib.Path(sys.argv[1]), checkpoint_batches=200, checkpoint_pause=0.0)
    ends = {}
    for partition in range(1, 5):
        ends[partition] = store.log(partition).end_offset
        store.log(partition).configure(segment_bytes=50_000)
    number = 0
    free = asyncio.Semaphore(4)
    while True:
        await free.acquire()
        number += 1
        partition = number % 4 + 1
        made = append(partition, ends[partition], [100 * (number % 20), 50])
        ends[partition] = made.next_offset
        key = partition.to_bytes(4, "big") + made.base_offset.to_bytes(8, "big")
        def done(outcome, made=made):
            assert outcome is None, outcome
            print(made.partition, made.next_offset, flush=True)
            free.release()
        durability = Durability.FSYNC if number % 5 == 0 else Durability.OS
        store.commit([made, Put(Family.GROUP, key, b"x")], durability, done)
        if number % 50 == 0:
            await asyncio.sleep(0)

asyncio.run(main())
"""


def test_kill_9_loses_nothing_that_was_acknowledged(folder: Path) -> None:
    data = folder / "data"
    acknowledged = dict.fromkeys(range(1, 5), 0)
    for after in (3, 200, 1500):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(data)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(after)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines(keepends=True)
        for line in lines:
            assert line, "the child ended by itself"
            # the last one may be cut off by the kill
            if line.endswith("\n"):
                partition, end = map(int, line.split())
                acknowledged[partition] = max(acknowledged[partition], end)
        child.wait()

        async def look() -> None:
            store = await opened(data)
            assert not store.read_only
            for partition, end in acknowledged.items():
                log = store.log(partition)
                assert log.end_offset >= end
                found = await content(log)
                assert len(found) == log.size
                assert all(batch.intact(found[at : at + size]) for at, size, _, _ in batch.walk(found))
                firsts = {base for _, _, base, _ in batch.walk(found)}
                keys = [
                    int.from_bytes(key[4:], "big")
                    for key, _ in store.scan(Family.GROUP, partition.to_bytes(4, "big"))
                ]
                assert set(keys) <= firsts, "a row without its batch"
                assert len(keys) * 2 == len(firsts), "a batch without its row"
            await crash(store)

        asyncio.run(look())
    assert sum(acknowledged.values()) > 1000
    assert verify(data).ok
