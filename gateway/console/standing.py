"""How subscriptions stand, and what of it needs attention: what the first page and lists of topics show.

`seen` and `attention` are the only places that ask for it, so a call that keeps these sums can take their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.console.visit import ROWS, topic_parts, url

if TYPE_CHECKING:
    from gateway.console.visit import Visit

STATES = ("dying", "backoff", "acquired", "available", "delayed", "unread")
"""Of open messages, as bars show them; `unread` are those that the subscription has not looked at."""


class Standing(NamedTuple):
    """One subscription on a topic."""

    topic: str
    name: str
    type: str
    open: int
    delayed: int
    # publish time of the oldest open message, ms since 1970; -1 without one
    oldest: int
    consumers: int
    topic_url: str
    url: str


class Seen(NamedTuple):
    """Those of some topics."""

    found: list[Standing]
    # whether there are topics that were not looked at
    more: bool


async def seen(visit: Visit) -> Seen:
    """The subscriptions of the first topics, those with the oldest open messages first."""
    page = await visit.get("magnetar", "lag", limit=str(ROWS))
    found = [standing for topic in page["topics"] for standing in of_topic(topic)]
    found.sort(key=lambda each: (each.oldest < 0, each.oldest, -each.open))
    return Seen(found, page["next"] is not None)


def of_topic(topic: dict[str, Any]) -> list[Standing]:
    """A topic's row of `magnetar/lag`."""
    parts = topic_parts(topic["topic"])[1:]
    return [
        Standing(
            topic["topic"],
            each["name"],
            each["type"],
            each["msgBacklog"],
            each["msgDelayed"],
            each["earliestMsgPublishTimeInBacklog"],
            each["consumersCount"],
            url("t", *parts),
            url("s", *parts, each["name"]),
        )
        for each in topic["subscriptions"]
    ]


class Sign(NamedTuple):
    """Something that needs attention."""

    kind: str
    where: Standing
    says: str
    # ms since 1970; -1 where nobody knows
    since: int


def attention(found: list[Standing]) -> list[Sign]:
    """What stands out among subscriptions."""
    return [
        Sign(
            "available",
            each,
            f"{each.open - each.delayed:,} messages wait and no consumer is connected.",
            each.oldest,
        )
        for each in found
        if each.open > each.delayed and not each.consumers
    ]
