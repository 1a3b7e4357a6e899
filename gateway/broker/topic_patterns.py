"""Which topics there are for the regular expressions that consumer groups subscribe with (KIP-848).

An expression is looked up in the whole catalog once, where its first letters are; from then on it is told of each topic
that comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.group_names import home_of
from semantics.names import DEFAULT, Namespace
from semantics.patterns import Pattern, PatternError, as_kafkas

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic

MOST = 1_000
"""Expressions that are known at a time; beyond that the oldest is looked up again when it is asked for."""


def _bare(text: str) -> list[str]:
    """The alternatives of an expression without the groups around them and the anchors at their ends, which say nothing
    since whole names match: librdkafka makes (^a-.*)|(^b-.*) of two subscriptions. What is not closed stays as it is.
    """
    found: list[str] = []
    for each in _alternatives(text):
        if each.startswith("(") and not each.startswith("(?") and _closes(each) == len(each) - 1:
            found += _bare(each[1:-1])
            continue
        begin = 1 if each.startswith("^") else 0
        anchored = each.endswith("$") and (len(each) - len(each[:-1].rstrip("\\"))) % 2 == 1
        found.append(each[begin:-1] if anchored else each[begin:])
    return found


def _alternatives(text: str) -> list[str]:
    """What stands between the "|" that are in no group."""
    ends = [-1, *(at for at, letter, depth in _letters(text) if letter == "|" and depth == 0), len(text)]
    return [text[begin + 1 : end] for begin, end in pairwise(ends)]


def _closes(text: str) -> int:
    """Where the group ends that the text begins with; -1 if it does not."""
    return next((at for at, letter, depth in _letters(text) if letter == ")" and depth == 0), -1)


def _letters(text: str) -> Iterator[tuple[int, str, int]]:
    """(place, character, groups that it is in) of those that are neither escaped nor in a class."""
    depth, at, inside = 0, 0, False
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 2
            continue
        if inside:
            inside = letter != "]"
        else:
            inside = letter == "["
            depth -= letter == ")"
            yield at, letter, depth
            depth += letter == "("
        at += 1


class TopicPatterns:
    """The expressions of all groups, each with the names of its topics."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[tuple[Namespace, str], tuple[Pattern, set[str]]] = {}
        catalog.watchers.append(self._changed)

    def names(self, group_id: str, text: str) -> frozenset[str]:
        """The topics that a group's expression means: persistent ones of its home, or of a namespace that it names.
        Raises KafkaError INVALID_REGULAR_EXPRESSION.
        """
        home = home_of(group_id)
        known = self._known.get((home, text))
        if known is None:
            pattern = self.read(group_id, text)
            if len(self._known) >= MOST:
                del self._known[next(iter(self._known))]
            known = self._known[home, text] = pattern, self._found(pattern)
        return frozenset(known[1])

    def read(self, group_id: str, text: str) -> Pattern:
        """What a group means by an expression. Raises KafkaError INVALID_REGULAR_EXPRESSION."""
        try:
            return as_kafkas("|".join(_bare(text)), home_of(group_id), self._catalog.namespaces.exists)
        except PatternError as error:
            raise KafkaError(Error.INVALID_REGULAR_EXPRESSION, str(error)) from error

    def _found(self, pattern: Pattern) -> set[str]:
        namespace = pattern.namespace
        before = "" if namespace == DEFAULT else f"{namespace.tenant}.{namespace.name}."
        full = self._catalog.namespaces.full
        return {
            topic.name
            for topic in self._catalog.topics_within(before + pattern.prefix)
            if pattern.matches(full(topic.name))
        }

    def _changed(self, name: str, topic: Topic | None) -> None:
        """A topic came or went."""
        if not self._known:
            return
        full = self._catalog.namespaces.full(name)
        for pattern, names in self._known.values():
            if topic is None:
                names.discard(name)
            elif pattern.matches(full):
                names.add(name)
