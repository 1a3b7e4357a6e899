"""Damage in the log of a topic whose records lanes were given already."""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import pytest

from gateway.broker.queues.just_read import JustRead
from gateway.wire import records
from store.api import Corrupt
from tests.gateway.broker.queues.reading import KINDS, Client, queue_of, queued
from tests.gateway.broker.subscriptions.disk import Disk
from tests.gateway.broker.subscriptions.world import World, run


async def given(world: World, damaged: tuple[int, int]) -> Client:
    """Five records of a batch each, which a lane was given, and then some are damaged."""
    for n in range(5):
        await world.produce(b"%d" % n, key=b"k%d" % n)
    client = Client(world)
    await client.poll()
    await world.settled()
    # nothing of them is in memory
    queue_of(world).builder.just_read = JustRead()
    partition = world.at().partition
    disk = Disk(partition.log)
    disk.damaged, disk.cold = damaged, False
    partition.log = disk
    return client


@KINDS
@pytest.mark.parametrize("damaged", [(0, 1), (2, 4), (4, 5)])
def test_with_skip_a_lane_is_led_past_it(kind: str, damaged: tuple[int, int]) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.broker.topics.configure("t", lambda old: {**old, "corrupt.message.policy": "skip"})
        client = await given(world, damaged)
        found = await client.read()
        assert list(found.values()) == [b"%d" % n for n in range(5) if not damaged[0] <= n < damaged[1]]
        # a client learns of the end from an empty batch
        await client.commit(offset=5)
        assert world.at().ready().start == 5

    run(test)


@KINDS
def test_without_it_what_lies_before_comes_and_then_the_error(kind: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        client = await given(world, (3, 4))
        assert list((await client.poll()).values()) == [b"0", b"1", b"2"]
        for _ in range(3):
            with pytest.raises(Corrupt):
                await client.poll()

    run(test)


@KINDS
def test_what_lies_before_it_in_another_partition_comes_first(kind: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind, partitions=2)
        for index in (0, 1):
            await world.produce(b"%d" % index, key=b"k", index=index)
        client = Client(world)
        await client.poll()
        await world.settled()
        queue = queue_of(world)
        queue.builder.just_read = JustRead()
        lane = queue.at[0].lane
        first, second = (piece.run.source for piece in lane.readable(0, 2))
        partition = queue.sources[second].at.partition
        disk = Disk(partition.log)
        disk.damaged, disk.cold = (0, 1), False
        partition.log = disk
        (value,) = (await client.poll()).values()
        assert value == b"%d" % queue.sources[first].at.index
        with pytest.raises(Corrupt):
            await client.poll()

    run(test)


def malformed(world: World, count: int) -> bytes:
    """A batch whose checksum is right, and whose records nobody can read."""
    now = world.clock.wall_ms()
    batch = bytearray(records.build_batch([records.Record(n, now, b"k", b"v", []) for n in range(count)]))
    batch[61:] = b"\xff" * (len(batch) - 61)
    batch[17:21] = google_crc32c.value(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


@KINDS
def test_a_batch_that_cannot_be_opened_is_not_acknowledged_unseen(folder: Path | None, kind: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        # more than a lane is given at first
        await world.append(malformed(world, 100))
        await world.produce(b"1", b"2", key=b"k")
        client = Client(world)
        for _ in range(6):
            assert set((await client.read()).values()) <= {b"1", b"2"}
            lane = queue_of(world).at[0]
            client.position = lane.high_watermark
            await client.commit()
            await world.pass_time(100)
        letters = await world.read("t-g-DLQ")
        assert letters
        assert all(b"\xff" * 20 in (each.value or b"") for each in letters)
        assert world.at().ready().start == 102
        await world.crash()
        assert len(await world.read("t-g-DLQ")) == len(letters)
        assert world.at().ready().start == 102

    run(test, folder)
