"""Rows that the database lost, made again from the segments by `verify --repair`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from store.api import Durability, Family, Outcome, Put, Refused
from store.rocksdb import RocksStore
from store.rocksdb.verify import verify
from tests.store.making import append, bases, content
from tests.store.rocksdb.faults import crash
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files


async def without_wal(store: RocksStore) -> None:
    """What was committed since the last checkpoint is in the segments only."""
    await crash(store)
    wal = max((store.path / "db").glob("*.log"))
    with wal.open("r+b") as file:
        file.seek(20)
        file.write(b"damage")


async def settled(store: RocksStore) -> None:
    await store.checkpoint()
    store._database.settle()


@in_a_loop
async def test_segments_that_were_begun_since_are_taken_with_what_is_known_of_each(data: Path) -> None:
    store = await opened(data)
    store.log(1).configure(segment_bytes=500)
    await store.write([append(1, 0, [100], timestamps=[5000])], Durability.OS)
    await settled(store)
    for base in range(1, 10):
        await store.write([append(1, base, [100], timestamps=[5000 - base])], Durability.OS)
    before = [each.base_offset for each in store.log(1).segments()]
    assert len(before) == 4
    await without_wal(store)
    assert verify(data, repair=True).repaired == [
        f"log 1: the records from offset {first} to {last} are back"
        for first, last in ((1, 2), (3, 5), (6, 8), (9, 9))
    ]
    again = await opened(data)
    log = again.log(1)
    assert [each.base_offset for each in log.segments()] == before
    assert [each.max_timestamp for each in log.segments()] == [5000, 4997, 4994, 4991]
    assert bases(await content(log)) == list(range(10))
    assert [log.position_of(offset).entry for offset in range(10)] == list(range(10))
    assert log.size == 10 * 161
    await again.write([append(1, 10)], Durability.OS)
    await again.close()
    assert verify(data).ok


@in_a_loop
async def test_what_is_no_batch_goes_to_quarantine_and_good_ones_before_it_come_back(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0, [100])], Durability.OS)
    await settled(store)
    await store.write([append(1, 1, [100] * 3)], Durability.OS)
    await without_wal(store)
    (path,) = segment_files(data)
    os.truncate(path, 3 * 161 + 100)
    back, aside = verify(data, repair=True).repaired
    assert back == "log 1: the records from offset 1 to 2 are back"
    assert "are no records of a known log" in aside
    (kept,) = (data / "quarantine").iterdir()
    assert kept.stat().st_size == 100
    assert str(kept) in aside
    again = await opened(data)
    assert bases(await content(again.log(1))) == [0, 1, 2]
    await again.close()
    assert verify(data).ok


@in_a_loop
async def test_records_of_a_log_that_nobody_knows_any_more_are_kept_aside(data: Path) -> None:
    store = await opened(data)
    await settled(store)
    await store.write([append(2, 0, [100])], Durability.OS)
    await without_wal(store)
    (stranger,) = segment_files(data)
    content_before = stranger.read_bytes()
    (aside,) = verify(data, repair=True).repaired
    assert "are no records of a known log" in aside
    (kept,) = (data / "quarantine").iterdir()
    assert kept.read_bytes() == content_before
    assert segment_files(data) == []
    again = await opened(data)
    assert not again.read_only
    await again.close()


@in_a_loop
async def test_a_file_that_was_given_up_brings_no_record_twice(data: Path) -> None:
    """After a failed write the log goes on in a new file, which begins where the old one did."""
    store = await opened(data)
    await store.write([append(1, 0, [100] * 3)], Durability.OS)
    await settled(store)
    await store.write([append(1, 3, [100])], Durability.OS)
    await without_wal(store)
    (path,) = segment_files(data)
    shutil.copy(path, path.with_name("00000001-00000000000000000000-9.seg"))
    back, aside = verify(data, repair=True).repaired
    assert back == "log 1: the records from offset 3 to 3 are back"
    assert "00000001-00000000000000000000-9.seg" in aside
    again = await opened(data)
    assert bases(await content(again.log(1))) == [0, 1, 2, 3]
    assert len(again.log(1).segments()) == 1
    await again.close()
    assert verify(data).ok


@in_a_loop
async def test_a_repair_that_is_done_again_finds_nothing_to_do(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0)], Durability.OS)
    await settled(store)
    await store.write([append(1, 1)], Durability.OS)
    await without_wal(store)
    assert verify(data, repair=True).repaired
    shutil.copytree(data, data.with_name("copy"))
    assert verify(data, repair=True).repaired == []
    assert segment_files(data)[0].read_bytes() == segment_files(data.with_name("copy"))[0].read_bytes()


@in_a_loop
async def test_a_lost_wal_is_noticed_and_nothing_is_written(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0)], Durability.FSYNC)
    await store.checkpoint()
    store._database.settle()
    for base in range(1, 6):
        await store.write([append(1, base), Put(Family.GROUP, b"k", b"%d" % base)], Durability.OS)
    await crash(store)
    wal = max((data / "db").glob("*.log"))
    with wal.open("r+b") as file:
        file.seek(20)
        file.write(b"damage")
    before = {path: path.read_bytes() for path in segment_files(data)}
    for _ in range(2):
        again = await opened(data)
        assert again.read_only
        assert "verify --repair" in again.notices[0]
        outcomes: list[Outcome] = []
        again.commit([Put(Family.META, b"k", b"v")], Durability.OS, outcomes.append)
        assert isinstance(outcomes[0], Refused)
        assert bases(await content(again.log(1))) == [0]
        await again.close()
    assert {path: path.read_bytes() for path in segment_files(data)} == before
    report = verify(data)
    assert report.problems[0].acknowledged
    assert report.repaired == []
    report = verify(data, repair=True)
    assert "offset 1 to 5 are back" in report.repaired[0]
    assert verify(data).ok
    again = await opened(data)
    assert not again.read_only
    assert bases(await content(again.log(1))) == [0, 1, 2, 3, 4, 5]
    assert again.log(1).position_of(5).entry == 5
    await again.write([append(1, 6)], Durability.OS)
    await again.close()
    assert verify(data).ok


@in_a_loop
async def test_a_log_whose_very_row_was_lost_comes_back_where_it_has_a_name(data: Path) -> None:
    store = await opened(data)
    await store.write([Put(Family.GROUP, b"k", b"v")], Durability.FSYNC)
    store._database.settle()
    for partition in (1, 2, 3):
        await store.write([append(partition, 0)], Durability.OS)
        store.log(partition).configure(segment_bytes=100)
        await store.write([append(partition, 1)], Durability.OS)
    await crash(store)
    with max((data / "db").glob("*.log")).open("r+b") as file:
        file.write(b"damage")
    names = {1: "orders-0", 2: "orders-1", 4: "nothing was written to it"}
    done = verify(data, repair=True, naming=lambda database: names).repaired
    assert [each for each in done if each.endswith("are back")] == [
        f"log {partition}: the records from offset {base} to {base} are back"
        for partition in (1, 2)
        for base in (0, 1)
    ]
    assert len([each for each in done if "quarantine" in each]) == 2, "the two files of log 3"
    assert verify(data).ok
    again = await opened(data)
    assert [bases(await content(again.log(partition))) for partition in (1, 2)] == [[0, 1], [0, 1]]
    ledgers = [again.log(partition).position_of(1).ledger for partition in (1, 2)]
    assert len({*ledgers}) == 2
    await again.write([append(1, 2)], Durability.OS)
    assert again.log(1).position_of(2).ledger not in ledgers
    await again.close()
    assert verify(data).ok
