"""How subscriptions stand, and what of it needs attention: what the first page and the list of subscriptions show.

`seen` and `attention` ask for it: of the sums that are kept as they change (`magnetar/subscriptions`,
`magnetar/attention`).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from gateway.admin.dead_letters import may_look
from gateway.admin.exchange import Call
from gateway.admin.group_ids import inward
from gateway.console.visit import ROWS, topic_parts, url

if TYPE_CHECKING:
    from gateway.admin.routes import Key
    from gateway.console.visit import Visit

CONSUMERS: Key = ("GET", "subscription", "magnetar/consumers")
HASH: Key = ("GET", "subscription", "hash")

STATES = ("dying", "blocked", "backoff", "acquired", "available", "delayed", "unread")
"""Of open messages, as bars show them; `unread` are those that the subscription has not looked at."""

SORTS = {
    "oldest": "Oldest open",
    "open": "Most open",
    "deadLetters": "Most dead letters",
    "name": "Name",
}
_KINDS = {
    "nobody": "available", "full": "acquired", "idle": "available", "blocked": "blocked", "dying": "dead",
    "deadLetters": "dead", "letters": "dead", "job": "dead", "transaction": "acquired",
}  # fmt: skip
"""By the rule of a finding."""

_SEVERAL = {"transaction": "transactions", "job": "jobs"}
"""What several of a rule are, where they are no subscriptions."""

_BELOW = {"deadLetters": ("dead",), "letters": ("dead",)}
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
    # where they are of all whose letters go to a topic
    letters_in: str = ""
    # whether the reader may look into it, and at its dead letters, where it has some
    may_consume: bool = False
    reads_letters: bool = False


class Seen(NamedTuple):
    """Some of them."""

    found: list[Standing]
    of: int
    next: str
    # whether there may be more than are known, after a start
    at_least: bool = False


async def seen(
    visit: Visit, sort: str = "oldest", after: str = "", text: str = "", namespace: str = "", topic: str = ""
) -> Seen:
    """A page of subscriptions, those with the oldest open messages first."""
    asked = {
        "sort": sort,
        "limit": str(ROWS),
        "after": after,
        "q": text,
        "namespace": namespace,
        "topic": topic,
    }
    page = await visit.get(
        "magnetar", "subscriptions", **{name: each for name, each in asked.items() if each}
    )
    found = [_kept(each) for each in page["subscriptions"]]
    found = [
        each._replace(
            may_consume=await consumes(visit, each.topic, each.name),
            reads_letters=bool(each.dead_letters) and await reads_letters(visit, each.topic, each.name),
        )
        for each in found
    ]
    return Seen(found, page["of"], page.get("next", ""), page.get("atLeast", False))


async def consumes(visit: Visit, topic: str, name: str) -> bool:
    """Whether the reader may look into a subscription."""
    at = (*topic_parts(topic), "subscription", name, "magnetar", "deadletters")
    return await visit.may(("GET", "subscription", "magnetar/deadletters"), *at)


async def reads_letters(visit: Visit, topic: str, name: str) -> bool:
    """Whether the reader may look at a subscription's dead letters: those in a topic of its own choice take the right
    to that topic, too.
    """
    if not visit.asker.checked:
        return True
    if not await consumes(visit, topic, name):
        return False
    broker = visit.context.broker
    at = (*topic_parts(topic), "subscription", name, "magnetar", "deadletters")
    return may_look(broker, inward(broker, Call("GET", at, asker=visit.asker)))


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
        row.get("deadLettersIn", ""),
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
            _ms(each["oldest"]) if "oldest" in each else -1,
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
    # of several that are told together, how many they are
    several: int = 0


class Signs(NamedTuple):
    """Some of them."""

    found: list[Sign]
    of: int
    next: str = ""


async def attention(visit: Visit, **asked: str) -> Signs:
    """What stands out: of one rule about one topic together, or those that are `asked` for, one by one."""
    said = {name: each for name, each in asked.items() if each} if asked else {"together": "true"}
    page = await visit.get("magnetar", "attention", limit=str(ROWS), **said)
    found = [await _finding(visit, each) for each in page["findings"]]
    return Signs(found, page["of"], page.get("next", ""))


async def _finding(visit: Visit, row: dict[str, Any]) -> Sign:
    rule, where = row["rule"], row["where"]
    topic, name = where["topic"], where.get("subscription", "")
    since = _ms(row["since"]) if row.get("since") else -1
    several = row.get("findings", 0)
    if several:
        at = f"{url('attention')}?{urlencode({'rule': rule, 'topic': topic})}"
        name = f"{several:,} {_SEVERAL.get(rule, 'subscriptions')}"
    elif rule == "job":
        at = url("jobs", where["job"])
    elif rule == "transaction":
        name = where["transactionalId"]
        at = f"{url('transactions')}?{urlencode({'q': name})}"
    else:
        below = _BELOW.get(rule, ())
        if below and not await reads_letters(visit, topic, name):
            below = ()
        at = url("s", *topic_parts(topic)[1:], name, *below)
    kind = _KINDS.get(rule, "unread")
    return Sign(kind, topic, name, at, row["sentence"], since, row.get("cli", ""), several)


def _ms(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp() * 1000)
