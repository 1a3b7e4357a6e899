"""The process that compacts: what it is told, what it does with files, and how it ends."""

from __future__ import annotations

import asyncio
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from gateway.compaction import child, messages, running
from gateway.compaction.messages import Segment, Work, pack_aborted, unpack_aborted
from gateway.compaction.passes import KEY_BYTES
from gateway.compaction.running import PassFailed
from gateway.wire import records
from gateway.wire.records import Record
from store import rocksdb
from store.api import Append, Durability, Refused, Roll, Swap
from store.rewriting import Place, Rewritten
from store.rocksdb import RocksStore
from tests.store.making import bases, content

EVERYTHING = 1 << 62


class Receiver:
    """Swaps what is written into log 1."""

    def __init__(self, store: RocksStore) -> None:
        self.store = store
        self.swapped: list[tuple[tuple[tuple[int, int], ...], Rewritten | None]] = []
        self.unreserved: list[Place] = []
        self.refuses = False

    async def reserve(self, base_offset: int) -> Place:
        (place,) = await self.store.reserve(1, [base_offset])
        return place

    async def swap(self, old: tuple[tuple[int, int], ...], new: Rewritten | None) -> None:
        if self.refuses:
            raise Refused("not now")
        self.swapped.append((old, new))
        await self.store.write([Swap(1, old, new)], Durability.OS)

    def unreserve(self, place: Place) -> None:
        self.unreserved.append(place)
        self.store.unreserve(1, [place])


