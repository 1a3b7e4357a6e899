"""…?way=1 of a message's page: its way through RETRY and dead letter topics, as `topics trace` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.console import shown
from gateway.console.topic import Place
from gateway.console.visit import ROWS, topic_parts

if TYPE_CHECKING:
    from typing import Any

    from gateway.admin.routes import Key
    from gateway.console.visit import Visit

TRACE: Key = ("GET", "topic", "magnetar/trace")
"""The call that follows a message."""


class Step(NamedTuple):
    """A record that it is, or has become."""

    # ms since 1970
    at: int
    what: str
    subscription: str
    place: str
    url: str


class Way(NamedTuple):
    """Its steps, the first first; why they cannot be told; whether there may be more."""

    steps: list[Step]
    why_not: str
    whole: bool


async def of(visit: Visit, path: tuple[str, ...], message_id: str) -> Way:
    """That of a message of a partition."""
    answer, why_not = await visit.try_get(*path, "magnetar", "trace", id=message_id)
    if answer is None:
        return Way([], why_not, True)
    events = answer["events"]
    whole = "atLeast" not in answer and "notAllowed" not in answer and len(events) <= ROWS
    return Way([_step(visit, each) for each in events[:ROWS]], "", whole)


def _step(visit: Visit, event: dict[str, Any]) -> Step:
    catalog = visit.context.broker.catalog
    place = Place(*topic_parts(str(catalog.full(catalog.said(event["topic"])))))
    what = event["what"]
    if "reason" in event:
        what = f"{what} ({shown.visible(event['reason'], lines=False)})"
    return Step(
        event["timestamp"],
        what,
        event.get("subscription", ""),
        f"{place.word} {event['partition']}:{event['offset']:,}",
        place.message_url(event["partition"], event["offset"]),
    )
