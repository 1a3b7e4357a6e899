"""Dead letters: who has them, those of one subscription in groups and one by one, and a page to edit a value.

/ui/dead, /ui/s/{tenant}/{namespace}/{topic}/{subscription}/dead and …/letter?id=.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from gateway.admin import group_ids
from gateway.admin.dead_letters import graves_at
from gateway.admin.exchange import Call, RefusedError
from gateway.admin.schemas import Told
from gateway.console import message, shown, standing
from gateway.console.chosen import TIMES, Letters
from gateway.console.topic import READ, Place, place_of
from gateway.console.typed import UnreadableError, editable
from gateway.console.visit import ROWS, topic_parts, url
from semantics.command_line import line
from semantics.console.grouping import LONGEST, OTHERS
from semantics.console.letter_filter import FilterError, read_id
from semantics.console.letter_states import NAMES as STATES
from semantics.moments import MomentError

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
LONGEST_VALUE = 300
"""Characters of a value that a list shows, as its schema has it."""
LETTERS = ("GET", "subscription", "magnetar/deadletters")
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
            "inside": each.get("deadLettersIn", ""),
            "url": url(
                "s",
                *topic_parts(each["topic"])[1:],
                each["subscription"],
                *(
                    ["dead"]
                    if await standing.reads_letters(visit, each["topic"], each["subscription"])
                    else []
                ),
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
    """What a query or a form chooses, with times as the API has them. Raises UnreadableError for what is no time."""
    chosen = Letters.read(fields)
    try:
        times = {name: visit.clock.moment(chosen.filter[name]) for name in TIMES if name in chosen.filter}
    except MomentError as error:
        raise UnreadableError(str(error)) from None
    return replace(chosen, filter={**chosen.filter, **times})


async def show(visit: Visit, tenant: str, namespace: str, local: str, name: str, _: str) -> Reply:
    """Those of one subscription; with what makes no sense in the filter, the filter again."""
    place = place_of(visit, tenant, namespace, local)
    if (at := await base_url(visit, place, name, "dead")) is not None:
        return visit.to(at)
    after = {"after": visit.query["after"]} if visit.query.get("after") else {}
    try:
        chosen = chosen_of(visit, visit.query)
    except UnreadableError as error:
        return await again(visit, place, name, visit.query, str(error))
    state = visit.query.get("state") or "open"
    said = {"state": state, **chosen.filter, **after}
    try:
        page = await visit.get(*_of(place, name), limit=str(ROWS), **said)
    except RefusedError as refused:
        if refused.status not in (400, 412):
            raise
        return await again(visit, place, name, visit.query, refused.reason, refused.status)
    return await _listed(visit, place, name, visit.query, chosen, state, page)


async def again(
    visit: Visit, place: Place, name: str, fields: Mapping[str, str], wrong: str, status: int = 400
) -> Reply:
    """The filter as it was typed, and what is wrong with it: nothing was looked at."""
    # what cannot be asked at all, of a consumer group, is refused once more
    page = await visit.get(*_of(place, name), state="any", limit="1")
    page |= {"letters": [], "looked": 0}
    page.pop("next", None)
    state = fields.get("state", "")
    known = state if state in (*STATES, "any") else "open"
    return await _listed(visit, place, name, fields, Letters.read(fields), known, page, wrong, status)


async def base_url(visit: Visit, place: Place, name: str, page: str) -> str | None:
    """Where this page is of the subscription whose RETRY topic this is: their dead letters are the same, and "everybody
    on the topic" are those of that. None where it is none.
    """
    broker, path = visit.context.broker, _of(place, name)
    if not await visit.may(LETTERS, *path):
        return None
    try:
        call = group_ids.inward(broker, Call("GET", path, asker=visit.asker))
        base = (await graves_at(broker, call)).graves.base
    except RefusedError:
        # the page itself says so
        return None
    at = Place(*topic_parts(str(broker.catalog.full_of(base))))
    return f"{at.subscription_url(name, page)}?{urlencode(visit.query)}" if at != place else None


def _of(place: Place, name: str) -> tuple[str, ...]:
    """The dead letters in the admin API."""
    return (*place.path, "subscription", name, "magnetar", "deadletters")


async def _listed(
    visit: Visit,
    place: Place,
    name: str,
    fields: Mapping[str, str],
    chosen: Letters,
    state: str,
    page: dict[str, Any],
    wrong: str = "",
    status: int = 200,
) -> Reply:
    at = _of(place, name)
    by = fields.get("by", "").strip() or "reason"
    groups, why = None, "Nothing was looked at."
    if not wrong:
        groups, why = await visit.try_get(*at, "groups", by=by, limit=str(ROWS), state=state, **chosen.filter)
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
        status,
        wrong=wrong,
        # an age stays one: links have the time that it is now
        typed=Letters.read(fields).filter,
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
    # in a link an empty field is one that nobody has chosen by
    if kind == "json" or not group or (kind == "header" and (group == OTHERS or len(group) >= LONGEST)):
        return ""
    more = {"reason": group} if kind == "reason" else {"header": f"{header}={group}"}
    return f"{there}?{replace(chosen, filter={**chosen.filter, **more}).listed(**around)}"


def _row(place: Place, letter: dict[str, Any]) -> dict[str, Any]:
    partition, offset, elsewhere = place.last_read(letter["origin"])
    known = offset >= 0
    return {
        **letter,
        "was": f"{elsewhere} {partition}:{offset:,}".lstrip() if known else "",
        "was_url": place.message_url(partition, offset) if known and not elsewhere else "",
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


class Typed(NamedTuple):
    """A value as somebody typed it, and what is wrong with it."""

    text: str
    kind: str
    wrong: str = ""
    status: int = 200


class Stored(NamedTuple):
    """A dead letter as it is stored."""

    shown: dict[str, Any]
    value: bytes | None
    # why the value cannot be read
    why_not: str
    # "" for who may not read the topic
    record_url: str
    # what its schema makes of it, and which that is
    told: shown.Value | None
    schema: Told


async def stored(visit: Visit, place: Place, name: str, said: str) -> Stored:
    """The letter of this id. Refuses with 404 what is none."""
    try:
        index, offset = read_id(said)
    except FilterError as error:
        raise RefusedError(404, str(error)) from None
    page = await visit.get(*_of(place, name), state="any", after=said, limit="1")
    if not page["letters"] or page["letters"][0]["id"] != said:
        raise RefusedError(404, f"{name} has no dead letter {said} (any more).")
    catalog = visit.context.broker.catalog
    grave = catalog.full(catalog.said(page["topic"]))
    grave_place = place_of(visit, grave.namespace.tenant, grave.namespace.name, grave.local)
    value, why_not = None, ""
    told, schema = None, Told()
    if await visit.missed(READ, *grave_place.path, "examinemessage"):
        # it is one of those that its subscription buried; who consumes by that need not read the topic
        why_not = f"To see its value takes the right to consume from {grave_place.word}."
        return Stored(page["letters"][0], value, why_not, "", told, schema)
    metadata = await visit.get(*grave_place.path, "partitions")
    try:
        path = grave_place.partition_path(index, metadata["partitions"] > 0)
        value = (await message.record(visit, path, offset))[0].record.value
        told, schema = await message.by_schema(visit, path, value)
    except RefusedError as refused:
        why_not = refused.reason
    url = grave_place.message_url(index, offset)
    return Stored(page["letters"][0], value, why_not, url, told, schema)


async def letter(visit: Visit, tenant: str, namespace: str, local: str, name: str, _: str) -> Reply:
    """One of them: its value, to be edited before it is sent again; with the name of an edit, that."""
    place, said = place_of(visit, tenant, namespace, local), visit.query.get("id", "")
    if (at := await base_url(visit, place, name, "letter")) is not None:
        return visit.to(at)
    draft = visit.drafts.find(visit.token, visit.query.get("draft", ""))
    typed = None
    if draft is not None and (draft.of, draft.letter) == ((*place.path, name), said):
        typed = Typed(*editable(base64.b64decode(draft.value)))
    return await one(visit, place, name, said, visit.query, typed)


async def one(
    visit: Visit, place: Place, name: str, said: str, fields: Mapping[str, str], typed: Typed | None = None
) -> Reply:
    """The page of a letter; with what somebody typed in place of its value."""
    found = await stored(visit, place, name, said)
    value = found.value
    size = len(value) if value is not None else 0
    text, kind = editable(value) if value is not None and size <= LARGEST_EDIT else ("", "text")
    if typed is not None:
        text, kind = typed.text, typed.kind
    may = (
        visit.writes
        and found.shown["state"] == "open"
        and not found.why_not
        and size <= LARGEST_EDIT
        and await visit.may(REPLAY, *place.path, "subscription", name, "magnetar", "replay")
    )
    chosen = Letters.read(fields)
    return await visit.page(
        "letter.html",
        typed.status if typed is not None else 200,
        wrong=typed.wrong if typed is not None else "",
        title=f"Dead letter {said} of {name}",
        section="dead",
        crumbs=[
            *_crumbs(place, name),
            ("dead letters", f"{place.subscription_url(name, 'dead')}?{chosen.listed()}"),
        ],
        place=place,
        name=name,
        chosen=chosen,
        row=_row(place, found.shown),
        value=found.told if found.told is not None else shown.value(value) if value is not None else None,
        # beside what a schema says stand the bytes
        hex=shown.value(value, "hex") if found.told is not None and value is not None else None,
        schema=found.schema,
        size=size,
        largest=LARGEST_EDIT,
        text=text,
        kind=kind,
        why_not=found.why_not,
        may=may,
        there=place.subscription_url(name, "replay"),
        record_url=found.record_url,
        command=line("dead-letters", "edit", place.word, said, "-s", name, "--value-file", "FILE"),
    )
