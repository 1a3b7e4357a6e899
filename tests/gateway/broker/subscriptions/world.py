"""A real broker whose clock and timers the test holds, on the memory store or on RocksDB."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from gateway.broker.broker import Broker
from gateway.broker.catalog import Topic
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.broker.subscriptions.reading import Delivery
from gateway.broker.subscriptions.subscription import Subscription
from gateway.config import Settings
from gateway.metrics_catalog import GatewayMetrics
from gateway.wire import delivery as wire
from gateway.wire import records
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from store import memory, rocksdb
from store.api import Store

NOW = 1_760_000_000_000
ACCEPT, RELEASE, REJECT, RENEW = b"\1", b"\2", b"\3", b"\4"

Headers = list[tuple[str, bytes | None]]


class Clock:
    """Stands until the test moves it; the wall's is ahead of the other."""

    def __init__(self) -> None:
        self.now = 5_000_000
        self.ahead = NOW - 5_000_000

    def monotonic_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.now + self.ahead


class HeldBroker(Broker):
    """Timers ring when the test says so."""

    timers: list[tuple[int, Callable[[], None]]]

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> Any:
        if not hasattr(self, "timers"):
            self.timers = []
        entry = (monotonic_ms, callback)
        self.timers.append(entry)
        timers = self.timers

        class Handle:
            def cancel(self) -> None:
                if entry in timers:
                    timers.remove(entry)

        return Handle()


class Slot:
    """Something that is told when its turn's commit is over."""

    def __init__(self) -> None:
        self.told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Any) -> None:
        if not self.told.done():
            self.told.set_result(outcome)


class Waiter:
    """A parked request that counts how often it is woken."""

    def __init__(self, consumer: str, limit: int = 500) -> None:
        self.consumer = consumer
        self.limit = limit
        # how often it was woken
        self.times = 0
        # the offsets that it has taken
        self.got: list[int] = []

    def wake(self, at: SubscriptionPartition) -> None:
        self.times += 1


class Taker(Waiter):
    """A parked request that takes what there is when it is woken."""

    def wake(self, at: Any) -> None:
        self.times += 1
        given = at.fetch(self.consumer, self.limit, 1 << 20, self.limit)
        for each in given.acquired:
            self.got += range(each.first, each.last + 1)


