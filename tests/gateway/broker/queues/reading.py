"""A queue topic in a `World`, and who reads its lanes as a client does: by fetches, commits, and coming back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.broker.queues.lane import LaneAtWork
from gateway.broker.queues.queue import Queue
from gateway.broker.queues.served import name_of
from gateway.wire import delivery as wire
from gateway.wire import records
from store.api import Durability, Outcome, Refused, StoreError, Write
from tests.gateway.broker.subscriptions.world import World

KINDS = pytest.mark.parametrize("kind", ["shared", "key_shared"])
KEYS = [b"k%d" % n for n in range(40)]


def parts(buffers: Iterable[Any]) -> dict[int, bytes | None]:
    """Offset -> value of all records in batches with good checksums that ascend."""
    found: dict[int, bytes | None] = {}
    last = -1
    # what is sent is joined on its way
    for buffer, position, header in wire.headers_of([b"".join(map(bytes, buffers))]):
        assert header.base_offset > last, "batches ascend"
        last = header.last_offset
        batch = bytes(buffer[position : position + header.size])
        records.check(batch)
        those = wire.records_at(batch, [(header.base_offset, header.last_offset)])
        assert [each.offset for each in those] == list(range(header.base_offset, last + 1)), (
            "offsets are dense"
        )
        found.update((each.offset, each.value) for each in those)
    return found


class Client:
    """Reads one lane, from where the server says that its group goes on."""

    def __init__(
        self, world: World, index: int = 0, topic: str = "t", group: str = "g", *, name: str | None = None
    ) -> None:
        self.world = world
        self.index = index
        self.topic = name or name_of(topic, group)
        self.position = queue_of(world, self.topic).at[index].lane.open
        self.woken = 0
        self.lane: LaneAtWork | None = None

    def wake(self, lane: object, appended: int) -> None:
        self.woken += 1

    def leave(self) -> None:
        """The connection is closed: it waits for nothing any more."""
        if self.lane is not None:
            self.lane.watchers.discard(self)
            self.lane = None

    async def poll(self, max_bytes: int = 1 << 20, *, whole_first: bool = True) -> dict[int, bytes | None]:
        """One fetch; lane offset -> value. It goes on behind what came."""
        in_use = self.world.broker.in_use
        runtime = in_use.topic(self.topic.encode())
        assert runtime is not None
        lane = in_use.readable(runtime, self.index)
        assert isinstance(lane, LaneAtWork)
        if lane is not self.lane:
            self.leave()
            self.lane = lane
            lane.watchers.add(self)
        if self.position == lane.high_watermark:
            lane.at_end()
        if self.position >= lane.high_watermark:
            return {}
        data: Any = lane.fetch(self.position, max_bytes, whole_first=whole_first, least=None)
        found = parts(data if isinstance(data, list) else await data)
        if found:
            self.position = max(found) + 1
        return found

    async def read(self) -> dict[int, bytes | None]:
        """All that comes until nothing does."""
        found: dict[int, bytes | None] = {}
        idle = 0
        while idle < 3:
            came = await self.poll()
            assert not found.keys() & came.keys()
            found.update(came)
            idle = 0 if came else idle + 1
            await self.world.settled()
            await asyncio.sleep(0)
        return found

    async def commit(self, metadata: str = "", offset: int | None = None, *, member: bool = True) -> Outcome:
        """Of what it has read, or of this offset; the outcome of the turn."""
        queue = queue_of(self.world, self.topic)
        queue.commit(self.index, self.position if offset is None else offset, metadata, member=member)
        outcome: Outcome = await self.world.settled()
        return outcome


def queue_of(world: World, name: str = "t-g-QUEUE") -> Queue:
    """The queue topic as it is at work now."""
    topic = world.broker.catalog.get(name)
    assert topic is not None
    return world.broker.queues.of(topic)


def at_of(world: World, index: int = 0, topic: str = "t", group: str = "g") -> LaneAtWork:
    return queue_of(world, name_of(topic, group)).at[index]


def given(found: dict[int, bytes | None]) -> list[int]:
    """The numbers that came, in order."""
    return [int(value or b"-1") for value in found.values()]


async def read_all(clients: Iterable[Client]) -> list[int]:
    """All that comes to any of them until nothing does."""
    listed = list(clients)
    found: list[int] = []
    while came := [number for client in listed for number in given(await client.read())]:
        found += came
    return found


def own(world: World, *members: Iterable[int]) -> None:
    """Members 0, 1 … have these lanes."""
    queue_of(world).assigned({f"m{number}": lanes for number, lanes in enumerate(members)})


async def queued(
    world: World,
    lanes: int = 1,
    *,
    partitions: int = 1,
    kind: str = "shared",
    limit: int = 3,
    **overrides: str,
) -> Queue:
    """The topic t with the subscription g from its start, served by lanes; records die of `limit` deliveries."""
    await world.topic(partitions=partitions)
    await world.configure("g", share__auto__offset__reset="earliest")
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    mode = {"pulsar.subscription.type": kind, "pulsar.max.redeliver.count": str(limit - 1), **named}
    await world.broker.queues.make("t", "g", lanes, mode)
    await world.settled()
    queue = queue_of(world)
    # Key_Shared deals slots to lanes, which is stored first
    await world.settled()
    await world.settled()
    return queue


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(start, end)]


class FailingStore:
    """A store whose commits fail while it is told to, or wait."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.failing = False
        self.holding = False
        self.held: list[tuple[Iterable[Write], Durability, Any]] = []

    def commit(self, writes: Any, durability: Durability, done: Any) -> None:
        if self.failing:
            asyncio.get_running_loop().call_soon(done, Refused("no"))
        elif self.holding:
            self.held.append((writes, durability, done))
        else:
            self.inner.commit(writes, durability, done)

    def let_go(self) -> None:
        self.holding = False
        held, self.held = self.held, []
        for each in held:
            self.inner.commit(*each)

    def fail(self, error: StoreError) -> None:
        self.holding = False
        held, self.held = self.held, []
        for _, _, done in held:
            done(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
