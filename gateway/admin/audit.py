"""What of a call the audit tells: in the commit of an act, or behind a change that has none of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from gateway.admin.exchange import RESULT
from gateway.audit import Did, clean
from gateway.broker.audit_log import Act
from gateway.broker.loading import until_loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.admin.exchange import Call, Reply
    from gateway.audit import Entry
    from gateway.broker.broker import Broker

_VALUES = frozenset({("POST", "brokers", "configuration/*/*"), ("PUT", "namespace", "property/*/*")})
"""Rows of `routes.VERBS` whose path ends with a value: what it is called stands before it."""


BEGUN = "begun"
"""The outcome of a change of many commits before the first of them."""


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
    broker.audit_log.append(record(broker, call, what, counts, plan, path))


def record(
    broker: Broker,
    call: Call,
    what: str,
    counts: dict[str, int | str],
    plan: str = "",
    path: Sequence[str] | None = None,
) -> Act:
    """The same for who appends it: the call has its record with that."""
    told, asker = call.told, call.asker
    act = Act(
        broker.clock.wall_ms(),
        clean(asker.principal),
        clean(asker.host),
        what,
        clean(_path(call.path if path is None else path)),
        command=told.command if told is not None else "",
        counts={name: clean(fact) if isinstance(fact, str) else fact for name, fact in counts.items()},
        plan=clean(plan),
        why=told.why if told is not None else "",
        via=told.via if told is not None else "",
    )
    if told is not None:
        told.add(what if what != call.method else "", counts)
        if broker.audit_log.kept and not told.at:
            told.at = act.time
    return act


def with_act(broker: Broker, call: Call, counts: dict[str, int | str] | None = None) -> Callable[[], None]:
    """The record of what a call does, to be called when nothing can go wrong any more but its commit: it goes into
    that. Raises KafkaError, where it cannot be written. `AuditLog.ready` comes before that.
    """

    def tell_it() -> None:
        broker.audit_log.check()
        tell(broker, call, call.method, counts or {})

    return tell_it


async def begun(broker: Broker, call: Call) -> None:
    """Tell of a change that takes many commits, before the first of them: where this cannot be stored nothing is done.
    How it ended is told behind it, as of any change. Raises KafkaError, StoreError.
    """
    log = broker.audit_log
    if not log.kept:
        return
    await log.ready()
    await until_loaded(log.check)
    told, asker = call.told, call.asker
    log.append(
        Act(
            broker.clock.wall_ms(),
            clean(asker.principal),
            clean(asker.host),
            call.method,
            clean(_path(call.path)),
            BEGUN,
            told.command if told is not None else "",
            why=told.why if told is not None else "",
            via=told.via if told is not None else "",
        )
    )
    await broker.write([])


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
        via=told.via if told is not None else "",
    )


def did(call: Call, reply: Reply) -> Did:
    """What memory knows of a call beside its path: what it has done, if it is done."""
    told = call.told
    if told is None:
        return Did()
    counts = (told.counts or counts_of(reply)) if reply.status < 300 else {}
    return Did(told.act, counts, told.command, told.via)


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
