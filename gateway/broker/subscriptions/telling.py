"""What a cursor is told of stored batches: of most there is nothing to tell."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.broker.subscriptions.ports import Place
from gateway.broker.subscriptions.scanning import PART
from gateway.broker.subscriptions.stored import HEADER_BYTES, TRANSACTIONAL, Stored
from gateway.wire import delivery
from gateway.wire.keys import SMALLEST_RECORD
from gateway.wire.searching import holds
from semantics.subscriptions.states import Batch, Reason
from store.api import Buffer

if TYPE_CHECKING:
    from gateway.broker.aborted_transactions import Aborted
    from gateway.broker.subscriptions.scanning import Scanner
    from gateway.wire.delivery import Scan

log = logging.getLogger("magnetar.subscriptions")

_CODEC = 0x07
_CONTROL = 0x20


class Told(Place, Protocol):
    """Where a cursor is told of batches."""

    @property
    def key_shared(self) -> bool: ...

    @property
    def read_committed(self) -> bool:
        """Whether its consumers are given only what is committed: what is not decided yet is not read."""
        ...


def first_slow(at: Told, scanner: Scanner, stored: list[Stored], offset: int, wall: int) -> int | None:
    """Which of these batches is the first that takes so long to look at that a thread does it."""
    keys = at.key_shared
    if not (keys or at.retries) and not any(each.attributes & _CODEC for each in stored):
        return None
    for number, each in enumerate(stored):
        if (
            not each.attributes & _CONTROL
            and (keys or at.retries or each.attributes & _CODEC)
            and not scanner.at_hand(at, each, keys, max(each.base, offset), wall)
        ):
            return number
    return None


def told(at: Told, scanner: Scanner, stored: list[Stored], offset: int, wall: int) -> list[Batch]:
    """What the cursor is told of batches: most have nothing to tell."""
    keys = at.key_shared
    batches: list[Batch] = []
    retries = at.retries
    searched: Buffer | None = None
    mentioned = False
    aborted = _aborted(at, stored) if at.read_committed else ()
    for each in stored:
        first = each.base if each.base > offset else offset
        attributes = each.attributes
        if attributes & _CONTROL or not each.count or (aborted and _lies_in(each, aborted)):
            batches.append(Batch(first, each.next, skip=True))
            at.touch()
            continue
        if not (keys or retries or attributes & _CODEC):
            if each.buffer is not searched:
                # one search for all batches of a buffer
                searched = each.buffer
                mentioned = holds(searched, delivery.DELAY_MARK)
            # a header may say more records than there can be
            if (
                not mentioned
                and each.count == each.next - each.base
                and each.count * SMALLEST_RECORD <= each.size - HEADER_BYTES
            ):
                batches.append(Batch(first, each.next))
                continue
        looked = _looked_at(at, scanner, each, first, wall)
        batches += looked
        if looked[-1].next < each.next:
            # its next part comes when others had their turn
            break
    return batches


def _aborted(at: Told, stored: list[Stored]) -> Sequence[Aborted]:
    """The aborted transactions that have something among these, if any of them is of a transaction."""
    if not any(each.attributes & TRANSACTIONAL for each in stored):
        return ()
    return at.partition.transacting.aborted.over(stored[0].base, stored[-1].next)


def _lies_in(batch: Stored, aborted: Sequence[Aborted]) -> bool:
    if not batch.attributes & TRANSACTIONAL:
        return False
    producer_id = batch.producer_id
    return any(each.producer_id == producer_id and each.first <= batch.base < each.marker for each in aborted)


def _looked_at(at: Told, scanner: Scanner, each: Stored, first: int, wall: int) -> list[Batch]:
    """What the cursor is told of a batch whose records had to be looked at."""
    try:
        found = scanner.look(at, each, at.key_shared, first, wall)
    except delivery.Unreadable as error:
        at.touch()
        bound = isinstance(error, delivery.TooLarge)
        log.warning(
            "The batch at offset %d of topic %s, partition %d cannot be opened and goes to the dead letters of group "
            "%s as a whole. %s%s",
            each.base,
            at.subscription.topic,
            at.index,
            at.subscription.group,
            error,
            " The bound is socket.request.max.bytes." if bound else "",
        )
        # It is buried whole, as its first record; how many there are is only what its header says.
        unread = [Batch(first, first + 1, dead=[(first, first, Reason.CORRUPT)])]
        return [*unread, Batch(first + 1, each.next, skip=True)] if each.next > first + 1 else unread
    slots = found.slots
    end = each.next if found.reached is None else found.reached
    delayed = found.delayed.between(first, end)
    if len(delayed) > PART and not found.gaps:
        end = delayed.offsets[PART]
        delayed = delayed[:PART]
    longest = at.subscription.config.subscription.max_sent_delay_ms
    delayed = delayed.at_most(longest, wall) if longest else delivery.NO_DELAYS
    dead = [(offset, offset, Reason.MAX_DELIVERIES) for offset in _exhausted(at, found) if offset >= first]
    if delayed or dead:
        at.touch()
    if not found.gaps:
        if slots is not None and (first > each.base or end < each.next):
            slots = slots[first - each.base : end - each.base]
        return [Batch(first, end, slots, delayed, [item for item in dead if item[0] < end])]
    # what lies between two batches is not there
    parts: list[Batch] = []
    for gap, end in (*found.gaps, (each.next, each.next)):
        if gap > first:
            parts.append(
                Batch(
                    first,
                    gap,
                    slots[first - each.base : gap - each.base] if slots is not None else None,
                    delayed.between(first, gap),
                    [item for item in dead if first <= item[0] < gap],
                )
            )
        first = max(first, end + 1)
    return parts or [Batch(each.next - 1, each.next, skip=True)]


def _exhausted(at: Told, looked: Scan) -> Sequence[int]:
    """Offsets of a RETRY topic that were tried too often already."""
    most = at.subscription.config.max_reconsume
    if not at.retries or most < 0:
        return ()
    return [offset for offset, times in looked.reconsumed if times > most]
