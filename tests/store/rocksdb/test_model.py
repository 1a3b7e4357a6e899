"""Memory, RocksDB and a naive model, driven by the same random steps, must tell the same of everything."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from store import limits, memory, rocksdb
from store.api import (
    Append,
    Delete,
    DeleteRange,
    DropLog,
    Durability,
    Family,
    Log,
    Put,
    Store,
    Trim,
    Write,
)
from store.memory import MemoryStore
from store.rocksdb import RocksStore
from tests.examples import examples
from tests.store.making import Clock, append, content, joined, soon
from tests.store.rocksdb.conftest import MEMORY
from tests.store.rocksdb.faults import crash

T = TypeVar("T")

PARTITIONS = st.integers(1, 4)
KEYS = st.binary(min_size=1, max_size=3).map(lambda key: bytes(byte % 3 for byte in key))
SIZES = st.lists(st.sampled_from([0, 10, 400, 3000, 9000, 70_000]), min_size=1, max_size=8)
DURABILITY = st.sampled_from(list(Durability))


class Naive:
    """Batches by log as (base, next, timestamp, bytes), and rows."""

    def __init__(self) -> None:
        self.logs: dict[int, list[tuple[int, int, int, bytes]]] = {}
        self.starts: dict[int, int] = {}
        self.rows: dict[bytes, bytes] = {}
        self.next_partition = 1


class Stores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="magnetar-", dir=MEMORY if MEMORY.is_dir() else None))
        self.clock = Clock()
        self.naive = Naive()
        self.memory: MemoryStore
        self.disk: RocksStore
        self.options: dict[str, Any] = {}

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(step)

    @initialize(inline=st.sampled_from([-1, 2000, 1 << 20]), cache=st.sampled_from([0, 3000, 1 << 26]))
    def start(self, inline: int, cache: int) -> None:
        self.options = {"inline_bytes": inline, "tail_cache_bytes": cache, "open_files": 2}
        self.memory = memory.open(clock=self.clock)
        self.disk = self.run(rocksdb.open(self.folder / "data", clock=self.clock, **self.options))

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.run(self.disk.close())
        self.loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, writes: list[Write], durability: Durability) -> None:
        async def both() -> None:
            await self.memory.write(writes, durability)
            await self.disk.write(writes, durability)

        self.run(both())

    def end(self, partition: int) -> int:
        batches = self.naive.logs[partition]
        return batches[-1][1] if batches else 0

    # steps

    @rule(count=st.integers(1, 2))
    def create(self, count: int) -> None:
        """Logs to be written: the stores learn of each with its first append or trim, or never."""
        if len(self.naive.logs) > 4:
            return
        for _ in range(count):
            partition = self.naive.next_partition
            self.naive.next_partition += 1
            self.naive.logs[partition] = []
            self.naive.starts[partition] = 0

    @rule(
        chosen=st.lists(st.tuples(st.integers(0, 3), SIZES), min_size=1, max_size=4),
        timestamps=st.lists(st.integers(0, 50), max_size=8),
        gap=st.sampled_from([0, 0, 0, 5]),
        records=st.integers(1, 3),
        epoch=st.integers(0, 3),
        carried=st.booleans(),
        durability=DURABILITY,
    )
    def append(
        self,
        chosen: list[tuple[int, list[int]]],
        timestamps: list[int],
        gap: int,
        records: int,
        epoch: int,
        carried: bool,
        durability: Durability,
    ) -> None:
        known = sorted(self.naive.logs)
        if not known:
            return
        writes: list[Write] = [Put(Family.GROUP, b"\7", repr(chosen).encode())]
        self.naive.rows[b"\7"] = repr(chosen).encode()
        for number, sizes in chosen:
            partition = known[number % len(known)]
            made = append(
                partition,
                self.end(partition) + gap,
                sizes,
                timestamps=timestamps,
                records=records,
                epoch=epoch,
                carried=carried,
            )
            writes.append(made)
            self.remember(made, records)
        self.write(writes, durability)

    def remember(self, made: Append, records: int) -> None:
        from store import batch

        for number, data in enumerate(made.batches):
            base = made.base_offset + number * records
            self.naive.logs[made.partition].append((base, base + records, batch.max_timestamp(data), data))

    @rule(number=st.integers(0, 3), share=st.floats(0, 1), durability=DURABILITY)
    def trim(self, number: int, share: float, durability: Durability) -> None:
        known = sorted(self.naive.logs)
        if known:
            partition = known[number % len(known)]
            offset = int(self.end(partition) * share)
            self.naive.starts[partition] = max(self.naive.starts[partition], offset)
            self.write([Trim(partition, offset)], durability)

    @rule(number=st.integers(0, 3))
    def drop(self, number: int) -> None:
        known = sorted(self.naive.logs)
        if len(known) > 2:
            partition = known[number % len(known)]
            del self.naive.logs[partition], self.naive.starts[partition]
            self.write([DropLog(partition)], Durability.OS)

    @rule(key=KEYS, value=st.binary(max_size=5), durability=DURABILITY)
    def put(self, key: bytes, value: bytes, durability: Durability) -> None:
        self.naive.rows[key] = value
        self.write([Put(Family.GROUP, key, value)], durability)

    @rule(key=KEYS, other=KEYS)
    def delete(self, key: bytes, other: bytes) -> None:
        self.naive.rows.pop(key, None)
        for each in [each for each in self.naive.rows if key <= each < other]:
            del self.naive.rows[each]
        self.write([Delete(Family.GROUP, key), DeleteRange(Family.GROUP, key, other)], Durability.OS)

    @rule(number=st.integers(0, 3), size=st.sampled_from([500, 20_000, 1 << 30]))
    def configure(self, number: int, size: int) -> None:
        known = sorted(self.naive.logs)
        if known:
            partition = known[number % len(known)]
            for store in (self.memory, self.disk):
                store.log(partition).configure(segment_bytes=size)

    @rule(
        entries=st.sampled_from([1, 3, 50_000]),
        size=st.sampled_from([1, 5000, 1 << 31]),
        least=st.sampled_from([0, 999]),
    )
    def roll(self, entries: int, size: int, least: int) -> None:
        self.memory.rollover = self.disk.rollover = limits.Rollover(entries, size, least)

    @rule(step=st.sampled_from([1, 1000, limits.Rollover().most_ms, limits.SEGMENT_MS]))
    def wait(self, step: int) -> None:
        self.clock.now += step

    @rule()
    def checkpoint(self) -> None:
        self.run(self.disk.checkpoint())

    @rule(killed=st.booleans())
    def restart(self, killed: bool) -> None:
        configured, rollover = dict(self.disk._configured), self.disk.rollover
        self.run(crash(self.disk) if killed else self.disk.close())
        self.disk = self.run(rocksdb.open(self.folder / "data", clock=self.clock, **self.options))
        assert self.disk.notices == []
        self.disk.rollover = rollover
        for partition, (size, age) in configured.items():
            if partition in self.naive.logs:
                self.disk.log(partition).configure(segment_bytes=size, segment_ms=age)

    # what must hold

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "disk"):
            self.run(self.compare())

    async def compare(self) -> None:
        rows = sorted(self.naive.rows.items())
        for store in (self.memory, self.disk):
            assert list(store.scan(Family.GROUP)) == rows
            assert list(store.scan(Family.GROUP, b"\1")) == [row for row in rows if row[0].startswith(b"\1")]
            for partition, batches in self.naive.logs.items():
                await self.look(store, partition, batches)
            for partition in range(1, self.naive.next_partition):
                if partition not in self.naive.logs:
                    # dropped: as if it had never been
                    await self.look(store, partition, [])
        for partition in self.naive.logs:
            mine, theirs = self.memory.log(partition), self.disk.log(partition)
            assert theirs.segments() == mine.segments()
            assert theirs.ledgers() == mine.ledgers()
            assert theirs.size == mine.size
            for epoch in range(5):
                assert theirs.epoch_end(epoch) == mine.epoch_end(epoch)
            for offset in range(mine.start_offset, mine.end_offset):
                position = mine.position_of(offset)
                assert theirs.position_of(offset) == position
                assert theirs.offset_of(*position[:2]) == mine.offset_of(*position[:2])

    async def look(self, store: Store, partition: int, batches: list[tuple[int, int, int, bytes]]) -> None:
        log: Log = store.log(partition)
        start = self.naive.starts.get(partition, 0)
        assert (log.start_offset, log.end_offset) == (start, batches[-1][1] if batches else 0)
        live = [each for each in batches if each[1] > start]
        assert await content(log) == joined([each[3] for each in live])
        for timestamp in (0, 10, 25, 49, 51):
            wanted = next((each[3] for each in live if each[2] >= timestamp), b"")
            assert joined(await soon(log.batch_at_or_after(timestamp))) == wanted
        latest = max(live, key=lambda each: each[2])[3] if live else b""
        assert joined(await soon(log.max_timestamp_batch())) == latest
        for base, _, _, data in live[:: max(1, len(live) // 5)]:
            offset = max(base, start)
            assert joined(await soon(log.read(offset, 700)))[: len(data)] == data
            tail = joined([each[3] for each in live if each[0] >= base])
            found = joined(await soon(log.read(offset, 5000)))
            assert found == tail[: len(found)]


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=examples(15),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
