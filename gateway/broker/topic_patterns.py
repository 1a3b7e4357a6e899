"""Which topics there are for the regular expressions that consumer groups subscribe with (KIP-848).

An expression is looked up in the whole catalog once, where its first letters are; from then on it takes in the topics
that came or went when somebody asks for it. Both go in slices, one for each turn of the loop over all expressions: a
heartbeat whose group has an expression that is not ready waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import prefix_of
from gateway.wire.errors import Error
from semantics.group_names import home_of
from semantics.names import Namespace
from semantics.patterns import LETTERS, Pattern, PatternError, as_kafkas
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic

MOST = 5_000
"""Expressions of all groups that are known; beyond that no group may have another."""
MOST_OF_GROUP = 50
"""Different expressions of the members of a group: what they mean together is put together for a heartbeat."""
MOST_NEWS = 10_000
"""Names of topics that came or went which are kept for expressions that nobody has asked for since. An expression that
has missed some is looked up again.
"""
_A_TOPIC = LETTERS // 500
"""A topic that is looked at counts as so many letters, and those of its name."""


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
        self._known: dict[tuple[Namespace, str], _Expression] = {}
        # topics that came or went, the oldest first, and how many were before these
        self._news: list[str] = []
        self._before = 0
        # who works at those that are not ready, one at a time
        self._working = asyncio.Lock()
        catalog.watchers.append(self._changed)

    def ready(self, group_id: str, texts: Iterable[str]) -> Pending[None]:
        """Until the topics of a group's expressions are known as of now, which is at once unless many are to be looked
        at. What is no expression is passed over.
        """
        left, waits = LETTERS, False
        for text in texts:
            try:
                known = self._expression(group_id, text)
            except KafkaError:
                continue
            if left > 0:
                left = self._advance(known, left)
            waits = waits or not self._is_ready(known)
        return self._until_ready(group_id, frozenset(texts)) if waits else None

    async def _until_ready(self, group_id: str, texts: Collection[str]) -> None:
        for text in texts:
            async with self._working:
                while True:
                    try:
                        known = self._expression(group_id, text)
                    except KafkaError:
                        break
                    if self._advance(known, LETTERS) > 0:
                        break
                    await asyncio.sleep(0)

    def names(self, group_id: str, text: str) -> frozenset[str]:
        """The topics that a group's expression means: persistent ones of its home, or of a namespace that it names.
        Who has waited for `ready` does not hold up others. Raises KafkaError INVALID_REGULAR_EXPRESSION.
        """
        known = self._expression(group_id, text)
        while not self._is_ready(known):
            self._advance(known, LETTERS)
        if known.shown is None:
            known.shown = frozenset(known.names)
        return known.shown

    def read(self, group_id: str, text: str) -> Pattern:
        """What a group means by an expression. Raises KafkaError INVALID_REGULAR_EXPRESSION."""
        home, namespaces = home_of(group_id), self._catalog.namespaces
        try:
            found = as_kafkas("|".join(_bare(text)), home, namespaces.dotted)
        except PatternError as error:
            raise KafkaError(Error.INVALID_REGULAR_EXPRESSION, str(error)) from error
        if namespaces.guarded and found.namespace != home:
            raise KafkaError(
                Error.INVALID_REGULAR_EXPRESSION,
                f"A regular expression is over topics of {home}, the client's own.",
            )
        return found

    def check(self, group_id: str, text: str, its: Collection[str]) -> None:
        """Raises KafkaError INVALID_REGULAR_EXPRESSION for what is none, and for one too many: `its` are those that the
        group has.
        """
        self.read(group_id, text)
        if text not in its and len(its) >= MOST_OF_GROUP:
            why = f"The members of a group have at most {MOST_OF_GROUP} different expressions."
            raise KafkaError(Error.INVALID_REGULAR_EXPRESSION, why)
        if len(self._known) >= MOST and (home_of(group_id), text) not in self._known:
            why = f"There are {MOST} expressions of groups already; those of groups that are gone count for a minute."
            raise KafkaError(Error.INVALID_REGULAR_EXPRESSION, why)

    def keep(self, used: Collection[tuple[str, str]]) -> None:
        """Forget all but these, each a group and an expression of it."""
        keys = {(home_of(group_id), text) for group_id, text in used}
        for key in self._known.keys() - keys:
            del self._known[key]

    def __len__(self) -> int:
        """Expressions that are known."""
        return len(self._known)

    def _expression(self, group_id: str, text: str) -> _Expression:
        home = home_of(group_id)
        known = self._known.get((home, text))
        if known is None:
            known = _Expression(self.read(group_id, text), self._before + len(self._news))
            self._known[home, text] = known
        return known

    # -- in slices ---------------------------------------------------------------------------------------------------

    def _is_ready(self, known: _Expression) -> bool:
        return known.start is None and known.seen == self._before + len(self._news)

    def _advance(self, known: _Expression, left: int) -> int:
        """Look at more topics of an expression: what is left of a number of letters. Above 0 it is ready."""
        if known.seen < self._before:
            known.begin(self._before + len(self._news))
        if known.start is not None:
            left = self._look(known, known.start, left)
        while left > 0 and known.seen < self._before + len(self._news):
            name = self._news[known.seen - self._before]
            left -= _A_TOPIC + len(name)
            topic = self._catalog.get(name)
            known.take(name, topic is not None and known.pattern.matches(self._catalog.namespaces.full(name)))
            known.seen += 1
        return left

    def _look(self, known: _Expression, start: str, left: int) -> int:
        """The same in the catalog, from the name `start` on."""
        pattern = known.pattern
        namespace = pattern.namespace
        before = prefix_of(namespace)
        full = self._catalog.namespaces.full
        limit = 1 + left // _A_TOPIC
        for topic in self._catalog.topics_within(before + pattern.prefix, start, limit):
            if left <= 0:
                known.start = topic.name
                return left
            left -= _A_TOPIC + len(topic.name)
            if pattern.matches(full(topic.name)):
                known.take(topic.name, True)
        # `limit` topics would be more than the letters are enough for
        known.start = None
        return left

    def _changed(self, name: str, _: Topic | None) -> None:
        """A topic came, changed or went."""
        if not self._known:
            return
        self._news.append(name)
        if len(self._news) > MOST_NEWS:
            del self._news[: MOST_NEWS // 2]
            self._before += MOST_NEWS // 2


class _Expression:
    """What is known of one. `start`: the topic of the catalog that is next to be looked at, None at its end. `seen`: up
    to which of the topics that came or went, counted from the first, it knows of them; the catalog has what was before.
    """

    __slots__ = ("names", "pattern", "seen", "shown", "start")

    def __init__(self, pattern: Pattern, seen: int) -> None:
        self.pattern = pattern
        self.begin(seen)

    def begin(self, seen: int) -> None:
        """Look at the catalog from its beginning."""
        self.names: set[str] = set()
        # the same, for others to keep; None after a change
        self.shown: frozenset[str] | None = None
        self.start: str | None = ""
        self.seen = seen

    def take(self, name: str, matches: bool) -> None:
        """A topic is one of its own, or not."""
        if matches != (name in self.names):
            self.shown = None
            (self.names.add if matches else self.names.discard)(name)
