"""What lanes say of records that they hold. Unlike a member of a share group, a lane learns late what happened to a
record: it was trimmed, expired, or skipped by an administrator. So what it does not hold any more is passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from semantics.subscriptions.acknowledging import ACCEPT, REJECT, acknowledge
from semantics.subscriptions.chunks import BACKOFF_RUN
from semantics.subscriptions.leases import held_by, pack
from semantics.subscriptions.records import GONE, NACKED, Records
from semantics.subscriptions.states import ACQUIRED, AVAILABLE, BACKOFF, DONE, Refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from semantics.subscriptions.leases import Lease

ON_ITS_WAY_MS = 1_000
"""How long a record waits for its retry letter at least: its batch may have to be read from a disk first."""

Ranges = Sequence[tuple[int, int]]
"""(first, last), ascending and disjoint"""


def settle(records: Records, consumer: str, ranges: Ranges, now: int, wall: int) -> None:
    """It has acknowledged these."""
    _say(records, consumer, ranges, ACCEPT, now, wall)


def reject(records: Records, consumer: str, ranges: Ranges, now: int, wall: int) -> None:
    """They are to be dead letters."""
    _say(records, consumer, ranges, REJECT, now, wall)


def _say(records: Records, consumer: str, ranges: Ranges, kind: int, now: int, wall: int) -> None:
    said = bytes([kind])
    whole = [(first, last, said) for first, last in ranges]
    # after a load it holds what the dispatcher has not come to yet
    known = records.window.known
    if isinstance(acknowledge(records, consumer, whole, now, wall, known=known), Refusal):
        there = [
            (chunk.base + first, chunk.base + end - 1, said)
            for chunk, first, end, _ in held_by(records.window, records.leases, consumer, ranges)
        ]
        refused = acknowledge(records, consumer, there, now, wall, known=known)
        assert refused is None, "what it holds can be acknowledged"


def nack(records: Records, consumer: str, ranges: Ranges, wait_ms: int | None, wall: int) -> None:
    """They are to be delivered again: after so many ms, or after what the configs say."""
    for chunk, first, end, lease in held_by(records.window, records.leases, consumer, ranges):
        records.totals["nacked"] += end - first
        records.fail(chunk, first, end, NACKED, wall, wait_ms=wait_ms)
        records.leases.settle(lease, end - first)
    records.advance()


def reconsume_later(
    records: Records, consumer: str, ranges: Ranges, wait_ms: int, wall: int
) -> list[tuple[int, int]]:
    """They go to the retry letter topic. Until they are there they are in BACKOFF for so many ms, `ON_ITS_WAY_MS` at
    least, and this delivery does not count: so they come again whatever happens on their way. What it held of them.
    """
    waiting: list[tuple[int, int]] = []
    for chunk, first, end, lease in held_by(records.window, records.leases, consumer, ranges):
        records.fail(chunk, first, end, NACKED, wall, most=0, wait_ms=max(wait_ms, ON_ITS_WAY_MS))
        records.leases.settle(lease, end - first)
        waiting.append((chunk.base + first, chunk.base + end - 1))
    records.advance()
    return waiting


def resent(records: Records, ranges: Ranges) -> None:
    """What of these is in BACKOFF still lies on the retry letter topic now, in the same commit: it is done here."""
    for first, last in ranges:
        for chunk, at, stop in records.window.runs(first, last + 1, BACKOFF_RUN):
            records.totals["reconsumed"] += stop - at
            records.move(chunk, at, stop, BACKOFF, DONE)
    records.advance()


def crash(records: Records, consumer: str, ranges: Ranges, most: int | None, wall: int) -> None:
    """They were in its consumer's hands when that was lost. `most`: their counts do not rise above that."""
    for chunk, first, end, lease in held_by(records.window, records.leases, consumer, ranges):
        records.totals["crashed"] += end - first
        records.fail(chunk, first, end, GONE, wall, most=most)
        records.leases.settle(lease, end - first)
    records.advance()


