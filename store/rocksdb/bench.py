"""What the store costs: `python -m store.rocksdb.bench [folder]`. Medians; a minute at most; nothing is kept."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from store import batch, rocksdb
from store.api import Append, Durability, Family, Outcome, Put, Trim
from store.rocksdb import RocksStore

PRODUCERS = 64


class Load:
    """Appends of one size to some logs, at their ends."""

    def __init__(self, store: RocksStore, partitions: int, size: int, per_group: int, puts: int) -> None:
        self.store = store
        self.partitions = list(range(1, partitions + 1))
        self.per_log = max(1, per_group // partitions)
        self.touched = min(partitions, per_group)
        self.ends = dict.fromkeys(self.partitions, 0)
        payload = os.urandom(max(0, size - batch.HEADER_BYTES))
        self.template = batch.build(0, payload, timestamp=1)
        self.puts = puts
        self.turn = 0

    def group(self) -> list[Append | Put]:
        writes: list[Append | Put] = []
        tail = self.template[8:]
        for step in range(self.touched):
            partition = self.partitions[(self.turn + step) % len(self.partitions)]
            base = self.ends[partition]
            made = [(base + nth).to_bytes(8, "big") + tail for nth in range(self.per_log)]
            self.ends[partition] = base + self.per_log
            writes.append(
                Append(partition, base, base + self.per_log, 1, made, self.store.leader_epoch(partition))
            )
        for producer in range(self.puts):
            partition = self.partitions[producer % len(self.partitions)]
            key = partition.to_bytes(4, "big") + producer.to_bytes(8, "big")
            writes.append(Put(Family.DEDUP, key, b"v" * 60))
        self.turn += self.touched
        return writes


async def latency(load: Load, durability: Durability, groups: int, pause: float = 0.0) -> list[float]:
    """Seconds from `commit` to `done`, one group at a time."""
    loop = asyncio.get_running_loop()
    found: list[float] = []
    for _ in range(groups):
        writes = load.group()
        future: asyncio.Future[float] = loop.create_future()
        began = time.perf_counter()

        def done(outcome: Outcome, future: asyncio.Future[float] = future) -> None:
            future.set_result(time.perf_counter())

        load.store.commit(writes, durability, done)
        found.append(await future - began)
        if pause:
            await asyncio.sleep(pause)
    return found


async def throughput(load: Load, durability: Durability, total: int, in_flight: int) -> float:
    """MB/s with so many groups queued at a time."""
    size = len(load.template) * load.per_log * load.touched
    left = max(in_flight, total // size)
    count = left
    free = asyncio.Semaphore(in_flight)
    began = time.perf_counter()
    while left:
        await free.acquire()
        load.store.commit(load.group(), durability, lambda outcome: free.release())
        left -= 1
    for _ in range(in_flight):
        await free.acquire()
    return count * size / (time.perf_counter() - began) / 1e6


def shown(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p50, p99 = statistics.median(ordered) * 1e6, ordered[len(ordered) * 99 // 100] * 1e6
    print(f"{name:<66} p50 {p50:9.1f} us   p99 {p99:9.1f} us   worst {ordered[-1] * 1e6:9.0f} us")


async def fresh(folder: Path) -> RocksStore:
    shutil.rmtree(folder, ignore_errors=True)
    return await rocksdb.open(folder)


async def groups(folder: Path) -> None:
    for partitions, batches, puts in [(1, 1, 0), (1, 30, 0), (1, 30, 64), (64, 64, 64)]:
        store = await fresh(folder)
        load = Load(store, partitions, 170, batches, puts)
        await latency(load, Durability.OS, 500)
        found = await latency(load, Durability.OS, 5000)
        shown(f"os: group of {batches} x 170 B over {partitions} log(s), {puts} other rows", found)
        found = await latency(load, Durability.FSYNC, 500)
        shown(f"fsync: group of {batches} x 170 B over {partitions} log(s), {puts} other rows", found)
        await store.close()


async def appends(folder: Path) -> None:
    for size, per_group, durability in [
        (1024, PRODUCERS, Durability.OS),
        (16384, PRODUCERS, Durability.OS),
        (1 << 20, 1, Durability.OS),
        (1 << 20, 4, Durability.OS),
        (1024, PRODUCERS, Durability.FSYNC),
        (16384, PRODUCERS, Durability.FSYNC),
        (1 << 20, 4, Durability.FSYNC),
    ]:
        for partitions in (1, 64):
            store = await fresh(folder)
            load = Load(store, partitions, size, per_group, 0)
            rate = await throughput(load, durability, 400_000_000, 4)
            print(
                f"{durability}: appends of {per_group} x {size} B over {partitions} log(s){rate:12.0f} MB/s"
            )
            await store.close()


async def reads(folder: Path) -> None:
    store = await fresh(folder)
    for partition, size in ((1, 170), (2, 16384)):
        load = Load(store, 1, size, max(1, 65536 // size), 0)
        load.partitions, load.ends = [partition], {partition: 0}
        await throughput(load, Durability.OS, 30_000_000, 1)
        log = store.log(partition)
        for cached in (True, False):
            if not cached:
                log.tail.clear()
            found = []
            step = max(1, (log.end_offset - (1 << 20) // size) // 300)
            for offset in range(0, log.end_offset - (1 << 20) // size, step):
                began = time.perf_counter()
                answer = log.read(offset, 1 << 20)
                if not isinstance(answer, list):
                    await answer
                found.append(time.perf_counter() - began)
            shown(f"read of 1 MiB of {size} B batches, {'tail' if cached else 'page'} cache", found)
    await store.close()


async def starts(folder: Path) -> None:
    store = await fresh(folder)
    load = Load(store, 1000, 170, 1000, 0)
    began = time.process_time()
    await latency(load, Durability.OS, 1)
    print(
        f"first append to 1,000 logs in one commit: {(time.process_time() - began) * 1000:.1f} us each, CPU"
    )
    # a row each, and no file
    await store.write([Trim(partition, 0) for partition in range(10_000, 30_000)], Durability.OS)
    await store.close()
    for _ in range(2):
        began = time.perf_counter()
        store = await rocksdb.open(folder)
        print(f"open with 20,000 logs: {(time.perf_counter() - began) * 1000:.1f} ms")
        await store.close()


async def main(folder: Path) -> None:
    parts: list[Callable[[Path], Awaitable[None]]] = [groups, reads, starts, appends]
    for part in parts:
        await part(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m store.rocksdb.bench", description=__doc__)
    parser.add_argument("folder", nargs="?", help="where to make the stores (default: the system's folder)")
    where = Path(tempfile.mkdtemp(prefix="magnetar-bench-", dir=parser.parse_args().folder))
    try:
        asyncio.run(main(where / "data"))
    finally:
        shutil.rmtree(where, ignore_errors=True)
