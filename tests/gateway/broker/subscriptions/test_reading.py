"""One fetch: how far it goes, what of a batch is sent, and what is passed over."""

from __future__ import annotations

from pathlib import Path

from semantics.subscriptions.states import Ending
from tests.gateway.broker.subscriptions.world import World, run


def test_a_strict_limit_ends_within_a_batch(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(*(b"%d" % n for n in range(10)))
        assert list(await world.fetch(at, "one", 4, strict=True)) == [0, 1, 2, 3]
        assert list(await world.fetch(at, "two", 4, strict=True)) == [4, 5, 6, 7]
        assert list(await world.fetch(at, "one", 4, strict=True)) == [8, 9]

    run(test, folder)


def test_an_empty_hand_is_left_and_bytes_are_bounded(folder: Path | None) -> None:
    """A limit of bytes takes the first batch whole; nothing is acquired that is not sent."""

    async def test(world: World) -> None:
        at = await world.subscribed()
        for _ in range(4):
            await world.produce(b"x" * 1000, b"y" * 1000)
        assert list(await world.fetch(at, "one", max_bytes=10)) == [0, 1]
        assert list(await world.fetch(at, "one", max_bytes=5000)) == [2, 3, 4, 5]
        at.detach("one", Ending.STOPPED)
        assert list(await world.fetch(at, "two", max_bytes=10)) == [0, 1]
        assert at.ready().acquired == 2
        assert list(await world.fetch(at, "two")) == [2, 3, 4, 5, 6, 7]

    run(test, folder)


def test_a_gap_among_what_is_delivered_again_is_passed_over(folder: Path | None) -> None:
    async def test(world: World) -> None:
        topic = await world.topic()
        at = await world.subscribe()
        await world.produce(b"a")
        partition = world.broker.partition(topic, 0)
        await world.produce(b"b")
        partition.next_offset += 3
        await world.produce(b"c")
        assert list(await world.fetch(at)) == [0, 1, 5]
        assert not await world.ack(at, 0, 1, 5)
        assert at.ready().start == 6

    run(test, folder)
