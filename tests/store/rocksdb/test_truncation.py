"""Logs that a machine crash shortened: what is left of their ledgers, epochs and segments, and what comes back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from store.api import Delete, DeleteRange, Durability, Family, Put
from store.rocksdb.recovery import LostOffsets, RowReader
from store.rocksdb.verify import verify
from tests.store.making import append, bases, content
from tests.store.rocksdb.faults import crash
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files


@pytest.mark.parametrize("kept", [1, 3, 4, 5, 8, 11])
def test_the_log_says_the_same_everywhere_wherever_it_was_cut(folder: Path, kept: int) -> None:
    """Three segments of four batches, an epoch for every two: the machine kept so many, and half of the next."""

    async def main(data: Path) -> None:
        store = await opened(data)
        store.log(1).configure(segment_bytes=4 * 161)
        await store.write([append(1, 0, [100])], Durability.OS)
        await store.checkpoint()
        for base in range(1, 12):
            await store.write([append(1, base, [100], epoch=1 + base // 2)], Durability.OS)
        before = await content(store.log(1))
        await crash(store)
        first, *rest = segment_files(data)
        assert [path.stat().st_size for path in (first, *rest)] == [4 * 161] * 3
        for number, path in enumerate((first, *rest)):
            there = max(0, min(4 * 161, kept * 161 + 80 - number * 4 * 161))
            os.truncate(path, there) if there else path.unlink()
        again = await opened(data, boot="another")
        log = again.log(1)
        assert (log.start_offset, log.end_offset, log.size) == (0, kept, kept * 161)
        assert await content(log) == before[: kept * 161]
        assert sum(each.entries for each in log.ledgers()) == kept
        assert log.epoch_end(99) == (1 + (kept - 1) // 2, kept)
        assert [(each.base_offset, each.next_offset) for each in log.segments()] == [
            (base, min(base + 4, kept)) for base in range(0, kept, 4)
        ]
        assert [log.position_of(offset).entry for offset in range(kept)] == list(range(kept))
        # an epoch that was cut off may come once more
        epoch = 2 + (kept - 1) // 2
        await again.write([append(1, kept, epoch=epoch)], Durability.OS)
        assert bases(await content(log)) == list(range(kept + 1))
        assert (log.position_of(kept).entry, log.epoch_end(epoch)) == (0, (epoch, kept + 1))
        await again.close()
        assert verify(data).ok

    in_a_loop(main)(folder)


@pytest.mark.parametrize("durable", [5, 8])
def test_what_was_promised_comes_back_behind_what_was_not(folder: Path, durable: int) -> None:
    """The journal holds the commits under `fsync`: the offsets of those before them stay empty."""

    async def main(data: Path) -> None:
        store = await opened(data)
        await store.write([append(1, 0, [100] * 3)], Durability.OS)
        await store.checkpoint()
        for base in range(3, 10):
            await store.write(
                [append(1, base, [100])], Durability.FSYNC if base >= durable else Durability.OS
            )
        await crash(store)
        (path,) = segment_files(data)
        os.truncate(path, 4 * 161)
        lost: list[LostOffsets] = []

        def clip(_: RowReader, partition: int, offsets: LostOffsets) -> Iterable[Put | Delete | DeleteRange]:
            lost.append(offsets)
            return ()

        again = await opened(data, boot="another", clip=clip)
        log = again.log(1)
        assert lost == [[(4, durable)]]
        assert bases(await content(log)) == [*range(4), *range(durable, 10)]
        assert (log.end_offset, log.size) == (10, (14 - durable) * 161)
        # entries are counted on over the gap, in the same ledger
        assert [log.position_of(offset).entry for offset in (3, durable, 9)] == [3, 4, 13 - durable]
        assert len({log.position_of(offset).ledger for offset in (0, 9)}) == 1
        await again.close()
        assert verify(data).ok

    in_a_loop(main)(folder)


@in_a_loop
async def test_lost_bytes_under_os_end_the_log_and_are_reported(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0, [100] * 5)], Durability.OS)
    await store.checkpoint()
    for base in range(5, 10):
        await store.write([append(1, base, [100], epoch=base)], Durability.OS)
    size = store.log(1).size
    await crash(store)
    (path,) = segment_files(data)
    os.truncate(path, size - 161 - 30)
    clipped: list[tuple[int, LostOffsets]] = []

    def clip(rows: RowReader, partition: int, lost: LostOffsets) -> Iterable[Put | Delete | DeleteRange]:
        clipped.append((partition, lost))
        return [Put(Family.GROUP, b"clipped", b"%d" % lost[0][0])]

    again = await opened(data, clip=clip, boot="another")
    assert clipped == [(1, [(8, 10)])]
    assert again.get(Family.GROUP, b"clipped") == b"8"
    assert any("lost the offsets 8 to 9" in notice for notice in again.notices)
    log = again.log(1)
    assert bases(await content(log)) == list(range(8))
    assert log.position_of(7).entry == 7
    assert [each.entries for each in log.ledgers()] == [8]
    assert log.epoch_end(99) == (7, 8)
    await again.write([append(1, 8, epoch=20)], Durability.OS)
    assert log.position_of(8).entry == 0
    assert [each.entries for each in log.ledgers()] == [8, 1]
    await again.close()
    assert verify(data).ok


@in_a_loop
async def test_producers_of_a_clipped_log_are_forgotten_unless_the_caller_knows_better(data: Path) -> None:
    store = await opened(data)
    key = (1).to_bytes(4, "big") + b"producer"
    other = (2).to_bytes(4, "big") + b"producer"
    await store.write(
        [
            append(1, 0),
            Put(Family.DEDUP, key, b"x"),
            Put(Family.DEDUP, other, b"x"),
        ],
        Durability.OS,
    )
    await crash(store)
    os.truncate(segment_files(data)[0], 10)
    again = await opened(data, boot="another")
    assert [found for found, _ in again.scan(Family.DEDUP)] == [other]
    assert again.log(1).end_offset == 0
    await again.close()
