"""…/reset: a subscription begins again at a time. The time is asked first, then comes what that would do, and the form.

What the form sends is the very time of the preview, however it was typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.admin.exchange import RESULT, RefusedError
from gateway.console.act_page import counted
from gateway.console.lines import line
from gateway.console.topic import place_of, stats_of
from gateway.console.visit import ROWS
from semantics.moments import MomentError, iso

if TYPE_CHECKING:
    from typing import Any

    from gateway.admin.exchange import Reply
    from gateway.console.topic import Place
    from gateway.console.visit import Visit

TO_COME = (
    "That time is to come: what has come until then would never be delivered. "
    "To settle all that is open, clear the backlog."
)


async def ask(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """Which time; with one in the query, what that would do."""
    place = place_of(visit, tenant, namespace, local)
    if "time" not in visit.query:
        return await _page(visit, place, name)
    return await _look(visit, place, name, visit.query["time"])


async def do(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """Do it; with what is wrong in the form, ask again."""
    place, said = place_of(visit, tenant, namespace, local), visit.form.get("time", "")
    moment, wrong = _moment(visit, said)
    if wrong:
        return await _page(visit, place, name, said, wrong)
    if visit.form.get("confirm", "").strip() != name:
        return await _look(visit, place, name, said, "Type the name as it stands there.")
    reply = await visit.call("POST", *_at(place, name), "resetcursor", str(moment))
    did = msgspec.json.decode(reply.headers.get(RESULT, "{}"))
    number = int(did.get("messages", 0))
    delivered = f"{counted(number)} {'is' if number == 1 else 'are'} to be delivered."
    return visit.did(place.subscription_url(name), delivered)


def _at(place: Place, name: str) -> tuple[str, ...]:
    return (*place.path, "subscription", name)


def _moment(visit: Visit, said: str) -> tuple[int, str]:
    """(ms since 1970, what is wrong with it)."""
    try:
        moment = visit.clock.moment_ms(said)
    except MomentError as error:
        return 0, str(error)
    # all that there is would be settled, the delayed ones as well
    return moment, TO_COME if moment > visit.clock.now else ""


async def _look(visit: Visit, place: Place, name: str, said: str, wrong: str = "") -> Reply:
    """What it would do."""
    moment, why = _moment(visit, said)
    if why:
        return await _page(visit, place, name, said, why)
    try:
        reply = await visit.call("POST", *_at(place, name), "resetcursor", str(moment), dryRun="true")
    except RefusedError as refused:
        if refused.status not in (400, 412):
            raise
        # a consumer group that is at work, say
        return await _page(visit, place, name, said, refused.reason, status=refused.status)
    seen = msgspec.json.decode(reply.body)
    return await _page(visit, place, name, said, wrong, moment, seen)


async def _page(
    visit: Visit,
    place: Place,
    name: str,
    said: str = "",
    wrong: str = "",
    moment: int = 0,
    seen: dict[str, Any] | None = None,
    status: int = 400,
) -> Reply:
    if seen is None and name not in (await stats_of(visit, place)).whole["subscriptions"]:
        raise RefusedError(404, f"{place.word} has no subscription {name}.")
    partitions = list(seen["byPartition"].items()) if seen is not None else []
    typed = iso(moment, visit.clock.tz) if seen is not None else "2h"
    return await visit.page(
        "reset.html",
        status if wrong else 200,
        title=f"Reset {name} to a time?",
        section="subscriptions",
        crumbs=[*place.crumbs(), (place.local, place.url()), (name, place.subscription_url(name))],
        name=name,
        # as it was typed, and as it was understood
        when=said,
        moment=moment,
        typed=typed,
        seen=seen,
        partitions=partitions[:ROWS] if len(partitions) > 1 else [],
        more=len(partitions) - ROWS,
        wrong=wrong,
        back=place.subscription_url(name),
        there=place.subscription_url(name, "reset"),
        command=line("topics", "reset-cursor", place.word, "-s", name, "--time", typed),
    )
