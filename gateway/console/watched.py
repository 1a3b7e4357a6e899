"""What of a subscription is drawn: which messages are open where, who consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin.slices import turn
from gateway.console import drawn, states
from gateway.console.standing import CONSUMERS
from gateway.console.visit import ROWS

if TYPE_CHECKING:
    from gateway.console.topic import Place
    from gateway.console.visit import Visit

STRIP = ("GET", "subscription", "magnetar/strip")
COLUMNS = 110


class Strip(NamedTuple):
    """Of a partition; paths by state."""

    partition: int
    start: int
    open: int
    # how many are in which state
    counts: dict[str, int]
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
            f"{counts[state]:,} {states.WORDS[state]}" for state in drawn.ORDER if counts.get(state)
        )
        says = f"Partition {each['partition']}, offsets {each['start']:,} to {each['end'] - 1:,}: {by_state}"
        paths = drawn.strip_paths(each["states"], each["columns"])
        found.append(Strip(each["partition"], each["start"], total, counts, each["columns"], paths, says))
        # each is some tenths of a millisecond of work
        await turn()
    return found


class Consumers(NamedTuple):
    """A page of them."""

    found: list[dict[str, Any]]
    # the `consumer` of the query that leads to those behind
    next: str
    why_not: str


async def consumers(visit: Visit, place: Place, name: str) -> Consumers:
    """By name, those behind the one of the query."""
    behind = visit.query.get("behind", "")
    at = (*place.path, "subscription", name, "magnetar", "consumers")
    page, why_not = await visit.get_if_may(CONSUMERS, *at, limit=str(ROWS), after=behind)
    if page is None:
        return Consumers([], "", why_not)
    return Consumers(page["consumers"], page.get("next", ""), "")
