"""Dead letters: who has them, those of one subscription in groups and one by one, and a page to edit a value.

/ui/dead, /ui/s/{tenant}/{namespace}/{topic}/{subscription}/dead and …/letter?id=.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from gateway.admin.exchange import RefusedError
from gateway.admin.schemas import Told
from gateway.console import message, shown, standing
from gateway.console.chosen import TIMES, Letters
from gateway.console.lines import line
from gateway.console.topic import Place, place_of
from gateway.console.typed import editable
from gateway.console.visit import ROWS, topic_parts, url
from semantics.console.grouping import OTHERS
from semantics.console.letter_filter import FilterError, read_id
from semantics.console.letter_states import NAMES as STATES
from semantics.names import dotted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

REASONS = {
    "MAX_DELIVERIES": "Delivered too often",
    "REJECTED": "Rejected",
    "CORRUPT": "Cannot be opened",
}
LARGEST_EDIT = 16 * 1024
"""Bytes of a value that is edited on a page: a form with it, and the next one, have to fit."""
LONGEST = 120
"""Characters of a header's value that a group is called by: of a longer one it is the beginning."""
LONGEST_VALUE = 300
"""Characters of a value that a list shows, as its schema has it."""
REPLAY = ("POST", "subscription", "magnetar/replay")
DISCARD = ("POST", "subscription", "magnetar/discard")


async def everywhere(visit: Visit) -> Reply:
    """Subscriptions by how many dead letters they have."""
    said = {"after": visit.query["after"]} if visit.query.get("after") else {}
    page = await visit.get("magnetar", "subscriptions", sort="deadLetters", limit=str(ROWS), **said)
    rows = [
        {
            "name": each["subscription"],
            "topic": each["topic"],
            "letters": each["deadLetters"],
            "url": url(
                "s",
                *topic_parts(each["topic"])[1:],
                each["subscription"],
                *(["dead"] if await standing.consumes(visit, each["topic"], each["subscription"]) else []),
            ),
        }
        for each in page["subscriptions"]
        if each["deadLetters"]
    ]
    # they come first
    more = "next" in page and len(rows) == len(page["subscriptions"])
    return await visit.page(
        "dead_everywhere.html",
        title="Dead letters",
        section="dead",
        rows=rows,
        next=urlencode({"after": page["next"]}) if more else "",
        command=line("subscriptions", "list", "--sort", "deadLetters"),
    )


def chosen_of(visit: Visit, fields: Mapping[str, str]) -> Letters:
    """What a query or a form chooses, with times as the API has them."""
    chosen = Letters.read(fields)
    times = {name: visit.clock.moment(chosen.filter[name]) for name in TIMES if name in chosen.filter}
    return replace(chosen, filter={**chosen.filter, **times})


async def show(visit: Visit, tenant: str, namespace: str, local: str, name: str, _: str) -> Reply:
    """Those of one subscription."""
    place = place_of(visit, tenant, namespace, local)
    at = (*place.path, "subscription", name, "magnetar", "deadletters")
    chosen = chosen_of(visit, visit.query)
    state = visit.query.get("state") or "open"
    by = visit.query.get("by", "").strip() or "reason"
    said = {**chosen.filter, "state": state}
    after = {"after": visit.query["after"]} if visit.query.get("after") else {}
    page = await visit.get(*at, limit=str(ROWS), **said, **after)
    groups, why = await visit.try_get(*at, "groups", by=by, limit=str(ROWS), **said)
    there = place.subscription_url(name, "dead")
    around = {"state": state if state != "open" else "", "by": by if by != "reason" else ""}
    for group in (groups or {}).get("groups", ()):
        group["url"] = _group_url(there, chosen, by, group["group"], around)
    may = {
        verb: visit.writes and await visit.may(key, *at[:-1], verb)
        for verb, key in (("replay", REPLAY), ("discard", DISCARD))
    }
    return await visit.page(
        "dead.html",
        title=f"Dead letters of {name}",
        section="dead",
        crumbs=_crumbs(place, name),
        place=place,
        name=name,
        chosen=chosen,
        state=state,
        states=[
            (each, f"{there}?{chosen.listed(state=each, by=around['by'])}", page["counts"].get(each))
            for each in (*STATES, "any")
        ],
        by=by,
        groups=groups,
        why_no_groups=why,
        page=page,
        rows=[_row(place, each) for each in page["letters"]],
        here=there,
        next=f"{there}?{chosen.listed(**around, after=page['next'])}" if "next" in page else "",
        may=may,
        reasons=REASONS,
        around=around,
        command=line("dead-letters", "list", place.word, "-s", name, *_state_words(state), *chosen.words()),
        groups_command=line(
            "dead-letters",
            "groups",
            place.word,
            "-s",
            name,
            "--by",
            by,
            *_state_words(state),
            *chosen.words(),
        ),
    )


