"""Rows of many groups, producers or offsets, a page at a time: the loop is free in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from store.api import Family, Store
from store.pending import Asking

ROWS = 500
"""Rows looked at in one go: about a millisecond."""

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
