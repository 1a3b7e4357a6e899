"""The segments as RocksDB knows them: those that were closed, and the one that takes what comes."""

from __future__ import annotations

from pathlib import Path

from store.api import Durability, Trim
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.layout import DATABASE, MARK, SEGMENTS, segment_files
from tests.store.making import append
from tests.store.rocksdb.starting import in_a_loop, opened


@in_a_loop
async def test_every_file_is_known_by_its_number_with_its_size_and_offsets(data: Path) -> None:
    store = await opened(data)
    store.log(1).configure(segment_bytes=2 * 111)
    for base in range(5):
        await store.write([append(1, base)], Durability.OS)
    await store.write([append(2, 0), append(2, 1)], Durability.OS)
    # a trim of all leaves a log without a segment that takes what comes
    await store.write([Trim(2, 2)], Durability.OS)
    await store.close()
    database = Database(data / DATABASE)
    logs, segments = segment_files(database)
    database.close()
    assert {partition: row.end for partition, row in logs.items()} == {1: 5, 2: 2}
    assert set(segments) == {1}
    assert [(each.base, each.next_offset, each.size) for each in sorted(segments[1].values())] == [
        (0, 2, 222),
        (2, 4, 222),
        (4, 5, 111),
    ]
    assert all(number == each.number and each.created_at > 0 for number, each in segments[1].items())
    there = {
        (partition, base, number, size)
        for partition, base, number, size, _ in Files(data / SEGMENTS).listing()
        if partition == 1
    }
    assert there == {(1, each.base, each.number, each.size) for each in segments[1].values()}


@in_a_loop
async def test_a_data_folder_has_the_places_that_are_said(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0)], Durability.OS)
    await store.close()
    assert {each.name for each in data.iterdir()} == {DATABASE, SEGMENTS, MARK}
