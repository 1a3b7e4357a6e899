"""After a power cut: what was promised is there, what was not may be gone, and nothing is half there."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from store import batch, limits, rocksdb
from store.api import Delete, DropLog, Durability, Family, Log, Put, Trim, Write
from store.rocksdb.recovery import LostOffsets
from store.rocksdb.removal import OF_A_LOG
from store.rocksdb.verify import verify
from tests.examples import examples
from tests.store.making import Clock, append, content
from tests.store.rocksdb.faults import Faults, crash, open_faulty
from tests.store.rocksdb.powercut import Recorder, open_recorded
from tests.store.rocksdb.starting import segment_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the recorder reads /proc")

PARTITIONS = (1, 2, 3, 4)
MOVED_TO = 4
"""The log that carried appends go to, as a dead-letter topic is."""


async def load(
    store: rocksdb.RocksStore, chance: random.Random, policy: str, promised: set[bytes]
) -> dict[bytes, bytes]:
    """Random commits. Each names itself in a row, and in the payload of its batches. Answers what was written."""
    ends = dict.fromkeys(PARTITIONS, 0)
    contents: dict[bytes, bytes] = {}
    for partition in PARTITIONS:
        store.log(partition).configure(segment_bytes=chance.choice((3_000, 100_000, 1 << 30)))
    for number in range(chance.randint(5, 40)):
        name = f"{number:04d}".encode()
        durable = policy == "fsync" or (policy == "mixed" and chance.random() < 0.4)
        writes: list[Write] = [Put(Family.GROUP, name, b"x")]
        payload = b""
        for partition in chance.sample(PARTITIONS[:3], chance.randint(0, 3)):
            sizes = [chance.choice((20, 500, 5000, 100_000)) for _ in range(chance.randint(1, 3))]
            made = append(partition, ends[partition], sizes)
            ends[partition] = made.next_offset
            writes.append(made)
            payload += b"".join(made.batches)
        if chance.random() < 0.3:
            made = append(MOVED_TO, ends[MOVED_TO], [chance.choice((20, 5000, 80_000))], carried=True)
            ends[MOVED_TO] = made.next_offset
            writes.append(made)
            writes.append(Put(Family.ACK, b"moved" + name, made.base_offset.to_bytes(8, "big")))
        elif chance.random() < 0.1:
            # somebody also writes to it directly
            made = append(MOVED_TO, ends[MOVED_TO], [700])
            ends[MOVED_TO] = made.next_offset
            writes.append(made)
        if chance.random() < 0.1:
            partition = chance.choice(PARTITIONS[:3])
            writes.append(Trim(partition, chance.randint(store.log(partition).start_offset, ends[partition])))
        await store.write(writes, Durability.FSYNC if durable else Durability.OS)
        contents[name] = payload
        if durable:
            promised.update(contents)
        if chance.random() < 0.1:
            await store.checkpoint()
            promised.update(contents)
    return contents


async def one(folder: Path, seed: int, policy: str) -> None:
    chance = random.Random(seed)
    recorder = Recorder()
    clock = Clock()
    store = await open_recorded(
        folder / "data", recorder, clock=clock, boot="before", inline_bytes=chance.choice((-1, 1 << 18))
    )
    # names of commits whose rows must be there: those with fsync, and all before them
    rows_promised: set[bytes] = set()
    contents = await load(store, chance, policy, rows_promised)
    ends = {partition: store.log(partition).end_offset for partition in PARTITIONS}
    before = {partition: await content(store.log(partition)) for partition in PARTITIONS}
    store._database._db.cancel_all_background(True)
    recorder.image(folder / "data", folder / "image", chance)
    await crash(store)

    image = await rocksdb.open(folder / "image", clock=clock, boot="after", tail_cache_bytes=0)
    assert not image.read_only, image.notices
    there = {key for key, _ in image.scan(Family.GROUP)}
    assert there == set(sorted(contents)[: len(there)]), "commits survive in order"
    assert rows_promised <= there
    for partition in PARTITIONS:
        log = image.log(partition)
        assert not log.refuses, image.notices
        found = await content(log)
        assert len(found) == sum(size for _, size, base, _ in batch.walk(found) if base >= 0)
        whole = {
            base: before[partition][at : at + size] for at, size, base, _ in batch.walk(before[partition])
        }
        for at, size, base, following in batch.walk(found):
            assert batch.intact(found[at : at + size])
            if base in whole:
                assert found[at : at + size] == whole[base]
            position = log.position_of(following - 1)
            assert log.offset_of(position.ledger, position.entry) == base
        if policy == "fsync" and there == set(contents):
            assert log.end_offset == ends[partition]
            assert found.endswith(before[partition])
        assert sum(each.size for each in log.segments()) == log.size
    moved = {base for _, _, base, _ in batch.walk(await content(image.log(MOVED_TO)))}
    for key, value in image.scan(Family.ACK):
        assert int.from_bytes(value, "big") in moved, f"{key!r} was acked, and what it moved is gone"
    # and it goes on
    await image.write(
        [append(partition, image.log(partition).end_offset) for partition in PARTITIONS], Durability.OS
    )
    await image.close()
    again = await rocksdb.open(folder / "image", clock=clock, boot="after")
    assert again.notices == []
    await again.close()


@pytest.mark.parametrize("policy", ["os", "fsync", "mixed"])
@pytest.mark.parametrize("first", range(0, examples(40), 10))
def test_power_cuts(folder: Path, policy: str, first: int) -> None:
    for seed in range(first, first + 10):
        place = folder / str(seed)
        place.mkdir()
        try:
            asyncio.run(one(place, seed, policy))
        except BaseException as error:
            error.add_note(f"seed {seed}, policy {policy}")
            raise


async def with_drops(folder: Path, seed: int) -> None:
    """Logs with a row each in the catalog, as topics have: of what is not in it nothing may be left."""
    chance = random.Random(seed)
    recorder = Recorder()
    store = await open_recorded(folder / "data", recorder, boot="before")
    ends: dict[int, int] = {}
    for number in range(1, chance.randint(10, 60)):
        choice, key = chance.random(), number.to_bytes(4, "big")
        writes: list[Write]
        if choice < 0.4 or not ends:
            writes, ends[number] = [Put(Family.CATALOG, key, b"x")], 0
        else:
            partition = chance.choice(list(ends))
            key = partition.to_bytes(4, "big")
            made = append(partition, ends[partition], [chance.choice((20, 5000, 80_000))])
            ends[partition] = made.next_offset
            writes = [made, Put(Family.DEDUP, key + b"producer", b"x")]
            if choice > 0.7:
                del ends[partition]
                writes = [*writes[: chance.choice((0, 2))], Delete(Family.CATALOG, key), DropLog(partition)]
        await store.write(writes, chance.choice((Durability.OS, Durability.OS, Durability.FSYNC)))
        if chance.random() < 0.1:
            await store.checkpoint()
    store._database._db.cancel_all_background(True)
    recorder.image(folder / "data", folder / "image", chance)
    await crash(store)
    # the folder as a killed process leaves it, and as a power cut may
    for data, boot in ((folder / "data", "before"), (folder / "image", "after")):
        again = await rocksdb.open(data, boot=boot)
        assert not again.read_only, again.notices
        there = {key for key, _ in again.scan(Family.CATALOG)}
        if boot == "before":
            assert there == {partition.to_bytes(4, "big") for partition in ends}
        written = {key for key, _ in again.scan(Family.LOG)}
        assert written <= there
        for family in OF_A_LOG:
            assert {key[:4] for key, _ in again.scan(family)} <= written, family
        assert {bytes.fromhex(path.name[:8]) for path in segment_files(data)} <= written
        for key in there:
            partition = int.from_bytes(key, "big")
            end = again.log(partition).end_offset
            assert end == ends.get(partition) or boot == "after"
            await again.write([append(partition, end)], Durability.OS)
        await again.close()
        assert verify(data).ok


@pytest.mark.parametrize("first", range(0, examples(40), 10))
def test_of_a_log_that_is_dropped_or_was_never_made_a_crash_leaves_nothing(folder: Path, first: int) -> None:
    for seed in range(first, first + 10):
        place = folder / str(seed)
        place.mkdir()
        try:
            asyncio.run(with_drops(place, seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_a_new_data_folder_is_named_for_good_before_the_store_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[str, set[str]] = {}

    def note(path: Path | str) -> None:
        synced[str(path)] = set(os.listdir(path))

    monkeypatch.setattr("store.rocksdb.opening.sync_folder", note)
    monkeypatch.setattr("store.rocksdb.folder.sync_folder", note)

    async def main() -> None:
        store = await rocksdb.open(folder / "deep" / "data")
        assert {"db", "segments"} <= synced[str(folder / "deep" / "data")]
        assert "data" in synced[str(folder / "deep")]
        assert "deep" in synced[str(folder)]
        await store.close()

    asyncio.run(main())


def test_a_removal_is_synced_before_the_row_goes_that_would_repeat_it(folder: Path) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        await store.write([append(1, 0)], Durability.FSYNC)
        await store.write([DropLog(1)], Durability.FSYNC)
        faults.arm()
        faults.broken.add("sync_folder")
        await store.checkpoint()
        assert not list((folder / "data" / "segments").glob("*/*.seg"))
        faults.disarm()
        await store.checkpoint()
        assert len(list(store.scan(Family.DOOMED))) == 1, "a power cut may bring the file back"
        await crash(store)
        faults.arm()
        again = await open_faulty(folder / "data", faults)
        assert "sync_folder" in faults.seen
        assert list(again.scan(Family.DOOMED)) == []
        await again.close()

    asyncio.run(main())


def test_a_machine_that_stopped_is_told_of(folder: Path) -> None:
    async def main() -> None:
        store = await rocksdb.open(folder / "data", boot="one")
        await store.write([append(1, 0)], Durability.OS)
        await crash(store)
        again = await rocksdb.open(folder / "data", boot="one")
        assert again.notices == [], "only the process died: nothing is lost"
        (wal,) = sorted((folder / "data" / "db").glob("*.log"))[-1:]
        synced = wal.stat().st_size
        await again.write([append(1, 1)], Durability.OS)
        await crash(again)
        os.truncate(wal, synced)
        last = await rocksdb.open(folder / "data", boot="two")
        assert "may be gone" in last.notices[0]
        assert "at least" in last.notices[0]
        await last.close()
        clean = await rocksdb.open(folder / "data", boot="three")
        assert clean.notices == []
        await clean.close()

    asyncio.run(main())


def test_every_gap_between_what_the_journal_kept_is_told(folder: Path) -> None:
    """And what was trimmed stays trimmed, though the cut is below."""
    told: list[tuple[int, list[tuple[int, int]]]] = []

    def clip(rows: object, partition: int, lost: LostOffsets) -> list[Put]:
        told.append((partition, list(lost)))
        return []

    async def main() -> None:
        store = await rocksdb.open(folder / "data", boot="one")
        await store.write([append(1, 0)], Durability.OS)
        await store.checkpoint()
        for base in range(1, 6):
            await store.write([append(1, base)], Durability.OS if base % 2 else Durability.FSYNC)
        await store.write([Trim(1, 3)], Durability.FSYNC)
        sizes = [len(each) for each in append(1, 0).batches]
        await crash(store)
        (segment,) = (folder / "data" / "segments").glob("*/*.seg")
        os.truncate(segment, sizes[0])
        again = await rocksdb.open(folder / "data", boot="two", clip=clip)
        assert told == [(1, [(1, 2), (3, 4), (5, 6)])]
        log = again.log(1)
        assert (log.start_offset, log.end_offset) == (3, 5)
        assert [base for _, _, base, _ in batch.walk(await content(log))] == [4]
        assert any("lost the offsets 1 to 1, 3 to 3, 5 to 5" in notice for notice in again.notices)
        await again.close()

    asyncio.run(main())


def ids_lead_back(log: Log) -> list[int]:
    """The offsets of a log; each one's message id leads to it."""
    offsets = range(log.start_offset, log.end_offset)
    found = []
    for offset in offsets:
        position = log.position_of(offset)
        base = log.offset_of(position.ledger, position.entry)
        if base not in found:
            found.append(base)
    return found


