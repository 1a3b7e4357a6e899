"""Segments in the place of others on disk: reads meanwhile, crashes and power cuts at each step, what `verify` says."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
from pathlib import Path

import pytest

from store import batch, rocksdb
from store.api import (
    Append,
    DropLog,
    Durability,
    Family,
    Outcome,
    Piece,
    Position,
    Stored,
    StoreError,
    Swap,
    Trim,
    Unknown,
)
from store.limits import Rollover
from store.rewriting import Damaged, Place, Rewritten, SegmentWriter, batches
from store.rocksdb import RocksStore, rows
from store.rocksdb.segments import REWRITTEN
from store.rocksdb.verify import verify
from tests.store.cleaning import clean, closed, swap_of
from tests.store.making import append, bases, content, joined, soon
from tests.store.rocksdb.faults import Faults, crash, open_faulty
from tests.store.rocksdb.powercut import Recorder, Worst, open_recorded
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files

SIZE = 61 + 50


async def filled(store: RocksStore, count: int = 30, per_segment: int = 10) -> None:
    store.log(1).configure(segment_bytes=per_segment * SIZE)
    for base in range(count):
        await store.write([append(1, base)], Durability.OS)


def overwrite(path: Path, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def read_in(pieces: list[Piece]) -> bytes:
    found = b""
    for each in pieces:
        if isinstance(each, Stored):
            buffer = bytearray(len(each))
            assert each.read_into(memoryview(buffer), wait=True)
            each.release()
            found += buffer
        else:
            found += each
    return found


@pytest.mark.parametrize("seed", range(8))
def test_offsets_and_message_ids_stay_whatever_goes(folder: Path, seed: int) -> None:
    """Passes over a log of batches of all sizes, appends and trims between them, and starts."""

    async def main() -> None:
        chance = random.Random(seed)
        data = folder / "data"
        store = await opened(data, replaced_seconds=0)
        known: dict[int, Position] = {}
        there: dict[int, bytes] = {}
        end = 0
        for _ in range(6):
            store.rollover = Rollover(entries=chance.choice((3, 40, 5000)), least_ms=0)
            store.log(1).configure(segment_bytes=chance.choice((2_000, 60_000, 1 << 30)))
            for _ in range(chance.randint(1, 12)):
                sizes = [chance.choice((1, 40, 900, 20_000)) for _ in range(chance.randint(1, 30))]
                made = append(1, end, sizes, records=chance.choice((1, 4)))
                await store.write([made], Durability.OS)
                for each in made.batches:
                    base = batch.base_offset(each)
                    there[base], known[base] = each, store.log(1).position_of(base)
                end = made.next_offset
            segments = closed(store.log(1))
            if segments:
                picked = sorted(chance.sample(range(len(segments) + 1), 2)) if len(segments) > 1 else [0, 1]
                segments = segments[picked[0] : picked[1]]
                share = chance.choice((0.02, 0.5, 0.95))
                first, last = segments[0].base_offset, segments[-1].next_offset
                gone = {each for each in there if first <= each < last and chance.random() > share}
                if last == end:
                    gone -= {max(there)}
                swap = await swap_of(store, 1, segments, lambda base: base not in gone)  # noqa: B023
                await store.write([swap], Durability.OS)
                for base in gone:
                    del there[base]
            if chance.random() < 0.3:
                start = chance.choice(sorted(there))
                await store.write([Trim(1, start)], Durability.OS)
                there = {base: each for base, each in there.items() if base >= start}
                known = {base: each for base, each in known.items() if base >= start}
            if chance.random() < 0.5:
                await (store.close() if chance.random() < 0.5 else crash(store))
                store = await opened(data, replaced_seconds=0)
                assert store.notices == []
            log = store.log(1)
            assert await content(log) == b"".join(there[base] for base in sorted(there))
            assert log.size == sum(each.size for each in log.segments())
            for base, position in known.items():
                if base in there:
                    assert log.position_of(base) == position
                    assert log.offset_of(position.ledger, position.entry) == base
                else:
                    with pytest.raises(KeyError):
                        log.offset_of(position.ledger, position.entry)
            everything = log.sources(0, end)
            stored = [batch.base_offset(each.data) for source in everything for each in batches(source)]
            last = everything[-1].next_offset if everything else 0
            assert [each for each in stored if each in known] == sorted(each for each in there if each < last)
            for source in everything:
                for numbered in batches(source):
                    found = known.get(batch.base_offset(numbered.data))
                    assert found is None or found[:2] == (numbered.ledger, numbered.entry)
        await store.checkpoint()
        await store.close()
        report = verify(data)
        assert report.ok, report.problems

    asyncio.run(main())


@in_a_loop
async def test_what_lies_between_gaps_is_read_in_one_go(data: Path) -> None:
    store = await opened(data, tail_cache_bytes=0)
    await filled(store, 3000, 2900)
    await clean(store, 1, lambda base: base % 3 == 0)
    log = store.log(1)
    kept = [*range(0, 2900, 3)]
    size = len(kept) * SIZE
    # checked, and then known to be right; by the loop, and as what a thread reads
    for _ in range(2):
        assert bases(joined(await soon(log.read(0, size)))) == kept
    assert bases(joined(await soon(log.read(1, 10 * SIZE)))) == [*range(3, 33, 3)]
    await store.close()
    store = await opened(data, tail_cache_bytes=0)
    for _ in range(2):
        assert bases(read_in(await soon(store.log(1).lend(0, size, least=1000)))) == kept
    await store.close()


@in_a_loop
async def test_a_gap_that_contradicts_what_follows_it_is_damage(data: Path) -> None:
    store = await opened(data, tail_cache_bytes=0)
    await filled(store)
    await clean(store, 1, lambda base: base in (0, 5, 9))
    await store.close()
    (path,) = [each for each in segment_files(data) if int(each.stem.split("-")[2]) >= REWRITTEN]
    # offset 5 says that it is 12
    overwrite(path, SIZE, (12).to_bytes(8, "big"))
    store = await opened(data, tail_cache_bytes=0)
    assert bases(joined(await soon(store.log(1).read(0, 10_000)))) == [0]
    await store.close()
    assert not verify(data).ok


@in_a_loop
async def test_whoever_reads_in_between_sees_the_old_or_the_new(data: Path) -> None:
    """A region that was lent before the swap; a read when the swap is written and the loop was not told yet."""
    store = await opened(data, tail_cache_bytes=0, replaced_seconds=0)
    await filled(store)
    log = store.log(1)
    lent = await soon(log.lend(0, 10 * SIZE, least=100))
    place = log.position_of(4)
    swap = await swap_of(store, 1, closed(log), lambda base: base in (4, 17))
    outcomes: list[Outcome] = []
    store.commit([swap], Durability.OS, outcomes.append)
    # the thread writes; nothing else may run here meanwhile
    key = rows.PARTITION_OFFSET.pack(1, 4)
    while store.get(Family.SEGMENT, key) is None:
        pass
    assert outcomes == []
    # it has looked where to begin
    begun = log.read(0, 10_000)
    assert log.position_of(2) == log.position_of(4) == place
    assert log.offset_of(place.ledger, place.entry) == 4
    assert outcomes == []
    assert bases(joined(await soon(begun)))[:1] == [4]
    await store.write([], Durability.OS)
    assert outcomes == [None]
    await asyncio.sleep(0)
    await store.checkpoint()
    assert len(segment_files(data)) == 2
    assert bases(read_in(lent)) == [*range(10)]
    assert bases(await content(log)) == [4, 17, *range(20, 30)]
    await store.close()


@in_a_loop
async def test_the_tail_in_memory_shows_nothing_that_is_gone(data: Path) -> None:
    store = await opened(data)
    await filled(store)
    assert store._cache.used
    await clean(store, 1, lambda base: base == 3)
    assert bases(await content(store.log(1))) == [3, *range(20, 30)]
    await store.close()


@in_a_loop
async def test_others_commit_while_the_rows_of_a_file_are_synced(data: Path) -> None:
    store = await opened(data)
    await filled(store)
    before = len(segment_files(data))
    hold, held = threading.Event(), threading.Event()
    sync = store._database.sync

    def slow() -> None:
        held.set()
        assert hold.wait(20)
        sync()

    store._database.sync = slow  # type: ignore[method-assign]
    reserving = asyncio.ensure_future(store.reserve(1, [0]))
    await asyncio.get_running_loop().run_in_executor(None, held.wait, 20)
    await store.write([append(1, store.log(1).end_offset)], Durability.OS)
    assert not reserving.done()
    # what was appended has begun a segment
    assert len(segment_files(data)) == before + 1, "no file before its row is on disk"
    hold.set()
    (place,) = await reserving
    assert len(segment_files(data)) == before + 2
    store.unreserve(1, [place])
    await store.close()


@in_a_loop
async def test_no_file_is_made_when_its_row_cannot_be_synced(data: Path) -> None:
    store = await opened(data)
    await filled(store)
    before = len(segment_files(data))
    settled: list[bool] = []
    settle = store._database.settle

    def fails() -> None:
        raise Unknown("no sync")

    def seen() -> None:
        settled.append(True)
        settle()

    sync = store._database.sync
    store._database.settle = seen  # type: ignore[method-assign]
    store._database.sync = fails  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="no sync"):
        await store.reserve(1, [0])
    store._database.sync = sync  # type: ignore[method-assign]
    assert len(segment_files(data)) == before
    await store.write([append(1, store.log(1).end_offset)], Durability.OS)
    assert settled == [True], "what came before is made sure of first"
    await store.close()


@pytest.mark.parametrize("at", ["reserved", "filled", "swapped", "checkpoint"])
def test_a_crash_leaves_no_trace(folder: Path, at: str) -> None:
    async def main() -> None:
        data = folder / "data"
        store = await opened(data, replaced_seconds=0)
        await filled(store)
        before = segment_files(data)
        if at == "reserved":
            await store.reserve(1, [0, 17])
            assert len(segment_files(data)) == len(before) + 2
        else:
            swap = await swap_of(store, 1, closed(store.log(1)), lambda base: base in (4, 17))
            if at != "filled":
                await store.write([swap], Durability.OS)
                # until the old ones may go
                await asyncio.sleep(0)
            if at == "checkpoint":
                await store.checkpoint()
        await crash(store)
        again = await opened(data)
        assert again.notices == []
        done = at in ("swapped", "checkpoint")
        assert bases(await content(again.log(1))) == ([4, 17, *range(20, 30)] if done else [*range(30)])
        assert len(segment_files(data)) == (2 if done else 3)
        assert list(again.scan(Family.DOOMED)) == []
        assert not (data / "quarantine").exists()
        # numbers are used once
        (place,) = await again.reserve(1, [0])
        assert place.number == REWRITTEN + (2 if at == "reserved" else 1)
        again.unreserve(1, [place])
        await again.checkpoint()
        await again.close()
        assert verify(data).ok

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="the recorder reads /proc")
@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_leaves_the_old_or_the_new(folder: Path, seed: int) -> None:
    async def main() -> None:
        chance: random.Random = Worst(seed) if seed % 3 == 0 else random.Random(seed)
        recorder = Recorder()
        data = folder / "data"
        store = await open_recorded(data, recorder, boot="before", replaced_seconds=0)
        await filled(store)
        if seed % 2:
            await store.checkpoint()
        swap = await swap_of(store, 1, closed(store.log(1)), lambda base: base in (4, 17))
        assert swap.new is not None
        recorder.synced[swap.new.place.path] = Path(swap.new.place.path).read_bytes()
        await store.write([swap], Durability.FSYNC if seed % 4 == 1 else Durability.OS)
        await asyncio.sleep(0)
        if seed % 4 == 3:
            await store.checkpoint()
        await store.write([append(1, 30)], Durability.OS)
        store._database._db.cancel_all_background(True)
        recorder.image(data, folder / "image", chance)
        await crash(store)
        image = await rocksdb.open(folder / "image", boot="after", tail_cache_bytes=0)
        assert not image.read_only
        log = image.log(1)
        assert not log.refuses
        found = bases(await content(log))
        old = [each for each in range(31) if each < log.end_offset]
        new = [each for each in (4, 17, *range(20, 31)) if each < log.end_offset]
        assert found in (old, new)
        if seed % 4 in (1, 3):
            assert found == new
        for each in found:
            position = log.position_of(each)
            assert log.offset_of(position.ledger, position.entry) == each
        await image.write([append(1, log.end_offset)], Durability.OS)
        await image.close()
        assert verify(folder / "image").ok

    asyncio.run(main())


@in_a_loop
async def test_a_log_that_a_power_cut_shortens_behind_a_swap_counts_its_entries_on(data: Path) -> None:
    store = await opened(data, boot="before")
    await filled(store)
    await store.checkpoint()
    await clean(store, 1, lambda base: base in (4, 17, 19))
    place = store.log(1).position_of(19)
    active = [each for each in segment_files(data) if "-00000000000000000020-" in each.name]
    # what the active segment had is lost
    for base in range(30, 32):
        await store.write([append(1, base)], Durability.OS)
    await crash(store)
    for path in [*active, *(each for each in segment_files(data) if "0030-" in each.name)]:
        os.truncate(path, 0)
    again = await opened(data, boot="after")
    log = again.log(1)
    assert (log.end_offset, log.position_of(19)) == (20, place) or log.end_offset == 30
    (ledger,) = log.ledgers()[:1]
    if log.end_offset == 20:
        assert ledger.entries == place.entry + 1
    await again.close()


@in_a_loop
async def test_a_swap_whose_outcome_is_not_known_is_there_or_not_after_the_next_start(data: Path) -> None:
    for mode in ("before", "after"):
        faults = Faults()
        store = await open_faulty(data / mode, faults, replaced_seconds=0)
        await filled(store)
        log = store.log(1)
        swap = await swap_of(store, 1, closed(log), lambda base: base == 9)
        faults.arm((0, mode))
        with pytest.raises(Exception, match="WriteBatch"):
            await store.write([swap], Durability.OS)
        faults.disarm()
        assert log.stale
        kept = [9, *range(20, 30)] if mode == "after" else [*range(30)]
        assert bases(await content(store.log(1))) == kept
        await crash(store)
        again = await opened(data / mode)
        assert again.notices == []
        assert bases(await content(again.log(1))) in ([9, *range(20, 30)], [*range(30)])
        await again.close()
        assert verify(data / mode).ok


@in_a_loop
async def test_what_is_dropped_or_given_up_leaves_no_file(data: Path) -> None:
    store = await opened(data, replaced_seconds=0)
    await filled(store)
    await clean(store, 1, lambda base: base == 9)
    (place,) = await store.reserve(1, [0])
    store.unreserve(1, [place])
    await store.write([DropLog(1)], Durability.OS)
    await asyncio.sleep(0)
    await store.checkpoint()
    assert segment_files(data) == []
    await store.close()


@in_a_loop
async def test_a_segment_in_use_is_not_given_up(data: Path) -> None:
    store = await opened(data)
    await filled(store)
    swap = await swap_of(store, 1, closed(store.log(1)), lambda base: base == 9)
    await store.write([swap], Durability.OS)
    assert swap.new is not None
    store.unreserve(1, [swap.new.place])
    await store.checkpoint()
    assert bases(await content(store.log(1))) == [9, *range(20, 30)]
    await store.close()


@in_a_loop
async def test_a_file_that_is_not_whole_is_not_swapped_in(data: Path) -> None:
    store = await opened(data)
    await filled(store)
    swap = await swap_of(store, 1, closed(store.log(1)), lambda base: base == 9)
    assert swap.new is not None
    os.truncate(swap.new.place.path, SIZE - 1)
    with pytest.raises(Exception, match="not all of it"):
        await store.write([swap], Durability.OS)
    assert bases(await content(store.log(1))) == [*range(30)]
    await store.close()


@in_a_loop
async def test_whoever_rewrites_a_segment_is_told_of_damage(data: Path) -> None:
    store = await opened(data)
    await filled(store)
    (first, *_) = store.log(1).sources(0, 30)
    assert len(list(batches(first))) == 10
    overwrite(Path(first.path), 4 * SIZE + 80, b"\xff\xff\xff")
    seen = []
    with pytest.raises(Damaged, match=f"byte {4 * SIZE}"):
        seen += [each.entry for each in batches(first)]
    os.truncate(first.path, 3 * SIZE)
    with pytest.raises(Damaged, match=f"byte {3 * SIZE}: the file ends"):
        list(batches(first))
    await store.close()


@in_a_loop
async def test_a_file_that_somebody_has_removed_is_not_made_again(data: Path) -> None:
    store = await opened(data)
    await filled(store)
    (place,) = await store.reserve(1, [0])
    os.unlink(place.path)
    with pytest.raises(FileNotFoundError):
        SegmentWriter(place, 0)
    await store.close()


def test_a_swap_is_a_write_of_its_log() -> None:
    from store.api import of_partition
    from store.scopes import of_write

    assert of_write(Swap(7, ((0, 1),), Rewritten(Place("", 0, 2), 1, 0, 0, 0, 0, b""))) == of_partition(7)
    assert of_write(Append(7, 0, 1, 0, [b""])) == of_partition(7)
