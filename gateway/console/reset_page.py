"""…/reset: a subscription begins again at a time. The time is asked first, then comes what that would do, and the form.

What the form sends is the very time of the preview, however it was typed, and what that said, with where it ended:
where others of the messages up to there would come by now, or be settled, nothing is done, and there is a new preview.
What came later is delivered anyway.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from gateway.admin.exchange import RESULT, Call, RefusedError
from gateway.admin.refusals import may_not
from gateway.admin.roles import NEEDS
from gateway.console.act_page import AGAIN, counted, ends_of, ids_of
from gateway.console.topic import place_of, stats_of
from gateway.console.typed import names
from gateway.console.visit import ROWS
from semantics.command_line import line
from semantics.moments import MomentError, iso

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gateway.admin.exchange import Reply
    from gateway.console.topic import Place
    from gateway.console.visit import Visit

RESET = ("POST", "subscription", "resetcursor/*")
"""The call that does it."""
SHARE = 100
"""What has changed by more than one in so many is another thing than was looked at."""
TO_COME = (
    "That time is to come: what has come until then would never be delivered. "
    "To settle all that is open, clear the backlog."
)


async def ask(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """Which time; with one in the query, what that would do."""
    place = place_of(visit, tenant, namespace, local)
    if "time" not in visit.query:
        # who may not is told before anything is typed
        call = Call("POST", (*_at(place, name), "resetcursor", "0"), asker=visit.asker)
        if not await visit.may(RESET, *call.path):
            raise may_not(call, NEEDS[RESET].says)
        return await _page(visit, place, name)
    return await _look(visit, place, name, visit.query["time"])


async def do(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """Do it; with what is wrong in the form, ask again."""
    place, said = place_of(visit, tenant, namespace, local), visit.form.get("time", "")
    moment, wrong = _moment(visit, said)
    if wrong:
        return await _page(visit, place, name, said, wrong)
    if not names(visit.form.get("confirm", ""), name):
        return await _look(visit, place, name, said, "Type the name as it stands there.")
    try:
        ends = ends_of(visit.form.get("ends", ""))
    except RefusedError as refused:
        return await _look(visit, place, name, said, f"{refused.reason} {AGAIN}", refused.status)
    ids = ids_of(visit.form)
    seen = await _dry(visit, place, name, moment, ends, ids)
    if isinstance(seen, RefusedError) and seen.status == 409:
        return await _look(visit, place, name, said, f"{seen.reason} {AGAIN}", 409)
    if isinstance(seen, RefusedError):
        return await _page(visit, place, name, said, seen.reason, status=seen.status)
    if changed := _changed(visit.form, seen):
        return await _look(visit, place, name, said, f"{changed} {AGAIN}", 409)
    try:
        reply = await visit.call(
            "POST", *_at(place, name), "resetcursor", str(moment), body={"ends": ends}, **ids
        )
    except RefusedError as refused:
        if refused.status not in (409, 412):
            raise
        if refused.status == 409:
            return await _look(visit, place, name, said, f"{refused.reason} {AGAIN}", 409)
        return await _page(visit, place, name, said, refused.reason, status=412)
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


def _changed(form: Mapping[str, str], seen: Mapping[str, int]) -> str:
    """What is not as the form was told any more, by more than one in a hundred; "" for nothing."""
    for name, says in (("messages", "would be delivered"), ("openBefore", "open ones would be settled")):
        was, now = form.get(name, ""), seen[name]
        if not (was.isascii() and was.isdigit() and len(was) < 20):
            return "The form says of no preview what would happen."
        if abs(now - int(was)) * SHARE > int(was):
            return f"{now:,} {says}, where the preview had {int(was):,}."
    return ""


async def _dry(
    visit: Visit,
    place: Place,
    name: str,
    moment: int,
    ends: dict[str, int] | None = None,
    ids: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any] | RefusedError:
    """What it would do, or why it would be refused: a consumer group that is at work, say. With the `ends` and the
    `ids` of an earlier look it is of the messages that were there then.
    """
    body = {"ends": ends} if ends is not None else None
    try:
        reply = await visit.call(
            "POST", *_at(place, name), "resetcursor", str(moment), body=body, dryRun="true", **ids
        )
    except RefusedError as refused:
        if refused.status not in (400, 409, 412):
            raise
        return refused
    seen: dict[str, Any] = msgspec.json.decode(reply.body)
    return seen


async def _look(
    visit: Visit, place: Place, name: str, said: str, wrong: str = "", status: int = 400
) -> Reply:
    """What it would do."""
    moment, why = _moment(visit, said)
    if why:
        return await _page(visit, place, name, said, why)
    seen = await _dry(visit, place, name, moment)
    if isinstance(seen, RefusedError):
        return await _page(visit, place, name, said, seen.reason, status=seen.status)
    return await _page(visit, place, name, said, wrong, moment, seen, status)


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
        ends=" ".join(f"{index}:{each['end']}" for index, each in partitions),
        partitions=partitions[:ROWS] if len(partitions) > 1 else [],
        more=len(partitions) - ROWS,
        wrong=wrong,
        back=place.subscription_url(name),
        there=place.subscription_url(name, "reset"),
        command=line("topics", "reset-cursor", place.word, "-s", name, "--time", typed),
    )
