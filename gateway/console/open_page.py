"""…/messages: the open messages of a subscription, and why each does not arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gateway.admin.exchange import RefusedError
from gateway.console import act_page
from gateway.console.act_page import ACT, ACTS
from gateway.console.chosen import Messages
from gateway.console.topic import place_of
from gateway.console.visit import ROWS
from semantics.command_line import line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gateway.admin.exchange import Reply
    from gateway.console.topic import Place
    from gateway.console.visit import Visit

_NOTHING: Mapping[str, Any] = {"messages": [], "looked": 0, "of": 0}
CHIPS = ("acquired", "blocked", "backoff", "delayed", "available", "dying", "unread")


async def show(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """The page; with what makes no sense in the filter, the filter again."""
    place = place_of(visit, tenant, namespace, local)
    asked = Messages.read(visit.query)
    after = visit.query.get("after", "")
    behind = {"after": after} if after else {}
    try:
        page = await visit.get(
            *place.path, "subscription", name, "magnetar", "open",
            limit=str(ROWS), **asked.filter, **asked.where(), **behind,
        )  # fmt: skip
    except RefusedError as refused:
        if refused.status not in (400, 412):
            raise
        return await _page(visit, place, name, asked, _NOTHING, refused.reason, refused.status)
    return await _page(visit, place, name, asked, page)


async def ask(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """The preview of an act; of one on nothing, or on what it is not for, the messages to choose from."""
    chosen = Messages.read(visit.query)
    wrong, status = act_page.NONE_CHOSEN, 400
    if not chosen.nothing or visit.query.get("do", "") not in ACTS:
        try:
            return await act_page.ask(visit, tenant, namespace, local, name)
        except RefusedError as refused:
            if refused.status not in (400, 412):
                raise
            wrong, status = refused.reason, refused.status
    place = place_of(visit, tenant, namespace, local)
    try:
        page = await visit.get(
            *place.path, "subscription", name, "magnetar", "open",
            limit=str(ROWS), **chosen.filter, **chosen.where(),
        )  # fmt: skip
    except RefusedError as refused:
        if refused.status not in (400, 412):
            raise
        page = _NOTHING
    return await _page(visit, place, name, chosen, page, wrong, status)


async def _page(
    visit: Visit,
    place: Place,
    name: str,
    asked: Messages,
    page: Mapping[str, Any],
    wrong: str = "",
    status: int = 200,
) -> Reply:
    at = (*place.path, "subscription", name)
    here = place.subscription_url(name, "messages")
    kept = {**asked.filter, **asked.where()}
    others = {name_: text for name_, text in kept.items() if name_ != "state"}
    word = place.word_of(asked.partition)
    return await visit.page(
        "open.html",
        status,
        wrong=wrong,
        title=f"Open messages of {name}",
        section="subscriptions",
        crumbs=[*place.crumbs(), (place.local, place.url()), (name, place.subscription_url(name))],
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
