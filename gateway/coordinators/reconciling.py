"""How a member of a consumer group gets from what it has to what it should have: KIP-848's reconciliation, pure.

A partition changes its owner in three heartbeats at least: the old owner is told to give it up, the old owner no
longer reports it, the new owner is told that it has it. So it never has two.

| state        | its next heartbeat                                   | becomes                             | epoch |
|--------------|------------------------------------------------------|-------------------------------------|-------|
| Stable       | its target is of another epoch, and it must give     | Unrevoked                           | stays |
|              | something up that it may still have                  |                                     |       |
| Stable       | the same, nothing to give up; others still have some | Unreleased, with what is free       | new   |
|              | of its target                                        |                                     |       |
| Stable       | the same, all of its target is free                  | Stable, with its target             | new   |
| Unrevoked    | it still reports what it must give up, or reports    | Unrevoked                           | stays |
|              | nothing                                              |                                     |       |
| Unrevoked    | it no longer reports that                            | as Stable with a target of another  |       |
|              |                                                      | epoch                               |       |
| Unreleased   | any                                                  | the same                            |       |

Kafka calls the last two UnrevokedPartitions and UnreleasedPartitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import NamedTuple

from gateway.coordinators.consumer_events import Partition

Epochs = Mapping[Partition, int]
"""Partitions that a member has, each with the epoch in which it was assigned."""


class MemberState(IntEnum):
    """Where a member is on its way to its target. The numbers are in rows."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class Current(NamedTuple):
    """What a member has, and is to give up."""

    epoch: int
    state: MemberState
    assigned: Epochs
    revoking: Epochs


def reconcile(
    current: Current,
    target_epoch: int,
    target: Collection[Partition],
    owned: Collection[Partition] | None,
    free: Callable[[Partition], bool],
) -> Current:
    """What becomes of a member at a heartbeat; the same object if nothing does.

    `owned`: what it reports that it has, None if it does not say. `free`: whether nobody else has a partition.
    """
    if current.state is MemberState.STABLE and current.epoch == target_epoch:
        return current
    if current.state is MemberState.UNREVOKED and _may_have(owned, current.revoking):
        return current
    kept = {place: epoch for place, epoch in current.assigned.items() if place in target}
    given_up = {place: epoch for place, epoch in current.assigned.items() if place not in kept}
    if given_up and _may_have(owned, given_up):
        return Current(current.epoch, MemberState.UNREVOKED, kept, given_up)
    missing = [place for place in target if place not in kept]
    gained = [place for place in missing if free(place)]
    state = MemberState.STABLE if len(gained) == len(missing) else MemberState.UNRELEASED
    if not gained and not given_up and (state, target_epoch) == (current.state, current.epoch):
        return current
    kept.update(dict.fromkeys(gained, target_epoch))
    return Current(target_epoch, state, kept, {})


def _may_have(owned: Collection[Partition] | None, places: Collection[Partition]) -> bool:
    """Whether a member may still have one of these."""
    return owned is None or any(place in places for place in owned)