def _crumbs(place: Place, name: str) -> list[tuple[str, str]]:
    return [*place.crumbs(), (place.local, place.url()), (name, place.subscription_url(name))]


def _state_words(state: str) -> list[str]:
    return ["--state", state] if state != "open" else []


def _group_url(there: str, chosen: Letters, by: str, group: str | None, around: dict[str, str]) -> str:
    """The page with letters of this group alone; none where no filter says that."""
    kind, _, header = by.partition(":")
    if kind == "json" or (kind == "header" and (not group or group == OTHERS or len(group) >= LONGEST)):
        return ""
    more = {"reason": group or ""} if kind == "reason" else {"header": f"{header}={group}"}
    return f"{there}?{replace(chosen, filter={**chosen.filter, **more}).listed(**around)}"


def _row(place: Place, letter: dict[str, Any]) -> dict[str, Any]:
    origin = letter["origin"]
    own = dotted(origin["topic"] or "") in (dotted(place.local), dotted("/".join(place.path[1:])))
    known = own and origin["offset"] >= 0 and origin["partition"] >= 0
    return {
        **letter,
        "was": f"{origin['partition']}:{origin['offset']:,}" if origin["offset"] >= 0 else "",
        "was_url": place.message_url(origin["partition"], origin["offset"]) if known else "",
        "key": None if letter["key"] is None else shown.visible(letter["key"], lines=False)[:100],
        "value": _value(letter),
        "message": shown.visible(letter["message"] or ""),
        "headers": {
            shown.visible(each): None if text is None else shown.visible(text)
            for each, text in letter["headers"].items()
        },
        "reason_text": REASONS.get(letter["reason"], letter["reason"]),
    }


def _value(letter: dict[str, Any]) -> str | None:
    """The beginning of it on one line, as its schema has it where that is in reach."""
    if "decoded" in letter:
        return shown.visible(msgspec.json.encode(letter["decoded"]).decode()[:LONGEST_VALUE], lines=False)
    return None if letter["value"] is None else shown.visible(letter["value"], lines=False)


async def letter(visit: Visit, tenant: str, namespace: str, local: str, name: str, _: str) -> Reply:
    """One of them: its value, to be edited before it is sent again."""
    place = place_of(visit, tenant, namespace, local)
    said = visit.query.get("id", "")
    try:
        index, offset = read_id(said)
    except FilterError as error:
        raise RefusedError(404, str(error)) from None
    at = (*place.path, "subscription", name, "magnetar", "deadletters")
    page = await visit.get(*at, state="any", after=said, limit="1")
    if not page["letters"] or page["letters"][0]["id"] != said:
        raise RefusedError(404, f"{name} has no dead letter {said} (any more).")
    catalog = visit.context.broker.catalog
    grave = catalog.full(catalog.said(page["topic"]))
    grave_place = place_of(visit, grave.namespace.tenant, grave.namespace.name, grave.local)
    metadata = await visit.get(*grave_place.path, "partitions")
    value, why_not = None, ""
    told, schema = None, Told()
    try:
        path = grave_place.partition_path(index, metadata["partitions"] > 0)
        value = (await message.record(visit, path, offset))[0].record.value
        told, schema = await message.by_schema(visit, path, value)
    except RefusedError as refused:
        why_not = refused.reason
    size = len(value) if value is not None else 0
    text, kind = editable(value) if value is not None and size <= LARGEST_EDIT else ("", "text")
    found = page["letters"][0]
    may = (
        visit.writes
        and found["state"] == "open"
        and not why_not
        and size <= LARGEST_EDIT
        and await visit.may(REPLAY, *at[:-1], "replay")
    )
    return await visit.page(
        "letter.html",
        title=f"Dead letter {said} of {name}",
        section="dead",
        crumbs=[*_crumbs(place, name), ("dead letters", place.subscription_url(name, "dead"))],
        place=place,
        name=name,
        chosen=chosen_of(visit, visit.query),
        row=_row(place, found),
        value=told if told is not None else shown.value(value) if value is not None else None,
        # beside what a schema says stand the bytes
        hex=shown.value(value, "hex") if told is not None and value is not None else None,
        schema=schema,
        size=size,
        largest=LARGEST_EDIT,
        text=text,
        kind=kind,
        why_not=why_not,
        may=may,
        there=place.subscription_url(name, "replay"),
        record_url=grave_place.message_url(index, offset),
        command=line("dead-letters", "edit", place.word, said, "-s", name, "--value-file", "FILE"),
    )
