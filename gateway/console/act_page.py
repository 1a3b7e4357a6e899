"""…/act: what an act on messages would do, and the form that does it.

The preview is a dry run of the admin API, whose plan the form sends: where more than one in a hundred of the messages
have changed by then, nothing is done, and there is a new preview.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gateway.admin.exchange import RefusedError
from gateway.console.chosen import Messages
from gateway.console.standing import STATES
from gateway.console.topic import place_of
from gateway.console.typed import names
from gateway.console.visit import ROWS
from semantics.command_line import line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.exchange import Reply
    from gateway.console.topic import Place
    from gateway.console.visit import Visit

ACT = ("POST", "subscription", "magnetar/act")
"""The call that does it."""
AGAIN = "Nothing was done; this is what would be done now."
NONE_CHOSEN = "No message was chosen: tick some of them, or all that match the filter."


_LOOK_AGAIN = " Look again (dryRun)."
"""How the API ends what it says of a plan that does not hold: the page has looked again."""


def anew(reason: str) -> str:
    """Why a plan was not carried out, on the page that has a new one."""
    return f"{reason.removesuffix(_LOOK_AGAIN)} {AGAIN}"


class Act(NamedTuple):
    """How one is called: `{n}` is how many."""

    link: str
    title: str
    button: str
    did: str
    way_back: str
    # whether the name of the subscription must be typed
    typed: bool = False


ACTS = {
    "take-back": Act(
        "Take back…", "Take messages back", "Take {n} back", "{n} taken back, for whoever is next",
        "none is needed: they are delivered again",
    ),
    "deliver-now": Act(
        "Deliver now…", "Deliver messages now", "Deliver {n} now", "{n} to be delivered now",
        "none: they have no time any more that they could wait for",
    ),
    "settle": Act(
        "Settle…", "Settle messages", "Settle {n}", "{n} settled",
        "none for single messages; a reset to an earlier time delivers all from there again", True,
    ),
    "dead-letter": Act(
        "Dead-letter…", "Make messages dead letters", "Dead-letter {n}", "{n} on the way to the dead letter topic",
        "a replay of the dead letters",
    ),
}  # fmt: skip


def counted(number: int) -> str:
    return "1 message" if number == 1 else f"{number:,} messages"


def ends_of(text: str) -> dict[str, int]:
    """Where a preview ended by partition, as its form says it. Refuses what no preview made with 409."""
    found: dict[str, int] = {}
    for each in text.split():
        index, _, end = each.partition(":")
        if not (end.isascii() and end.isdigit() and len(end) < 20):
            found.clear()
            break
        found[index] = int(end)
    if not found:
        raise RefusedError(409, "The form says of no preview how far it went.")
    return found


def ids_of(form: Mapping[str, str]) -> dict[str, str]:
    """What a preview was of, as its form says it: a call says that it is about that and no other of its name."""
    return {name: form[name] for name in ("topicId", "subscriptionId") if form.get(name)}


async def ask(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """The preview."""
    chosen = Messages.read(visit.query)
    place = place_of(visit, tenant, namespace, local)
    return await _ask(visit, place, name, visit.query.get("do", ""), chosen)


async def do(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """Do it; with what is wrong in the form or with the plan, ask again."""
    place = place_of(visit, tenant, namespace, local)
    act, chosen = visit.form.get("do", ""), Messages.read(visit.form)
    row = _row(act, chosen)
    if row.typed and not names(visit.form.get("confirm", ""), name):
        return await _ask(visit, place, name, act, chosen, "Type the name as it stands there.", 400)
    body = {"do": act, **chosen.body(), "plan": visit.form.get("plan", "")}
    try:
        reply = await visit.call(
            "POST", *place.path, "subscription", name, "magnetar", "act", body=body, **chosen.where()
        )
    except RefusedError as refused:
        if refused.status != 409:
            raise
        return await _ask(visit, place, name, act, chosen, anew(refused.reason), 409)
    did = msgspec.json.decode(reply.body)
    return visit.did(place.subscription_url(name), row.did.format(n=counted(did["messages"])) + ".")


def _row(act: str, chosen: Messages) -> Act:
    """Refuses what is no act, and one on nothing."""
    row = ACTS.get(act)
    if row is None:
        raise RefusedError(404, "There is no such act.")
    if chosen.nothing:
        raise RefusedError(400, NONE_CHOSEN)
    return row


async def _ask(
    visit: Visit, place: Place, name: str, act: str, chosen: Messages, wrong: str = "", status: int = 200
) -> Reply:
    row = _row(act, chosen)
    # without the right this is refused here, as the act itself would be
    reply = await visit.call(
        "POST", *place.path, "subscription", name, "magnetar", "act",
        body={"do": act, **chosen.body(), "dryRun": True}, **chosen.where(),
    )  # fmt: skip
    shown = msgspec.json.decode(reply.body)
    states = shown["byState"]
    partitions = list(shown["byPartition"].items())
    word = place.word_of(chosen.partition)
    number = shown["messages"]
    at_least = shown.get("atLeast", False)
    return await visit.page(
        "act.html",
        status,
        title=f"{row.title} of {name}?",
        section="subscriptions",
        crumbs=[*place.crumbs(), (place.local, place.url()), (name, place.subscription_url(name))],
        act=act,
        name=name,
        number=number,
        shown=shown,
        row=row,
        button=row.button.format(n=counted(number)),
        states={each: states[each] for each in STATES if states.get(each)},
        partitions=partitions[:ROWS],
        more=len(partitions) - ROWS,
        at_least=at_least,
        chosen=chosen,
        command=line("subscriptions", "act", act, word, "-s", name, *chosen.words()),
        there=place.subscription_url(name, "act"),
        back=place.subscription_url(name),
        listed=f"{place.subscription_url(name, 'messages')}?{chosen.listed()}",
        wrong=wrong,
    )
