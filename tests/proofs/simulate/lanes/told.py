"""Between the coordinator of the group and its lanes: what the oracle hears, and who may commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.proofs.simulate.lanes.member import TOPIC

if TYPE_CHECKING:
    from tests.proofs.simulate.lanes.world import LanesWorld


class Told:
    """Whoever must know who has which lanes: the lanes, and before them the oracle."""

    def __init__(self, world: LanesWorld, queues: Any) -> None:
        self._world = world
        self._queues = queues

    def serves(self, group: str) -> bool:
        answer: bool = self._queues.serves(group)
        return answer

    def assigned(self, group: str) -> None:
        self._queues.assigned(group)
        self._world.owners_changed()

    def moved(self, group: str, owners: Mapping[tuple[bytes, int], str | None], *, whole: bool) -> None:
        self._queues.moved(group, owners, whole=whole)
        self._world.moved({lane: owner for (_, lane), owner in owners.items()}, whole=whole)

    def member_gone(self, group: str, member: str, *, crashed: bool) -> None:
        self._world.member_gone(member, crashed=crashed)
        self._queues.member_gone(group, member, crashed=crashed)


def refused(world: LanesWorld, lane: int, member: str, generation: int) -> bool:
    """Whether a commit is to be refused."""
    its = world.broker.committing.of("g")
    core = its.get("g")
    if core is None:
        return True
    if its is world.broker.groups:
        return bool(core.check_commit(member, _instance(member, core), generation, world.now))
    place = world.broker.catalog.get(TOPIC).topic_id, lane
    return bool(core.check_commit(member, generation, lambda: frozenset({place}), old=False))


def _instance(member: str, core: Any) -> str | None:
    found = core.roster.get(member)
    return found.instance_id if found is not None else None
