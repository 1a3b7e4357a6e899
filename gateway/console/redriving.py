"""Dead letters are sent again or discarded: a page first that says what would happen, then the job.

The dry run's plan goes with the form, so what is done is what was seen; where too much has changed since, the page is
made anew.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.admin.exchange import RefusedError
from gateway.console import shown
from gateway.console.chosen import EDIT, TICKED, Letters
from gateway.console.letters import DISCARD, LARGEST_EDIT, REPLAY, chosen_of
from gateway.console.lines import line
from gateway.console.topic import Place, place_of
from gateway.console.typed import UnreadableError, edited
from gateway.console.visit import url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

RATES = (10, 50, 100, 1000)
REPLAYS = 3


async def look(visit: Visit, tenant: str, namespace: str, local: str, name: str, what: str) -> Reply:
    """What would happen."""
    # an edit is sent by a form, not by a link that somebody gave away
    fields = {field: value for field, value in visit.query.items() if not field.startswith(EDIT)}
    return await _look(visit, place_of(visit, tenant, namespace, local), name, what, fields)


async def do(visit: Visit, tenant: str, namespace: str, local: str, name: str, what: str) -> Reply:
    """Begin the job of a plan; without a plan, look what it would do."""
    place = place_of(visit, tenant, namespace, local)
    fields = dict(visit.form)
    if fields.get("plan", ""):
        if what == "discard" and fields.get("confirm", "").strip() != name:
            return await _look(visit, place, name, what, fields, "Type the name as it stands there.")
        try:
            reply = await visit.call("POST", *_at(place, name), what, body={"plan": fields["plan"]})
        except RefusedError as refused:
            if refused.status != 409:
                raise
            return await _look(visit, place, name, what, fields, refused.reason)
        return visit.to(url("jobs", msgspec.json.decode(reply.body)["id"]))
    if fields.get("edit"):
        try:
            data = edited(fields.pop("value", ""), fields.pop("as", "text"))
        except UnreadableError as error:
            raise RefusedError(400, str(error)) from None
        if len(data) > LARGEST_EDIT * 4 / 3 + 4:
            raise RefusedError(
                413, f"A page edits values of {shown.size(LARGEST_EDIT)} at most; magnetar-admin more."
            )
        letter = fields.pop("edit")
        fields[EDIT + letter] = data
        if not fields.get("all"):
            fields[TICKED + letter] = "1"
    return await _look(visit, place, name, what, fields)


def _at(place: Place, name: str) -> tuple[str, ...]:
    return (*place.path, "subscription", name, "magnetar")


async def _look(
    visit: Visit, place: Place, name: str, what: str, fields: Mapping[str, str], wrong: str = ""
) -> Reply:
    chosen = chosen_of(visit, fields)
    if chosen.nothing:
        raise RefusedError(400, "No letter was chosen: tick some, or take all that match the filter.")
    to = fields.get("to", "subscription")
    other = fields.get("other", "").strip() if to == "other" else ""
    rate, most = _number(fields, "rate", 100), _number(fields, "most", REPLAYS)
    try:
        body: dict[str, Any] = {**chosen.body(), "dryRun": True, "rate": rate}
    except UnreadableError as error:
        raise RefusedError(400, str(error)) from None
    if what == "replay":
        body |= {"to": other or ("subscription" if to == "other" else to), "maxReplays": most}
    reply = await visit.call("POST", *_at(place, name), what, body=body)
    seen = msgspec.json.decode(reply.body)
    key = REPLAY if what == "replay" else DISCARD
    may = visit.writes and await visit.may(key, *_at(place, name), what)
    return await visit.page(
        "redrive.html",
        400 if wrong else 200,
        title=f"{what.capitalize()} dead letters of {name}?",
        section="dead",
        crumbs=[
            *place.crumbs(), (place.local, place.url()), (name, place.subscription_url(name)),
            ("dead letters", f"{place.subscription_url(name, 'dead')}?{chosen.listed()}"),
        ],
        place=place,
        name=name,
        what=what,
        chosen=chosen,
        seen=seen,
        to=to,
        other=other,
        rate=rate,
        rates=sorted({*RATES, rate}),
        most=most,
        lasts=seen["letters"] / rate * 1000,
        wrong=wrong,
        may=may,
        there=place.subscription_url(name, what),
        back=f"{place.subscription_url(name, 'dead')}?{chosen.listed()}",
        edits=[(letter, shown.one_line(_bytes(value))) for letter, value in chosen.edits.items()],
        command=_command(place, name, what, chosen, other or to, rate, most),
    )  # fmt: skip


def _bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise RefusedError(400, "An edit is base64.") from None


def _number(fields: Mapping[str, str], name: str, default: int) -> int:
    text = fields.get(name, "").strip() or str(default)
    if not text.isascii() or not text.isdigit() or len(text) > 6 or int(text) == 0:
        raise RefusedError(400, f"{name} is a number from 1 on, not {text[:20]!r}.")
    return int(text)


def _command(place: Place, name: str, what: str, chosen: Letters, to: str, rate: int, most: int) -> str:
    """The same as a line; an edit with others has none."""
    how = [*(["--to", to] if what == "replay" and to != "subscription" else [])]
    if what == "replay" and most != REPLAYS:
        how += ["--max-replays", str(most)]
    if chosen.edits:
        (first, *more) = chosen.edits
        if more or chosen.all:
            return ""
        return line("dead-letters", "edit", place.word, first, "-s", name, "--value-file", "FILE", *how)
    ids = () if chosen.all else chosen.ids
    if what == "replay":
        how += ["--rate", str(rate)]
    return line("dead-letters", what, place.word, *ids, "-s", name, *chosen.words(), *how)
