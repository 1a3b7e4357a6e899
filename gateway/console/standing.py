"""How subscriptions stand, and what of it needs attention: what the first page and the list of subscriptions show.

`seen` and `attention` are the only places that ask for it. Where the API keeps these sums as they change
(`magnetar/subscriptions`, `magnetar/attention`) they ask for those; else the first topics are looked at.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.console.visit import ROWS, topic_parts, url

if TYPE_CHECKING:
    from gateway.console.visit import Visit

STATES = ("dying", "blocked", "backoff", "acquired", "available", "delayed", "unread")
"""Of open messages, as bars show them; `unread` are those that the subscription has not looked at."""

SORTS = {
    "oldest": "Oldest open",
    "open": "Most open",
    "deadLetters": "Most dead letters",
    "name": "Name",
}
KEPT = ("GET", "magnetar", "subscriptions")
"""The call that has sums of all."""

_KINDS = {
    "nobody": "available", "full": "acquired", "idle": "available", "blocked": "blocked", "dead": "dead",
    "deadLetters": "dead", "dead_letters": "dead",
}  # fmt: skip

_BELOW = {"deadLetters": ("dead",), "dead_letters": ("dead",)}
"""Pages below a subscription's that say more of a finding."""


class Standing(NamedTuple):
    """One subscription on a topic."""

    topic: str
    name: str
    type: str
    open: int
    states: dict[str, int]
    # when the oldest open message could first be delivered, ms since 1970; -1 without one
    oldest: int
    consumers: int
    # None where nobody has counted
    dead_letters: int | None
    topic_url: str
    url: str


class Seen(NamedTuple):
    """Some of them."""

    found: list[Standing]
    # of so many; None: of the first topics, nobody knows of how many
    of: int | None
    next: str


async def seen(
    visit: Visit, sort: str = "oldest", after: str = "", text: str = "", namespace: str = ""
) -> Seen:
    """A page of subscriptions, those with the oldest open messages first."""
    if not visit.serves(KEPT):
        page = await visit.get("magnetar", "lag", limit=str(ROWS))
        found = [standing for topic in page["topics"] for standing in of_topic(topic)]
        found.sort(key=lambda each: (each.oldest < 0, each.oldest, -each.open))
        return Seen(found[:ROWS], None if page["next"] else len(found), "")
    asked = {"sort": sort, "limit": str(ROWS), "after": after, "q": text, "namespace": namespace}
    page = await visit.get(
        "magnetar", "subscriptions", **{name: each for name, each in asked.items() if each}
    )
    return Seen([_kept(each) for each in page["subscriptions"]], page["of"], page.get("next", ""))


def _kept(row: dict[str, Any]) -> Standing:
    parts = topic_parts(row["topic"])[1:]
    states = {**row["states"], "acquired": row["states"].get("inHand", 0)}
    return Standing(
        row["topic"],
        row["subscription"],
        row["type"],
        row["open"],
        {name: states[name] for name in STATES if states.get(name)},
        _ms(row["oldest"]) if "oldest" in row else -1,
        row["consumers"],
        row.get("deadLetters"),
        url("t", *parts),
        url("s", *parts, row["subscription"]),
    )


def of_topic(topic: dict[str, Any]) -> list[Standing]:
    """A topic's row of `magnetar/lag`."""
    parts = topic_parts(topic["topic"])[1:]
    return [
        Standing(
            topic["topic"],
            each["name"],
            each["type"],
            each["msgBacklog"],
            {
                name: count
                for name, count in (
                    ("available", each["msgBacklog"] - each["msgDelayed"]),
                    ("delayed", each["msgDelayed"]),
                )
                if count
            },
            each["earliestMsgPublishTimeInBacklog"],
            each["consumersCount"],
            None,
            url("t", *parts),
            url("s", *parts, each["name"]),
        )
        for each in topic["subscriptions"]
    ]


class Sign(NamedTuple):
    """Something that needs attention."""

    kind: str
    topic: str
    name: str
    url: str
    says: str
    # ms since 1970; -1 where nobody knows
    since: int
    # the line that shows more
    cli: str


class Signs(NamedTuple):
    """Some of them."""

    found: list[Sign]
    of: int


async def attention(visit: Visit, some: list[Standing]) -> Signs:
    """What stands out: of all, or where nobody keeps sums of all, of `some`."""
    if not visit.serves(("GET", "magnetar", "attention")):
        found = [
            Sign("available", each.topic, each.name, each.url, _WAIT.format(waiting), each.oldest, "")
            for each in some
            if (waiting := each.open - each.states.get("delayed", 0)) > 0 and not each.consumers
        ]
        return Signs(found, len(found))
    page = await visit.get("magnetar", "attention", limit=str(ROWS))
    return Signs([_finding(each) for each in page["findings"]], page["of"])


_WAIT = "{:,} messages wait and no consumer is connected."


def _finding(row: dict[str, Any]) -> Sign:
    topic, name = row["where"]["topic"], row["where"]["subscription"]
    since = _ms(row["since"]) if row.get("since") else -1
    at = url("s", *topic_parts(topic)[1:], name, *_BELOW.get(row["rule"], ()))
    return Sign(
        _KINDS.get(row["rule"], "unread"), topic, name, at, row["sentence"], since, row.get("cli", "")
    )


def _ms(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp() * 1000)
