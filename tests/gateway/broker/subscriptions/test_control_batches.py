"""Markers of transactions lie between the records of a subscription, and are no records of it."""

from __future__ import annotations

import pytest

from gateway.broker.partition import Partition
from gateway.wire.compression import LZ4
from tests.gateway.broker.queues.reading import Client, at_of, queued
from tests.gateway.broker.subscriptions.world import World, run
from tests.gateway.broker.transacted import coordinated, end, partition_of, plain, put


async def written(world: World) -> Partition:
    """Records at 0, 1, 3, 5 and 6, markers between them and at the end."""
    coordinated(world)
    partition = partition_of(world)
    plain(partition, b"0")
    put(partition, b"1", codec=LZ4)
    end(partition)
    put(partition, b"3", sequence=1)
    end(partition)
    plain(partition, b"5")
    put(partition, b"6", sequence=2)
    end(partition)
    await world.settled()
    assert partition.high_watermark == 8
    return partition


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_nobody_is_given_a_marker_and_none_is_left_open(kind: str) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure("g", pulsar__subscription__type=kind)
        at = await world.subscribe()
        await written(world)
        # under Key_Shared slots are dealt first
        at.attach("c")
        await world.settled()
        found = await world.fetch(at)
        assert {offset: value for offset, (value, _) in found.items()} == {
            offset: b"%d" % offset for offset in (0, 1, 3, 5, 6)
        }
        assert not await world.ack(at, *found)
        assert at.ready().start == 8, "all is settled, to the last marker"

    run(test)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_a_lane_has_no_place_for_them(kind: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await written(world)
        assert await Client(world).read() == dict(enumerate([b"0", b"1", b"3", b"5", b"6"]))
        assert at_of(world).high_watermark == 5

    run(test)
