"""The verb of audit: who changed what, who was refused, who came in. And what of a call is told there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from gateway.admin import browsing
from gateway.admin.browsing import Cursor, Wanted
from gateway.admin.exchange import RESULT, RefusedError, json
from gateway.admin.topics import loaded
from gateway.audit import KEPT, Kind, clean
from gateway.broker.audit_log import Act

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.audit import Entry
    from gateway.broker.broker import Broker

_VALUES = frozenset({("POST", "brokers", "configuration/*/*"), ("PUT", "namespace", "property/*/*")})
"""Rows of `routes.VERBS` whose path ends with a value: what it is called stands before it."""
MOST = KEPT * len(Kind)
PAGE = 500
LONGEST_NS = 2_000_000_000
"""Of time that one question may search the topic, about."""

_decode = msgspec.json.Decoder(Act).decode


async def told(context: Context, call: Call) -> Reply:
    """The last entries, the newest first; `limit` says how many at most, `kind` of which kind: change, refused, login.
    With `since` (a time, or ms since 1970) or `who` changes by HTTP come from the topic magnetar-audit, and so do all
    that memory has forgotten, and writes that were refused for another reason than rights. (Magnetar's own.)
    """
    limit = call.whole_number("limit", 1, MOST, MOST)
    said = call.query.get("kind", "")
    if said and said not in list(Kind):
        raise RefusedError(400, f"The kind is one of {', '.join(Kind)}; not {said[:40]!r}.")
    kind = Kind(said) if said else None
    since, who = _since(call.query.get("since", "")), call.query.get("who", "")
    if since is None and not who:
        return json(context.broker.audit.last(limit, kind))
    kept = kind is not Kind.LOGIN and context.broker.audit_log.topic is not None
    acts = await _kept(context, kind, since or 0, who, limit) if kept else []
    known = {(each["time"], each["who"], each["target"]) for each in acts}
    remembered = [
        each
        for each in context.broker.audit.last(MOST, kind)
        if each.time >= (since or 0)
        and _is(who, each.who)
        and (each.time, each.who, each.target) not in known
    ]
    entries: list[dict[str, Any]] = [*acts, *[msgspec.to_builtins(each) for each in remembered]]
    return json(sorted(entries, key=lambda entry: -entry["time"])[:limit])


async def _kept(
    context: Context, kind: Kind | None, since: int, who: str, limit: int
) -> list[dict[str, Any]]:
    """What the topic has, the newest first."""
    broker = context.broker
    topic = broker.audit_log.topic
    assert topic is not None
    await loaded(broker, topic.partitions)
    partition = broker.partition(topic, 0)
    cursor: Cursor | None = Cursor(True, 0, {0: partition.high_watermark})
    found: list[dict[str, Any]] = []
    begun = broker.clock_ns()
    # as it stands in JSON: names of certificates have backslashes
    wanted = Wanted(text=msgspec.json.encode(who.encode("utf-8", "replace").decode())[1:-1])
    async with context.browsing:
        while cursor is not None and len(found) < limit and broker.clock_ns() - begun < LONGEST_NS:
            page = await browsing.browse(broker, [partition], cursor, wanted, PAGE)
            cursor = Cursor.parse(page.next) if page.next else None
            for seen in page.found:
                try:
                    act = _decode(seen.value or b"")
                except msgspec.DecodeError:
                    continue
                if act.time < since:
                    # what lies before is older; a clock that was set back may hide some
                    return found
                its = Kind.REFUSED if is_refusal(act.outcome) else Kind.CHANGE
                if _is(who, act.who) and kind in (None, its):
                    found.append({"kind": its.value, "over": "http", **msgspec.to_builtins(act)})
    return found[:limit]


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


# -- what is told of a call


def is_refusal(outcome: str) -> bool:
    """Whether what became of a write is that it was refused, and nothing was changed."""
    return outcome.startswith("HTTP 4")


def tell(
    broker: Broker,
    call: Call,
    what: str,
    counts: dict[str, int | str],
    plan: str = "",
    path: Sequence[str] | None = None,
) -> None:
    """The record of an act, into the open turn: that of the act, which has asked `AuditLog.check` in it. `path` stands
    for that of the call.
    """
    if not broker.audit_log.kept:
        return
    told, asker = call.told, call.asker
    now = broker.clock.wall_ms()
    broker.audit_log.append(
        Act(
            now,
            clean(asker.principal),
            clean(asker.host),
            what,
            clean(_path(call.path if path is None else path)),
            command=told.command if told is not None else "",
            counts={name: clean(fact) if isinstance(fact, str) else fact for name, fact in counts.items()},
            plan=clean(plan),
            why=told.why if told is not None else "",
        )
    )
    if told is not None and not told.at:
        told.at = now


def act_of(call: Call, entry: Entry, counts: dict[str, int | str] | None = None) -> Act:
    """The record of a change that has no commit of its own."""
    told = call.told
    return Act(
        entry.time,
        entry.who,
        entry.host,
        entry.what,
        entry.target,
        entry.outcome,
        told.command if told is not None else "",
        counts or {},
        why=told.why if told is not None else "",
    )


def counts_of(reply: Reply) -> dict[str, int | str]:
    """What a write says it has done: numbers only."""
    text = reply.headers.get(RESULT)
    if text is None:
        return {}
    facts: dict[str, Any] = msgspec.json.decode(text)
    return {name: value for name, value in facts.items() if isinstance(value, int)}


def place_of(call: Call, key: tuple[str, str, str]) -> str:
    """The path of a call, without a value that stands in it."""
    return _path(call.path[:-1] if key in _VALUES else call.path)


def _path(parts: Sequence[str]) -> str:
    return "/".join([quote(each, safe=":") for each in parts])
