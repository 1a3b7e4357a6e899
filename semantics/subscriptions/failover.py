"""Who of a Failover subscription's consumers is active: on a partition of a partitioned topic, on the only topic
without partitions that it reads, on each of several.

Priority 0 is the highest; only the consumers of the highest priority present take part, the others stand by. Consumers
are given in the order in which they joined, and answers are indexes into what was given, as consumers may have the same
name.

Source: Pulsar's concepts, "Failover", and for the ring AbstractDispatcherSingleActiveConsumer. Where the text and its
figures differ, partition mod consumers decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from semantics.subscriptions.hashing import murmur3_32

POINTS = 100
"""Points of a consumer on the ring."""

_MASK = 0x7FFF_FFFF
"""Places on the ring are what Java has of a hash without its sign: 31 bits."""


class FailoverConsumer(NamedTuple):
    """A consumer that is there. `priority`: 0 is the highest."""

    name: str
    priority: int = 0


def in_turn(consumers: Sequence[FailoverConsumer]) -> list[int]:
    """Those that partitions go to in turn: sorted by name; of the same name who joined first is before the others."""
    return sorted(_leading(consumers), key=lambda index: consumers[index].name)


def active_of_partition(consumers: Sequence[FailoverConsumer], partition: int) -> int | None:
    """The active consumer of one partition of a partitioned topic: partition mod consumers."""
    turns = in_turn(consumers)
    return turns[partition % len(turns)] if turns else None


def active_of_topic(consumers: Sequence[FailoverConsumer]) -> int | None:
    """The active consumer of the only topic without partitions that a subscription reads: who joined first."""
    leading = _leading(consumers)
    return leading[0] if leading else None


def active_by_hash(consumers: Sequence[FailoverConsumer], topic: str) -> int | None:
    """The active consumer of one of several topics without partitions. `topic`: its full name, as Pulsar has it."""
    return Ring(consumers).active(topic)


class Ring:
    """The ring of the consumers' names, on which topics without partitions look for theirs: so not all topics end with
    the same consumer, and who goes leaves its own to the others, and nobody else's move.

    A consumer's points are the hashes of its name with 0 to 99 behind it. A topic goes to the first point at or after
    its own hash. Where two points fall on one place it is that of the later name, as in Pulsar; of the same name who
    joined first has all (there it is who joined last, and each newcomer would take the topics over).
    """

    __slots__ = ("_owners", "_places")

    def __init__(self, consumers: Sequence[FailoverConsumer]) -> None:
        """Of those that are there, in the order in which they joined."""
        by_name: dict[str, int] = {}
        for index in in_turn(consumers):
            by_name.setdefault(consumers[index].name, index)
        points = {place: index for name, index in by_name.items() for place in _points(name)}
        self._places = sorted(points)
        self._owners = [points[place] for place in self._places]

    def active(self, topic: str) -> int | None:
        """Who is active on the topic of that full name; None when nobody is there."""
        if not self._places:
            return None
        at = bisect_left(self._places, murmur3_32(topic.encode()) & _MASK)
        return self._owners[at % len(self._owners)]


def line(consumers: Sequence[FailoverConsumer], partition: int) -> list[int]:
    """All consumers in the order in which they become active for a partition, each when those before it are gone."""
    waiting = list(range(len(consumers)))
    order: list[int] = []
    while (at := active_of_partition([consumers[index] for index in waiting], partition)) is not None:
        order.append(waiting.pop(at))
    return order


def _leading(consumers: Sequence[FailoverConsumer]) -> list[int]:
    """Those of the highest priority that is there."""
    highest = min((consumer.priority for consumer in consumers), default=0)
    return [index for index, consumer in enumerate(consumers) if consumer.priority == highest]


@lru_cache(maxsize=1_000)
def _points(name: str) -> tuple[int, ...]:
    return tuple([murmur3_32(f"{name}{point}".encode()) & _MASK for point in range(POINTS)])
