"""Findings of one rule about one topic as one: thirty subscriptions that nobody reads are one sentence, not thirty.

Up to two are told one by one: a sentence about both would say less. What is told together keeps the place of its most
urgent one.

Where the dead letters of several subscriptions are in one topic, each has a number of all of them: these are told
together by that topic, and counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from semantics.console.attention import Finding, counted, dead_letters, lasted

FROM = 3
"""So many of them are told together."""
STEP = 500
"""Findings between two stops."""
NAMED = 2
"""Of which so many are named."""


class Several(NamedTuple):
    """Findings of one rule about one topic."""

    rule: str
    topic: str
    findings: int
    since: int
    """of the first, ms since 1970"""
    number: int
    """the sum of theirs; of letters in one topic, how many are there"""
    sentence: str


def together(
    findings: Sequence[Finding],
    now: int,
    called: Callable[[str], str] = str,
    called_group: Callable[[str], str] = str,
) -> Generator[None, None, list[Finding | Several]]:
    """The same, in their order, with those as one that are of one rule and one topic. `called` makes of a topic's name
    what people call it, and `called_group` of a group's or a transactional id. It stops after each few hundred.
    """
    by: dict[tuple[str, str, str], list[Finding]] = {}
    for number, each in enumerate(findings):
        by.setdefault((each.rule, each.topic, each.letters), []).append(each)
        if number % STEP == STEP - 1:
            yield
    found: list[Finding | Several] = []
    for number, each in enumerate(findings):
        if number % STEP == STEP - 1:
            yield
        some = by[each.rule, each.topic, each.letters]
        if len(some) < FROM:
            found.append(each)
        elif each is some[0]:
            found.append(_several(some, now, called, called_group))
    return found


def _several(
    some: Sequence[Finding], now: int, called: Callable[[str], str], called_group: Callable[[str], str]
) -> Several:
    first = some[0]
    since, numbers = min(each.since for each in some), [each.number for each in some]
    number = max(numbers) if first.letters else sum(numbers)
    names = [called_group(each.about if each.rule == "transaction" else each.group) for each in some[:NAMED]]
    named = f"{', '.join(names)} and {len(some) - NAMED:,} more"
    where = f"{len(some):,} subscriptions on {called(first.topic)} ({named})"
    if first.rule == "transaction":
        where = f"readers of committed records in {called(first.topic)}"
        named = f"{len(some):,} transactions ({named})"
    sentence = (_SAYS_IN if first.letters else _SAYS)[first.rule].format(
        where=where,
        inside=called(first.letters),
        letters=dead_letters(number),
        are="is" if number == 1 else "are",
        have="has" if number == 1 else "have",
        them="it" if number == 1 else "them",
        transactions=named,
        messages=counted(number),
        number=f"{number:,}",
        wait="waits" if number == 1 else "wait",
        long=lasted(now - since),
    )
    return Several(first.rule, first.topic, len(some), since, number, sentence)


_SAYS = {
    "nobody": "{messages} {wait} for {where} and no consumer is connected to any of them: the oldest has waited"
    " {long}.",
    "full": "{number} partitions of {where} deliver nothing: as many messages are unacknowledged as may be, the first"
    " for {long}.",
    "transaction": "{transactions} have been open for up to {long}: they hold back {messages} from {where}.",
    "blocked": "{messages} {wait} behind earlier messages of their keys for {where}: the oldest open one has waited"
    " {long}.",
    "idle": "{messages} {wait} for {where}, and none of their consumers has one in hand: the oldest has waited {long}.",
    "dying": "{messages} of {where} are to be dead letters and could not be stored as such, the first for {long}.",
    "job": "The last replays or discards of dead letters of {where} ended by themselves before they had done all:"
    " {number} letters are open.",
    "deadLetters": "{messages} of {where} became dead letters in the last {long}.",
    "letters": "{number} dead letters of {where} are open: nobody has replayed or discarded them.",
}
"""By rule."""

_SAYS_IN = {
    "job": "The last replays or discards of dead letters of {where} ended by themselves before they had done all:"
    " {letters} {are} open in {inside}.",
    "deadLetters": "{letters} {have} come to {inside}, where those of {where} go, in the last {long}.",
    "letters": "{letters} {are} open in {inside}, where those of {where} go: nobody has replayed or discarded {them}.",
}
"""By rule, of letters in a topic that others' may be in, too."""
