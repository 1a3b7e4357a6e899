"""What is open in one subscription: numbers that can be added up, and times. Ages are made by whoever shows them.

An open message is one that nobody has settled. Each is in one state:

| name | what is true of it |
|---|---|
| `unread` | the dispatcher has not come to it |
| `available` | a consumer that asks may get it |
| `in_hand` | a consumer has it |
| `blocked` | Key_Shared: it waits for an earlier message of its key |
| `backoff` | it failed, and waits for its next delivery |
| `delayed` | its producer asked for a delay |
| `dying` | it is to be a dead letter |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

STATES = ("unread", "available", "in_hand", "blocked", "backoff", "delayed", "dying")
"""Of `Part` and `Standing`."""

NEVER = -1
"""A time that there is not."""


class Part(NamedTuple):
    """A subscription on one partition. Times in ms since 1970, or NEVER."""

    unread: int = 0
    available: int = 0
    in_hand: int = 0
    blocked: int = 0
    backoff: int = 0
    delayed: int = 0
    dying: int = 0
    # when the oldest open message could first be delivered: it was published, or due, whichever came later
    oldest: int = NEVER
    # when the next one is due that waits for a time
    next_due: int = NEVER
    # as many are unacknowledged as may be, so nothing is delivered
    full: bool = False
    # only a part was looked at for what is blocked
    at_least: bool = False


class Standing(NamedTuple):
    """A subscription over its partitions. `topic` and `group` are names as they are kept."""

    topic: str
    group: str
    type: str
    partitions: int = 0
    unread: int = 0
    available: int = 0
    in_hand: int = 0
    blocked: int = 0
    backoff: int = 0
    delayed: int = 0
    dying: int = 0
    oldest: int = NEVER
    next_due: int = NEVER
    # partitions of which as many are unacknowledged as may be
    full: tuple[int, ...] = ()
    at_least: bool = False
    # letters in its dead letter topic that nobody has seen to
    dead_letters: int = 0
    consumers: int = 0
    # that topic, where it is not its own: the letters of others may be there, too, and are among these
    letters_in: str = ""

    @property
    def open(self) -> int:
        """Messages that are not settled."""
        return (
            self.unread
            + self.available
            + self.in_hand
            + self.blocked
            + self.backoff
            + self.delayed
            + self.dying
        )

    @property
    def ready(self) -> int:
        """Those that a consumer could get now."""
        return self.unread + self.available


def joined(
    topic: str,
    group: str,
    kind: str,
    parts: Iterable[Part],
    dead_letters: int = 0,
    consumers: int = 0,
    letters_in: str = "",
) -> Standing:
    """Over its partitions, in their order."""
    each = list(parts)
    return Standing(
        topic,
        group,
        kind,
        len(each),
        unread=sum([part.unread for part in each]),
        available=sum([part.available for part in each]),
        in_hand=sum([part.in_hand for part in each]),
        blocked=sum([part.blocked for part in each]),
        backoff=sum([part.backoff for part in each]),
        delayed=sum([part.delayed for part in each]),
        dying=sum([part.dying for part in each]),
        oldest=earliest(part.oldest for part in each),
        next_due=earliest(part.next_due for part in each),
        full=tuple([index for index, part in enumerate(each) if part.full]),
        at_least=any(part.at_least for part in each),
        dead_letters=dead_letters,
        consumers=consumers,
        letters_in=letters_in,
    )


def earliest(times: Iterable[int]) -> int:
    """The first of these that there is; NEVER where there is none."""
    return min([time for time in times if time != NEVER], default=NEVER)
