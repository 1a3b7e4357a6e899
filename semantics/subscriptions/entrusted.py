"""Records of which something was said inside of a transaction that is open: nobody's to take, until that ends.

They stay ACQUIRED, by a *trustee*: a consumer by name alone, which no session has, under a lease that does not run out.
So their consumer can say nothing more of them, it may crash or leave, and Key_Shared gives nothing of their slots. When
the transaction commits, what was said is said by the trustee (held.py); when it is aborted, the trustee crashes
(`Cursor.detach`): they come back at once, and that counts as a delivery.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from semantics.subscriptions.chunks import MASK, SHIFT
from semantics.subscriptions.held import Ranges, acquire_again
from semantics.subscriptions.leases import held_by, pack
from semantics.subscriptions.states import ACQUIRED

if TYPE_CHECKING:
    from semantics.subscriptions.chunks import Chunk
    from semantics.subscriptions.records import Records


def entrust(records: Records, consumer: str, trustee: str, ranges: Ranges, now: int) -> list[tuple[int, int]]:
    """What a consumer holds of these is in the hands of the trustee from now on. What that is, ascending."""
    leases = records.leases
    leases.attach(trustee, now)
    lease = leases.open_ended(leases.consumers[trustee])
    moved: list[tuple[Chunk, int, int]] = []
    for chunk, first, end, before in held_by(records.window, leases, consumer, ranges):
        plane = chunk.leases()
        for at in range(first, end):
            plane[at] = lease.id
        lease.runs.append(pack(chunk.base + first, end - first))
        lease.remaining += end - first
        lease.consumer.in_hand += end - first
        leases.settle(before, end - first)
        moved.append((chunk, first, end))
    if not lease.remaining:
        leases.close(lease)
        return []
    # the rows of the transaction name them: after a load they must be known here, too, and not wait for their time
    records.changed = True
    if woken := records.window.woken:
        records.window.dirty |= woken.intersection([chunk.number for chunk, _, _ in moved])
    if records.keyed is not None:
        records.keyed.entrusted(moved, trustee, now)
    return [(chunk.base + first, chunk.base + end - 1) for chunk, first, end in moved]


def entrusted_again(records: Records, trustee: str, ranges: Ranges, now: int) -> list[tuple[int, int]]:
    """After a load, before anything is dealt: what was in the hands of the trustee. What it has again of that: the rest
    was settled meanwhile.
    """
    leases = records.leases
    leases.attach(trustee, now)
    return acquire_again(records, leases.open_ended(leases.consumers[trustee]), ranges)


def holders(records: Records, ranges: Ranges) -> Iterator[tuple[int, int, str | None, int]]:
    """(first, last, who has them in hand, how many deliveries failed before) of what these name at or above the start,
    in pieces of one holder and count. A piece of nobody's, None, is the last of its range.
    """
    window, by_id = records.window, records.leases.by_id
    for first, last in ranges:
        begin = max(first, window.start)
        piece: tuple[str | None, int] = (None, 0)
        for offset in range(begin, last + 1):
            chunk = window.chunks.get(offset >> SHIFT)
            at = offset & MASK
            if chunk is None or chunk.state[at] != ACQUIRED:
                if begin < offset:
                    yield begin, offset - 1, *piece
                yield offset, last, None, 0
                break
            failed = chunk.count[at] if chunk.count is not None else 0
            found = by_id[chunk.leases()[at]].consumer.name, failed
            if begin < offset and found != piece:
                yield begin, offset - 1, *piece
                begin = offset
            piece = found
        else:
            if begin <= last:
                yield begin, last, *piece
