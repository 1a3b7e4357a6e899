"""What a cursor is told of batches that unfold to very much: what a request may bring is delivered, more is not."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker.subscriptions.reading import Delivery
from gateway.wire import records
from tests.gateway.broker.subscriptions.world import World, run

MB = 1 << 20
ZSTD = 4


def zeros(size: int) -> bytes:
    """A batch of one record that is a few KB as it is stored."""
    return records.build_batch([records.Record(0, 1, b"k", bytes(size), [])], codec=ZSTD)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_a_compressed_record_as_large_as_a_request_may_be_is_delivered(kind: str) -> None:
    async def test(world: World) -> None:
        await world.configure("g", pulsar__subscription__type=kind)
        at = await world.subscribed()
        await world.append(zeros(70 * MB))
        at.attach("c")
        found = at.fetch("c", 10, MB)
        # a thread looks at it
        given = found if isinstance(found, Delivery) else await found
        assert [tuple(each) for each in given.acquired] == [(0, 0, 0)]
        (record,) = records.records(b"".join(given.buffers), 100 * MB)
        assert (record.key, record.value) == (b"k", bytes(70 * MB))
        assert not await world.ack(at, 0)

    run(test)


def test_what_unfolds_to_more_is_a_dead_letter_and_the_log_names_the_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        stored = zeros(101 * MB)
        await world.append(stored)
        await world.produce(b"after")
        assert await world.fetch(at) == {1: (b"after", 1)}
        async with asyncio.timeout(30):
            # a thread finds out once more that it cannot be opened
            while at.burying or world.broker.catalog.get("t-g-DLQ") is None:
                await world.settled()
        (letter,) = await world.read("t-g-DLQ")
        assert ("pulsar-dead-letter-reason", b"CORRUPT") in letter.headers
        assert (letter.value or b"")[61:] == stored[61:]
        (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert "offset 0 of topic t, partition 0 cannot be opened" in warning
        assert "dead letters of group g" in warning
        assert warning.endswith("The bound is socket.request.max.bytes.")

    run(test)


def test_the_bound_follows_what_a_request_may_have() -> None:
    async def test(world: World) -> None:
        assert world.broker.decompression_limit == 100 * MB
        large = World(None, f"socket.request.max.bytes={300 * MB}")
        await large.start()
        assert large.broker.decompression_limit == 300 * MB
        small = World(None, f"socket.request.max.bytes={8 * MB}")
        await small.start()
        assert small.broker.decompression_limit == 64 * MB

    run(test)