class World:
    """`folder` None: the memory store."""

    def __init__(self, folder: Path | None = None, *flags: str) -> None:
        self.folder = folder
        self.flags = flags
        self.clock = Clock()
        self.store: Any = None
        self.broker: HeldBroker
        self._copies = 0
        self._starts = 0

    async def start(self, store: Store | None = None) -> None:
        if store is not None:
            self.store = store
        elif self.folder is None:
            self.store = self.store or memory.open(clock=self.clock.wall_ms)
        else:
            self.store = await rocksdb.open(self.folder)
        self.broker = HeldBroker(
            Settings.load(["store.driver=memory", *self.flags], None, {}),
            self.store,
            self.clock,
            GatewayMetrics(),
            asyncio.get_running_loop(),
            cluster_id=b"c" * 16,
            version="test",
            transient=self.transient(),
        )

    def transient(self) -> memory.ForgettingStore:
        """Empty at each start, with offsets of its own."""
        self._starts += 1
        return memory.open_forgetting(
            clock=self.clock.wall_ms,
            ages=self.clock.monotonic_ms,
            epoch=self._starts,
            max_bytes=Settings.load(list(self.flags), None, {}).integer("non.persistent.max.bytes"),
        )

    async def close(self) -> None:
        self.broker.subscriptions.stop()
        self.broker.subscriptions.close()
        self.broker.turn.end()
        if self.folder is not None:
            await self.store.close()

    async def crash(self) -> None:
        """What a SIGKILL leaves: the files as they are now; what was in memory is gone."""
        self.broker.subscriptions.timers.close()
        if self.folder is not None:
            self._copies += 1
            after = self.folder.with_name(f"after-{self._copies}")
            shutil.copytree(self.folder, after)
            await self.store.close()
            self.folder = after
        self.clock.now, self.clock.ahead = self.clock.now + 777_000, self.clock.ahead - 777_000
        await self.start()

    # -- what is there --------------------------------------------------------------------------------------------

    async def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> Topic:
        named = {key.replace("__", "."): value for key, value in configs.items()}
        return await self.broker.topics.create(name, partitions, named)

    async def configure(self, group: str, **configs: str) -> None:
        named = {key.replace("__", "."): value for key, value in configs.items()}
        await self.broker.group_configs.alter(group, lambda old: {**old, **named})

    async def subscribe(
        self, group: str = "g", topic: str = "t", index: int = 0, reset: str | None = "earliest"
    ) -> SubscriptionPartition:
        if reset is not None:
            await self.configure(group, share__auto__offset__reset=reset)
        return (await self.broker.subscriptions.ensure(group, topic)).partition(index)

    async def subscribed(self, *values: bytes) -> SubscriptionPartition:
        """The topic t, read by the subscription g from its start, and these records in it as one batch."""
        await self.topic()
        at = await self.subscribe()
        if values:
            await self.produce(*values)
        return at

    def subscription(self, group: str = "g", topic: str = "t") -> Subscription:
        found = self.broker.subscriptions.get(group, topic)
        assert found is not None
        return found

    def at(self, group: str = "g", topic: str = "t", index: int = 0) -> SubscriptionPartition:
        return self.subscription(group, topic).partition(index)

    async def produce(
        self,
        *values: bytes,
        topic: str = "t",
        index: int = 0,
        key: bytes | Sequence[bytes | None] | None = None,
        headers: Headers | None = None,
        **options: Any,
    ) -> int:
        """One batch; its base offset."""
        keys = key if isinstance(key, list) else [key] * len(values)
        batch = records.build_batch(
            [
                records.Record(i, self.clock.wall_ms(), keys[i], value, headers or [])  # type: ignore[arg-type]
                for i, value in enumerate(values)
            ],
            **options,
        )
        return await self.append(batch, topic, index)

    async def append(self, batch: bytes, topic: str = "t", index: int = 0) -> int:
        found = self.broker.catalog.get(topic)
        assert found is not None
        partition = self.broker.partition(found, index)
        base = partition.append(batch, admit(batch), self.clock.wall_ms())
        await self.settled()
        return base

    async def settled(self) -> Any:
        """The open turn is over; its outcome."""
        slot = Slot()
        self.broker.turn.await_commit(slot)
        return await slot.told

    async def pass_time(self, ms: int) -> None:
        """Let time pass, timers ringing on the way."""
        end = self.clock.now + ms
        await self.settled()
        while True:
            timers = getattr(self.broker, "timers", [])
            due = [each for each in timers if each[0] <= end]
            if not due:
                break
            first = min(due, key=lambda each: each[0])
            timers.remove(first)
            self.clock.now = max(self.clock.now, first[0])
            first[1]()
            await self.settled()
        self.clock.now = end

    # -- what consumers do ----------------------------------------------------------------------------------------

    async def fetch(
        self,
        at: SubscriptionPartition,
        consumer: str = "c",
        limit: int = 500,
        max_bytes: int = 1 << 20,
        *,
        strict: bool = False,
    ) -> dict[int, tuple[bytes | None, int]]:
        """Attached if need be; offset -> (value, delivery count on the wire) of what it may process."""
        at.attach(consumer)
        found = at.fetch(consumer, limit, max_bytes, limit if strict else 1_000_000)
        given = found if isinstance(found, Delivery) else await found
        return seen(given)

    async def ack(
        self, at: SubscriptionPartition, *offsets: int, consumer: str = "c", kind: bytes = ACCEPT
    ) -> Error:
        """Each by itself; KAFKA_STORAGE_ERROR when it was not stored."""
        error = at.acknowledge(consumer, [(offset, offset, kind) for offset in offsets])
        outcome = await self.settled()
        return Error.KAFKA_STORAGE_ERROR if not error and outcome is not None else error

    async def read(self, topic: str, index: int = 0) -> list[wire.Found]:
        """All records of a partition, as a reader sees them."""
        found = self.broker.catalog.get(topic)
        assert found is not None
        partition = self.broker.partition(found, index)
        got: list[wire.Found] = []
        offset = partition.log_start
        while offset < partition.high_watermark:
            data = partition.log.read(offset, 1 << 20)
            if not isinstance(data, list):
                data = await data
            for buffer, position, header in wire.headers_of(data):
                batch = buffer[position : position + header.size]
                got += wire.records_at(batch, [(header.base_offset, header.last_offset)])
                offset = header.next_offset
        return got


def seen(given: Delivery) -> dict[int, tuple[bytes | None, int]]:
    """What a client makes of a delivery: the acquired records among those sent. Every acquired one must be sent."""
    sent: dict[int, bytes | None] = {}
    last = -1
    for buffer, position, header in wire.headers_of(given.buffers):
        assert header.base_offset > last, "batches ascend"
        last = header.last_offset
        records.check(bytes(buffer[position : position + header.size]))
        batch = buffer[position : position + header.size]
        for each in wire.records_at(batch, [(header.base_offset, header.last_offset)]):
            sent[each.offset] = each.value
    assert given.size == sum(map(len, given.buffers))
    found: dict[int, tuple[bytes | None, int]] = {}
    before = -1
    for first, end, count in given.acquired:
        assert first > before, "ranges ascend"
        before = end
        for offset in range(first, end + 1):
            assert offset in sent, f"{offset} was acquired and not sent"
            found[offset] = (sent[offset], count + 1)
    return found


def said(headers: Headers) -> dict[str, bytes | None]:
    """Headers by name, of which none stands there twice."""
    assert len(dict(headers)) == len(headers)
    return dict(headers)


Body = Callable[[World], Coroutine[Any, Any, None]]


def run(body: Body, folder: Path | None = None, *flags: str) -> None:
    """One test in a world of its own."""

    async def main() -> None:
        world = World(folder, *flags)
        await world.start()
        try:
            async with asyncio.timeout(60):
                await body(world)
        finally:
            await world.close()

    asyncio.run(main())
