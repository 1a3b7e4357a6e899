"""One command answers "why does this message not arrive?"."""

from __future__ import annotations

from collections.abc import Mapping

from semantics.subscriptions.chunks import MASK, SHIFT
from semantics.subscriptions.leases import UNSENT
from semantics.subscriptions.records import Records
from semantics.subscriptions.states import (
    ACQUIRED,
    BACKOFF,
    BURYING,
    DELAYED,
    DONE,
    DYING,
    REASONS,
    Reason,
    RecordState,
)


def explain(records: Records, offset: int, dues: Mapping[int, int] | None = None) -> RecordState:
    """Why this record arrives or does not. `dues`: the due times that memory knows, for who asks for several."""
    window, keyed = records.window, records.keyed
    if offset < window.start:
        return RecordState(offset, "DONE")
    if offset >= window.known:
        return RecordState(offset, "UNREAD", reason="the dispatcher has not come to it")
    chunk = window.chunks.get(offset >> SHIFT)
    if chunk is None:
        return RecordState(offset, "DONE")
    at = offset & MASK
    code = chunk.state[at]
    count = chunk.count[at] if chunk.count is not None else 0
    slot = owner = reason = None
    if keyed is not None and offset < keyed.read and chunk.slots is not None:
        slot = chunk.slots[at]
        owner = keyed.owner_of(slot)
    if code == DONE:
        return RecordState(offset, "DONE")
    if code == ACQUIRED:
        lease = records.leases.by_id[chunk.leases()[at]]
        deadline = lease.deadline if lease.deadline != UNSENT else None
        return RecordState(offset, "ACQUIRED", count, lease.consumer.name, deadline, None, slot, owner)
    if code in (DELAYED, BACKOFF):
        name = "DELAYED" if code == DELAYED else "BACKOFF"
        return RecordState(
            offset,
            name,
            count,
            due=records.due.of(offset) if dues is None else dues.get(offset),
            slot=slot,
            owner=owner,
        )
    if code >= DYING:
        why_dead = REASONS[(code - DYING) % 3]
        if why_dead is Reason.CORRUPT:
            slot = owner = None  # nobody knows its key
        if code >= BURYING:
            for due, first, last, why in records.dead_letters.waiting:
                if first <= offset <= last:
                    return RecordState(offset, "BACKOFF", count, due=due, slot=slot, owner=owner, reason=why)
        return RecordState(offset, "DYING", count, slot=slot, owner=owner, reason=str(why_dead))
    if keyed is not None:
        if slot is None:
            return RecordState(offset, "BLOCKED", count, reason="its slot is not read yet")
        reason = keyed.blocked(offset, slot)
        if reason is not None:
            return RecordState(
                offset,
                "BLOCKED",
                count,
                keyed.holder_of(slot),
                slot=slot,
                owner=owner,
                reason=reason,
            )
        return RecordState(
            offset, "AVAILABLE", count, slot=slot, owner=owner, reason=keyed.behind(offset, slot)
        )
    return RecordState(offset, "AVAILABLE", count, slot=slot, owner=owner)
