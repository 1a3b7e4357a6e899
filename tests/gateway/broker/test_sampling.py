"""What is measured of subscriptions every ten seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker import sampling
from semantics.console.series import STEP_MS, Series
from tests.gateway.broker.subscriptions.world import REJECT, World, run


async def sampled(world: World, group: str = "g") -> dict[str, float | None]:
    """What was measured last, ten seconds later."""
    await world.pass_time(STEP_MS)
    await world.broker.sampling.sample()
    return last(world, of(world, group))


def of(world: World, group: str = "g") -> Series:
    row = world.broker.subscriptions.row(group, "t")
    assert row is not None
    found = world.broker.sampling.of(row.id)
    assert found is not None
    return found


def last(world: World, series: Series) -> dict[str, float | None]:
    points, _ = world.broker.sampling.points(series, "1h")
    return {name: values[-1] for name, values in points.values.items()}


def test_rates_what_is_open_and_how_old(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(*[b"x"] * 20)
        assert await sampled(world) == {"in": None, "out": None, "open": 20.0, "oldest": 10.0}
        await world.fetch(at, limit=8, strict=True)
        await world.ack(at, *range(5))
        await world.produce(*[b"y"] * 10)
        assert await sampled(world) == {"in": 1.0, "out": 0.8, "open": 25.0, "oldest": 20.0}
        assert last(world, world.broker.sampling.of_all) == {
            "in": 1.0,
            "out": 0.8,
            "open": 25.0,
            "oldest": 20.0,
        }
        await world.fetch(at)
        await world.ack(at, *range(5, 20))
        # what came ten seconds later is the oldest now
        assert await sampled(world) == {"in": 0.0, "out": 2.2, "open": 10.0, "oldest": 20.0}
        await world.ack(at, *range(20, 30))
        assert await sampled(world) == {"in": 0.0, "out": 0.0, "open": 0.0, "oldest": 0.0}
        points, first_ms = world.broker.sampling.points(of(world), "1h")
        assert points.values["open"] == [20.0, 25.0, 10.0, 0.0]
        assert 0 <= world.clock.wall_ms() - 3 * STEP_MS - first_ms < STEP_MS

    run(test, folder)


def test_a_message_that_is_not_due_is_not_old(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.subscribed()
        at = world.at()
        await world.produce(b"later", headers=[("pulsar-deliver-after", b"600000")])
        await world.fetch(at)
        assert (await sampled(world))["oldest"] == 0.0
        await world.produce(b"now")
        await world.fetch(at)
        found = await sampled(world)
        assert (found["open"], found["oldest"]) == (2.0, 10.0)

    run(test, folder)


@pytest.mark.parametrize("rests", [False, True], ids=["in memory", "by its rows"])
def test_one_whose_time_has_come_is_as_old_as_since_then(rests: bool, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.subscribed()
        at = world.at()
        await world.produce(b"later", headers=[("pulsar-deliver-after", b"600000")])
        await world.fetch(at)
        if rests:
            await world.crash()
        await world.pass_time(595_000)
        found = await sampled(world)
        # it was published ten minutes before it was due
        assert (found["open"], found["oldest"]) == (1.0, 5.0)

    run(test, folder)


def test_one_that_nobody_uses_is_measured_by_its_rows(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(*[b"x"] * 6)
        await world.fetch(at)
        await world.ack(at, 0, 1, 3)
        await world.crash()
        await world.produce(b"y", b"y")
        assert world.broker.subscriptions.in_use("g", world.broker.topics.get("t").topic_id) is None
        found = await sampled(world)
        assert found["open"] == 5.0
        # it was not taken up for that
        assert world.broker.subscriptions.in_use("g", world.broker.topics.get("t").topic_id) is None
        # 777 s stood still
        assert found["oldest"] == 10.0
        await world.produce(b"z")
        assert (await sampled(world)) == {"in": 0.1, "out": 0.0, "open": 6.0, "oldest": 20.0}

    run(test, folder)


def test_what_goes_is_forgotten_and_who_has_consumers_comes_first(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World) -> None:
        monkeypatch.setattr(sampling, "MOST", 2)
        monkeypatch.setattr(sampling, "LOOK_EVERY", 1)
        await world.subscribed(b"x")
        for group in ("h", "i"):
            await world.subscribe(group)
        await world.broker.sampling.sample()
        assert len(world.broker.sampling) == 2
        world.at("i").attach("c")
        await world.broker.sampling.sample()
        assert len(world.broker.sampling) == 2
        of(world, "i")
        await world.broker.subscriptions.delete("i")
        await world.broker.sampling.sample()
        rows = world.broker.subscriptions.of_topic(world.broker.topics.get("t").topic_id)
        assert sorted(row.group for row in rows if world.broker.sampling.of(row.id) is not None) == ["g", "h"]

    run(test, folder)


def test_ages_that_there_is_no_time_for_are_gaps_and_come_in_turn(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World) -> None:
        await world.subscribed(b"x")
        for group in ("h", "i"):
            await world.subscribe(group)
        # each takes longer than all may
        monkeypatch.setattr(sampling, "BUDGET_NS", 1)
        seen: list[list[float | None]] = []
        for _ in range(3):
            await world.pass_time(STEP_MS)
            await world.broker.sampling.sample()
            seen.append([last(world, of(world, group))["oldest"] for group in "ghi"])
        assert [sum(age is not None for age in ages) for ages in seen] == [1, 1, 1]
        assert all(any(ages[number] is not None for ages in seen) for number in range(3))

    run(test, folder)


def test_a_dead_letter_is_not_open_any_more(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"x", b"y")
        await world.fetch(at)
        await world.ack(at, 0, kind=REJECT)
        await world.settled()
        assert (await sampled(world))["open"] == 1.0

    run(test, folder)
