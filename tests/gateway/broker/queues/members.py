"""Members of the group `g` that share out the lanes of `t-g-QUEUE`: by the requests that a client sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.broker.machines import Caller
from gateway.coordinators.classic_events import Join, Sync
from tests.gateway.broker.subscriptions.world import World

_NAME = b"t-g-QUEUE"
_TOPIC = len(_NAME).to_bytes(2, "big") + _NAME
SESSION_MS = 30_000


class Asked:
    """A request to the group, and the answer when it has come."""

    def __init__(self, world: World, event: Callable[[Caller], Any]) -> None:
        self.answer: Any = None
        world.broker.groups.run("g", event(Caller(self._told)))

    def _told(self, answer: Any) -> Any:
        self.answer = answer
        return answer


def join(world: World, member: str, new: str = "") -> Asked:
    """A member comes again, or a `new` one comes."""
    protocols = (("range", b"\0\0\0\0\0\1" + _TOPIC + b"\xff" * 4),)
    return Asked(
        world,
        lambda caller: Join(
            caller,
            member,
            new,
            None,
            "c",
            "/h",
            SESSION_MS,
            SESSION_MS,
            "consumer",
            protocols,
            id_required=False,
        ),
    )


def sync(world: World, member: str, generation: int, **lanes: list[int]) -> Asked:
    """It asks for its part; the leader says who has which lanes."""
    given = {
        each: b"\0\1\0\0\0\1"
        + _TOPIC
        + len(numbers).to_bytes(4, "big")
        + b"".join(number.to_bytes(4, "big") for number in numbers)
        + b"\xff" * 4
        for each, numbers in lanes.items()
    }
    return Asked(world, lambda caller: Sync(caller, member, generation, assignments=given))


async def alone(world: World, *lanes: int) -> None:
    """Member `a` is the only one, and has these lanes."""
    joined = join(world, "", "a")
    await world.pass_time(5_000)
    sync(world, "a", joined.answer.generation, a=list(lanes))
    await world.settled()
