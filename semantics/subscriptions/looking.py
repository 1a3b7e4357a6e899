"""Two questions about all records of a cursor, in bounded time: which open one comes first, how many are blocked."""

from __future__ import annotations

import re

from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.owners import NOT_IN_THE_WAY
from semantics.subscriptions.records import Records
from semantics.subscriptions.states import AVAILABLE, DELAYED

_OPEN = re.compile(rb"[^\x02\x03]")
"""neither DONE nor DELAYED"""


def first_ready(records: Records, most: int) -> int | None:
    """The first open offset that does not wait for the time its producer set: one that was not read counts. None when
    `most` chunks of 1,024 have none.
    """
    window = records.window
    if not window.n[DELAYED]:
        return window.start
    for count, (chunk, at, stop) in enumerate(window.pieces(window.start, window.known)):
        if count == most:
            return None
        found = _OPEN.search(chunk.state, at, stop)
        if found is not None:
            return chunk.base + found.start()
    return window.known


def blocked(records: Records, most: int) -> tuple[int, bool]:
    """Key_Shared: how many AVAILABLE records wait for others of their slots, or for an owner of theirs, in the first
    `most` chunks of 1,024; whether that is all of them. One whose slot was not read again since a load is none.
    """
    keyed, window = records.keyed, records.window
    if keyed is None or not window.n[AVAILABLE]:
        return 0, True
    firsts, unowned = keyed.in_the_way(), keyed.unowned()
    if (firsts is None or bool((firsts == NOT_IN_THE_WAY).all())) and unowned is None:
        return 0, True
    import numpy as np

    if firsts is None:
        firsts = np.full(SLOTS, NOT_IN_THE_WAY, np.int64)
    if unowned is not None:
        firsts[unowned] = 0
    found = 0
    for count, (chunk, at, stop) in enumerate(window.pieces(window.start, keyed.read)):
        if count == most:
            return found, False
        if chunk.slots is None:
            continue
        ats = (np.frombuffer(chunk.state, np.uint8)[at:stop] == AVAILABLE).nonzero()[0] + at
        if len(ats):
            slots = np.frombuffer(chunk.slots, np.uint16)[ats]
            found += int(np.count_nonzero(firsts[slots] <= ats + chunk.base))
    return found, True
