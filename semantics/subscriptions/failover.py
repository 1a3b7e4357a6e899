"""Who of a Failover subscription's consumers is active.

Priority 0 is the highest; only the consumers of the highest priority present take part, the others stand by.

Source: Pulsar's concepts, "Failover". Where its text and its figures differ, partition mod consumers decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from semantics.subscriptions.hashing import murmur3_32
from semantics.subscriptions.selectors.consistent_hashing import points_of


class FailoverConsumer(NamedTuple):
    """A consumer that is there. `priority`: 0 is the highest."""

    name: str
    priority: int = 0


def active_of_partition(consumers: Sequence[FailoverConsumer], partition: int) -> str | None:
    """The active consumer of one partition: they are sorted by priority, then name; partition mod consumers."""
    turns = in_turn(consumers)
    return consumers[turns[partition % len(turns)]].name if turns else None


def active_of_topic(consumers: Sequence[FailoverConsumer]) -> str | None:
    """The active consumer of a single topic without partitions, of consumers in the order they joined: the first."""
    leading = _leading(consumers)
    return leading[0].name if leading else None


def active_by_hash(consumers: Sequence[FailoverConsumer], topic: str) -> str | None:
    """The active consumer of one of several topics without partitions: the topic's name on the ring of the
    consumers' names, so that all topics do not end with the same consumer.
    """
    leading = sorted(consumer.name for consumer in _leading(consumers))
    ring = sorted((point, name) for name in leading for point in points_of(name))
    if not ring:
        return None
    return ring[bisect_left(ring, (murmur3_32(topic.encode()), "")) % len(ring)][1]


def assignment(consumers: Sequence[FailoverConsumer], partitions: int) -> list[str | None]:
    """The active consumer of each partition of a topic."""
    turns = in_turn(consumers)
    return [
        consumers[turns[partition % len(turns)]].name if turns else None for partition in range(partitions)
    ]


def in_turn(consumers: Sequence[FailoverConsumer]) -> list[int]:
    """Those that partitions go to in turn, as indexes of `consumers`. Of the same name the one that is given first is
    before the others.
    """
    highest = min((consumer.priority for consumer in consumers), default=0)
    leading = [index for index, consumer in enumerate(consumers) if consumer.priority == highest]
    return sorted(leading, key=lambda index: consumers[index].name)


def line(consumers: Sequence[FailoverConsumer], partition: int) -> list[str]:
    """All consumers in the order in which they become active for a partition, each when those before it are gone."""
    waiting = list(consumers)
    order: list[str] = []
    while (active := active_of_partition(waiting, partition)) is not None:
        order.append(active)
        waiting = [consumer for consumer in waiting if consumer.name != active]
    return order


def _leading(consumers: Sequence[FailoverConsumer]) -> list[FailoverConsumer]:
    highest = min((consumer.priority for consumer in consumers), default=0)
    return [consumer for consumer in consumers if consumer.priority == highest]
