"""What pages can change. Each is a page first, that says what would happen and has the form which does it.

What cannot be taken back asks for the name to be typed. The calls are those of the admin API, with the rights of who
asks, and stand in the audit. A page is made of a dry run of its call: what that refuses, the page says, with no form.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gateway.admin.exchange import RESULT, RefusedError
from gateway.console import shown
from gateway.console.act_page import AGAIN, counted, ends_of, ids_of
from gateway.console.topic import Place, place_of, states_of, stats_of
from gateway.console.typed import names
from gateway.console.visit import url
from semantics.command_line import line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit


class Act(NamedTuple):
    """One of them. `{name}` and `{open}` in texts are those of the subscription or the topic, `{messages}` the
    word for so many."""

    title: str
    heading: str
    button: str
    # (what, what follows for it)
    follows: tuple[tuple[str, str], ...]
    verb: str
    # whether the name must be typed
    typed: bool = True


OF_SUBSCRIPTION = {
    "clear": Act(
        "Clear the backlog of {name}?",
        "{open} {messages} would be settled without being delivered",
        "Settle {open} {messages}",
        (
            ("In hand", "what consumers work on is settled, too: their acknowledgements change nothing"),
            ("Later ones", "what comes after this preview is not settled"),
            ("Others", "other subscriptions are not touched; nothing is deleted from the log"),
            ("Way back", "reset to an earlier time delivers all from there again, until retention takes it"),
        ),
        "clear-backlog",
    ),
    "unsubscribe": Act(
        "Delete the subscription {name}?",
        "{open} open {messages} would not be delivered to it",
        "Delete the subscription",
        (
            ("Consumers", "it is refused while any is connected"),
            ("Later ones", "what comes until then is not delivered to it either"),
            ("Dead letters", "stay in their topic"),
            ("Way back", "none: what was acknowledged is forgotten"),
        ),
        "unsubscribe",
    ),
}  # fmt: skip

OF_TOPIC = {
    "delete": Act(
        "Delete the topic {name}?",
        "{open} {messages} would be deleted",
        "Delete {open} {messages}",
        (
            ("Subscriptions", "all of its subscriptions go with it"),
            ("Consumers", "it is refused while any is connected"),
            ("Later ones", "what comes until then goes with it"),
            ("Way back", "none"),
        ),
        "delete",
    ),
}


async def of_subscription(
    visit: Visit, tenant: str, namespace: str, local: str, name: str, act: str
) -> Reply:
    """The page that asks."""
    return await _ask_subscription(visit, place_of(visit, tenant, namespace, local), name, act)


async def do_on_subscription(
    visit: Visit, tenant: str, namespace: str, local: str, name: str, act: str
) -> Reply:
    """Do it; with what is wrong in the form, ask again."""
    place = place_of(visit, tenant, namespace, local)
    if act not in OF_SUBSCRIPTION:
        raise RefusedError(404, "There is no such act.")
    if not names(visit.form.get("confirm", ""), name):
        return await _ask_subscription(visit, place, name, act, "Type the name as it stands there.")
    try:
        if act == "unsubscribe":
            await visit.call(*_call(place, name, act), **ids_of(visit.form))
            return visit.did(place.url(), f"The subscription {name} was deleted.")
        bounds = {
            "ends": ends_of(visit.form.get("ends", "")),
            "messages": _number(visit.form.get("messages", "")),
        }
        reply = await visit.call(*_call(place, name, act), body=bounds, **ids_of(visit.form))
    except RefusedError as refused:
        if refused.status not in (409, 412):
            raise
        why = refused.reason if refused.status == 412 else f"{refused.reason} {AGAIN}"
        return await _ask_subscription(visit, place, name, act, why, refused.status)
    did = msgspec.json.decode(reply.headers.get(RESULT, "{}"))
    number = int(did.get("messages", 0))
    settled = f"{counted(number)} {'was' if number == 1 else 'were'} settled."
    return visit.did(place.subscription_url(name), settled)


def _call(place: Place, name: str, act: str) -> tuple[str, ...]:
    """The call of the admin API that does it."""
    at = (*place.path, "subscription", name)
    return ("DELETE", *at) if act == "unsubscribe" else ("POST", *at, "skip_all")


def _number(text: str) -> int:
    """A number that a preview put into its form; -1 for what is none, which stands for any."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1


