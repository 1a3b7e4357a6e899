"""Who gets which partition: the assignors of consumer groups (KIP-848), by the names that clients ask for. Pure.

`range` is here, `uniform` in its own file. An assignor sees who subscribes to which topics, how many partitions these
have, and what was each member's target before. What it answers gives each partition of a topic that somebody
subscribes to one member, who subscribes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gateway.coordinators import uniform
from gateway.coordinators.consumer_events import Partition

Target = frozenset[Partition]


class Subscriber(NamedTuple):
    """A member as assignors see it. `topics`: the ids of those that it subscribes to and that there are."""

    instance_id: str | None
    topics: frozenset[bytes]
    target: Target


Subscribers = Mapping[str, Subscriber]
"""By member id."""

Counts = Mapping[bytes, int]
"""Topic id to its number of partitions, in the order of the topics' names."""

Assignor = Callable[[Subscribers, Counts], dict[str, Target]]


def by_range(members: Subscribers, counts: Counts) -> dict[str, Target]:
    """Each topic by itself: its partitions in order, in runs of the same length or one more, over its subscribers in
    order. Topics with the same subscribers and as many partitions are cut at the same places. Static members come
    first, by their instance ids: they get the same after a restart.
    """
    order = sorted(members, key=lambda name: _rank(name, members[name]))
    found: dict[str, set[Partition]] = {name: set() for name in members}
    for topic, count in counts.items():
        readers = [name for name in order if topic in members[name].topics]
        if not readers:
            continue
        length, more = divmod(count, len(readers))
        begin = 0
        for number, name in enumerate(readers):
            end = begin + length + (number < more)
            found[name].update((topic, index) for index in range(begin, end))
            begin = end
    return {name: frozenset(places) for name, places in found.items()}


def _rank(name: str, member: Subscriber) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or name


def by_uniform(members: Subscribers, counts: Counts) -> dict[str, Target]:
    """As many for each as possible, and as few moves as possible: see `uniform`."""
    before = {name: member.target for name, member in members.items()}
    topics = {name: member.topics for name, member in members.items()}
    return {name: frozenset(places) for name, places in uniform.assign(topics, counts, before).items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": by_uniform, "range": by_range}
"""By name. `group.consumer.assignors` says which of them a node has, and which is meant by who names none."""
