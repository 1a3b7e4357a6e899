"""What holds messages up, as rows of a page: causes before records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin.slices import Pace
from gateway.console import states
from gateway.console.act_page import ACT, ACTS
from gateway.console.chosen import Messages
from gateway.console.visit import ROWS
from semantics.command_line import line

if TYPE_CHECKING:
    from gateway.console.topic import Place
    from gateway.console.visit import Visit

CAUSES = ("GET", "subscription", "magnetar/causes")

_WORDS = {
    "no-consumer": "no consumer",
    "unacknowledged": "too many unacknowledged",
    "dispatch-rate": "dispatch rate",
    "next-consumer": "for whoever asks next",
    "unread": "not looked at yet",
    "delay": "delayed by their producer",
    "backoff": "failed, and back off",
    "dead-letter": "become dead letters",
    "transaction": "a transaction",
    "uncommitted": "an open transaction",
}


class Cause(NamedTuple):
    """A row."""

    kind: str
    title: str
    where: str
    message_url: str
    why: str
    holds_up: int
    # of which the row is that holds nothing up: those that somebody has in hand
    in_hand: int
    # where those are listed that it holds up
    listed: str
    # seconds; None: nobody knows
    oldest: int | None
    # a time as JSON has it
    next: str | None
    # (text, page that asks)
    acts: list[tuple[str, str]]


class Causes(NamedTuple):
    """Those that hold up most; `why_not` where they cannot be told."""

    rows: list[Cause]
    of: int
    command: str
    why_not: str


async def causes(visit: Visit, place: Place, name: str) -> Causes:
    """Up to 50 of them."""
    at = (*place.path, "subscription", name)
    command = line("subscriptions", "why", place.word, "-s", name)
    if not await visit.may(CAUSES, *at, "magnetar", "causes"):
        return Causes([], 0, command, "To see what holds messages up takes the right to consume.")
    answer, why_not = await visit.try_get(*at, "magnetar", "causes", limit=str(ROWS))
    if answer is None:
        return Causes([], 0, command, why_not)
    may_act = visit.writes and await visit.may(ACT, *at, "magnetar", "act")
    rows, pace = list[Cause](), Pace()
    for each in answer["causes"]:
        rows.append(_row(place, name, each, may_act))
        await pace.rest()
    return Causes(rows, answer["count"], command, "")


def _row(place: Place, name: str, row: dict[str, Any], may_act: bool) -> Cause:
    record = row["record"]
    filter_ = {each: str(value) for each, value in row["filter"].items()}
    about = Messages(filter_, all=True, partition=str(row["partition"]))
    of_key = row["cause"] in ("key", "no-owner")
    # a key is held up by the one record at its head; else all of them wait for the same
    on = about if not of_key else Messages(ids=(record["messageId"],))
    title = _WORDS.get(row["cause"], row["cause"])
    if of_key:
        title = row.get("key", row.get("keyBase64", "no key"))
    elif row["cause"] == "in-hand":
        title = row.get("consumer") or "a consumer"
    where = f"{row['partition']}:{record['offset']:,}"
    if "slot" in row:
        where += f" · slot {row['slot']:,}"
    return Cause(
        states.ICONS.get(states.state_of(record["state"]), "unread"),
        title,
        where,
        place.message_url(row["partition"], record["offset"]),
        row["explanation"],
        row["holdsUp"],
        0 if row["holdsUp"] else row["messages"],
        f"{place.subscription_url(name, 'messages')}?{about.listed()}",
        row.get("oldest", {}).get("ageSeconds"),
        row.get("next"),
        [
            (ACTS[each].link, f"{place.subscription_url(name, 'act')}?do={each}&{on.query()}")
            for each in row["acts"]
            if may_act and each in ACTS
        ],
    )
