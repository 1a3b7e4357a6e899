"""Since when the oldest open message of a subscription on a partition could have been delivered: `first_times` says
it of each message, and here is which one that is. So an age is the same in lists, charts and what needs attention.

One that is delayed and not due yet is not old, and one whose time came while nobody looked counts from then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.first_times import NEVER
from gateway.broker.subscriptions import rows
from semantics.subscriptions.chunks import SHIFT
from semantics.subscriptions.rows import due_runs, read_chunk

if TYPE_CHECKING:
    from gateway.broker.first_times import FirstTimes
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.rows import CursorRow
    from store.api import Store

FAR_CHUNKS = 2_000
"""Of a cursor, chunks of 1,024 offsets that are looked at for the first that does not wait for its time."""
ROWS = 8
"""The same of a cursor that is not in memory."""

_OPEN = re.compile(rb"[^\x02\x03]")


async def at_work(times: FirstTimes, at: SubscriptionPartition, wall: int, *, retry: bool) -> int:
    """Of a cursor in memory, in ms since 1970; NEVER where nothing is old. Raises KafkaError, StoreError."""
    cursor, end = at.ready(), at.partition.high_watermark
    first = cursor.first_ready(FAR_CHUNKS)
    if first is None or first >= end:
        return NEVER
    unread = first >= cursor.known
    oldest = await (times.of_all if unread else times.of_one)(at.id, first, retry=retry)
    # those that were not read may be delayed
    return oldest if oldest <= wall else NEVER


class Rest(NamedTuple):
    """Where a cursor stands that is not in memory, and what it has open of what it has read."""

    start: int
    read: int
    end: int
    open: int
    delayed: int
    backoff: int


async def at_rest(
    times: FirstTimes, store: Store, prefix: bytes, number: int, rest: Rest, wall: int, *, retry: bool
) -> tuple[int, int]:
    """The same by the rows that begin with `prefix`, of the store's partition `number`: (since when, when the next is
    due). Raises KeyError, StoreError, RowError.
    """
    due = _first_due(rows.due(store, prefix, b"", 1)) if rest.delayed or rest.backoff else NEVER
    first: int | None = rest.start if rest.open else rest.read
    if rest.delayed:
        first = _first_of_rows(store, prefix, rest) if rest.open > rest.delayed else rest.read
    oldest = NEVER
    if first is not None and first < rest.end:
        unread = first >= rest.read
        oldest = await (times.of_all if unread else times.of_one)(number, first, retry=retry)
        if oldest > wall:
            oldest = NEVER
    if rest.delayed and 0 <= due <= wall:
        # its time has come while nobody was there
        oldest = due if oldest == NEVER else min(oldest, due)
    return oldest, due if due > wall else NEVER


def _first_of_rows(store: Store, prefix: bytes, rest: Rest) -> int | None:
    """The first open offset that is not delayed, by the rows of the first chunks; None where these do not say."""
    at = rest.start
    for number, value in rows.chunks(store, prefix, rest.start >> SHIFT, ROWS):
        chunk = read_chunk(number, value)
        if chunk.base > at:
            # nothing is said of those between: they are available
            return at
        met = _OPEN.search(chunk.state, max(at - chunk.base, 0))
        if met is not None:
            return chunk.base + met.start()
        at = chunk.base + len(chunk.state)
    return None


def _first_due(found: list[CursorRow]) -> int:
    """When the first of these is due."""
    for each in found:
        assert each.value is not None
        return min((due for due, _ in due_runs(each.key, each.value)), default=NEVER)
    return NEVER
