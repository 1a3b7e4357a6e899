"""Where new subscriptions begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.broker.subscriptions.world import World, run


@pytest.mark.parametrize("reset", ["earliest", "latest", "by_duration:PT1M"])
def test_a_new_subscription_begins_where_the_group_says_and_stays_there(
    folder: Path | None, reset: str
) -> None:
    async def test(world: World) -> None:
        await world.topic(partitions=2)
        await world.produce(b"old")
        await world.pass_time(120_000)
        await world.produce(b"young")
        await world.pass_time(30_000)
        await world.subscribe(reset=reset)
        await world.produce(b"new")
        await world.produce(b"other", index=1)
        # nobody has fetched: it is durable nevertheless
        await world.crash()
        expected = {"earliest": [b"old", b"young", b"new"], "latest": [b"new"]}.get(reset, [b"young", b"new"])
        assert [value for value, _ in (await world.fetch(world.at())).values()] == expected
        assert [value for value, _ in (await world.fetch(world.at(index=1))).values()] == [b"other"]

    run(test, folder)
