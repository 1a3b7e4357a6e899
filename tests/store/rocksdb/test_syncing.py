"""Logs that were synced because somebody asked survive a power cut, under `os` too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from store import rocksdb
from store.api import Durability, Family, Put, StoreError
from store.rocksdb import RocksStore
from store.rocksdb.files import Files
from tests.store.making import append, content, soon
from tests.store.rocksdb.faults import Faults, crash, open_faulty
from tests.store.rocksdb.powercut import Recorder, Worst, open_recorded
from tests.store.rocksdb.starting import in_a_loop

LARGE = 100_000


async def after_a_power_cut(recorder: Recorder, data: Path) -> RocksStore:
    image = data.with_name("image")
    recorder.image(data, image, Worst())
    return await rocksdb.open(image, boot="after")


@in_a_loop
async def test_what_comes_after_it_is_not_there_without_the_batches(data: Path) -> None:
    recorder = Recorder()
    store = await open_recorded(data, recorder, boot="before")
    await store.write([append(1, 0, [LARGE]), append(2, 0, [LARGE])], Durability.OS)
    # a second segment of the same log
    store.log(1).configure(segment_bytes=1)
    await store.write([append(1, 1, [LARGE])], Durability.OS)
    await soon(store.sync([(1, 0)]))
    await store.write([Put(Family.META, b"said", b"so")], Durability.OS)
    again = await after_a_power_cut(recorder, data)
    assert again.get(Family.META, b"said") == b"so"
    assert len(await content(again.log(1))) == store.log(1).size
    assert again.log(2).end_offset == 0
    await again.close()
    await store.close()


@in_a_loop
async def test_what_a_killed_process_left_to_the_system_is_synced_too(data: Path) -> None:
    recorder = Recorder()
    store = await open_recorded(data, recorder, boot="before")
    store.log(1).configure(segment_bytes=1)
    for base in range(3):
        await store.write([append(1, base, [LARGE])], Durability.OS)
    await crash(store)
    store = await open_recorded(data, recorder, boot="before")
    store.log(1).configure(segment_bytes=1)
    recorder.synced.clear()
    await soon(store.sync([(1, 1)]))
    names = [Files.parse(Path(each).name) for each in recorder.synced]
    assert sorted(name[1] for name in names if name is not None) == [1, 2]
    recorder.synced.clear()
    assert store.sync([(1, 1)]) is None
    # what lies before it was not asked for
    await soon(store.sync([(1, 0)]))
    assert len(recorder.synced) == 3
    await store.close()


@in_a_loop
async def test_there_is_nothing_to_wait_for_where_all_is_on_disk(data: Path) -> None:
    store = await rocksdb.open(data)
    await store.write([append(1, 0)], Durability.OS)
    await soon(store.sync([(1, 0), (5, 0)]))
    await store.checkpoint()
    assert store.sync([(1, 0)]) is None
    await store.write([append(1, 1)], Durability.FSYNC)
    assert store.sync([(1, 0)]) is None
    await store.write([append(1, 2, carried=True)], Durability.OS)
    assert store.sync([(1, 0)]) is None
    await store.write([append(1, 3)], Durability.OS)
    waits = store.sync([(1, 0)])
    assert waits is not None
    await waits
    await store.close()


@in_a_loop
async def test_a_sync_that_failed_is_told_to_all_who_ask_from_then_on(data: Path) -> None:
    faults = Faults()
    store = await open_faulty(data, faults)
    await store.write([append(1, 0), append(2, 0)], Durability.OS)
    await soon(store.sync([(2, 0)]))
    faults.arm((0, "EIO"))
    with pytest.raises(StoreError, match="could not be synced"):
        await soon(store.sync([(1, 0)]))
    assert faults.struck.startswith("sync")
    faults.disarm()
    assert "failed" in store.notices[0]
    with pytest.raises(StoreError, match="could not be synced"):
        await soon(store.sync([(1, 0)]))
    await soon(store.sync([(2, 0)]))
    # the log goes on in another file
    await store.write([append(1, 1)], Durability.OS)
    assert [each.base_offset for each in store.log(1).segments()] == [0, 1]
    await store.close()
    again = await open_faulty(data, Faults())
    assert again.log(1).end_offset == 2
    await again.close()


@in_a_loop
async def test_a_failure_that_a_checkpoint_was_told_of_is_no_success_here(data: Path) -> None:
    """The system tells of it once."""
    faults = Faults()
    store = await open_faulty(data, faults)
    await store.write([append(1, 0)], Durability.OS)
    faults.arm((0, "EIO"), gate=True)
    checkpoint = asyncio.ensure_future(store.checkpoint())
    await asyncio.to_thread(faults.entered.wait, 10)
    waits = asyncio.ensure_future(soon(store.sync([(1, 0)])))
    # it stands behind the checkpoint in the thread
    for _ in range(3):
        await asyncio.sleep(0)
    assert faults.go is not None
    faults.go.set()
    await checkpoint
    assert faults.struck.startswith("sync")
    with pytest.raises(StoreError, match="could not be synced"):
        await waits
    faults.disarm()
    await store.close()


@in_a_loop
async def test_a_closed_store_syncs_nothing(data: Path) -> None:
    store = await rocksdb.open(data)
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        store.sync([(1, 0)])
