"""Subscriptions that nobody has used for so long go, by a clock that nobody sets, and those that are used stay."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from semantics.names import DEFAULT
from semantics.patterns import Pattern
from semantics.subscriptions.states import Ending
from tests.gateway.broker.queues.reading import queued
from tests.gateway.broker.subscriptions.world import World, run

MINUTE = 60_000


async def say(world: World, minutes: int | None, level: str = "namespace") -> None:
    if level == "broker":
        said = {"subscriptionExpirationTimeMinutes": str(minutes)} if minutes is not None else {}
        await world.broker.broker_configs.alter("", lambda old: said)
        return
    policies: Mapping[str, str] = (
        {"pulsar.subscription.expiration.ms": str(minutes * MINUTE)} if minutes is not None else {}
    )
    await world.broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=policies))


async def after(world: World, minutes: float) -> set[str]:
    """What there is when the job has run at that time."""
    await world.pass_time(int(minutes * MINUTE))
    await world.broker.subscription_expiry.apply()
    topic = world.broker.topics.get("t")
    return {row.group for row in world.broker.subscriptions.of_topic(topic.topic_id)}


@pytest.mark.parametrize("level", ["namespace", "broker"])
def test_one_without_consumers_goes_after_its_time(folder: Path | None, level: str) -> None:
    async def test(world: World) -> None:
        await world.subscribed(b"a")
        used = await world.subscribe("used")
        used.attach("c")
        await say(world, 10, level)
        assert await after(world, 0) == {"g", "used"}
        assert await after(world, 9.9) == {"g", "used"}
        assert await after(world, 0.1) == {"used"}
        # from when its last consumer went
        used.detach("c", Ending.LEFT)
        assert await after(world, 0) == {"used"}
        assert await after(world, 9.9) == {"used"}
        used.attach("c")
        assert await after(world, 1) == {"used"}
        used.detach("c", Ending.LEFT)
        assert await after(world, 9.9) == {"used"}
        assert await after(world, 10) == set()
        await world.crash()
        assert await after(world, 0) == set()

    run(test, folder)


def test_a_clock_that_jumps_expires_nothing_and_a_start_begins_anew(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.subscribed(b"a")
        await say(world, 10)
        assert await after(world, 0) == {"g"}
        world.clock.ahead += 1_000 * MINUTE
        assert await after(world, 5) == {"g"}
        await world.crash()
        assert await after(world, 5) == {"g"}
        assert await after(world, 9.9) == {"g"}
        assert await after(world, 0.1) == set()

    run(test, folder)


def test_without_a_policy_all_stay_and_one_that_is_set_later_counts() -> None:
    async def test(world: World) -> None:
        await world.subscribed(b"a")
        assert await after(world, 1_000_000) == {"g"}
        await say(world, 10)
        assert await after(world, 0) == {"g"}
        await say(world, None)
        assert await after(world, 100) == {"g"}
        await say(world, 10)
        assert await after(world, 0) == {"g"}
        assert await after(world, 10) == set()

    run(test)


def test_lanes_go_with_their_subscription() -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        await say(world, 10)
        assert await after(world, 0) == {"g"}
        assert await after(world, 10) == set()
        assert world.broker.catalog.get("t-g-QUEUE") is None

    run(test)


def test_subscriptions_of_a_pattern_stand_together() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.broker.queues.make_over("g", Pattern("t.*"), 2, {}, "earliest")
        await say(world, 10)
        assert await after(world, 0) == {"g"}
        assert await after(world, 100) == {"g"}

    run(test)


def test_one_that_is_used_while_others_are_deleted_stays() -> None:
    async def test(world: World) -> None:
        await world.subscribed(b"a")
        await world.subscribe("h")
        await say(world, 10)
        assert await after(world, 0) == {"g", "h"}
        job = world.broker.subscription_expiry
        delete = job._delete

        async def meanwhile(topic: Any, row: Any) -> None:
            await delete(topic, row)
            world.at("h").attach("c")

        job._delete = meanwhile
        assert await after(world, 10) == {"h"}

    run(test)