def count(records: Records, consumer: str, ranges: Ranges, most: int | None, wall: int) -> bool:
    """One more delivery of each failed, and it holds them all the same; not those that reach the limit, and not above
    `most`. Whether some reached it.
    """
    limit, died = records.config.delivery_limit, False
    for chunk, first, end, lease in held_by(records.window, records.leases, consumer, ranges):
        for at, stop, failed in list(chunk.count_runs(first, end)):
            counted = failed + 1 if most is None else max(min(failed + 1, most), failed)
            if limit and counted >= limit:
                records.fail(chunk, at, stop, GONE, wall, most=most)
                records.leases.settle(lease, stop - at)
                died = True
            elif counted > failed:
                chunk.set_count(at, stop, counted)
                records.window.dirty.add(chunk.number)
                records.changed = True
    records.advance()
    return died


def holds(records: Records, consumer: str, ranges: Ranges) -> list[tuple[int, int]]:
    """What of these it holds."""
    return [
        (chunk.base + first, chunk.base + end - 1)
        for chunk, first, end, _ in held_by(records.window, records.leases, consumer, ranges)
    ]


def slots_of(records: Records, ranges: Ranges) -> set[int] | None:
    """Key_Shared: the slots of these; None when one is not known, as it was not read again since a load."""
    keyed = records.keyed
    if keyed is None:
        return set()
    found: set[int] = set()
    for first, last in ranges:
        if last >= keyed.read:
            return None
        for chunk, at, stop in records.window.pieces(first, last + 1):
            found.update(chunk.slot_plane()[at:stop])
    return found


def places(records: Records, first: int, end: int) -> NDArray[np.uint16]:
    """Key_Shared: of each offset of [first, end) whose slot it has; 0 for nobody's, and for what is settled."""
    import numpy as np

    found = np.zeros(end - first, np.uint16)
    keyed = records.keyed
    if keyed is not None:
        for chunk, at, stop in records.window.pieces(first, min(end, keyed.read)):
            if chunk.slots is not None:
                its = np.frombuffer(chunk.slots, np.uint16)[at:stop]
                found[chunk.base + at - first : chunk.base + stop - first] = keyed.places(its)
    return found


def in_slots(
    records: Records, consumer: str, ranges: Ranges, slots: Collection[int] | None
) -> list[tuple[int, int]]:
    """What of these it holds in one of the slots, or in one that is not known; None: in any."""
    keyed = records.keyed
    there = holds(records, consumer, ranges)
    if slots is None or keyed is None:
        return there
    found: list[tuple[int, int]] = []
    for first, last in there:
        for chunk, at, stop in records.window.pieces(first, last + 1):
            plane = chunk.slot_plane()
            for offset in range(chunk.base + at, chunk.base + stop):
                if offset < keyed.read and plane[offset - chunk.base] not in slots:
                    continue
                if found and found[-1][1] == offset - 1:
                    found[-1] = found[-1][0], offset
                else:
                    found.append((offset, offset))
    return found


def hold_again(records: Records, consumer: str, ranges: Ranges, now: int) -> list[tuple[int, int]]:
    """After a load, before anything is dealt: what it held before, as its own rows say. What it has again of that: the
    rest was settled, or waits for something.
    """
    leases = records.leases
    lease = leases.open(leases.consumers[consumer], now + records.config.lock_ms)
    return acquire_again(records, lease, ranges)


def acquire_again(records: Records, lease: Lease, ranges: Ranges) -> list[tuple[int, int]]:
    """After a load: what of these is AVAILABLE is held under a lease, as before. What that is."""
    taken: list[tuple[int, int]] = []
    window = records.window
    for first, last in ranges:
        for chunk, at, stop in window.pieces(first, last + 1):
            while at < stop:
                at = chunk.state.find(AVAILABLE, at, stop)
                if at < 0:
                    break
                end = at + 1
                while end < stop and chunk.state[end] == AVAILABLE:
                    end += 1
                number = end - at
                chunk.become(at, end, ACQUIRED)
                plane = chunk.leases()
                for each in range(at, end):
                    plane[each] = lease.id
                chunk.held += number
                window.n[AVAILABLE] -= number
                window.n[ACQUIRED] += number
                lease.runs.append(pack(chunk.base + at, number))
                lease.remaining += number
                lease.consumer.in_hand += number
                taken.append((chunk.base + at, chunk.base + end - 1))
                at = end
    if not lease.remaining:
        records.leases.close(lease)
    return taken
