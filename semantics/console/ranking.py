"""All subscriptions in several orders at once, so that a page of any of them costs the page and not all of them.

Each order is a sorted list of places. A subscription whose sums change leaves its place and gets another: two searches
and two moves of memory. A page begins behind a place, and a place means the same whoever has changed meanwhile: nobody
stands on two pages of a list that nothing moves in.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from semantics.console.standing import NEVER, Standing

LAST = 1 << 62
"""Where those come that have no time."""


class Order(enum.StrEnum):
    """By what they are sorted; those that are even by topic and name."""

    OLDEST = "oldest"
    OPEN = "open"
    DEAD_LETTERS = "deadLetters"
    NAME = "name"


Name = tuple[str, str]
"""A topic and a group."""
Place = tuple[int, str, str]
"""A number, a topic and a group; those before have smaller ones."""


class Ranking:
    """Standings by topic and group."""

    def __init__(self) -> None:
        self._found: dict[Name, Standing] = {}
        self._places: dict[Order, list[Place]] = {order: [] for order in Order}
        self._by_topic: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def get(self, topic: str, group: str) -> Standing | None:
        return self._found.get((topic, group))

    def of_topic(self, topic: str) -> list[Standing]:
        """Those on a topic, by name."""
        return [self._found[topic, group] for group in sorted(self._by_topic.get(topic, ()))]

    def names(self) -> list[Name]:
        """All that there are."""
        return list(self._found)

    def topics(self) -> list[str]:
        """Those that have any, in no order."""
        return list(self._by_topic)

    def count_on(self, topic: str) -> int:
        """How many there are on a topic."""
        return len(self._by_topic.get(topic, ()))

    def put(self, standing: Standing) -> None:
        """It stands so from now on."""
        name = standing.topic, standing.group
        old = self._found.get(name)
        if old == standing:
            return
        self._found[name] = standing
        self._by_topic.setdefault(standing.topic, set()).add(standing.group)
        for order, places in self._places.items():
            new = place_of(standing, order)
            if old is not None:
                was = place_of(old, order)
                if was == new:
                    continue
                del places[bisect_left(places, was)]
            insort(places, new)

    def drop(self, topic: str, group: str) -> None:
        """It is there no more."""
        old = self._found.pop((topic, group), None)
        if old is None:
            return
        groups = self._by_topic[topic]
        groups.discard(group)
        if not groups:
            del self._by_topic[topic]
        for order, places in self._places.items():
            del places[bisect_left(places, place_of(old, order))]

    def behind(self, order: Order, after: Place | None, most: int) -> list[tuple[Place, Standing]]:
        """Up to `most` in an order, behind a place; from the first for None."""
        places = self._places[order]
        begin = bisect_right(places, after) if after is not None else 0
        return [(place, self._found[place[1:]]) for place in places[begin : begin + most]]

    def each_behind(self, order: Order, after: Place | None, most: int) -> Iterator[tuple[Place, Standing]]:
        """The same, one by one, for who may have enough of them soon. Nothing may change meanwhile."""
        places = self._places[order]
        begin = bisect_right(places, after) if after is not None else 0
        for at in range(begin, min(begin + most, len(places))):
            yield places[at], self._found[places[at][1:]]

    def __iter__(self) -> Iterator[Standing]:
        return iter(list(self._found.values()))


def place_of(standing: Standing, order: Order) -> Place:
    """Where it stands in an order."""
    if order is Order.OLDEST:
        number = standing.oldest if standing.oldest != NEVER else LAST
    elif order is Order.OPEN:
        number = -standing.open
    elif order is Order.DEAD_LETTERS:
        number = -standing.dead_letters
    else:
        number = 0
    return number, standing.topic, standing.group


def written(order: Order, place: Place) -> str:
    """A place as an answer gives it, for the call that goes on behind it."""
    return base64.urlsafe_b64encode(json.dumps([order, *place]).encode()).decode().rstrip("=")


def read(order: Order, text: str) -> Place:
    """The place again. Raises ValueError for what no answer in this order gave."""
    try:
        said = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise ValueError("It is not as an answer gave it.") from None
    match said:
        case [str(by), int(number), str(topic), str(group)] if not isinstance(number, bool):
            if by != order:
                raise ValueError(f"It is a place in the order {by[:40]!r}.")
            return number, topic, group
    raise ValueError("It is not as an answer gave it.")
