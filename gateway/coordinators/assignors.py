"""Who gets which partition: the assignors of consumer groups (KIP-848), by the names that clients ask for. Pure.

`range` and `failover` are here, `uniform` in its own file. An assignor sees who subscribes to which topics, how many
partitions these have, and what was each member's target before. What it answers gives each partition of a topic that
somebody subscribes to one member, who subscribes to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gateway.coordinators import uniform
from gateway.coordinators.consumer_events import Partition
from semantics.subscriptions import failover
from semantics.subscriptions.failover import FailoverConsumer

Target = frozenset[Partition]

PRIORITY = re.compile(r"priority=([0-9]{1,9})")
"""What a member's rack (client.rack) is if it has a priority of Pulsar's; 0 is the highest, and that of all others."""


class Subscriber(NamedTuple):
    """A member as assignors see it. `topics`: the ids of those that it subscribes to and that there are."""

    instance_id: str | None
    topics: frozenset[bytes]
    target: Target
    client_id: str = ""
    rack: str | None = None
    # Pulsar's, where the group's configs say it; else the rack may
    priority: int | None = None
    # who has the lower number has joined before
    joined: int = 0


Subscribers = Mapping[str, Subscriber]
"""By member id."""

Counts = Mapping[bytes, int]
"""Topic id to its number of partitions, in the order of the topics' names."""

Plain = Mapping[bytes, str]
"""Of the topics those without partitions, in Pulsar's sense, by topic id: their full names."""

NO_PLAIN: Plain = {}

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


def by_failover(members: Subscribers, counts: Counts, plain: Plain = NO_PLAIN) -> dict[str, Target]:
    """As in a Failover subscription of Pulsar's: partition mod consumers, over those of the highest priority in the
    order of their names. The only topic without partitions is that of who joined first; several are shared out over a
    ring of the names. All others stand by. A name is the instance id, or else the client id; of the same name who
    joined first comes first. What somebody had does not count.
    """
    found: dict[str, set[Partition]] = {name: set() for name in members}
    order = sorted(members, key=lambda name: (members[name].joined, name))
    consumers = [_consumer(members[name]) for name in order]
    several = sum(topic in plain for topic in counts) > 1
    rings: dict[tuple[int, ...], failover.Ring] = {}
    for topic, count in counts.items():
        readers = tuple([index for index, name in enumerate(order) if topic in members[name].topics])
        its = [consumers[index] for index in readers]
        if topic not in plain:
            turns = failover.in_turn(its)
        elif several:
            if readers not in rings:
                rings[readers] = failover.Ring(its)
            active = rings[readers].active(plain[topic])
            turns = [] if active is None else [active]
        else:
            active = failover.active_of_topic(its)
            turns = [] if active is None else [active]
        for at, turn in enumerate(turns):
            places = ((topic, index) for index in range(at, count, len(turns)))
            found[order[readers[turn]]].update(places)
    return {name: frozenset(places) for name, places in found.items()}


def _consumer(member: Subscriber) -> FailoverConsumer:
    priority = member.priority
    if priority is None:
        said = PRIORITY.fullmatch(member.rack or "")
        priority = int(said[1]) if said else 0
    return FailoverConsumer(member.instance_id or member.client_id, priority)


FAILOVER = "failover"

ASSIGNORS: dict[str, Assignor] = {"uniform": by_uniform, "range": by_range, FAILOVER: by_failover}
"""By name. `group.consumer.assignors` says which of them a node has, and which is meant by who names none."""
