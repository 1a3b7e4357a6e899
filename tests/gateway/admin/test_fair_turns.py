"""A lock whose turns go round by tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from gateway.admin.asker import Asker
from gateway.admin.exchange import Call
from gateway.admin.fair_turns import FairLock
from gateway.peer import Identity


def call(who: str) -> Call:
    return Call("GET", (), asker=Asker(Identity(f"User:{who}", "")))


class Room:
    """One lock, and who was in."""

    def __init__(self) -> None:
        self.lock = FairLock()
        self.seen: list[str] = []
        self.inside = 0

    async def go(self, name: str) -> None:
        async with self.lock.of(call(name.rpartition("-")[0])):
            self.inside += 1
            assert self.inside == 1
            await asyncio.sleep(0)
            self.seen.append(name)
            self.inside -= 1


def run(test: Callable[[Room], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await test(Room())

    uvloop.run(main())


def test_a_tenant_that_asks_for_much_keeps_nobody_waiting_for_all_of_it() -> None:
    async def test(room: Room) -> None:
        names = [f"shop.ada-{number}" for number in range(3)] + ["shop.eve-0", "bank.bob-0", "kim-0", "kim-1"]
        await asyncio.gather(*map(room.go, names))
        assert room.seen == [
            "shop.ada-0", "shop.ada-1", "bank.bob-0", "kim-0", "shop.ada-2", "kim-1", "shop.eve-0",
        ]  # fmt: skip
        # and it is free again
        await room.go("late-0")

    run(test)


@pytest.mark.parametrize("passing", [False, True])
def test_who_goes_away_while_it_waits_holds_nothing(passing: bool) -> None:
    async def test(room: Room) -> None:
        first, second, third = [asyncio.create_task(room.go(f"u{number}-0")) for number in range(3)]
        await asyncio.sleep(0)
        if passing:
            # it is told that it is its turn, and is gone before it is there
            while not first.done():
                await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert room.seen[0] == "u0-0"
        assert room.seen[-1] == "u2-0"
        await room.go("late-0")

    run(test)


def test_what_fails_inside_lets_the_next_one_in() -> None:
    async def test(room: Room) -> None:
        async def failing() -> None:
            async with room.lock.of(call("x")):
                await asyncio.sleep(0)
                raise ValueError

        await asyncio.gather(failing(), room.go("y-0"), return_exceptions=True)
        assert room.seen == ["y-0"]

    run(test)
