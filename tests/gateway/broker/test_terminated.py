"""Topics that take no more messages: from when on, for ever, and what they have stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from semantics.names import DEFAULT
from tests.gateway.broker.queues.test_lane_waits import failing
from tests.gateway.broker.subscriptions.world import REJECT, World, run
from tests.gateway.serving import batch


async def refused(world: World, topic: str = "t", index: int = 0) -> None:
    with pytest.raises(KafkaError, match="is terminated") as error:
        await world.produce(b"x", topic=topic, index=index)
    assert error.value.code == Error.POLICY_VIOLATION


def test_what_comes_before_is_kept_and_nothing_comes_behind(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 2)
        at = await world.subscribe()
        await world.produce(b"a")
        found = world.broker.topics.get("t")
        partition = world.broker.partition(found, 0)
        # in the open turn when it is ended
        data = batch(b"b")
        partition.append(data, admit(data), world.clock.wall_ms())
        ending = asyncio.ensure_future(world.broker.topics.terminate("t", [0]))
        await asyncio.sleep(0)
        with pytest.raises(KafkaError, match="is terminated"):
            partition.append(data, admit(data), world.clock.wall_ms())
        await ending
        await refused(world)
        await world.produce(b"c", index=1)
        await world.crash()
        await refused(world)
        at = world.at()
        assert list(await world.fetch(at)) == [0, 1]
        assert not await world.ack(at, 0, 1)
        # partitions that are added are new ones
        await world.broker.topics.grow("t", 3)
        await world.produce(b"d", index=2)
        await world.broker.topics.terminate("t", range(3))
        for index in range(3):
            await refused(world, index=index)

    run(test, folder)


def test_a_topic_that_is_terminated_as_a_whole_does_not_grow() -> None:
    """Its new partitions would take messages, and it is to take none any more."""

    async def test(world: World) -> None:
        await world.topic("t", 2)
        topics = world.broker.topics
        await topics.terminate("t", [0, 1])
        for validate_only in (True, False):
            with pytest.raises(KafkaError, match="'t' is terminated") as error:
                await topics.grow("t", 4, validate_only=validate_only)
            assert error.value.code == Error.INVALID_PARTITIONS
        assert len(topics.get("t").partitions) == 2
        # one that says so of a partition alone goes on
        await world.topic("u", 2)
        await topics.terminate("u", [1])
        await topics.grow("u", 3)
        await world.produce(b"a", topic="u", index=2)

    run(test)


def test_an_idempotent_producer_hears_of_what_was_taken() -> None:
    async def test(world: World) -> None:
        await world.topic()
        its: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
        assert await world.produce(b"a", **its) == 0
        await world.broker.topics.terminate("t", [0])
        assert await world.produce(b"a", **its) == 0
        await refused(world)

    run(test)


def test_nothing_comes_behind_it_while_that_is_stored() -> None:
    """Neither where a namespace's policies change meanwhile, nor where somebody loads a partition."""

    async def test(world: World) -> None:
        await world.topic("t", 2)
        await world.produce(b"a")
        ending = asyncio.ensure_future(world.broker.topics.terminate("t", [0, 1]))
        await asyncio.sleep(0)
        world.broker._policies_changed(DEFAULT, {}, {})
        for index in (0, 1):
            await refused(world, index=index)
        await ending
        for index in (0, 1):
            await refused(world, index=index)

    run(test)


def test_one_that_could_not_be_ended_goes_on() -> None:
    async def test(world: World) -> None:
        store = await failing(world)
        await world.topic()
        await world.produce(b"a")
        store.failing = True
        with pytest.raises(KafkaError):
            await world.broker.topics.terminate("t", [0])
        store.failing = False
        assert await world.produce(b"b") == 1

    run(test)


def test_dead_letters_for_it_stay_open_and_say_why() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b")
        await world.topic("t-g-DLQ")
        await world.broker.topics.terminate("t-g-DLQ", [0])
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        await world.pass_time(1)
        state = at.ready().look(0)
        assert state.state == "BACKOFF"
        assert "topic 't-g-DLQ' is terminated" in str(state.reason)

    run(test)
