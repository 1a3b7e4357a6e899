"""…/messages: the open messages of a subscription, and why each does not arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gateway.console.act_page import ACT, ACTS
from gateway.console.chosen import Messages
from gateway.console.lines import line
from gateway.console.topic import place_of
from gateway.console.visit import ROWS

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

CHIPS = ("acquired", "blocked", "backoff", "delayed", "available", "dying", "unread")


async def show(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """The page."""
    place = place_of(visit, tenant, namespace, local)
    asked = Messages.read(visit.query)
    after = visit.query.get("after", "")
    at = (*place.path, "subscription", name)
    behind = {"after": after} if after else {}
    page = await visit.get(
        *at, "magnetar", "open", limit=str(ROWS), **asked.filter, **asked.where(), **behind
    )
    here = place.subscription_url(name, "messages")
    kept = {**asked.filter, **asked.where()}
    others = {name_: text for name_, text in kept.items() if name_ != "state"}
    word = place.partition_word(int(asked.partition), True) if asked.partition else place.word
    return await visit.page(
        "open.html",
        title=f"Open messages of {name}",
        section="subscriptions",
        crumbs=[*place.crumbs(), (local, place.url()), (name, place.subscription_url(name))],
        place=place,
        name=name,
        rows=page["messages"],
        looked=page["looked"],
        of=page["of"],
        asked=asked,
        kept=kept,
        chips=[("", urlencode(others)), *((each, urlencode({**others, "state": each})) for each in CHIPS)],
        here=here,
        next=urlencode({**kept, "after": page["next"]}) if "next" in page else "",
        acts=[(act, row.link) for act, row in ACTS.items()],
        there=place.subscription_url(name, "act"),
        may_act=visit.writes and await visit.may(ACT, *at, "magnetar", "act"),
        command=line("subscriptions", "why", word, "-s", name, "--open", *asked.filter_words()),
    )