async def _ask_subscription(
    visit: Visit, place: Place, name: str, act: str, wrong: str = "", status: int = 400
) -> Reply:
    row = OF_SUBSCRIPTION.get(act)
    if row is None:
        raise RefusedError(404, "There is no such act.")
    seen, why = await _dry(visit, *_call(place, name, act))
    stats = await stats_of(visit, place)
    its: dict[str, Any] | None = stats.whole["subscriptions"].get(name)
    if its is None:
        raise RefusedError(404, f"{place.word} has no subscription {name}.")
    count = seen.get("messages", its["msgBacklog"])
    ends = " ".join(f"{index}:{each['end']}" for index, each in seen.get("byPartition", {}).items())
    bounds = {"ends": ends, "messages": str(count)} if ends else {}
    words = ["topics", row.verb, place.word, "-s", name]
    return await _ask(
        visit, row, name, count, line(*words), place.subscription_url(name),
        place.subscription_url(name, act), wrong, act, states_of(its),
        [*place.crumbs(), (place.local, place.url()), (name, place.subscription_url(name))],
        status, why, {each: str(seen.get(each, "")) for each in ("topicId", "subscriptionId")} | bounds,
    )  # fmt: skip


async def _dry(visit: Visit, *call: str) -> tuple[dict[str, Any], str]:
    """(what a call would do, why it would be refused as things are); who may not is refused here."""
    try:
        reply = await visit.call(*call, dryRun="true")
    except RefusedError as refused:
        if refused.status != 412:
            raise
        return {}, refused.reason
    seen: dict[str, Any] = msgspec.json.decode(reply.body)
    return seen, ""


async def of_topic(visit: Visit, tenant: str, namespace: str, local: str, act: str) -> Reply:
    """The page that asks."""
    return await _ask_topic(visit, place_of(visit, tenant, namespace, local), act)


async def do_on_topic(visit: Visit, tenant: str, namespace: str, local: str, act: str) -> Reply:
    """Do it; with what is wrong in the form, ask again."""
    place = place_of(visit, tenant, namespace, local)
    if act not in OF_TOPIC:
        raise RefusedError(404, "There is no such act.")
    if not names(visit.form.get("confirm", ""), local):
        return await _ask_topic(visit, place, act, "Type the name as it stands there.")
    metadata = await visit.get(*place.path, "partitions")
    try:
        await visit.call(
            "DELETE",
            *place.path,
            *(["partitions"] if metadata["partitions"] else []),
            **ids_of(visit.form),
        )
    except RefusedError as refused:
        if refused.status not in (409, 412):
            raise
        return await _ask_topic(visit, place, act, refused.reason, refused.status)
    return visit.did(url("topics"), f"The topic {place.word} was deleted.")


async def _ask_topic(visit: Visit, place: Place, act: str, wrong: str = "", status: int = 400) -> Reply:
    row = OF_TOPIC.get(act)
    if row is None:
        raise RefusedError(404, "There is no such act.")
    stats = await stats_of(visit, place)
    kept = sum(
        each["magnetar"]["highWatermark"] - each["magnetar"]["logStartOffset"] for each in stats.partitions
    )
    seen, why = await _dry(visit, "DELETE", *place.path, *(["partitions"] if stats.partitioned else []))
    verb = "delete-partitioned-topic" if stats.partitioned else "delete"
    return await _ask(
        visit, row, place.local, kept, line("topics", verb, place.word), place.url(), place.url(act), wrong, act, {},
        [*place.crumbs(), (place.local, place.url())], status, why,
        {"topicId": seen.get("topicId", "")},
    )  # fmt: skip


async def _ask(
    visit: Visit,
    row: Act,
    name: str,
    count: int,
    cli: str,
    back: str,
    there: str,
    wrong: str,
    act: str,
    states: dict[str, int],
    crumbs: list[tuple[str, str]],
    status: int = 400,
    why_not: str = "",
    carried: Mapping[str, str] = MappingProxyType({}),
) -> Reply:
    """`wrong` with its `status` is why it is asked once more; `why_not` is why it cannot be done as things are."""
    said = {"name": name, "open": f"{count:,}", "messages": shown.plural("message", count)}
    return await visit.page(
        "confirm.html",
        412 if why_not else status if wrong else 200,
        title=row.title.format(**said),
        section="topics",
        crumbs=crumbs,
        heading=row.heading.format(**said),
        button=row.button.format(**said),
        follows=row.follows,
        name=name,
        act=act,
        states=states,
        command=cli,
        back=back,
        there=there,
        # one sentence, where both say the same
        wrong=why_not or wrong,
        refused=bool(why_not),
        carried=carried,
    )
