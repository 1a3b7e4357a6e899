"""The verb of audit: who changed what, who was refused, who came in. What memory and the topic have, as one list.

Memory has the last of everything; the topic, where it is wanted, has changes by HTTP and writes that were refused, also
of before a restart. A change that both have is told once, as the topic has it: with its counts, its plan and its line.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gateway.admin import browsing
from gateway.admin.audit import is_refusal
from gateway.admin.browsing import Cursor, Wanted
from gateway.admin.exchange import RefusedError, json
from gateway.admin.topics import loaded
from gateway.audit import KEPT, Kind
from gateway.broker.audit_log import Act

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.audit import Entry

MOST = KEPT * len(Kind)
STRETCH = 500
"""Records of the topic that are looked at in one go."""
LONGEST_NS = 2_000_000_000
"""Of time that one question may search the topic, about."""
PAGE_NS = 300_000_000
"""The same for a page: behind that it ends, and the next goes on."""
BEFORE = 50
"""Records before a page that are looked at again: what memory has of them was told with them."""
_END = 2**53

_decode = msgspec.json.Decoder(Act).decode


class Kept(NamedTuple):
    """A record of the topic."""

    offset: int
    act: Act

    @property
    def kind(self) -> Kind:
        return Kind.REFUSED if is_refusal(self.act.outcome) else Kind.CHANGE

    def told(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "over": "http", **msgspec.to_builtins(self.act)}


class Found(NamedTuple):
    """What a search of the topic found, the newest first, and how far it came."""

    acts: list[Kept]
    # it has looked at all from there on; 0 where nothing is left
    reached: int


class Place(NamedTuple):
    """Where a page begins: what memory and what the topic have is told below these."""

    time: int = _END
    number: int = _END
    offset: int = _END

    def __str__(self) -> str:
        return "-".join([str(each) for each in self])

    @classmethod
    def parse(cls, text: str) -> Place:
        """Refuses with 400 what no page has told."""
        if not text:
            return cls()
        if re.fullmatch(r"[0-9]{1,16}-[0-9]{1,16}-[0-9]{1,16}", text) is None:
            raise RefusedError(
                400, f"{text[:40]!r} is no place in the audit: take `next` of the page before."
            )
        return cls(*map(int, text.split("-")))


class Page(NamedTuple):
    rows: list[dict[str, Any]]
    # None at the end
    next: Place | None


class Asked(NamedTuple):
    """Which entries."""

    kind: Kind | None
    who: str
    since: int

    def takes(self, entry: Entry) -> bool:
        """Whether it is one that memory has. Kinds were asked for before."""
        return entry.time >= self.since and _is(self.who, entry.who)


async def told(context: Context, call: Call) -> Reply:
    """The last entries, the newest first; `limit` says how many at most, `kind` of which kind: change, refused, login.
    With `since` (a time, or ms since 1970) or `who` changes by HTTP come from the topic magnetar-audit, and so do all
    that memory has forgotten, and writes that were refused for another reason than rights. With `after` it is a page
    of all that, `{"entries": […], "next": …}`: `after` is empty for the first, then the `next` of the one before.
    (Magnetar's own.)
    """
    limit = call.whole_number("limit", 1, MOST, MOST)
    said = call.query.get("kind", "")
    if said and said not in list(Kind):
        raise RefusedError(400, f"The kind is one of {', '.join(Kind)}; not {said[:40]!r}.")
    kind = Kind(said) if said else None
    since, who = _since(call.query.get("since", "")), call.query.get("who", "")
    audit = context.broker.audit
    asked = Asked(kind, who, since or 0)
    if "after" in call.query:
        page = await _page(context, call, asked, Place.parse(call.query["after"]), limit)
        answer: dict[str, Any] = {"entries": page.rows}
        return json(answer | {"next": str(page.next)} if page.next is not None else answer)
    if since is None and not who:
        return json(audit.last(limit, kind))
    found = await _search(context, call, asked, Place(), limit, LONGEST_NS)
    remembered = [each for each in audit.last(MOST, kind) if asked.takes(each)]
    return json(merged(found.acts, remembered, limit, Place()).rows)


async def _page(context: Context, call: Call, asked: Asked, place: Place, limit: int) -> Page:
    found = await _search(context, call, asked, place, limit + 1 + BEFORE, PAGE_NS)
    before = [each for each in found.acts if each.offset >= place.offset]
    remembered = [
        each
        for each in context.broker.audit.last(MOST, asked.kind)
        if (each.time, each.number) < (place.time, place.number) and asked.takes(each)
    ]
    return merged(found.acts[len(before) :], remembered, limit, place, found.reached, before)


def merged(
    acts: Sequence[Kept],
    remembered: Iterable[Entry],
    limit: int,
    place: Place,
    reached: int = 0,
    before: Sequence[Kept] = (),
) -> Page:
    """A page of what the topic has (the newest first) and what is remembered, from its place on. `reached`: the offset
    that the topic was searched down to, 0 if nothing is left; `before`: records of the page before, for what memory has
    of them.
    """
    known: dict[tuple[int, str], list[str]] = {}
    for kept in (*before, *acts):
        known.setdefault((kept.act.time, kept.act.who), []).append(kept.act.target)

    def twin(entry: Entry) -> bool:
        # a record may leave out what stands behind the verb: how many, or a time
        targets = known.get((entry.time, entry.who), ()) if entry.over == "http" else ()
        return any(entry.target == each or entry.target.startswith(f"{each}/") for each in targets)

    entries = sorted(
        [each for each in remembered if not twin(each)], key=lambda each: (-each.time, -each.number)
    )
    rows: list[dict[str, Any]] = []
    time, number = place.time, place.number
    taken = at = 0
    while len(rows) < limit:
        act = acts[taken].act if taken < len(acts) else None
        entry = entries[at] if at < len(entries) else None
        if act is None and reached and (entry is None or not acts or entry.time <= acts[-1].act.time):
            # what was not looked at may be newer
            break
        if act is not None and (entry is None or act.time >= entry.time):
            rows.append(acts[taken].told())
            taken += 1
            time, number = min(time, act.time), _END
        elif entry is not None:
            rows.append(msgspec.to_builtins(entry))
            at += 1
            time, number = entry.time, entry.number
        else:
            break
    offset = acts[taken].offset + 1 if taken < len(acts) else reached
    more = taken < len(acts) or reached or at < len(entries)
    return Page(rows, Place(time, number, offset) if more else None)


async def _search(
    context: Context, call: Call, asked: Asked, place: Place, limit: int, longest: int
) -> Found:
    """What the topic has, the newest first, from a bit before a place on: so many, or what is found in that time."""
    broker = context.broker
    topic = broker.audit_log.topic
    if topic is None or asked.kind is Kind.LOGIN:
        return Found([], 0)
    await loaded(broker, topic.partitions)
    partition = broker.partition(topic, 0)
    cursor: Cursor | None = Cursor(True, 0, {0: min(place.offset + BEFORE, partition.high_watermark)})
    found: list[Kept] = []
    begun = broker.clock_ns()
    async with context.browsing.of(call):
        while cursor is not None and len(found) < limit:
            page = await browsing.browse(broker, [partition], cursor, _wanted(asked), min(limit, STRETCH))
            cursor = Cursor.parse(page.next) if page.next else None
            for seen in page.found:
                try:
                    kept = Kept(seen.offset, _decode(seen.value or b""))
                except msgspec.DecodeError:
                    continue
                if kept.act.time < asked.since:
                    # what lies before is older; a clock that was set back may hide some
                    return Found(found, 0)
                if _is(asked.who, kept.act.who) and asked.kind in (None, kept.kind):
                    found.append(kept)
            if (
                cursor is not None
                and cursor.positions[0] < place.offset
                and broker.clock_ns() - begun >= longest
            ):
                break
    return Found(found, cursor.positions[0] if cursor is not None else 0)


def _wanted(asked: Asked) -> Wanted:
    """What stands in the bytes of a record that is asked for: others are not opened."""
    if asked.who:
        # as it stands in JSON: names of certificates have backslashes
        return Wanted(text=msgspec.json.encode(asked.who.encode("utf-8", "replace").decode())[1:-1])
    return Wanted(text=b'"outcome":"HTTP 4') if asked.kind is Kind.REFUSED else Wanted()


def _is(who: str, principal: str) -> bool:
    """Whether it is somebody, with or without the type of principal."""
    return not who or who in (principal, principal.partition(":")[2])


def _since(text: str) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        said = f"since is a time (2026-01-31T12:00:00Z) or ms since 1970; not {text[:40]!r}."
        raise RefusedError(400, said) from None
