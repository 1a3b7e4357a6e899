"""What of subscriptions somebody should look at: rules over their sums, and sentences.

| rule | it holds when |
|---|---|
| `nobody` | messages can be delivered, no consumer is connected, and the oldest has waited a minute |
| `full` | for a minute as many of a partition are unacknowledged as may be: it delivers nothing |
| `blocked` | messages wait behind others of their key, and the oldest open one has waited five minutes |
| `idle` | some can be delivered, and no consumer that is connected has any in hand, for five minutes |
| `dying` | for a minute messages were to be dead letters, and could not be stored as such |
| `deadLetters` | there are more dead letters than ten minutes before |
| `letters` | there are dead letters that nobody has seen to, and none of them is news |

`since` is when the oldest open message could first be delivered, for those rules that speak of it; of the others, when
it was seen first.

A count that is seen for the first time is where a rise begins: what was there when the gateway started is none.
Time is an argument: ms since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from semantics.console.standing import NEVER, Standing

MINUTE = 60_000
WAITED = MINUTE
"""How long something lasts before it is worth a sentence."""
WAITED_LONG = 5 * MINUTE
"""The same where it may be so for a while with nothing wrong."""
RISES = 10 * MINUTE
"""For so long a dead letter is news."""
_KEPT = 12
"""Counts of dead letters that are remembered, a minute apart."""

Name = tuple[str, str]


class Finding(NamedTuple):
    """Something to look at. `partition` is None for the whole subscription."""

    rule: str
    topic: str
    group: str
    partition: int | None
    since: int
    """ms since 1970"""
    number: int
    """of messages concerned; of partitions for `full`"""
    sentence: str
    about: str = ""
    """the job's number, or the transactional id, for those rules (`mishaps.py`)"""
    letters: str = ""
    """the dead letter topic whose letters the `number` is of, where those of other subscriptions may be among them"""


TELLING = ("Shared", "Key_Shared")
"""Types of which it is known what consumers have in hand."""

RULES = ("nobody", "full", "transaction", "blocked", "idle", "dying", "job", "deadLetters", "letters")
"""The most urgent first, with those of `mishaps.py`."""


class _Seen:
    """Of one subscription, what its sums do not say: since when."""

    __slots__ = ("dead", "dying", "full", "letters", "standing")

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.full = self.dying = self.letters = NEVER
        # (time, how many dead letters there were from then on), the first of them long ago
        self.dead: list[tuple[int, int]] = []


class Attention:
    """Those that may have a finding, kept as sums change: the others are not looked at when somebody asks."""

    def __init__(self) -> None:
        self._seen: dict[Name, _Seen] = {}
        self._suspects: set[Name] = set()

    def note(self, standing: Standing, now: int) -> None:
        """Its sums are these now."""
        name = standing.topic, standing.group
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = _Seen(standing)
        seen.standing = standing
        seen.full = _since(seen.full, bool(standing.full), now)
        seen.dying = _since(seen.dying, bool(standing.dying), now)
        seen.letters = _since(seen.letters, bool(standing.dead_letters), now)
        if not seen.dead:
            # the first count is no rise, however high
            seen.dead = [(now - RISES, standing.dead_letters)]
        elif standing.dead_letters < seen.dead[-1][1]:
            # some were seen to: what comes from here on is new
            seen.dead = [(now - RISES, standing.dead_letters)]
        elif standing.dead_letters > seen.dead[-1][1]:
            time, count = now, standing.dead_letters
            if len(seen.dead) > 1 and now - seen.dead[-1][0] < MINUTE:
                # within the same minute: when the first of them came is what is told
                time = seen.dead.pop()[0]
            seen.dead.append((time, count))
            del seen.dead[: max(len(seen.dead) - _KEPT, 0)]
        if standing.oldest != NEVER or standing.full or standing.dying or standing.dead_letters:
            self._suspects.add(name)
        else:
            self._suspects.discard(name)

    def drop(self, topic: str, group: str) -> None:
        """It is there no more."""
        self._seen.pop((topic, group), None)
        self._suspects.discard((topic, group))

    def suspects(self) -> list[Name]:
        """Those of which `of` may have something to say."""
        return list(self._suspects)

    def of(
        self,
        topic: str,
        group: str,
        now: int,
        called: Callable[[str], str] = str,
        called_group: Callable[[str], str] = str,
    ) -> list[Finding]:
        """What there is to say of one, the most urgent first. `called` makes of a topic's name what people call it, and
        `called_group` of a group's.
        """
        seen = self._seen.get((topic, group))
        if seen is None:
            return []
        return list(_findings(seen, called, called_group, now))


def _since(before: int, holds: bool, now: int) -> int:
    if not holds:
        return NEVER
    return before if before != NEVER else now