def with_store(test: Callable[[RocksStore], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def main() -> None:
            store = await rocksdb.open(tmp_path / "data", replaced_seconds=0, tail_cache_bytes=0)
            try:
                await test(store)
            finally:
                await store.close()

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


async def filled(store: RocksStore, keys: int = 3, count: int = 20, codec: int = 0) -> None:
    """Five batches to a segment, one record each, of the keys in turn."""
    for number in range(count):
        record = Record(0, number, b"k%02d" % (number % keys), b"v" * 50, [])
        data = records.build_batch([record], number, codec)
        await store.write([Append(1, number, number + 1, number, [data])], Durability.OS)
        if number % 5 == 4 and number < count - 1:
            await store.write([Roll(1)], Durability.OS)


def work(store: RocksStore, **changed: Any) -> Work:
    log = store.log(1)
    segments = [Segment.of(each) for each in log.sources(0, log.end_offset)]
    given = {
        "segments": segments,
        "first_dirty": 0,
        "end": segments[-1].next_offset,
        "ends": False,
        "tombstones_to": 0,
        "markers_to": 0,
        "aborted": b"",
        "segment_bytes": 1 << 30,
        "memory": 1 << 20,
        "limit": 1 << 20,
        "bytes_per_second": 1e308,
    }
    return Work(**{**given, **changed})


@pytest.mark.parametrize("codec", range(5))
def test_a_pass_over_files_of_a_store(tmp_path: Path, codec: int) -> None:
    async def test(store: RocksStore) -> None:
        await filled(store, codec=codec)
        receiver = Receiver(store)
        finished = await running.run(work(store), receiver)
        assert (finished.end, finished.keys) == (15, 3)
        ((old, _),) = receiver.swapped
        assert [base for base, _ in old] == [0, 5, 10]
        assert bases(await content(store.log(1))) == [*range(12, 20)]
        # the new one is whole: once more, and nothing comes of it
        again = await running.run(work(store), receiver)
        assert len(receiver.swapped) == len(receiver.unreserved) == 1
        assert again.keys == 3

    with_store(test)(tmp_path)


@with_store
async def test_segments_are_as_large_as_they_may_be(store: RocksStore) -> None:
    await filled(store, keys=50, count=40)
    receiver = Receiver(store)
    size = store.log(1).segments()[0].size
    await running.run(work(store, segment_bytes=3 * size), receiver)
    assert [len(old) for old, _ in receiver.swapped] == [3, 3]
    # the last one stands alone, and nothing of it is to go
    assert len(receiver.unreserved) == 1
    assert bases(await content(store.log(1))) == [*range(40)]


@with_store
async def test_only_what_is_new_is_surveyed(store: RocksStore) -> None:
    await filled(store, keys=1, count=31)
    receiver = Receiver(store)
    finished = await running.run(work(store, end=12), receiver)
    # up to the end all but the last, and nothing behind it
    assert bases(await content(store.log(1))) == [11, *range(12, 31)]
    read = finished.read
    finished = await running.run(work(store, first_dirty=25), receiver)
    assert bases(await content(store.log(1))) == [29, 30]
    assert finished.read < 2 * read


@with_store
async def test_a_pass_gets_on_within_a_segment_whose_clean_keys_would_fill_the_map(store: RocksStore) -> None:
    data = [records.build_batch([Record(0, n, b"k%02d" % (n % 10), b"v", [])], n) for n in range(20)]
    await store.write([Append(1, 0, 20, 0, data), Roll(1)], Durability.OS)
    reached = 0
    for expected in (4, 8, 12, 16, 20):
        asked = work(store, first_dirty=reached, end=20, memory=4 * KEY_BYTES, ends=True)
        finished = await running.run(asked, Receiver(store))
        assert (finished.end, finished.keys) == (expected, 4)
        reached = finished.end
    assert bases(await content(store.log(1))) == [*range(10, 20)]


@with_store
async def test_segments_of_which_nothing_is_left_go_but_for_the_end_of_a_log(store: RocksStore) -> None:
    await filled(store, keys=2)
    # only what the segment behind them has is left
    await store.write([Roll(1)], Durability.OS)
    receiver = Receiver(store)
    size = store.log(1).segments()[0].size
    asked = work(store, segment_bytes=2 * size, ends=True)
    await running.run(asked, receiver)
    assert [new is None for _, new in receiver.swapped] == [True, False]
    assert bases(await content(store.log(1))) == [18, 19]
    # and of nothing but old tombstones the end
    tombstones = [records.build_batch([Record(0, 0, b"k0%d" % n, None, [])], 20 + n) for n in range(2)]
    await store.write([Append(1, 20, 22, 0, tombstones), Roll(1)], Durability.OS)
    await running.run(work(store, tombstones_to=22, ends=True), receiver)
    left = await content(store.log(1))
    assert (bases(left), records.header(left).count) == ([21], 0)


@with_store
async def test_what_is_refused_ends_the_pass(store: RocksStore) -> None:
    await filled(store)
    receiver = Receiver(store)
    receiver.refuses = True
    with pytest.raises(Refused):
        await running.run(work(store), receiver)
    assert bases(await content(store.log(1))) == [*range(20)]


@with_store
async def test_files_that_are_not_there_are_told(store: RocksStore) -> None:
    await filled(store)
    asked = work(store)
    os.unlink(asked.segments[1].path)
    with pytest.raises(PassFailed, match="No such file"):
        await running.run(asked, Receiver(store))


@with_store
async def test_what_it_says_last_is_told(store: RocksStore) -> None:
    await filled(store)
    asked = work(store)
    # what no gateway sends
    asked.segments[0].marks = []
    with pytest.raises(PassFailed, match="nothing says which messages"):
        await running.run(asked, Receiver(store))
    asked.end = "x"  # type: ignore[assignment]
    with pytest.raises(PassFailed, match="What came makes no sense"):
        await running.run(asked, Receiver(store))


def test_it_ends_with_the_gateway() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.compaction.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    # half a message
    process.stdin.write(struct.pack(">I", 1000) + b"x")
    process.stdin.flush()
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(30) == 1


def test_it_runs_at_the_lowest_priority(tmp_path: Path) -> None:
    async def test(store: RocksStore) -> None:
        await filled(store)
        nice: list[int] = []

        class Looking(Receiver):
            async def reserve(self, base_offset: int) -> Place:
                pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
                nice.extend(os.getpriority(os.PRIO_PROCESS, int(pid)) for pid in pids)
                return await super().reserve(base_offset)

        await running.run(work(store), Looking(store))
        assert 19 in nice

    with_store(test)(tmp_path)


def test_it_keeps_to_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(time, "sleep", slept.append)
    pace = child.Pace(1000)
    for _ in range(10):
        pace.spend(500)
    assert sum(slept) == pytest.approx(5)
    slept.clear()
    child.Pace(0).spend(1 << 40)
    assert slept == []


def test_messages_come_back_as_they_went() -> None:
    aborted = [(1, 2, 3), (5, 1 << 40, -1)]
    assert unpack_aborted(pack_aborted(aborted)) == aborted
    given = messages.Given("p", 5, 1 << 31)
    framed = messages.framed(given)
    assert messages.to_child.decode(framed[messages.LENGTH.size :]) == given
    assert given.place == Place("p", 5, 1 << 31)
