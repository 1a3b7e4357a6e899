"""What goes with a trim or with a log: its rows in the same commit, its files once that is on disk."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from store.api import DropLog, Durability, Family, Put, Trim
from store.rocksdb import RocksStore, rows
from store.rocksdb.removal import FEW_ROWS, OF_OTHERS
from store.rocksdb.verify import verify
from tests.store.making import append, bases, content
from tests.store.rocksdb.faults import crash
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files


def rows_of(store: RocksStore, partition: int) -> Counter[str]:
    """How many rows there are of a log, by family."""
    prefix = partition.to_bytes(4, "big")
    families = (Family.LOG, Family.INDEX, Family.SEGMENT, Family.LEDGER, Family.EPOCH, *OF_OTHERS)
    return Counter({family.value: len(list(store.scan(family, prefix))) for family in families})


@pytest.mark.parametrize("segments", [1, FEW_ROWS - 1, FEW_ROWS + 8])
def test_nothing_is_left_of_a_log_that_is_dropped_and_nothing_goes_of_its_neighbours(
    folder: Path, segments: int
) -> None:
    async def main(data: Path) -> None:
        store = await opened(data)
        for partition in (1, 2, 3):
            store.log(partition).configure(segment_bytes=100)
            for base in range(segments):
                await store.write([append(partition, base, epoch=1 + base)], Durability.OS)
            key = partition.to_bytes(4, "big") + b"producer"
            await store.write([Put(family, key, b"x") for family in OF_OTHERS], Durability.OS)
        before = rows_of(store, 1)
        assert (before, before["segment"]) == (rows_of(store, 2), segments - 1)
        await store.write([DropLog(2)], Durability.OS)
        assert rows_of(store, 2).total() == 0
        assert rows_of(store, 1) == rows_of(store, 3) == before
        await store.checkpoint()
        assert {path.name[:8] for path in segment_files(data)} == {"00000001", "00000003"}
        await store.close()
        assert verify(data).ok

    in_a_loop(main)(folder)


@in_a_loop
async def test_a_log_that_is_made_filled_and_dropped_in_one_commit_leaves_nothing(data: Path) -> None:
    store = await opened(data)
    store.log(1).configure(segment_bytes=100)
    await store.write([append(1, 0), append(1, 1), append(1, 2), DropLog(1)], Durability.OS)
    assert rows_of(store, 1).total() == 0
    await store.checkpoint()
    assert segment_files(data) == []
    await store.close()
    assert verify(data).ok


@in_a_loop
async def test_a_trim_takes_the_segments_ledgers_and_epochs_that_end_there_and_no_more(data: Path) -> None:
    store = await opened(data)
    log = store.log(1)
    log.configure(segment_bytes=2 * 111)
    for base in range(9):
        await store.write([append(1, base, epoch=1 + base // 3)], Durability.OS)
    assert [each.base_offset for each in log.segments()] == [0, 2, 4, 6, 8]
    for offset, first, epochs in ((1, 0, 3), (2, 2, 3), (3, 2, 2), (5, 4, 2), (8, 8, 1)):
        await store.write([Trim(1, offset)], Durability.OS)
        assert (log.start_offset, log.segments()[0].base_offset) == (offset, first)
        assert rows_of(store, 1)["epoch"] == epochs
        assert log.size == (9 - first) * 111
        # what has to be kept is kept: the record at the start, its place, the epoch it was written under
        assert bases(await content(log))[-1] == 8
        assert log.position_of(offset).entry == offset
        assert log.epoch_end(99) == (3, 9)
    # back does not go
    await store.write([Trim(1, 4)], Durability.OS)
    assert log.start_offset == 8
    await store.write([Trim(1, 9)], Durability.OS)
    assert (log.segments(), log.size, log.end_offset) == ([], 0, 9)
    await store.write([append(1, 9, epoch=9)], Durability.OS)
    assert bases(await content(log)) == [9]
    await store.close()
    assert verify(data).ok


@in_a_loop
async def test_files_go_after_the_commit_that_says_so_is_on_disk(data: Path) -> None:
    store = await opened(data)
    await store.write([append(2, 0)], Durability.OS)
    store.log(1).configure(segment_bytes=200)
    for base in range(6):
        await store.write([append(1, base, [100])], Durability.OS)
    await store.write([Trim(1, 3), DropLog(2)], Durability.OS)
    assert len(segment_files(data)) == 7
    await store.checkpoint()
    assert len(segment_files(data)) == 3
    await store.write([Trim(1, 4)], Durability.OS)
    await crash(store)
    assert len(segment_files(data)) == 3
    again = await opened(data)
    assert len(segment_files(data)) == 2
    assert again.notices == []
    assert list(again.scan(Family.DOOMED)) == []
    assert bases(await content(again.log(1))) == [4, 5]
    await again.close()


@in_a_loop
async def test_what_one_group_trims_twice_counts_once(data: Path) -> None:
    store = await opened(data)
    store.log(1).configure(segment_bytes=1000)
    for base in range(10):
        await store.write([append(1, base, [950])], Durability.OS)
    await store.write([Trim(1, 3), append(1, 10, [950]), Trim(1, 5), Trim(1, 4)], Durability.OS)
    log = store.log(1)
    assert log.start_offset == 5
    assert log.size == sum(each.size for each in log.segments())
    for start in (8, 10, 11):
        await store.write([Trim(1, start)], Durability.OS)
        assert store.log(1).size == sum(each.size for each in store.log(1).segments())
    assert store.log(1).size == 0
    await store.close()
    assert verify(data).ok


@in_a_loop
async def test_a_row_that_counts_wrongly_is_right_after_the_next_trim(data: Path) -> None:
    store = await opened(data)
    store.log(1).configure(segment_bytes=1000)
    for base in range(6):
        await store.write([append(1, base, [950])], Durability.OS)
    key = rows.U32.pack(1)
    row = rows.log_row(store.get(Family.LOG, key) or b"")
    await store.write([Put(Family.LOG, key, rows.LOG.pack(*row._replace(size=10)))], Durability.OS)
    await store.close()
    assert not verify(data).ok
    store = await opened(data)
    await store.write([Trim(1, 3)], Durability.OS)
    assert store.log(1).size == sum(each.size for each in store.log(1).segments())
    await store.close()
    assert verify(data).ok