def test_message_ids_of_an_older_ledger_hold_after_a_cut_into_it(folder: Path) -> None:
    async def main() -> None:
        store = await rocksdb.open(folder / "data", boot="one")
        store.rollover = limits.Rollover(entries=4, least_ms=0)
        for base in range(10):
            await store.write([append(1, base)], Durability.OS)
        before = [store.log(1).position_of(offset) for offset in range(6)]
        size = len(append(1, 0).batches[0])
        await crash(store)
        (segment,) = (folder / "data" / "segments").glob("*/*.seg")
        # two of the second ledger are left, and the third one is gone
        os.truncate(segment, 6 * size)
        again = await rocksdb.open(folder / "data", boot="two")
        log = again.log(1)
        await again.write([append(1, 6)], Durability.OS)
        assert ids_lead_back(log) == list(range(7))
        assert [log.position_of(offset) for offset in range(6)] == before
        assert [(each.first_offset, each.entries) for each in log.ledgers()] == [(0, 4), (4, 2), (6, 1)]
        await again.close()

    asyncio.run(main())


def test_message_ids_lead_back_when_the_ledger_of_a_cut_was_trimmed(folder: Path) -> None:
    async def main() -> None:
        store = await rocksdb.open(folder / "data", boot="one")
        store.rollover = limits.Rollover(entries=2, least_ms=0)
        await store.write([append(1, 0)], Durability.OS)
        await store.checkpoint()
        for base in range(1, 6):
            await store.write([append(1, base)], Durability.OS if base % 2 else Durability.FSYNC)
        await store.write([Trim(1, 3)], Durability.FSYNC)
        size = len(append(1, 0).batches[0])
        await crash(store)
        (segment,) = (folder / "data" / "segments").glob("*/*.seg")
        os.truncate(segment, size)
        again = await rocksdb.open(folder / "data", boot="two")
        log = again.log(1)
        assert ids_lead_back(log) == [4]
        await again.write([append(1, 5)], Durability.OS)
        assert ids_lead_back(log) == [4, 5]
        await again.close()

    asyncio.run(main())
