"""What a consumer is given and for how long: whether there is more for it, how much it may have, what comes back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from semantics.subscriptions.chunks import SHIFT
from semantics.subscriptions.key_shared import KeyShared
from semantics.subscriptions.leases import UNSENT, held, held_by
from semantics.subscriptions.records import GONE, TIMED_OUT, Records
from semantics.subscriptions.states import ACQUIRED, AVAILABLE, Acquired, Ending
from semantics.subscriptions.strict import Strict

if TYPE_CHECKING:
    from semantics.subscriptions.in_order import InOrder
    from semantics.subscriptions.leases import Lease
    from semantics.taken import Taken

DOUBT_MS = 30_000
"""ms for which a record stays locked when its consumer's connection broke, perhaps with the answer that gave it."""

FILL_UP = 2_000
"""Key_Shared: records that wait, up to which more are read only to fill up what a consumer is given"""
WINDOW = 2_048
"""Key_Shared: chunks of 1,024 offsets that may have something open. Deep slots do not count in the look-ahead, so this
bounds how far is read past them: some 6 to 16 MB a partition. What rows know of is read again even beyond it.
"""


class Deliveries:
    """The records that it is given, as consumers see them."""

    __slots__ = ("_records",)

    def __init__(self, records: Records) -> None:
        self._records = records

    # -- whether there is more -------------------------------------------------------------------------------

    def wants_more(self, consumer: str, given: int) -> bool:
        """Whether batches should be fed: nothing is ready for the consumer, and there is room for more.

        Key_Shared: for one that was `given` something already, only while not much waits. Reading far ahead to give
        it yet more makes the records of every later poll lie further apart.

        Never while the due rows are mended (see due.py): what is read then could be taken for what was lost.
        """
        records = self._records
        if not self._room(consumer) or records.due.mending:
            return False
        keyed = records.keyed
        if keyed is None:
            return not records.window.n[AVAILABLE]
        ahead = records.config.lookahead
        if given and ahead > FILL_UP:
            ahead = FILL_UP
        return not keyed.has(consumer) and self._may_look(keyed, ahead)

    def can_serve(self, consumer: str, log_end: int) -> bool:
        """Whether it is worth asking again for this consumer."""
        records = self._records
        if not self._room(consumer) or records.due.mending:
            return False
        keyed = records.keyed
        if keyed is None:
            return records.window.n[AVAILABLE] > 0 or records.read < log_end
        return keyed.has(consumer) or (
            records.read < log_end and self._may_look(keyed, records.config.lookahead)
        )

    def _may_look(self, keyed: KeyShared | Strict | InOrder, ahead: int) -> bool:
        """Whether more may be read: up to that many records may wait, and more of deep slots."""
        if keyed.queued >= ahead:
            keyed.relieve(ahead)
        return keyed.queued < ahead and not self.window_full

    @property
    def window_full(self) -> bool:
        """Key_Shared: deep slots have so many waiting records that nothing more is read for any consumer."""
        records = self._records
        window, keyed = records.window, records.keyed
        return (
            len(window.chunks) >= WINDOW
            and keyed is not None
            and window.n[AVAILABLE] >= max(records.config.lookahead, keyed.queued + 1)
            and records.read >= window.known
        )

    # -- how much --------------------------------------------------------------------------------------------

    def _room(self, consumer: str) -> bool:
        """Whether anything more may be acquired by this consumer."""
        records = self._records
        if records.window.n[ACQUIRED] >= records.config.max_locks:
            return False
        who = records.leases.consumers.get(consumer)
        return who is None or who.in_hand < records.config.receiver_queue

    def fair_share(self, consumer: str, consumers: int, log_end: int) -> int:
        """Shared: so that each of `consumers` has the same number in hand; one at least. What was not read yet counts
        by its offsets, up to `log_end`.
        """
        records = self._records
        n = records.window.n
        there = n[AVAILABLE] + n[ACQUIRED] + max(log_end - records.read, 0)
        return max(-(-there // consumers) - records.leases.consumers[consumer].in_hand, 1)

    def lock_share(self, consumer: str, sharers: Collection[str], coming: int) -> int:
        """So that the others that share the partition's locks find some free: half of all locks is for all of them in
        equal parts, as far as they do not hold so much. One at least.
        """
        records = self._records
        max_locks, consumers = records.config.max_locks, records.leases.consumers
        in_hand = consumers[consumer].in_hand
        others = coming + len(sharers) - (consumer in sharers)
        each = max_locks // (2 * (1 + others))
        free = max_locks - records.window.n[ACQUIRED]
        kept = each * others
        if kept and free - kept < records.config.receiver_queue - in_hand:
            # it matters how much they hold
            for name in sharers:
                other = consumers.get(name)
                if other is not None and name != consumer:
                    kept -= min(other.in_hand, each)
        return max(free - kept, each - in_hand, 1)

    # -- given, and back -------------------------------------------------------------------------------------

    def poll(self, consumer: str, limit: int, now: int) -> list[Acquired]:
        """Up to `limit` records, ascending, locked from now on. KeyError if the consumer is not attached."""
        records = self._records
        room = self._room_of(consumer, limit)
        if not room:
            return []
        dispatcher = records.shared or records.keyed
        assert dispatcher is not None
        lease, before = self._open(consumer, now)
        taken = dispatcher.take(lease, room)
        self._given(lease, before, sum([last + 1 - first for first, last, count in taken if count]))
        return taken

    def take_many(self, consumer: str, limit: int, now: int) -> Taken | None:
        """`poll` by columns under Key_Shared; None for nothing."""
        keyed = self._records.keyed
        assert keyed is not None
        if not (room := self._room_of(consumer, limit)):
            return None
        lease, before = self._open(consumer, now)
        taken = keyed.take_many(lease, room)
        failed = taken.failed if taken is not None else None
        self._given(lease, before, int((failed > 0).sum()) if failed is not None else 0)
        return taken

    def _room_of(self, consumer: str, limit: int) -> int:
        records = self._records
        window, config = records.window, records.config
        who = records.leases.consumers[consumer]
        room = min(limit, config.max_locks - window.n[ACQUIRED], config.receiver_queue - who.in_hand)
        return room if room > 0 and window.n[AVAILABLE] else 0

    def _open(self, consumer: str, now: int) -> tuple[Lease, int]:
        """A lease, and how much it holds already."""
        leases = self._records.leases
        lease = leases.open(leases.consumers[consumer], now + self._records.config.lock_ms)
        return lease, lease.remaining

    def _given(self, lease: Lease, before: int, again: int) -> None:
        """What was put into a lease that held so many, `again` of them not for the first time."""
        records = self._records
        if not lease.remaining:
            records.leases.close(lease)
        totals = records.totals
        totals["delivered"] += lease.remaining - before
        totals["redelivered"] += again
        if records.config.lanes and lease.remaining > before:
            # the rows of a lane name them: after a load they must be known here, too, and not wait for their time
            records.changed = True
            if woken := records.window.woken:
                records.window.dirty |= woken.intersection([run >> 2 * SHIFT for run in lease.runs])

    def give_back(self, consumer: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Acquired and not sent: AVAILABLE again, as if never taken. What it does not hold is passed over."""
        records = self._records
        for chunk, begin, end, lease in held_by(records.window, records.leases, consumer, ranges):
            records.move(chunk, begin, end, ACQUIRED, AVAILABLE)
            records.leases.settle(lease, end - begin)
            records.totals["delivered"] -= end - begin

    def withhold(self, consumer: str, since: int) -> None:
        """What the consumer was given since then does not run out before `sent`."""
        leases = self._records.leases
        who = leases.consumers.get(consumer)
        if who is None:
            return
        begun = since + self._records.config.lock_ms
        for lease in reversed(who.leases.values()):
            # in the order in which they were opened
            if lease.deadline < begun:
                break
            leases.withhold(lease)

    def sent(self, consumer: str, now: int) -> None:
        """What was withheld from the consumer is locked from now on."""
        records = self._records
        who = records.leases.consumers.get(consumer)
        if who is not None:
            for lease in who.leases.values():
                if lease.deadline == UNSENT:
                    records.leases.shorten(lease, now + records.config.lock_ms)

    def in_doubt(self, consumer: str, now: int) -> None:
        """What the consumer was given last, if less than DOUBT_MS ago, runs out after DOUBT_MS, if it would later."""
        records = self._records
        who = records.leases.consumers.get(consumer)
        last = who.last if who is not None else None
        if last is None or not last.remaining or last.deadline <= now + DOUBT_MS or last.deadline == UNSENT:
            return
        if last.deadline - records.config.lock_ms > now - DOUBT_MS:
            records.leases.shorten(last, now + DOUBT_MS)

    def run_out(self, now: int, wall: int) -> None:
        """Locks that lasted until now are over."""
        records = self._records
        for lease in records.leases.expired(now):
            for chunk, first, end in held(records.window, lease):
                records.totals["timed_out"] += end - first
                records.fail(chunk, first, end, TIMED_OUT, wall)
            records.leases.close(lease)

    def detach(self, consumer: str, ending: Ending, wall: int) -> None:
        """What the consumer held comes back at once. See Ending for whether that delivery counts."""
        records = self._records
        who = records.leases.consumers.pop(consumer, None)
        if who is None:
            return
        crashed = ending == Ending.CRASHED
        counts = crashed or (ending == Ending.LEFT and records.config.leave_counts)
        for lease in list(who.leases.values()):
            for chunk, first, end in held(records.window, lease):
                if not counts:
                    records.move(chunk, first, end, ACQUIRED, AVAILABLE)
                    continue
                if crashed:
                    records.totals["crashed"] += end - first
                records.fail(chunk, first, end, GONE, wall)
            records.leases.close(lease)
        records.advance()
