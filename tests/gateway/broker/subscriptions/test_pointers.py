"""What a fetch acquires for who keeps it: ranges and sizes, and no bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.subscriptions.pointers import Pointers
from gateway.broker.subscriptions.reading import Delivery
from semantics.subscriptions.states import Acquired
from tests.gateway.broker.subscriptions.world import RELEASE, World, run


class Reader:
    record_bytes = 100.5


def test_ranges_and_about_their_size() -> None:
    pointers = Pointers(Reader())
    pointers.add(Acquired(0, 3, 0), [(b"some", 0, 4)], 700)
    rest = [Acquired(5, 5, 1), Acquired(8, 10, 0)]
    assert pointers.from_opened(rest) == 4
    assert rest == []
    assert pointers.assemble([], [Acquired(20, 20, 0)]) == 1
    assert pointers.acquired == [(0, 3, 0), (5, 5, 1), (8, 10, 0), (20, 20, 0)]
    assert pointers.size == 700 + 402 + 100
    assert list(pointers.buffers) == []


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_what_is_taken_is_held_as_if_it_was_sent(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.configure("g", pulsar__subscription__type=kind)
        at = await world.subscribed(*[b"%d" % n for n in range(10)])
        at.attach("c")
        await world.settled()
        found = at.reader.take("c", 4, 1 << 20)
        given = found if isinstance(found, Delivery) else await found
        assert (list(given.acquired), list(given.buffers)) == ([(0, 3, 0)], [])
        assert at.holds("c")
        await world.ack(at, 0, 1)
        await world.ack(at, 2, 3, kind=RELEASE)
        found = at.reader.take("c", 100, 1 << 20)
        given = found if isinstance(found, Delivery) else await found
        assert list(given.acquired) == [(2, 3, 1), (4, 9, 0)]

    run(test, folder)


def test_bytes_bound_what_is_taken() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        for _ in range(10):
            await world.produce(b"x" * 1_000)
        at.attach("c")
        found = at.reader.take("c", 100, 3_000)
        assert isinstance(found, Delivery)
        assert 1 <= found.acquired[-1].last < 5

    run(test)
