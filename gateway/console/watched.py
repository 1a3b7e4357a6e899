"""What of a subscription is drawn: which messages are open where, how old and how many over time, who consumes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.console import drawn
from gateway.console.lines import line
from gateway.console.shown import age, number
from gateway.console.visit import ROWS

if TYPE_CHECKING:
    from gateway.console.topic import Place
    from gateway.console.visit import Visit

STRIP = ("GET", "subscription", "magnetar/strip")
SERIES = ("GET", "subscription", "magnetar/series")
CONSUMERS = ("GET", "subscription", "magnetar/consumers")
COLUMNS = 110
WIDTH, HEIGHT = 360, 90
"""Of a chart, in its own units."""
SPANS = {"1h": "last hour", "48h": "last two days"}

_WORDS = {"acquired": "in hand", "backoff": "in backoff", "unread": "not looked at"}


class Strip(NamedTuple):
    """Of a partition; paths by state."""

    partition: int
    start: int
    open: int
    columns: int
    paths: dict[str, str]
    says: str


async def strips(visit: Visit, place: Place, name: str, start: int) -> list[Strip]:
    """Those of up to 50 partitions from `start` on, of which something is open."""
    at = (*place.path, "subscription", name)
    if not await visit.may(STRIP, *at, "magnetar", "strip"):
        return []
    answer, _ = await visit.try_get(
        *at, "magnetar", "strip", columns=str(COLUMNS), limit=str(ROWS), after=str(start)
    )
    found: list[Strip] = []
    for each in answer["partitions"] if answer else ():
        counts = {state: sum(some) for state, some in each["states"].items() if state in drawn.ORDER}
        total = sum(counts.values())
        if not total:
            continue
        by_state = ", ".join(
            f"{counts[state]:,} {_WORDS.get(state, state)}" for state in drawn.ORDER if counts.get(state)
        )
        says = f"Partition {each['partition']}, offsets {each['start']:,} to {each['end'] - 1:,}: {by_state}"
        paths = drawn.strip_paths(each["states"], each["columns"])
        found.append(Strip(each["partition"], each["start"], total, each["columns"], paths, says))
        # each is some tenths of a millisecond of work
        await asyncio.sleep(0)
    return found


class Chart(NamedTuple):
    """One of the series."""

    id: str
    title: str
    curves: list[str]
    # what it shows, for who cannot see it
    says: str
    most: str


class Charts(NamedTuple):
    """Those of a subscription; without any, `why_not`."""

    found: list[Chart]
    begin: str
    end: str
    span: str
    why_not: str
    command: str


async def charts(visit: Visit, place: Place, name: str) -> Charts:
    """Age of the oldest open message, and how many are open."""
    at = (*place.path, "subscription", name)
    span = visit.query.get("span", "1h")
    span = span if span in SPANS else "1h"
    command = line("series", place.word, "-s", name, "--span", span)
    if not await visit.may(SERIES, *at, "magnetar", "series"):
        return Charts([], "", "", span, "To see them takes the right to consume.", command)
    answer, why_not = await visit.try_get(*at, "magnetar", "series", span=span, of="open,oldest")
    if answer is None:
        return Charts([], "", "", span, why_not, command)
    values = {name_: answer.get(name_, []) for name_ in ("open", "oldestSeconds")}
    count = max(len(each) for each in values.values())
    end = datetime.fromisoformat(answer["first"]) + timedelta(seconds=answer["stepSeconds"] * count)
    found = [
        _chart("oldest", "Oldest open message", values["oldestSeconds"], span, seconds=True),
        _chart("open", "Open messages", values["open"], span, seconds=False),
    ]
    return Charts(found, answer["first"], end.isoformat(), span, "", command)


def _chart(id_: str, title: str, values: list[float | None], span: str, *, seconds: bool) -> Chart:
    there = [each for each in values if each is not None]
    if not there:
        return Chart(id_, title, [], f"{title}, {SPANS[span]}: nothing was measured", "")
    text = (lambda value: age(value * 1000)) if seconds else number
    says = f"{title}, {SPANS[span]}: {text(there[-1])} now, {text(min(there))} at least, {text(max(there))} at most"
    return Chart(id_, title, drawn.curve(values, WIDTH, HEIGHT), says, text(max(there)))


class Consumers(NamedTuple):
    """A page of them."""

    found: list[dict[str, Any]]
    # the `consumer` of the query that leads to those behind
    next: str
    why_not: str


async def consumers(visit: Visit, place: Place, name: str) -> Consumers:
    """By name, those behind the one of the query."""
    behind = visit.query.get("behind", "")
    page, why_not = await visit.try_get(
        *place.path, "subscription", name, "magnetar", "consumers", limit=str(ROWS), after=behind
    )
    if page is None:
        return Consumers([], "", why_not)
    return Consumers(page["consumers"], page.get("next", ""), "")
