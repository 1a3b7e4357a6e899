"""What an administrator does to single records of the window, whatever they wait for and whoever has them.

What is in the hands of a trustee stays as it is: its transaction says what becomes of it. So does what is being buried.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterator

from semantics.subscriptions.chunks import AVAILABLE_RUN, BACKOFF_RUN, DUE_RUN, Chunk
from semantics.subscriptions.held import Ranges
from semantics.subscriptions.leases import Lease
from semantics.subscriptions.records import Records
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    DELAYED,
    DONE,
    DYING,
    NUMBER,
    Reason,
)

_ACQUIRED_RUN = re.compile(rb"\x01+")


class Act(enum.StrEnum):
    """What may be done."""

    DELIVER_NOW = "deliver-now"
    """its delay or its backoff is over"""
    SETTLE = "settle"
    """it is acknowledged"""
    DEAD_LETTER = "dead-letter"
    """it goes to the dead letter topic, as if a consumer had rejected it; its deliveries are not one more"""
    TAKE_BACK = "take-back"
    """its consumer does not have it any more: whoever is next gets it. That counts as no delivery."""


OPEN = frozenset((AVAILABLE, ACQUIRED, DELAYED, BACKOFF))

OF = {
    Act.DELIVER_NOW: frozenset((DELAYED, BACKOFF)),
    Act.SETTLE: OPEN,
    Act.DEAD_LETTER: OPEN,
    Act.TAKE_BACK: frozenset((ACQUIRED,)),
}
"""Records of which states an act is on."""


def act(records: Records, do: Act, ranges: Ranges, consumers: Collection[str]) -> int:
    """Do it to what it is for of (first, last), ascending; `consumers` are those with a session. How many those were.

    The due times in memory of what backed off go with it. One that only the rows know stays: a record whose backoff
    was ended so, and that backs off again, may be AVAILABLE at that time already.
    """
    if not ranges:
        return 0
    if do == Act.DELIVER_NOW:
        number = _wake(records, ranges)
    elif do == Act.TAKE_BACK:
        number = 0
        for chunk, first, end, lease in _in_hands(records, ranges, consumers):
            records.move(chunk, first, end, ACQUIRED, AVAILABLE)
            records.leases.settle(lease, end - first)
            number += end - first
    else:
        number = _end(records, ranges, consumers, settle=do == Act.SETTLE)
    records.advance()
    return number


def _in_hands(
    records: Records, ranges: Ranges, consumers: Collection[str]
) -> Iterator[tuple[Chunk, int, int, Lease]]:
    """What of these is in the hands of some consumers: [first, end) of a chunk, under one lease. The states may be
    changed while this runs.
    """
    by_id = records.leases.by_id
    for begin, last in ranges:
        for chunk, at, stop in records.window.runs(begin, last + 1, _ACQUIRED_RUN):
            while at < stop:
                lease = by_id[chunk.leases()[at]]
                first, at = next(chunk.held_runs(at, stop, lease.id))
                if lease.consumer.name in consumers:
                    yield chunk, first, at, lease


def _wake(records: Records, ranges: Ranges) -> int:
    """What of these waits for a time is AVAILABLE."""
    window, number = records.window, 0
    backed_off: list[tuple[int, int]] = []
    for begin, last in ranges:
        for chunk, at, stop in window.runs(begin, last + 1, BACKOFF_RUN):
            backed_off.append((chunk.base + at, chunk.base + stop - 1))
        for chunk, at, stop in window.runs(begin, last + 1, DUE_RUN):
            records.move(chunk, at, stop, chunk.state[at], AVAILABLE)
            number += stop - at
    if backed_off:
        records.due.forget(backed_off)
    if number:
        # rows of what was delayed
        records.idle_due = True
    return number


def _end(records: Records, ranges: Ranges, consumers: Collection[str], *, settle: bool) -> int:
    """What of these is open is DONE, or on its way to the dead letter topic."""
    window, number = records.window, 0
    drop = not settle and not records.config.dead_letters
    for chunk, first, end, lease in _in_hands(records, ranges, consumers):
        number += end - first
        if settle:
            records.move(chunk, first, end, ACQUIRED, DONE)
        else:
            records.doom(chunk, first, end, ACQUIRED, Reason.REJECTED)
        records.leases.settle(lease, end - first)
    _wake(records, ranges)
    taken = 0
    for begin, last in ranges:
        for chunk, at, stop in window.runs(begin, last + 1, AVAILABLE_RUN):
            taken += stop - at
            if drop:
                records.totals["dropped"] += stop - at
            if settle or drop:
                window.settle(chunk, at, stop)
                continue
            window.n[AVAILABLE] -= stop - at
            window.n[DYING] += stop - at
            chunk.become(at, stop, DYING + NUMBER[Reason.REJECTED])
            window.dirty.add(chunk.number)
            records.dead_letters.add(chunk)
    if taken:
        records.changed = True
        if records.keyed is not None:
            # what nobody had was in its queues
            records.keyed.rebuild()
    return number + taken
