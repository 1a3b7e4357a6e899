"""Requests that are parked at a cursor: who is woken, in which order, and when nobody is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions.parked import Parked
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from tests.gateway.broker.subscriptions.world import Taker, World, run


class Place:
    """A cursor that has something for some consumers."""

    def __init__(self, *consumers: str) -> None:
        self.cursor: Any = object()
        self.subscription: Any = SimpleNamespace(group="g")
        self.consumers = consumers
        self.asks_disk = False

    def ready(self) -> Any:
        if self.cursor is None:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        return self.cursor

    def may_serve(self, consumer: str) -> bool:
        return consumer in self.consumers


class Waiter:
    def __init__(self, consumer: str, told: list[str]) -> None:
        self.consumer = consumer
        self.told = told

    def wake(self, at: Place) -> None:
        self.told.append(self.consumer)


class Broken(Waiter):
    def wake(self, at: Place) -> None:
        raise RuntimeError("broken")


def parked(at: Place, *waiters: Any) -> Parked[Place]:
    found = Parked(at, asyncio.new_event_loop())
    for each in waiters:
        found.add(each)
    return found


def test_those_for_whom_there_is_something_are_woken_once_the_first_that_came_first() -> None:
    told: list[str] = []
    at = Place("c", "a")
    found = parked(at, *[Waiter(name, told) for name in "abc"])
    found.serve()
    assert (told, len(found)) == (["a", "c"], 1)
    found.serve()
    assert told == ["a", "c"]


@pytest.mark.parametrize("what", ["asks a disk", "lost its cursor"])
def test_the_others_wait_until_what_one_began_is_over(what: str) -> None:
    told: list[str] = []
    at = Place("a", "b")

    class First(Waiter):
        def wake(self, at: Place) -> None:
            super().wake(at)
            at.asks_disk = what == "asks a disk"
            at.cursor = at.cursor if at.asks_disk else object()

    found = parked(at, First("a", told), Waiter("b", told))
    found.serve()
    assert told == ["a"]
    at.asks_disk = False
    found.serve()
    assert told == ["a", "b"]


def test_when_there_is_no_cursor_all_are_told() -> None:
    told: list[str] = []
    at = Place()
    at.cursor = None
    found = parked(at, Waiter("a", told), Waiter("b", told))
    found.serve()
    assert (told, len(found)) == (["a", "b"], 0)


def test_one_that_breaks_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    found = parked(Place("a", "b"), Broken("a", told), Waiter("b", told))
    found.serve()
    assert told == ["b"]
    assert [each.getMessage() for each in caplog.records] == ["a waiter failed"]


def test_who_has_left_is_not_woken() -> None:
    told: list[str] = []
    first, second = Waiter("a", told), Waiter("b", told)
    found = parked(Place("a", "b"), first, second)
    found.discard(first)
    found.discard(first)
    found.serve()
    assert told == ["b"]


def test_soon_is_one_look_in_the_next_round_of_the_loop() -> None:
    async def main() -> None:
        told: list[str] = []
        found = Parked(Place("a"), asyncio.get_running_loop())

        class Back(Waiter):
            """Parks again."""

            def wake(self, at: Place) -> None:
                super().wake(at)
                found.add(self)

        found.add(Back("a", told))
        found.serve_soon()
        found.serve_soon()
        assert told == []
        await asyncio.sleep(0)
        assert told == ["a"]
        await asyncio.sleep(0)
        assert told == ["a"], "nothing has happened since"
        found.serve_soon()
        await asyncio.sleep(0)
        assert told == ["a", "a"]

    asyncio.run(main())


def test_whoever_waits_longest_is_woken_and_nobody_for_nothing(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        takers = [Taker(f"c{n}", 2) for n in range(50)]
        for each in takers:
            at.attach(each.consumer)
            at.parked.add(each)
        await world.produce(b"a", b"b", b"c")
        assert [each.got for each in takers[:3]] == [[0, 1], [2], []]
        assert [each.times for each in takers] == [1, 1] + [0] * 48
        await world.produce(b"d")
        assert takers[2].got == [3]
        # what somebody lets go of wakes the next
        at.detach("c0", Ending.STOPPED)
        await world.settled()
        assert takers[3].got == [0, 1]

    run(test, folder)
