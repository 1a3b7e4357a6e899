"""A machine that stops under durability=os may take records along: subscriptions do not stand beyond them."""

from __future__ import annotations

from pathlib import Path

from gateway.broker.clipping import clip
from store.api import Durability, Write
from tests.gateway.broker.subscriptions.world import RELEASE, World, run


def test_other_records_at_the_offsets_of_lost_ones_are_delivered(folder: Path | None) -> None:
    async def test(world: World) -> None:
        topic = await world.topic()
        at = await world.subscribe()
        due = b"%d" % (world.clock.wall_ms() + 60_000)
        for value in (b"0", b"1", b"2", b"3"):
            await world.produce(value)
        await world.produce(b"4", headers=[("pulsar-deliver-at", due)])
        await world.fetch(at)
        assert not await world.ack(at, 0, 2)
        assert not await world.ack(at, 3, kind=RELEASE)
        # the log ends at 2 now
        writes: list[Write] = list(clip(world.store, topic.partitions[0], [(2, 5)]))
        await world.store.write(writes, Durability.OS)
        await world.crash()
        cut = world.at()
        cut.partition.high_watermark = 2
        cursor = cut.ready()
        assert (cursor.start, cursor.read) == (1, 2)
        assert cursor.waiting == 0
        await world.settled()
        await world.pass_time(60_000)
        assert cursor.look(4).state == "UNREAD"

    run(test, folder)


def test_lost_records_with_others_behind_them_are_nobodys(folder: Path | None) -> None:
    """Offsets are not used again there: what is behind stays acknowledged."""

    async def test(world: World) -> None:
        topic = await world.topic()
        at = await world.subscribe()
        for value in (b"0", b"1", b"2"):
            await world.produce(value)
        await world.fetch(at)
        assert not await world.ack(at, 2)
        assert list(clip(world.store, topic.partitions[0], [(1, 2)])) == []

    run(test, folder)
