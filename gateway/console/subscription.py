"""/ui/s/{tenant}/{namespace}/{topic}/{subscription}: does it flow, what holds it up, who has which keys?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin.exchange import RefusedError
from gateway.console import charted, held, watched
from gateway.console.standing import HASH, STATES, reads_letters, seen
from gateway.console.topic import READ, connected, index_of, place_of, states_of, stats_of
from gateway.console.visit import LIVE, ROWS
from semantics.command_line import line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.exchange import Reply
    from gateway.console.topic import Place
    from gateway.console.visit import Visit

SLOTS = 65_536
MOST_RANGES = 200
"""Ranges of slots that are drawn."""


async def show(visit: Visit, tenant: str, namespace: str, local: str, name: str) -> Reply:
    """The page; with an offset in the query, that message's, or what is wrong with that."""
    place = place_of(visit, tenant, namespace, local)
    asked, wrong = _asked(visit.query)
    if asked is not None:
        metadata = await visit.get(*place.path, "partitions")
        count = max(metadata["partitions"], 1)
        if asked[0] < count:
            return visit.to(place.message_url(*asked))
        has = f"its partitions are 0 to {count - 1}" if count > 1 else "its only one is 0"
        wrong = Wrong("partition", f"{place.word} has no partition {asked[0]}: {has}.")
    _, wrong_span = charted.span_of(visit)
    stats = await stats_of(visit, place)
    its = stats.whole["subscriptions"].get(name)
    if its is None:
        raise RefusedError(404, f"{place.word} has no subscription {name}.")
    start, wrong_start = visit.number("from", max(len(stats.partitions) - 1, 0))
    wrong_span = f"{wrong_start} {wrong_span}".strip()
    shared = bool(its.get("magnetar", {}).get("states"))
    strips = await watched.strips(visit, place, name, start) if shared else []
    drawn = {each.partition: each.counts for each in strips}
    partitions = [
        _on_partition(index, one["subscriptions"].get(name), one, drawn.get(index))
        for index, one in enumerate(stats.partitions[start : start + ROWS], start)
    ]
    draining = [
        {"partition": index, **each}
        for index, one in enumerate(stats.partitions)
        for each in one["subscriptions"].get(name, {}).get("magnetar", {}).get("drainingHashes", ())
    ]
    # in the order of their page, so that a number means the same wherever it stands
    consumers = sorted(its["consumers"], key=lambda each: str(each["consumerName"]))
    numbers = {each["consumerName"]: number for number, each in enumerate(consumers, 1)}
    queue = its.get("magnetar", {}).get("queue")
    slot = await _slot(visit, (*place.path, "subscription", name))
    may = visit.writes and await visit.may(
        ("POST", "subscription", "skip_all"), *place.path, "subscription", name, "skip_all"
    )
    return await visit.page(
        "subscription.html",
        400 if wrong or wrong_span else 200,
        # what was typed stays
        live=0 if wrong or wrong_span else LIVE,
        wrong=wrong,
        wrong_span=wrong_span,
        typed=visit.query if wrong else {},
        title=name,
        section="subscriptions",
        crumbs=[*place.crumbs(), (local, place.url())],
        place=place,
        name=name,
        stats=stats,
        its=its,
        states=states_of(its),
        counts=await _counts(
            visit, place, name, its, drawn if len(partitions) == len(stats.partitions) else None
        ),
        consumers=await watched.consumers(visit, place, name),
        consumer_count=connected(its),
        numbers=numbers,
        ranges=_ranges(consumers),
        draining=draining[:ROWS],
        lanes=queue["lanes"][:ROWS] if queue else [],
        queue=queue,
        partitions=partitions,
        start=start,
        end=start + len(partitions),
        rows=ROWS,
        slot=slot,
        causes=await held.causes(visit, place, name) if shared else None,
        strips=strips,
        charts=await charted.of_subscription(visit, place.path, place.word, name),
        did=visit.note(),
        command=line("topics", "partitioned-stats" if stats.partitioned else "stats", place.word),
        explain_command=line(
            "topics", "explain", place.partition_word(0, stats.partitioned), "-s", name, "--offset", "0"
        ),
        may_act=may,
        may_consume=await visit.may(held.CAUSES, *place.path, "subscription", name, "magnetar", "causes"),
        reads_letters=await reads_letters(visit, place.full, name),
        may_read=await visit.may(READ, *place.path, "examinemessage"),
    )


class Wrong(NamedTuple):
    """What is wrong with what was typed, and in which field."""

    field: str
    says: str


def _asked(query: Mapping[str, str]) -> tuple[tuple[int, int] | None, Wrong | None]:
    """((partition, offset) of the message that somebody asks for, what is wrong with what was typed)."""
    said = query.get("offset", "").strip()
    if not said:
        return None, None
    numbers: list[int] = []
    for field, text in (("partition", query.get("partition", "").strip() or "0"), ("offset", said)):
        try:
            numbers.append(index_of(text, field))
        except RefusedError as refused:
            return None, Wrong(field, f"{refused.reason} Both are numbers from 0 on.")
    return (numbers[0], numbers[1]), None


async def _counts(
    visit: Visit, place: Place, name: str, its: dict[str, Any], drawn: dict[int, dict[str, int]] | None
) -> dict[str, int]:
    """How many are in which state, and what became of others. `drawn`: of all partitions, where these are all there
    are: what waits for its key is in no stats.
    """
    counts: dict[str, int] = dict(its.get("magnetar", {}).get("states", {}))
    if its["type"] != "Key_Shared" or not counts:
        return counts
    if drawn:
        some = {
            state: sum(each.get(state, 0) for each in drawn.values()) for state in ("available", "blocked")
        }
    else:
        rows = (await seen(visit, "name", text=name, topic=place.word)).found
        some = next((each.states for each in rows if each.name == name), {})
    return {**counts, "available": some.get("available", 0), "blocked": some.get("blocked", 0)}


def _on_partition(
    index: int, its: dict[str, Any] | None, partition: dict[str, Any], drawn: dict[str, int] | None
) -> dict[str, Any]:
    end = partition["magnetar"]["highWatermark"]
    if its is None:
        return {"index": index, "open": 0, "states": {}, "start": None, "end": end, "held": 0}
    start = its["magnetar"]["markDeleteOffset"] + 1 if "markDeleteOffset" in its.get("magnetar", {}) else None
    return {
        "index": index,
        "open": its["msgBacklog"],
        "states": {name: drawn[name] for name in STATES if drawn.get(name)} if drawn else states_of(its),
        "start": start,
        "end": end,
        "held": its.get("unackedMessages", 0),
    }


def _ranges(consumers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Who has which slots, in order; nothing where keys are nobody's."""
    found = [
        {"from": low, "to": high, "owner": each["consumerName"], "number": number}
        for number, each in enumerate(consumers, 1)
        for low, high in each.get("keyHashRangeArrays", ())
    ]
    found.sort(key=lambda one: one["from"])
    for one in found:
        one["x"] = f"{one['from'] * 100 / SLOTS:.3f}%"
        one["width"] = f"{(one['to'] + 1 - one['from']) * 100 / SLOTS:.3f}%"
    return found[:MOST_RANGES]


async def _slot(visit: Visit, path: tuple[str, ...]) -> dict[str, Any] | None:
    """Where a key of the query goes."""
    key = visit.query.get("key", "")
    if not key:
        return None
    found, why = await visit.get_if_may(HASH, *path, "hash", key=key)
    return {"key": key, "why": why, **(found or {})}
