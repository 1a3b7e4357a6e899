"""The assignor `uniform`: members have as many partitions as each other, and keep what they have where that allows it.

Do all subscribe to the same topics, nobody has two more than another. Else that holds as far as subscriptions let it:
no partition could go to somebody who has two fewer than its owner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gateway.coordinators.consumer_events import Partition

Topics = Mapping[str, frozenset[bytes]]
"""What each member subscribes to."""


def assign(
    topics: Topics, counts: Mapping[bytes, int], before: Mapping[str, Collection[Partition]]
) -> dict[str, set[Partition]]:
    """Every partition's owner, by member. `before`: what each had."""
    if not topics:
        return {}
    subscriptions = iter(topics.values())
    first = next(subscriptions)
    if all(other is first or other == first for other in subscriptions):
        return _same(topics, {topic: counts[topic] for topic in counts if topic in first}, before)
    return _different(topics, counts, before)


def _kept(
    topics: Topics, counts: Mapping[bytes, int], before: Mapping[str, Collection[Partition]]
) -> _Owners:
    """What each had and may keep: its topics that there are, and nothing of anybody else."""
    owners = _Owners(topics)
    for name, wanted in topics.items():
        for place in sorted(before.get(name, ())):
            topic, index = place
            if topic in wanted and index < counts.get(topic, 0) and place not in owners.of:
                owners.give(place, name)
    return owners


class _Owners:
    """The assignment while it is made."""

    def __init__(self, members: Iterable[str]) -> None:
        self.of: dict[Partition, str] = {}
        self.by: dict[str, set[Partition]] = {name: set() for name in members}

    def give(self, place: Partition, name: str) -> None:
        self.of[place] = name
        self.by[name].add(place)

    def take(self, place: Partition) -> None:
        self.by[self.of.pop(place)].remove(place)

    def load(self, name: str) -> int:
        return len(self.by[name])


# -- everybody subscribes to the same ---------------------------------------------------------------------------------


def _same(
    topics: Topics, counts: Mapping[bytes, int], before: Mapping[str, Collection[Partition]]
) -> dict[str, set[Partition]]:
    owners = _kept(topics, counts, before)
    least, more = divmod(sum(counts.values()), len(topics))
    # those who had more keep one more, as long as there are any to be had
    for name in topics:
        surplus = owners.load(name) - least
        if surplus > 0 and more > 0:
            more -= 1
            surplus -= 1
        if surplus > 0:
            for place in sorted(owners.by[name])[-surplus:]:
                owners.take(place)
    free = iter([place for place in _places(counts) if place not in owners.of])
    poor = [name for name in topics if owners.load(name) < least]
    for name in poor:
        while owners.load(name) < least:
            owners.give(next(free), name)
    rest = list(free)
    for place, name in zip(rest, [name for name in topics if owners.load(name) == least], strict=False):
        owners.give(place, name)
    return owners.by


def _places(counts: Mapping[bytes, int]) -> Iterable[Partition]:
    return ((topic, index) for topic, count in counts.items() for index in range(count))


# -- subscriptions differ ---------------------------------------------------------------------------------------------


def _different(
    topics: Topics, counts: Mapping[bytes, int], before: Mapping[str, Collection[Partition]]
) -> dict[str, set[Partition]]:
    owners = _kept(topics, counts, before)
    readers: dict[bytes, list[str]] = {topic: [] for topic in counts}
    for name, wanted in topics.items():
        for topic in wanted:
            if topic in readers:
                readers[topic].append(name)
    # topics with the fewest readers first: the others can go round what these have got
    order = sorted((topic for topic in counts if readers[topic]), key=lambda topic: len(readers[topic]))
    for topic in order:
        for index in range(counts[topic]):
            if (topic, index) not in owners.of:
                owners.give((topic, index), min(readers[topic], key=owners.load))
    moved = True
    while moved:
        moved = False
        for topic in order:
            moved = _level(owners, readers[topic], topic) or moved
    return owners.by


def _level(owners: _Owners, readers: list[str], topic: bytes) -> bool:
    """Move partitions of a topic from who has most to who has least, while that makes them more equal. Whether any has
    moved. Each move lowers the sum of the squares of all loads, so there is an end.
    """
    moved = False
    while True:
        poorest = min(readers, key=owners.load)
        most = owners.load(poorest) + 2
        rich = [name for name in readers if owners.load(name) >= most]
        place = None
        for name in sorted(rich, key=owners.load, reverse=True):
            place = max((each for each in owners.by[name] if each[0] == topic), default=None)
            if place is not None:
                break
        if place is None:
            return moved
        owners.take(place)
        owners.give(place, poorest)
        moved = True