def _findings(
    seen: _Seen, called: Callable[[str], str], called_group: Callable[[str], str], now: int
) -> Iterator[Finding]:
    one = seen.standing
    waited = now - one.oldest if one.oldest != NEVER else 0

    # of most there is nothing to say, and names are not written out for that
    def where() -> str:
        return f"{called_group(one.group)} on {called(one.topic)}"

    # what people call the dead letter topic, where it is not the subscription's own
    def inside() -> str:
        return called(one.letters_in)

    def finding(rule: str, since: int, count: int, sentence: str, partition: int | None = None) -> Finding:
        return Finding(rule, one.topic, one.group, partition, since, count, sentence)

    if not one.consumers and waited >= WAITED:
        # of what nobody looks at, some may be delayed still by its rows whose time has come
        number = one.open - one.delayed or one.delayed
        yield finding(
            "nobody",
            one.oldest,
            number,
            f"{_wait(number)} for {where()} and no consumer is connected: the oldest has waited {lasted(waited)}.",
        )
    if one.full and now - seen.full >= WAITED:
        number, partition = len(one.full), one.full[0]
        which = f"Partition {partition}" if number == 1 else f"{number:,} partitions, {partition} the first,"
        yield finding(
            "full",
            seen.full,
            number,
            f"{which} of {where()} {'delivers' if number == 1 else 'deliver'} nothing: as many messages are"
            f" unacknowledged as may be, {one.in_hand:,} in all, for {lasted(now - seen.full)}.",
            partition,
        )
    if one.blocked and waited >= WAITED_LONG:
        least = "at least " if one.at_least else ""
        yield finding(
            "blocked",
            one.oldest,
            one.blocked,
            f"{least}{_wait(one.blocked)} behind earlier messages of {'its key' if one.blocked == 1 else 'their keys'}"
            f" for {where()}: the oldest open one"
            f" has waited {lasted(waited)}.",
        )
    idle = one.ready and one.consumers and not one.in_hand and not one.blocked
    if idle and waited >= WAITED_LONG and one.type in TELLING:
        yield finding(
            "idle",
            one.oldest,
            one.ready,
            f"{_wait(one.ready)} for {where()}, and {_idle(one.consumers)}: the oldest has waited"
            f" {lasted(waited)}.",
        )
    if one.dying and now - seen.dying >= WAITED:
        what = "is to be a dead letter" if one.dying == 1 else "are to be dead letters"
        yield finding(
            "dying",
            seen.dying,
            one.dying,
            f"{counted(one.dying)} of {where()} {what} and could not be stored as such for {lasted(now - seen.dying)}.",
        )
    if new := _risen(seen.dead, now):
        count, since = new
        letters = "a dead letter" if count == 1 else "dead letters"
        became = f"{counted(count)} of {where()} became {letters}"
        if one.letters_in:
            have = "has" if count == 1 else "have"
            became = f"{dead_letters(count)} {have} come to {inside()}, where those of {where()} go,"
        yield finding(
            "deadLetters",
            since,
            count,
            f"{became} in the last {lasted(max(now - since, MINUTE))}:"
            f" {one.dead_letters:,} {'is' if one.dead_letters == 1 else 'are'} open.",
        )._replace(letters=one.letters_in)
    elif one.dead_letters:
        is_open = f"of {where()} {'is' if one.dead_letters == 1 else 'are'} open"
        if one.letters_in:
            is_open = (
                f"{'is' if one.dead_letters == 1 else 'are'} open in {inside()}, where those of {where()} go"
            )
        yield finding(
            "letters",
            seen.letters,
            one.dead_letters,
            f"{dead_letters(one.dead_letters)} {is_open}: nobody has replayed or discarded"
            f" {'it' if one.dead_letters == 1 else 'them'}.",
        )._replace(letters=one.letters_in)


def _risen(dead: list[tuple[int, int]], now: int) -> tuple[int, int] | None:
    """(how many more there are than RISES before, when the first of these came)"""
    before = [count for time, count in dead if time <= now - RISES]
    since = [time for time, _ in dead if time > now - RISES]
    if not since:
        return None
    start = before[-1] if before else dead[0][1]
    return (dead[-1][1] - start, since[0]) if dead[-1][1] > start else None


def counted(number: int) -> str:
    """So many messages, in words."""
    return "1 message" if number == 1 else f"{number:,} messages"


def dead_letters(number: int) -> str:
    """So many of these, in words."""
    return "1 dead letter" if number == 1 else f"{number:,} dead letters"


def _wait(number: int) -> str:
    return f"{counted(number)} {'waits' if number == 1 else 'wait'}"


def _idle(consumers: int) -> str:
    if consumers == 1:
        return "its consumer has none in hand"
    return f"none of its {consumers:,} consumers has one in hand"


def lasted(ms: int) -> str:
    """A time for people: whole units of the largest that fits twice, or once."""
    seconds = max(ms, 0) // 1000
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            number = seconds // size
            return f"{number:,} {unit}{'s' if number > 1 else ''}"
    return f"{seconds} second{'s' if seconds != 1 else ''}"
