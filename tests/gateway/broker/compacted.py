"""Compacted topics in a world on RocksDB; what a pass does, and what stands in its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from gateway.broker.compaction import State, Status
from gateway.broker.partition import Partition
from gateway.compaction import running
from gateway.compaction.messages import Work
from store import rocksdb
from tests.gateway.broker.subscriptions.world import World

SMALL = {"cleanup__policy": "compact", "internal__segment__bytes": "700", "min__cleanable__dirty__ratio": "0"}
"""Some five records of `put` are a segment."""

HOUR = 3_600_000

Body = Callable[[World], Coroutine[Any, Any, None]]


def run(body: Body, folder: Path, *flags: str) -> None:
    """One test in a world of its own, on a store whose clock is the world's."""

    async def main() -> None:
        world = World(folder, *flags)
        await start(world)
        try:
            async with asyncio.timeout(60):
                await body(world)
        finally:
            await world.broker.compaction.stop()
            await world.close()

    uvloop.run(main())


async def start(world: World) -> None:
    """Also once more."""
    assert world.folder is not None
    await world.start(
        await rocksdb.open(
            world.folder,
            clock=world.clock.wall_ms,
            tail_cache_bytes=0,
            replaced_seconds=0,
            checkpoint_pause=0.0,
        )
    )


async def put(world: World, *written: tuple[bytes, bytes | None], topic: str = "t") -> None:
    """A batch for each (key, value)."""
    for key, value in written:
        await world.produce(value, key=key, topic=topic)  # type: ignore[arg-type]


async def filled(
    world: World, count: int = 40, keys: int = 4, once: bool = False, topic: str = "t", **configs: str
) -> None:
    """A topic: the keys k0, k1, … again and again; the value is the record's offset. `once`: the first has a key that
    does not come again, so that something is left of the first segment.
    """
    await world.topic(topic, 1, **{**SMALL, **configs})
    if once:
        await put(world, (b"once", b"x"), topic=topic)
    for number in range(once, count):
        await put(world, (b"k%d" % (number % keys), b"%06d" % number + b"x" * 60), topic=topic)


def partition(world: World, topic: str = "t") -> Partition:
    found = world.broker.catalog.get(topic)
    assert found is not None
    return world.broker.partition(found, 0)


async def compact(world: World, topic: str = "t") -> Status:
    """Somebody asks for it, and waits."""
    found = world.broker.catalog.get(topic)
    assert found is not None
    assert world.broker.compaction.ask(found, [0])
    while (status := world.broker.compaction.status(found, [0])).state is State.RUNNING:
        await asyncio.sleep(0.01)
    return status


async def applied(world: World) -> None:
    """What is due is compacted."""
    await world.broker.compaction.apply()
    while world.broker.compaction.busy:
        await asyncio.sleep(0.01)


def held(world: World, after: bool = False) -> tuple[asyncio.Event, asyncio.Event]:
    """The next passes wait where they would begin, or `after` the work: (that they do, until they may go on)."""
    begun, go = asyncio.Event(), asyncio.Event()
    compacting: Any = world.broker.compaction._compacting

    async def run_later(work: Work, receiver: running.Receiver) -> Any:
        done = await running.run(work, receiver) if after else None
        begun.set()
        await go.wait()
        return done or await running.run(work, receiver)

    compacting._run = run_later
    return begun, go


async def offsets(world: World, topic: str = "t") -> list[int]:
    return [each.offset for each in await world.read(topic)]


def closed_to(world: World, topic: str = "t") -> int:
    """Where the segment that takes appends begins."""
    return next(each.base_offset for each in partition(world, topic).log.segments() if each.active)


def files(world: World) -> list[Path]:
    assert world.folder is not None
    return sorted((world.folder / "segments").glob("*/*.seg"))
