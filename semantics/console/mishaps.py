"""What somebody should look at that no sums of subscriptions tell: jobs over dead letters, and transactions.

| rule | it holds when |
|---|---|
| `transaction` | one has been open for five minutes, and readers of committed records wait for its end |
| `job` | the last job over a subscription's dead letters ended by itself, a day ago at most, and some are open |

A job that somebody has stopped is none of these, nor is one behind which another was begun: somebody has seen to it.
Time is an argument: ms since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from semantics.console.attention import WAITED_LONG, Finding, counted, lasted

JOB_TOLD = 24 * 60 * 60_000
"""For so long after its end a job is told of."""


class Ended(NamedTuple):
    """The last job over a subscription's dead letters. `topic` and `group` are names as they are kept."""

    number: int
    what: str
    """replay or discard"""
    topic: str
    group: str
    ended: int
    state: str
    """how it ended, in a word: failed, interrupted, stopped"""
    why: str
    done: int
    planned: int
    left: int
    """dead letters that are open now"""
    letters: str = ""
    """the topic that they are in, where those of other subscriptions may be among them"""


class Waited(NamedTuple):
    """Where readers of committed records wait for a transaction."""

    topic: str
    partition: int
    held_back: int


def of_job(one: Ended, now: int, where: str, called: Callable[[str], str] = str) -> Finding | None:
    """What there is to say of one that ended by itself. `where` is what people call the subscription, and `called`
    makes of a topic's name what they call that.
    """
    if not one.left or now - one.ended > JOB_TOLD:
        return None
    act = "replay" if one.what == "replay" else "discard"
    reason = f": {one.why}" if one.why else ""
    inside = f" in {called(one.letters)}" if one.letters else ""
    return Finding(
        "job",
        one.topic,
        one.group,
        None,
        one.ended,
        one.left,
        f"The {act} of dead letters of {where}, job {one.number}, {_ENDED.get(one.state, one.state)} after"
        f" {one.done:,} of {one.planned:,}{reason}. {one.left:,} {'is' if one.left == 1 else 'are'} open{inside}.",
        str(one.number),
        one.letters,
    )


_ENDED = {"failed": "failed", "interrupted": "was interrupted", "stopped": "stopped by itself"}


def of_transaction(
    name: str, called: str, since: int, waits: Sequence[Waited], now: int, topic_called: str
) -> Finding | None:
    """What there is to say of one that is open. `waits`: where readers wait for it, the first of these is where it is
    told; `called` and `topic_called` are what people call it and the topic of that.
    """
    if not waits or now - since < WAITED_LONG:
        return None
    first, held = waits[0], sum(each.held_back for each in waits)
    if len(waits) > 1:
        where = f"{len(waits):,} partitions, the first is {first.partition} of {topic_called}"
    else:
        where = f"partition {first.partition} of {topic_called}"
    return Finding(
        "transaction",
        first.topic,
        "",
        first.partition,
        since,
        held,
        f"Transaction {called} has been open for {lasted(now - since)}: it holds back {counted(held)} from readers of"
        f" committed records in {where}.",
        name,
    )
