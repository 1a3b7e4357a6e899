"""Batches that an idempotent producer has sent behind one whose commit failed: in order, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.quota_gate import HeldError
from gateway.wire.batch import admit
from tests.gateway.broker.queues.test_lane_waits import failing
from tests.gateway.broker.subscriptions.world import World, run
from tests.gateway.serving import batch


def test_what_is_behind_a_failed_batch_does_not_come_in_before_it() -> None:
    """Of a producer that has written nothing yet any sequence number is good: the first would be a duplicate then."""

    async def test(world: World) -> None:
        store = await failing(world)
        await world.topic()
        its: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
        first, second = (
            batch(value, base_sequence=number, **its) for number, value in enumerate((b"a", b"b"))
        )

        def append(data: bytes) -> int:
            partition = world.broker.partition(world.broker.topics.get("t"), 0)
            return partition.append(data, admit(data), world.clock.wall_ms())

        store.failing = True
        append(first)
        assert await world.settled() is not None
        store.failing = False
        with pytest.raises(HeldError):
            append(second)
        assert append(first) == 0
        assert append(second) == 1
        assert await world.settled() is None
        assert [each.value for each in await world.read("t")] == [b"a", b"b"]

    run(test)
