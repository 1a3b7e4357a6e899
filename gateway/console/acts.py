"""What pages can change. Each is a page first, that says what would happen and has the form which does it.

What cannot be taken back asks for the name to be typed. The calls are those of the admin API, with the rights of who
asks, and stand in the audit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gateway.admin.exchange import RESULT, RefusedError
from gateway.console import topics
from gateway.console.act_page import counted
from gateway.console.lines import line
from gateway.console.topic import Place, place_of, states_of, stats_of
from gateway.console.visit import url

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit


class Act(NamedTuple):
    """One of them. `{name}` and `{open}` in texts are those of the subscription or the topic."""

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
        "{open} messages would be settled without being delivered",
        "Settle {open} messages",
        (
            ("In hand", "what consumers work on is settled, too: their acknowledgements change nothing"),
            ("Others", "other subscriptions are not touched; nothing is deleted from the log"),
            ("Way back", "reset to an earlier time delivers all from there again, until retention takes it"),
        ),
        "clear-backlog",
    ),
    "unsubscribe": Act(
        "Delete the subscription {name}?",
        "{open} open messages would not be delivered to it",
        "Delete the subscription",
        (
            ("Consumers", "it is refused while any is connected"),
            ("Dead letters", "stay in their topic"),
            ("Way back", "none: what was acknowledged is forgotten"),
        ),
        "unsubscribe",
    ),
}  # fmt: skip

OF_TOPIC = {
    "delete": Act(
        "Delete the topic {name}?",
        "{open} messages would be deleted",
        "Delete {open} messages",
        (
            ("Subscriptions", "all of its subscriptions go with it"),
            ("Consumers", "it is refused while any is connected"),
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
    if visit.form.get("confirm", "").strip() != name:
        return await _ask_subscription(visit, place, name, act, "Type the name as it stands there.")
    at = (*place.path, "subscription", name)
    if act == "unsubscribe":
        await visit.call("DELETE", *at)
        return visit.to(place.url())
    reply = await visit.call("POST", *at, "skip_all")
    did = msgspec.json.decode(reply.headers.get(RESULT, "{}"))
    number = int(did.get("messages", 0))
    settled = f"{counted(number)} {'was' if number == 1 else 'were'} settled."
    return visit.did(place.subscription_url(name), settled)


async def _ask_subscription(visit: Visit, place: Place, name: str, act: str, wrong: str = "") -> Reply:
    row = OF_SUBSCRIPTION.get(act)
    if row is None:
        raise RefusedError(404, "There is no such act.")
    stats = await stats_of(visit, place)
    its: dict[str, Any] | None = stats.whole["subscriptions"].get(name)
    if its is None:
        raise RefusedError(404, f"{place.word} has no subscription {name}.")
    words = ["topics", row.verb, place.word, "-s", name]
    return await _ask(
        visit, row, name, its["msgBacklog"], line(*words), place.subscription_url(name),
        place.subscription_url(name, act), wrong, act, states_of(its),
        [*place.crumbs(), (place.local, place.url()), (name, place.subscription_url(name))],
    )  # fmt: skip


async def of_topic(visit: Visit, tenant: str, namespace: str, local: str, act: str) -> Reply:
    """The page that asks."""
    return await _ask_topic(visit, place_of(visit, tenant, namespace, local), act)


async def do_on_topic(visit: Visit, tenant: str, namespace: str, local: str, act: str) -> Reply:
    """Do it; with what is wrong in the form, ask again."""
    place = place_of(visit, tenant, namespace, local)
    if act not in OF_TOPIC:
        raise RefusedError(404, "There is no such act.")
    if visit.form.get("confirm", "").strip() != local:
        return await _ask_topic(visit, place, act, "Type the name as it stands there.")
    metadata = await visit.get(*place.path, "partitions")
    await visit.call("DELETE", *place.path, *(["partitions"] if metadata["partitions"] else []))
    return visit.to(url("topics"))


async def _ask_topic(visit: Visit, place: Place, act: str, wrong: str = "") -> Reply:
    row = OF_TOPIC.get(act)
    if row is None:
        raise RefusedError(404, "There is no such act.")
    stats = await stats_of(visit, place)
    kept = sum(
        each["magnetar"]["highWatermark"] - each["magnetar"]["logStartOffset"] for each in stats.partitions
    )
    verb = "delete-partitioned-topic" if stats.partitioned else "delete"
    return await _ask(
        visit, row, place.local, kept, line("topics", verb, place.word), place.url(), place.url(act), wrong, act, {},
        [*place.crumbs(), (place.local, place.url())],
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
) -> Reply:
    said = {"name": name, "open": f"{count:,}"}
    return await visit.page(
        "confirm.html",
        400 if wrong else 200,
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
        wrong=wrong,
    )


async def create_topic(visit: Visit) -> Reply:
    """A topic of so many partitions; 0 for a plain one. With what is wrong in the form, the form again."""
    said, count = visit.form.get("topic", "").strip(), visit.form.get("partitions", "1").strip()
    tenant, _, rest = said.rpartition("://")[2].partition("/")
    namespace, _, local = rest.partition("/")
    if not local:
        tenant, namespace, local = "public", "default", said
    if not count.isascii() or not count.isdigit() or len(count) > 6:
        return await topics.show(
            visit, f"How many partitions is a number, 0 for a plain topic; not {count[:20]!r}.", 412
        )
    path = ("persistent", tenant, namespace, local)
    try:
        if int(count):
            await visit.call("PUT", *path, "partitions", body=int(count))
        else:
            await visit.call("PUT", *path, body={})
    except RefusedError as refused:
        if refused.status not in (400, 403, 404, 409, 412, 422):
            raise
        return await topics.show(visit, refused.reason, refused.status)
    return visit.to(url("t", tenant, namespace, local))
