"""The records of one partition, and how they move from state to state: the table of cursor.py, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from semantics.subscriptions import recovery, rows
from semantics.subscriptions.chunks import (
    DELAYED_RUN,
    DONE_RUN,
    DUE_RUN,
    KIND,
    MASK,
    SHIFT,
    Chunk,
    Window,
)
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.dead_letters import DeadLetters
from semantics.subscriptions.due import DueTimes, Popped
from semantics.subscriptions.key_shared import KeyShared
from semantics.subscriptions.leases import Lease, Leases, pack
from semantics.subscriptions.rows import CursorRow
from semantics.subscriptions.shared import Shared
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    BEFORE,
    DELAYED,
    DONE,
    DYING,
    NUMBER,
    Reason,
    check,
    no_line,
)
from semantics.subscriptions.strict import Strict

if TYPE_CHECKING:
    from semantics.subscriptions.in_order import InOrder

NACKED, TIMED_OUT, GONE = range(3)
"""how a delivery fails"""


class Records:
    """The window, when what of it is due, who holds what of it, what of it is to be buried, and the dispatcher, which
    hands it out. A record changes its state here, in these five, or in what is handed these by name.

    Whoever is given the records keeps none of the five: `begin_anew`, `dispatch` and `writes` put others in their
    place. What must be durable is noted as it changes, and `writes` says it.
    """

    __slots__ = (
        "_forget",
        "changed",
        "config",
        "dead_letters",
        "due",
        "idle_due",
        "keyed",
        "leases",
        "read",
        "shared",
        "totals",
        "window",
    )

    def __init__(self, config: SubscriptionConfig, window: Window, due: DueTimes) -> None:
        self.config = config
        self.window = window
        self.due = due
        self.leases = Leases()
        self.dead_letters = DeadLetters(window)
        self.totals = dict.fromkeys(
            (
                "delivered",
                "redelivered",
                "acknowledged",
                "nacked",
                "rejected",
                "timed_out",
                "crashed",
                "buried",
                "dropped",
                "reconsumed",
                "expired",
            ),
            0,
        )
        """records since the cursor was loaded, and what whoever loads it adds; what retention took of open ones
        (expired) since there is one
        """
        self.changed = False
        """the rows must say something else from now on"""
        self.idle_due = False
        """there may be due rows of what was settled before its time: they all go when nothing waits"""
        self._forget = False
        self.dispatch()

    def begin_anew(self, offset: int) -> None:
        """All states are forgotten, and nobody holds anything."""
        self.window = Window(offset)
        self.due = DueTimes()
        self.dead_letters = DeadLetters(self.window)
        self.leases.forget()
        self.idle_due = False
        self._forget = self.changed = True
        keyed = self.keyed
        self.dispatch()
        if keyed is not None and self.keyed is not None:
            self.keyed.reassign(keyed, 0)

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Records that wait for a time: DELAYED and BACKOFF."""
        return self.window.n[DELAYED] + self.window.n[BACKOFF]

    def backlog(self, log_end: int) -> int:
        """Records that are not settled, up to the log's end."""
        return sum(self.window.n) + max(0, log_end - self.window.known)

    # -- the dispatcher ------------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Make the dispatcher of the config's type from what the window says."""
        window = self.window
        self.shared: Shared | None = None
        self.keyed: KeyShared | Strict | InOrder | None = None
        self.read = window.known
        """the first offset that the dispatcher has not looked at"""
        if self.config.type == "key_shared":
            self.read = window.start
            self.keyed = self._keyed_dispatcher()
            self.pass_over_settled()
        else:
            self.shared = Shared(window)

    def hand_over(self) -> None:
        """Key_Shared: another dispatcher goes on where this one is, by the rules that hold now."""
        before = self.keyed
        if before is not None:
            self.keyed = self._keyed_dispatcher()
            self.keyed.adopt(before, before.since)

    def _keyed_dispatcher(self) -> KeyShared | Strict | InOrder:
        config = self.config
        if config.lanes and not config.one_of_a_key:
            # of its own file because it needs numpy throughout, which others load at their first need
            from semantics.subscriptions.in_order import InOrder

            return InOrder(self.window, self.leases, self.read)
        if config.lanes or (config.strict and not config.allow_out_of_order):
            return Strict(self.window, self.leases, self.read)
        return KeyShared(self.window, self.leases, config, self.read)

    # -- moves ---------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Move start to the first open offset."""
        self.window.advance()
        if self.keyed is not None and not self.keyed.queued:
            self.keyed.rest()
        if self.read < self.window.start:
            # Key_Shared reads again, and what it had not come to is buried meanwhile
            self.pass_over_settled()

    def pass_over_settled(self) -> None:
        """Key_Shared, reading again: what is DONE need not be read."""
        keyed = self.keyed
        if keyed is None:
            return
        window = self.window
        read = max(self.read, window.start)
        while read < window.known:
            chunk = window.chunks.get(read >> SHIFT)
            if chunk is None:
                read = window.by_start.get(read >> SHIFT, (read >> SHIFT) + 1) << SHIFT
                continue
            done = DONE_RUN.match(chunk.state, read & MASK)
            if done is None:
                break
            read = chunk.base + done.end()
        self.read = keyed.read = read

    def wake(self, popped: Popped) -> None:
        """The time of these has come: what of them still waits is AVAILABLE."""
        window, shared = self.window, self.shared
        for run in popped.runs:
            self.changed = True
            first = run >> SHIFT
            for chunk, at, stop in window.runs(first, first + (run & MASK) + 1, DUE_RUN):
                self.move(chunk, at, stop, chunk.state[at], AVAILABLE)
        chunks, n, woken = window.chunks, window.n, window.woken
        for run in popped.delayed:
            first = run >> SHIFT
            if run & MASK or shared is None:
                for chunk, at, stop in window.runs(first, first + (run & MASK) + 1, DELAYED_RUN):
                    self._wake_run(chunk, at, stop)
                continue
            # a record by itself, as most are whose due times lie scattered
            found, at = chunks.get(first >> SHIFT), first & MASK
            if found is not None and found.state[at] == DELAYED:
                n[DELAYED] -= 1
                n[AVAILABLE] += 1
                assert found.state[at] in BEFORE[AVAILABLE], no_line(found.state[at], AVAILABLE)
                found.state[at] = AVAILABLE
                woken.add(found.number)
                shared.freed(found, at)
        if self.due.over(woken) or (woken and not self.waiting):
            self.changed = True

    def _wake_run(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end), DELAYED, is AVAILABLE, which the next row of the chunk will say."""
        n = self.window.n
        n[DELAYED] -= end - first
        n[AVAILABLE] += end - first
        chunk.become(first, end, AVAILABLE)
        self.window.woken.add(chunk.number)
        if self.keyed is not None:
            self.keyed.moved(chunk, first, end, DELAYED, AVAILABLE)
        elif self.shared is not None:
            self.shared.freed(chunk, first)

    def fail(
        self,
        chunk: Chunk,
        first: int,
        end: int,
        why: int,
        wall: int,
        *,
        wait_ms: int | None = None,
        most: int | None = None,
    ) -> None:
        """A delivery of [first, end), ACQUIRED, ended without an acknowledgement: one more of the limit is used.

        `why`: NACKED, TIMED_OUT, or GONE as its consumer is, which waits for nothing. `wait_ms`: it waits so long,
        whatever the configs say. `most`: the count does not rise above that.
        """
        limit = self.config.delivery_limit
        self.window.dirty.add(chunk.number)
        self.changed = True
        counts = chunk.count
        if end - first == 1:
            runs = [(first, end, counts[first] if counts is not None else 0)]
        else:
            runs = list(chunk.count_runs(first, end))
        for at, stop, count in runs:
            count = count + 1 if most is None else max(min(count + 1, most), count)
            chunk.set_count(at, stop, count)
            if limit and count >= limit:
                self.doom(chunk, at, stop, ACQUIRED, Reason.MAX_DELIVERIES)
                continue
            wait = self._wait(why, count) if wait_ms is None else min(wait_ms, self.config.max_delay_ms)
            if wait:
                self.due.add(wall + wait, chunk.base + at, stop - at)
            self.move(chunk, at, stop, ACQUIRED, BACKOFF if wait else AVAILABLE)

    def wait(self, wait_ms: int | None) -> int:
        """ms that a consumer asks for, within what the configs allow; None: as after a first nack."""
        return self._wait(NACKED, 1) if wait_ms is None else min(wait_ms, self.config.max_delay_ms)

    def _wait(self, why: int, count: int) -> int:
        """ms until a record that failed `count` times is delivered again."""
        config = self.config
        if why == NACKED:
            backoff = config.nack_backoff
            return backoff.delay_ms(count) if backoff is not None else config.nack_delay_ms
        if why == TIMED_OUT and config.timeout_backoff is not None:
            return config.timeout_backoff.delay_ms(count)
        return 0

    def doom(self, chunk: Chunk, first: int, end: int, was: int, reason: Reason) -> None:
        """[first, end) is to be dead-lettered."""
        if self.config.dead_letters:
            self.move(chunk, first, end, was, DYING + NUMBER[reason])
            self.dead_letters.add(chunk)
        else:
            self.totals["dropped"] += end - first
            self.move(chunk, first, end, was, DONE)

    def move(self, chunk: Chunk, first: int, end: int, was: int, to: int) -> None:
        """[first, end), all in one state, is in another from now on."""
        window = self.window
        number = end - first
        window.n[KIND[was]] -= number
        if was == ACQUIRED:
            chunk.let_go(number)
        if to == DONE:
            assert check(chunk.state[first:end], DONE)
            window.finish(chunk, first, end)
            self.changed = True
        else:
            window.n[KIND[to]] += number
            chunk.become(first, end, to)
            if to > ACQUIRED or was > ACQUIRED:
                window.dirty.add(chunk.number)
                self.changed = True
        if self.keyed is not None:
            self.keyed.moved(chunk, first, end, was, to)
        elif to == AVAILABLE and self.shared is not None:
            self.shared.freed(chunk, first)

    def renew(self, chunk: Chunk, first: int, end: int, lease: Lease, now: int) -> bool:
        """Move [first, end) into a lease that runs out later; False if it is in that already."""
        later = self.leases.open(lease.consumer, now + self.config.lock_ms)
        if later is lease:
            return False
        plane = chunk.leases()
        for at in range(first, end):
            plane[at] = later.id
        later.runs.append(pack(chunk.base + first, end - first))
        later.remaining += end - first
        later.consumer.in_hand += end - first
        return True

    # -- rows ------------------------------------------------------------------------------------------------

    def due_loaded(self, found: Iterable[CursorRow], complete: bool) -> bool:
        """Rows of due times, in order. Whether there is something to write."""
        mending = self.due.mending
        self.due.loaded(found, complete)
        # Mended is a fact of the CURSOR row, and due rows that nothing waits for stayed while it was not.
        self.changed = self.changed or self.due.changed or mending != self.due.mending
        return self.changed

    def say_awake(self) -> bool:
        """Let the next rows say of everything that woke that it did. Whether there is such a thing."""
        woken = self.window.woken
        self.window.dirty |= woken
        self.changed = self.changed or bool(woken)
        return bool(woken)

    def writes(self) -> list[CursorRow]:
        """All rows that changed since the last call."""
        if not self.changed:
            return []
        self.changed = False
        found: list[CursorRow] = []
        window = self.window
        if awaited := self.due.awaited:
            window.dirty.update(window.chunks.keys() & awaited)
        if not self.waiting:
            window.dirty |= window.woken
            self.due.idle()
        recovery.choose(window)
        if self.due.lingering:
            self.due.said(window.dirty | window.left)
        if self.idle_due and not self.waiting and not self.due.mending:
            # nothing waits, so every due time left is of something that was settled
            self.idle_due = False
            self.due = DueTimes()
            found.append(rows.forget_all(rows.RowKind.DUE))
        if self._forget:
            self._forget = False
            found += [
                rows.forget_all(kind) for kind in (rows.RowKind.ACK, rows.RowKind.COUNT, rows.RowKind.DUE)
            ]
        found.extend(recovery.window_rows(window))
        if self.due.changed:
            found.extend(self.due.writes())
        n = window.n
        counts = rows.Counts(sum(n), n[DELAYED], n[BACKOFF], n[DYING])
        expired = self.totals["expired"]
        found.append(
            rows.cursor(window.start, window.known, self.due.stored, self.due.mending, counts, expired)
        )
        return found
