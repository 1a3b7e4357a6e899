"""Who waits for a backlog: looked at in order, by one timer, whatever comes and goes."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.broker.held_back import POLL_MS, SPARE, HeldBack, Place
from tests.gateway.broker.subscriptions.world import Clock

A, B = (b"a", 0), (b"b", 0)


class Node:
    def __init__(self) -> None:
        self.clock = Clock()
        self.timers: list[tuple[int, Callable[[], None]]] = []

    def call_at(self, at: int, callback: Callable[[], None]) -> None:
        self.timers.append((at, callback))


class Item:
    def __init__(
        self, back: HeldBack, name: str, *places: Place, waits: int = 1000, sender: str = ""
    ) -> None:
        self.back = back
        self.name = name
        self.places: list[Place] = list(places)
        self.deadline = back._node.clock.monotonic_ms() + waits
        self.given_up = False

    def go_on(self, place: Place) -> bool:
        if not ROOM.get(place):
            return False
        ROOM[place] -= 1
        WENT.append(self.name)
        self.places.remove(place)
        self.back.over(self, [place])
        return True

    def give_up(self) -> None:
        self.given_up = True
        places, self.places = self.places, []
        self.back.over(self, places)


ROOM: dict[Place, int] = {}
WENT: list[str] = []


class World:
    def __init__(self) -> None:
        ROOM.clear()
        WENT.clear()
        self.node = Node()
        self.measured: list[Place] = []

        async def measure(place: Place) -> None:
            self.measured.append(place)

        self.back = HeldBack(self.node, measure)  # type: ignore[arg-type]

    def item(self, name: str, *places: Place, **options: Any) -> Item:
        made = Item(self.back, name, *places, **options)
        self.back.add(made)
        return made

    async def look(self) -> None:
        """The next look, which is the only one to come. It may be late."""
        ((at, callback),) = self.node.timers
        self.node.timers.clear()
        self.node.clock.now = max(at, self.node.clock.now)
        callback()
        while self.back._task is not None:
            await asyncio.sleep(0)


def run(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(World()))


def test_each_place_goes_on_in_the_order_of_arrival() -> None:
    async def test(world: World) -> None:
        for name, places in (("1", [A]), ("2", [A, B]), ("3", [B]), ("4", [A])):
            world.item(name, *places)
        ROOM[A] = 2
        await world.look()
        assert WENT == ["1", "2"]
        assert world.back.waited_for(A)
        assert world.back.waited_for(B)
        ROOM.update({A: 9, B: 9})
        await world.look()
        assert sorted(WENT[2:]) == ["2", "3", "4"]
        assert WENT.index("2", 2) < WENT.index("3")
        assert not world.back.waited_for(A)
        assert (world.back.count, world.node.timers) == (0, [])

    run(test)


def test_who_has_waited_long_enough_gives_up_and_the_others_stay() -> None:
    async def test(world: World) -> None:
        items = [
            world.item(str(n), A, waits=waits) for n, waits in enumerate((POLL_MS, 500, POLL_MS - 1, 60))
        ]
        await world.look()
        assert [each.given_up for each in items] == [True, False, True, False]
        assert world.back.count == 2
        await world.look()
        assert [each.given_up for each in items] == [True, False, True, True]
        ROOM[A] = 1
        await world.look()
        assert WENT == ["1"]

    run(test)


def test_looks_that_take_long_come_less_often() -> None:
    async def test(world: World) -> None:
        async def slow(place: Place) -> None:
            world.node.clock.now += 40

        world.back._measure = slow
        world.item("1", A)
        await world.look()
        ((at, _),) = world.node.timers
        assert at - world.node.clock.now == 360

    run(test)


def test_there_is_one_timer_however_often_the_last_one_goes() -> None:
    async def test(world: World) -> None:
        for _ in range(100):
            world.item("1", A).give_up()
        world.item("2", A)
        assert len(world.node.timers) == 1
        await world.look()
        assert world.measured == [A]
        world.item("3", A)
        assert len(world.node.timers) == 1

    run(test)


def test_of_those_that_are_over_nothing_stays_while_others_wait() -> None:
    async def test(world: World) -> None:
        stays = world.item("stays", A, waits=10_000_000)
        over = []
        for n in range(1_000):
            item = world.item(str(n), B, waits=9_000_000 + n)
            over.append(weakref.ref(item))
            if n % 2:
                item.give_up()
            else:
                ROOM[B] = 1
                assert item.go_on(B)
            assert len(world.back._deadlines) <= SPARE + 3
        del item
        assert [each for each in over if each() is not None] == []
        # and those that wait still have their time
        last = world.item("last", A, waits=60)
        await world.look()
        await world.look()
        assert (stays.given_up, last.given_up) == (False, True)
        world.node.clock.now += 10_000_000
        await world.look()
        assert stays.given_up

    run(test)


def test_who_has_no_time_left_gives_up_in_time_though_most_others_are_over() -> None:
    async def test(world: World) -> None:
        items = [world.item(str(n), A, waits=1_000 - n) for n in range(4 * SPARE)]
        left = [item for n, item in enumerate(items) if n % 4 == 0]
        for item in items:
            if item not in left:
                item.give_up()
        assert world.back.count == len(left)
        world.node.clock.now += 1_000 - 2 * SPARE
        await world.look()
        assert [each.given_up for each in left] == [n >= SPARE // 2 for n in range(SPARE)]

    run(test)
