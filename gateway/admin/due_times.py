"""When the delayed messages of a subscription are due: those of which memory knows, then the rows, within a budget."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gateway.admin import windows
from gateway.admin.exchange import RefusedError, iso, json
from gateway.admin.slices import Pace
from gateway.broker.subscriptions import rows
from semantics.console.due import Histogram, edges_of
from semantics.subscriptions.rows import CursorRow, due_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.cursor import Cursor

BUCKETS, MOST_BUCKETS = 24, 1_000
AHEAD_MS = 24 * 3_600_000
LATEST = 253_402_300_799_999
"""The end of the year 9999."""
MOST_ROWS = 50_000
PAGE_ROWS = 100
"""Rows of up to 512 runs each that are read at once."""


async def histogram(context: Context, call: Call) -> Reply:
    """How many messages are due when, from now to `until` (ISO, or ms since 1970; without it a day) in `buckets`: those
    whose producers asked for a delay, and those that back off. (Magnetar's own.)
    """
    broker = context.broker
    buckets = call.whole_number("buckets", 1, MOST_BUCKETS, BUCKETS)
    now = broker.clock.wall_ms()
    until = _until(call.query.get("until", ""), now)
    at = await windows.shared(broker, call)
    pace = Pace()
    edges = edges_of(now, until, buckets)
    delayed, backoff = Histogram(edges), Histogram(edges)
    totals = {"delayed": 0, "backoff": 0, "unread": 0}
    left, whole = MOST_ROWS, True
    for each in await windows.partitions(broker, at, call, pace):
        cursor = each.ready()
        states = cursor.stats()
        totals["delayed"] += states["delayed"]
        totals["backoff"] += states["backoff"]
        totals["unread"] += max(each.partition.high_watermark - cursor.known, 0)
        await pace.rest()
        beyond = cursor.due_beyond
        for due, first, length in cursor.due_runs():
            _count(cursor, due, first, length, delayed, backoff)
            await pace.rest()
        if beyond is not None:
            left, complete = await _beyond(each, cursor, beyond, left, delayed, backoff, pace)
            whole = whole and complete
    counted = {
        name: sum(its.counts) + its.later for name, its in (("delayed", delayed), ("backoff", backoff))
    }
    firsts = [each.first for each in (delayed, backoff) if each.first is not None]
    answer: dict[str, Any] = {
        "buckets": [
            {"from": iso(begin), "to": iso(end), "delayed": waits, "backoff": failed}
            for begin, end, waits, failed in zip(
                edges, edges[1:], delayed.counts, backoff.counts, strict=False
            )
        ],
        "later": {"delayed": delayed.later, "backoff": backoff.later},
        "counted": counted,
        "of": {name: totals[name] for name in ("delayed", "backoff")},
        # of what nobody has looked at it is not known whether it is delayed
        "unread": totals["unread"],
    }
    if firsts:
        answer["next"] = iso(min(firsts))
    if not whole:
        answer["atLeast"] = True
    return json(answer)


def _until(text: str, now: int) -> int:
    """Refuses what is no time that is to come with 400."""
    if not text:
        return now + AHEAD_MS
    try:
        if text.isascii() and text.isdigit():
            until = int(text[:20])
        else:
            said = datetime.fromisoformat(text.replace("Z", "+00:00"))
            until = int((said if said.tzinfo is not None else said.replace(tzinfo=UTC)).timestamp() * 1000)
    except ValueError:
        until = -1
    if not now < until <= LATEST:
        raise RefusedError(
            400, f"until is a time to come, as {iso(now + AHEAD_MS)} or in ms since 1970; not {text[:40]!r}."
        )
    return until


def _count(cursor: Cursor, due: int, first: int, length: int, delayed: Histogram, backoff: Histogram) -> None:
    waits, failed = cursor.waiting_in(first, length)
    delayed.add(due, waits)
    backoff.add(due, failed)


async def _beyond(
    at: SubscriptionPartition,
    cursor: Cursor,
    key: bytes,
    left: int,
    delayed: Histogram,
    backoff: Histogram,
    pace: Pace,
) -> tuple[int, bool]:
    """Rows that memory does not know, of which `left` may be read: how many are left, and whether those were all."""
    while left > 0:
        page = rows.due(at.node.store, at.prefix, key, min(PAGE_ROWS, left))
        left -= len(page)
        for due, first, length in _runs(page):
            _count(cursor, due, first, length, delayed, backoff)
            await pace.rest()
        if len(page) < PAGE_ROWS and left > 0:
            return left, True
        if page:
            key = page[-1].key + b"\0"
    return left, False


def _runs(page: list[CursorRow]) -> Iterator[tuple[int, int, int]]:
    for row in page:
        for due, run in due_runs(row.key, row.value or b""):
            yield due, run >> 10, (run & 1023) + 1
