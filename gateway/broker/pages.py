"""Rows of many groups, producers or offsets, a page at a time: the loop is free in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gateway.coordinators import offsets
from store.api import Family, Store
from store.pending import Asking, drive

ROWS = 200
"""Rows looked at in one go: less than half a millisecond."""

Rows: TypeAlias = list[tuple[bytes, bytes]]


def each_page(
    store: Store, family: Family, prefix: bytes, take: Callable[[Rows], Asking[bool]], limit: int = ROWS
) -> Asking[int]:
    """Have `take` see to the rows under a prefix, page by page, while it says that it wants more; others have their
    turn between pages. Rows that come meanwhile may or may not be among them. How many pages it was given; none is
    empty.

    Raises StoreError, and what `take` raises.
    """
    start, pages = prefix, 0
    while True:
        rows = store.page(family, prefix, start, limit)
        if not isinstance(rows, list):
            rows = yield rows
        if not rows:
            return pages
        if pages:
            yield asyncio.sleep(0)
        pages += 1
        if not (yield from take(rows)) or len(rows) < limit:
            return pages
        start = rows[-1][0] + b"\0"


async def each_committed(store: Store, take: Callable[[offsets.Place, offsets.Committed], None]) -> None:
    """Have `take` see to every offset that a consumer group has committed, whether its topic is there or not. A row
    that cannot be read is passed over: who reads it for its group says so.

    Raises StoreError, and what `take` raises.
    """

    def of_page(rows: Rows) -> Asking[bool]:
        for key, value in rows:
            try:
                place, committed = offsets.place(key), offsets.decode(value)
            except ValueError:
                continue
            take(place, committed)
        return True
        yield  # a generator, as `each_page` asks for

    rest = drive(each_page(store, Family.OFFSET, b"", of_page))
    if isinstance(rest, Awaitable):
        await rest
