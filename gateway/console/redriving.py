"""Dead letters are sent again or discarded: a page first that says what would happen, then the job.

The dry run's plan goes with the form, so what is done is what was seen; where too much has changed since, or where
the form says otherwise to whom and how they go, the page is made anew.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from gateway.admin.dead_letters import filter_of
from gateway.admin.exchange import RefusedError
from gateway.admin.replaying import MOST_RATE, RATE
from gateway.console import letters, shown
from gateway.console.act_page import anew
from gateway.console.chosen import Letters
from gateway.console.kept import Draft
from gateway.console.letters import DISCARD, LARGEST_EDIT, REPLAY, Typed, chosen_of
from gateway.console.topic import Place, place_of
from gateway.console.typed import UnreadableError, editable, edited, names
from gateway.console.visit import url
from semantics.command_line import line
from semantics.console.replay import MOST_REPLAYS
from semantics.names import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

TARGETS = ("subscription", "topic")
"""Words that the API has for where letters go; anything else is the name of a topic."""
OTHERWISE = "To whom they go, or how, was changed after the preview. Nothing was done: this is a new preview."
LARGEST_REPLAYS = 1_000_000
"""What one may type for how often a letter may have been replayed before; the API has the same bound."""


async def look(visit: Visit, tenant: str, namespace: str, local: str, name: str, what: str) -> Reply:
    """What would happen."""
    place = place_of(visit, tenant, namespace, local)
    if (at := await letters.base_url(visit, place, name, what)) is not None:
        return visit.to(at)
    return await _look(visit, place, name, what, visit.query)


async def do(visit: Visit, tenant: str, namespace: str, local: str, name: str, what: str) -> Reply:
    """Begin the job of a plan; without a plan, look what it would do."""
    place = place_of(visit, tenant, namespace, local)
    fields = visit.form
    if fields.get("look"):
        return visit.to(f"{place.subscription_url(name, what)}?{_address(what, fields)}")
    if fields.get("plan", ""):
        if what == "replay" and fields.get("planned", "") != How.read(fields).planned:
            return await _look(visit, place, name, what, fields, OTHERWISE, 409)
        if what == "discard" and not names(fields.get("confirm", ""), name):
            return await _look(visit, place, name, what, fields, "Type the name as it stands there.")
        try:
            reply = await visit.call("POST", *_at(place, name), what, body={"plan": fields["plan"]})
        except RefusedError as refused:
            if refused.status != 409:
                raise
            return await _look(visit, place, name, what, fields, anew(refused.reason), 409)
        return visit.to(url("jobs", msgspec.json.decode(reply.body)["id"]))
    if fields.get("edit") and what == "replay":
        return await _edit(visit, place, name, fields)
    return await _look(visit, place, name, what, fields)


async def _edit(visit: Visit, place: Place, name: str, fields: Mapping[str, str]) -> Reply:
    """Keep what was typed, and go to the preview, which has an address: to come back to it sends no form again."""
    letter, text, kind = fields["edit"], fields.get("value", ""), fields.get("as", "text")
    try:
        data = edited(text, kind)
    except UnreadableError as error:
        return await letters.one(visit, place, name, letter, fields, Typed(text, kind, str(error), 400))
    if len(data) > LARGEST_EDIT * 4 / 3 + 4:
        large = f"A page edits values of {shown.size(LARGEST_EDIT)} at most; magnetar-admin more."
        return await letters.one(visit, place, name, letter, fields, Typed(text, kind, large, 413))
    chosen = replace(Letters.read(fields), draft="")
    if not chosen.all:
        chosen = replace(chosen, ids=(letter,))
    there = place.subscription_url(name, "replay")
    stored = await letters.stored(visit, place, name, letter)
    if not stored.why_not and base64.b64decode(data) == (stored.value or b""):
        return visit.to(f"{there}?{chosen.query()}&same={quote(letter, safe='')}")
    draft = visit.drafts.keep(visit.token, Draft((*place.path, name), letter, data))
    return visit.to(f"{there}?{replace(chosen, draft=draft).query()}")


def _at(place: Place, name: str) -> tuple[str, ...]:
    return (*place.path, "subscription", name, "magnetar")


class How(NamedTuple):
    """How letters are to be sent, as it was typed."""

    to: str
    other: str
    rate: str
    most: str

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> How:
        """Of a query or a form."""
        return cls(
            fields.get("to", "subscription"),
            fields.get("other", "").strip(),
            fields.get("rate", "").strip() or str(RATE),
            fields.get("most", "").strip() or str(MOST_REPLAYS),
        )

    @property
    def wrong(self) -> str:
        """What of it makes no sense; "" for nothing."""
        for what, text, largest in (
            ("Letters a second", self.rate, MOST_RATE),
            ("How often letters were replayed that are left out", self.most, LARGEST_REPLAYS),
        ):
            if not (text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) <= largest):
                return f"{what} is a number from 1 to {largest:,}, not {text[:20]!r}."
        return "Say which topic they are to go to." if self.to == "other" and not self.other else ""

    @property
    def target(self) -> str:
        """As the API has it."""
        if self.to != "other":
            return self.to
        # what is no word for a target is a name, and the other way round
        return f"persistent://{DEFAULT}/{self.other}" if self.other in TARGETS else self.other

    @property
    def planned(self) -> str:
        """What a plan depends on: two that say the same of it are the same replay."""
        numbers = {"rate": self.rate, "most": self.most}
        other = {"to": self.to, "other": self.other if self.to == "other" else ""}
        return urlencode({**other, **{name: text.lstrip("0") for name, text in numbers.items()}})


def _address(what: str, fields: Mapping[str, str]) -> str:
    """The query of the preview that a form asks for."""
    said = {**Letters.read(fields).fields()}
    names = ("to", "other", "rate", "most", "same") if what == "replay" else ("same",)
    return urlencode({**said, **{name: fields[name] for name in names if fields.get(name, "").strip()}})


async def _look(
    visit: Visit,
    place: Place,
    name: str,
    what: str,
    fields: Mapping[str, str],
    wrong: str = "",
    status: int = 400,
) -> Reply:
    """`wrong` is why it is looked at once more, and `status` that of the answer then."""
    try:
        chosen = chosen_of(visit, fields)
    except UnreadableError as error:
        return await letters.again(visit, place, name, fields, str(error))
    if chosen.nothing:
        none = "No letter was chosen: tick some, or take all that match the filter."
        return await letters.again(visit, place, name, fields, none)
    if chosen.draft:
        draft = visit.drafts.find(visit.token, chosen.draft)
        if draft is None or draft.of != (*place.path, name):
            return await _forgotten(visit, place, name, fields, chosen)
        chosen = replace(chosen, edits={draft.letter: draft.value})
    try:
        body: dict[str, Any] = {**chosen.body(), "dryRun": True}
        filter_of(body["filter"])
    except UnreadableError as error:
        return await letters.again(visit, place, name, fields, str(error))
    except RefusedError as refused:
        return await letters.again(visit, place, name, fields, refused.reason, refused.status)
    # a discard goes nowhere, and has no fields of these
    how = How.read(fields if what == "replay" else {})
    if how.wrong:
        return await _page(visit, place, name, what, chosen, how, how.wrong)
    body["rate"] = int(how.rate)
    if what == "replay":
        body |= {"to": how.target, "maxReplays": int(how.most)}
    try:
        reply = await visit.call("POST", *_at(place, name), what, body=body)
    except RefusedError as refused:
        elsewhere = how.to != "subscription" and refused.status in (403, 404)
        if what == "replay" and (elsewhere or refused.status in (400, 412)):
            return await _page(visit, place, name, what, chosen, how, refused.reason, status=refused.status)
        raise
    seen = msgspec.json.decode(reply.body)
    return await _page(visit, place, name, what, chosen, how, wrong, seen, status=status)


async def _forgotten(
    visit: Visit, place: Place, name: str, fields: Mapping[str, str], chosen: Letters
) -> Reply:
    """An edit that is looked for is done or not, but never passed over."""
    gone = (
        "The edit is not kept any more: that is done for an hour, and until the gateway is started anew. Nothing was "
        "sent; edit it again."
    )
    if chosen.all or len(chosen.ids) != 1:
        return await letters.again(visit, place, name, fields, gone, 409)
    (letter,) = chosen.ids
    value = (await letters.stored(visit, place, name, letter)).value or b""
    return await letters.one(visit, place, name, letter, fields, Typed(*editable(value), gone, 409))


async def _page(
    visit: Visit,
    place: Place,
    name: str,
    what: str,
    chosen: Letters,
    how: How,
    wrong: str = "",
    seen: dict[str, Any] | None = None,
    *,
    status: int = 400,
) -> Reply:
    """`seen`: what a dry run says; None where something that was typed is wrong."""
    key = REPLAY if what == "replay" else DISCARD
    may = visit.writes and await visit.may(key, *_at(place, name), what)
    listed = f"{place.subscription_url(name, 'dead')}?{chosen.listed()}"
    back = listed
    same = visit.query.get("same", "") or visit.form.get("same", "")
    # of a letter that was edited, or looked at for that and left as it is
    of_one = next(iter(chosen.edits), "") or same
    if of_one and not chosen.all:
        kept = {"id": of_one, **({"draft": chosen.draft} if chosen.draft else {}), **chosen.filter}
        back = f"{place.subscription_url(name, 'letter')}?{urlencode(kept)}"
    return await visit.page(
        "redrive.html",
        status if wrong else 200,
        title=f"{what.capitalize()} dead letters of {name}?",
        section="dead",
        crumbs=[
            *place.crumbs(), (place.local, place.url()), (name, place.subscription_url(name)),
            ("dead letters", listed),
        ],
        place=place,
        name=name,
        what=what,
        chosen=chosen,
        seen=seen,
        # nothing was edited, by somebody who could have
        same=same if not chosen.edits else "",
        how=how,
        lasts=seen["letters"] / int(how.rate) * 1000 if seen is not None else 0,
        wrong=wrong,
        may=may,
        there=place.subscription_url(name, what),
        back=back,
        edits=[
            (letter, shown.one_line(base64.b64decode(value))) for letter, value in chosen.edits.items()
        ],
        command=_command(place, name, what, chosen, how) if seen is not None else "",
    )  # fmt: skip


def _command(place: Place, name: str, what: str, chosen: Letters, asked: How) -> str:
    """The same as a line; an edit with others has none."""
    how = [*(["--to", asked.target] if what == "replay" and asked.target != "subscription" else [])]
    if what == "replay" and int(asked.most) != MOST_REPLAYS:
        how += ["--max-replays", asked.most]
    if chosen.edits:
        (first, *more) = chosen.edits
        if more or chosen.all:
            return ""
        return line("dead-letters", "edit", place.word, first, "-s", name, "--value-file", "FILE", *how)
    ids = () if chosen.all else chosen.ids
    if what == "replay":
        how += ["--rate", asked.rate]
    return line("dead-letters", what, place.word, *ids, "-s", name, *chosen.words(), *how)
