"""Burials that a stop of the gateway left are made when it starts again, though nobody uses the subscription."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.subscriptions import left_dying, rows
from semantics.subscriptions import rows as cursor_rows
from semantics.subscriptions.rows import Counts
from semantics.subscriptions.states import Ending
from store.api import Family, Put
from tests.gateway.broker.subscriptions.world import REJECT, World, run

MANY = 4_500


async def stopped_while_dying(world: World, *groups: str) -> None:
    """The gateway dies when it is noted that records are to be buried, and before they are."""
    await world.topic(partitions=2)
    world.broker.subscriptions.letters.bury = lambda at, dying: None  # type: ignore[assignment, return-value]
    await world.produce(*(b"%d" % n for n in range(MANY)), index=1)
    for group in groups:
        await world.configure(
            group, share__partition__max__record__locks="10000", pulsar__receiver__queue__size="10000"
        )
        at = await world.subscribe(group, index=1)
        assert len(await world.fetch(at, limit=10_000)) == MANY
        assert not at.acknowledge("c", [(0, MANY - 1, REJECT)])
    await world.settled()
    await world.crash()


async def bury(world: World) -> int:
    return await left_dying.LeftDying(
        world.broker, world.broker.subscriptions, world.broker.topic_by_id
    ).bury()


async def letters_of(world: World, group: str) -> list[int]:
    return [int(each.value or b"") for each in await world.read(f"t-{group}-DLQ", 1)]


def test_what_was_dying_is_buried_without_a_consumer(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await stopped_while_dying(world, "g", "h")
        assert world.broker.catalog.get("t-g-DLQ") is None
        assert await bury(world) == 2
        while any(each.unsaved for each in world.broker.subscriptions.live()):
            await world.settled()
        for group in ("g", "h"):
            assert await letters_of(world, group) == list(range(MANY))
        assert await bury(world) == 0

    run(test, folder)


def test_only_cursors_with_something_dying_are_loaded(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_dying, "PAGE", 3)
    monkeypatch.setattr(left_dying, "MOST", 1)

    async def test(world: World) -> None:
        await world.topic("other")
        await world.produce(b"x", topic="other")
        for number in range(10):
            at = await world.subscribe(f"idle-{number}", "other")
            assert not await world.ack(at, *await world.fetch(at))
        await stopped_while_dying(world, "g", "zz")
        assert await bury(world) == 2
        assert {each.group for each in world.broker.subscriptions.live()} == {"g", "zz"}

    run(test, folder)


def test_a_topic_that_is_gone_and_a_row_that_cannot_be_read_hold_nobody_up(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await stopped_while_dying(world, "g")
        left = cursor_rows.cursor(0, 5, 0, False, Counts(dying=3)).value
        assert left is not None
        await world.broker.write(
            [
                # of no subscription, of a partition that the topic does not have, and damaged
                Put(Family.CURSOR, rows.prefix(77, 1), left),
                Put(Family.CURSOR, rows.prefix(1, 999), left),
                Put(Family.CURSOR, rows.prefix(0, 1), b"?"),
            ]
        )
        assert await bury(world) == 1

    run(test, folder)


def test_what_cannot_be_buried_stays_in_memory_and_is_tried_again(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        # no topic can have the name that its dead letters would go to
        at = await world.subscribe("a b")
        await world.produce(b"a")
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        at.detach("c", Ending.STOPPED)
        await world.settled()
        for _ in range(3):
            world.broker.subscriptions.release_idle()
        assert not at.gone
        await world.broker.topics.create("letters", 1, {})
        await world.configure("a b", pulsar__dead__letter__topic="letters")
        await world.pass_time(5_000)
        assert [each.value for each in await world.read("letters")] == [b"a"]
        for _ in range(3):
            world.broker.subscriptions.release_idle()
        assert at.gone

    run(test, folder)
