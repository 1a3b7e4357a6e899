"""Which subscriptions' dead letters go to which topic: several may have chosen one. Pure."""

from __future__ import annotations

Place = tuple[str, str]
"""A topic of the catalog, and a group."""


class LetterTopics:
    """By what each subscription chose when it was looked at last."""

    def __init__(self) -> None:
        self._places: dict[str, set[Place]] = {}
        self._topic_of: dict[Place, str] = {}

    def whose(self, topic: str) -> frozenset[Place]:
        """The subscriptions whose letters go to a topic."""
        return frozenset(self._places.get(topic, ()))

    def choose(self, place: Place, topic: str) -> frozenset[Place]:
        """A subscription's go to this topic: of which others that changes whether theirs are all that is there."""
        if self._topic_of.get(place) == topic:
            return frozenset()
        concerned = self.leave(place) | self.whose(topic)
        self._topic_of[place] = topic
        self._places.setdefault(topic, set()).add(place)
        return concerned

    def leave(self, place: Place) -> frozenset[Place]:
        """A subscription's go nowhere: the same."""
        topic = self._topic_of.pop(place, "")
        others = self._places.get(topic, set())
        others.discard(place)
        if not others:
            self._places.pop(topic, None)
        return frozenset(others)
