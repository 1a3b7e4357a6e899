"""…/due: when the delayed messages of a subscription are due, and those that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.exchange import iso
from gateway.console import drawn
from gateway.console.topic import place_of

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

BUCKETS = 24
HEIGHT = 120
SPANS = {"1h": ("One hour", 1), "24h": ("One day", 24), "7d": ("A week", 168), "30d": ("30 days", 720)}
"""By `span` of the query: what it is called, and its hours."""


async def show(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """The page."""
    place = place_of(visit, tenant, namespace, local)
    span, wrong = visit.one_of("span", SPANS, "24h")
    until = iso(visit.clock.now + SPANS[span][1] * 3_600_000)
    answer = await visit.get(
        *place.path, "subscription", name, "magnetar", "due", buckets=str(BUCKETS), until=until
    )
    heights = drawn.bars([(each["delayed"], each["backoff"]) for each in answer["buckets"]], HEIGHT)
    return await visit.page(
        "due.html",
        400 if wrong else 200,
        wrong=wrong,
        title=f"When messages of {name} are due",
        section="subscriptions",
        crumbs=[*place.crumbs(), (local, place.url()), (name, place.subscription_url(name))],
        name=name,
        answer=answer,
        columns=[(at, *each) for at, each in enumerate(heights)],
        rows=[each for each in answer["buckets"] if each["delayed"] or each["backoff"]],
        width=BUCKETS,
        height=HEIGHT,
        span=span,
        spans=[(each, text) for each, (text, _) in SPANS.items()],
        here=place.subscription_url(name, "due"),
        listed=place.subscription_url(name, "messages"),
        place=place,
    )
