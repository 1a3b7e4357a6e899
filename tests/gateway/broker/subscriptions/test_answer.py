"""What of a stored batch is sent: all of it, or a batch of the records that were acquired."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.subscriptions.answer import RAW_SHARE
from gateway.broker.subscriptions.reading import Delivery
from semantics.subscriptions.states import Ending
from tests.gateway.broker.subscriptions.world import RELEASE, World, run


def test_released_records_are_sent_again_without_their_neighbours_when_they_are_few(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(*(b"%03d" % n * 20 for n in range(100)))
        await world.fetch(at)
        released = [3, 4, 50, 99]
        assert not await world.ack(at, *(n for n in range(100) if n not in released))
        assert not await world.ack(at, *released, kind=RELEASE)
        at.attach("c")
        given = at.fetch("c", 500, 1 << 20)
        assert isinstance(given, tuple)
        assert given.size < 1000, "the batch is some 6,000 bytes"
        assert [(each.first, each.last, each.count) for each in given.acquired] == [
            (3, 4, 1),
            (50, 50, 1),
            (99, 99, 1),
        ]
        at.detach("c", Ending.STOPPED)
        assert await world.fetch(at, "d") == {n: (b"%03d" % n * 20, 2) for n in released}

    run(test, folder)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
@pytest.mark.parametrize("few", [False, True])
def test_a_batch_is_sent_as_it_is_stored_when_a_good_part_of_it_was_acquired(
    few: bool, kind: str, folder: Path | None
) -> None:
    count = 10 * RAW_SHARE

    async def test(world: World) -> None:
        await world.configure("g", pulsar__subscription__type=kind)
        at = await world.subscribed(*(b"%03d" % n for n in range(count)))
        at.attach("c")
        await world.settled()
        await world.fetch(at)
        released = list(range(0, 20, 2))[few:]
        assert not await world.ack(at, *(n for n in range(count) if n not in released))
        assert not await world.ack(at, *released, kind=RELEASE)
        stored = at.partition.log.read(0, 1 << 20)
        assert isinstance(stored, list)
        given = at.fetch("c", 500, 1 << 20)
        assert isinstance(given, Delivery)
        assert [each.first for each in given.acquired] == released
        assert (b"".join(map(bytes, given.buffers)) != b"".join(map(bytes, stored))) == few

    run(test, folder)
