"""One subscription on one partition: who gets which record when, and what becomes of it.

Two rules. Everything that decides about a record lives in this package. Nothing here does I/O or reads a clock: the
methods change memory, and `writes()`, taken once a turn, says what must be made durable. If that fails, the object is
thrown away and loaded again from its rows, as after a crash.

The states of an offset, and what moves it from one to the next (`moves.py` does it):

| from               | event                                   | to                              | row              |
|--------------------|-----------------------------------------|---------------------------------|------------------|
| UNREAD             | fed                                     | AVAILABLE                       |                  |
| UNREAD             | fed, due later                          | DELAYED(t)                      | state, due, read |
| UNREAD             | fed, nothing to deliver, or a gap       | DONE                            | state            |
| UNREAD             | fed, unreadable, or past the limit      | DYING(reason)                   | state            |
| DELAYED            | t reached                               | AVAILABLE                       | with the next    |
| BACKOFF            | t reached                               | AVAILABLE                       | state, due gone  |
| AVAILABLE          | polled; Key_Shared: its slot is free    | ACQUIRED(consumer, deadline)    |                  |
| AVAILABLE          | Key_Shared: its slot is busy            | AVAILABLE, shown as BLOCKED     |                  |
| ACQUIRED           | accepted, or the client says GAP        | DONE                            | state            |
| ACQUIRED           | released (nack)                         | BACKOFF(t), at once: AVAILABLE  | count + 1, due   |
| ACQUIRED           | the lock ran out                        | BACKOFF(t), at once: AVAILABLE  | count + 1, due   |
| ACQUIRED           | the consumer crashed                    | AVAILABLE                       | count + 1        |
| ACQUIRED           | the consumer left                       | AVAILABLE                       | count + 1        |
| ACQUIRED           | any of these, count + 1 at the limit    | DYING(MAX_DELIVERIES)           | count + 1, state |
| ACQUIRED           | rejected                                | DYING(REJECTED)                 | count + 1, state |
| ACQUIRED           | it left, and leaves do not count here   | AVAILABLE                       |                  |
| ACQUIRED           | could not be sent; the gateway stops    | AVAILABLE                       |                  |
| ACQUIRED           | its answer waits, then leaves           | ACQUIRED, later deadline        |                  |
| ACQUIRED           | renewed                                 | ACQUIRED, later deadline        |                  |
| DYING              | buried                                  | DONE                            | state            |
| DYING              | could not be buried                     | DYING, shown as BACKOFF         |                  |
| DYING              | dead letters are off, by now            | DONE, counted as dropped        | state            |
| any but DONE       | trimmed, expired, skipped               | DONE                            | state, count gone|
|                    | ... and nothing waits any more          |                                 | all due gone     |
| any                | seek                                    | UNREAD                          | all gone         |

ACQUIRED is not stored: after a crash of the process what was in hand is AVAILABLE again with its count unchanged, so
no message dies before its last delivery. What woke from DELAYED is DELAYED again as long as no later row of its chunk
says otherwise, and the first tick wakes it again. That something is DONE may be said by a log (recovery.py). The
durable read position goes with every other row, so that a delay is looked for once; Key_Shared reads again from the
start for the slots of its records, and what is known stays.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from semantics.subscriptions import recovery, rows
from semantics.subscriptions.acknowledging import ACCEPT, REJECT, RELEASE, check, check_many
from semantics.subscriptions.administration import Administered
from semantics.subscriptions.chunks import (
    AVAILABLE_RUN,
    BURYING_RUN,
    DYING_RUN,
    FILL,
    Window,
)
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.due import DueTimes
from semantics.subscriptions.key_shared import KeyShared
from semantics.subscriptions.leases import UNSENT, Consumer, held
from semantics.subscriptions.looking import look
from semantics.subscriptions.moves import GONE, NACKED, TIMED_OUT
from semantics.subscriptions.owners import Owners
from semantics.subscriptions.rows import Row
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    BURYING,
    DELAYED,
    DONE,
    DYING,
    REASONS,
    Acquired,
    Batch,
    Deep,
    Draining,
    DueFrom,
    Dying,
    Ending,
    Reason,
    RecordState,
    Refusal,
)
from semantics.subscriptions.strict import Strict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TO_DYING = bytes(max(code - 3, 0) for code in range(256))

DOUBT_MS = 30_000
"""ms for which a record stays locked when its consumer's connection broke, perhaps with the answer that gave it."""

FILL_UP = 2_000
"""Key_Shared: records that wait, up to which more are read only to fill up what a consumer is given"""
WINDOW = 2_048
"""Key_Shared: chunks of 1,024 offsets that may have something open. Deep slots do not count in the look-ahead, so this
bounds how far is read past them: some 6 to 16 MB a partition. What rows know of is read again even beyond it.
"""


class Cursor(Administered):
    """The machine. `now` is monotonic ms, `wall` ms since 1970."""

    __slots__ = ()

    @classmethod
    def fresh(cls, config: SubscriptionConfig, start: int) -> Cursor:
        """A subscription that begins at offset `start`."""
        cursor = cls(config, Window(start), DueTimes())
        cursor._changed = True
        return cursor

    @classmethod
    def load(
        cls, config: SubscriptionConfig, found: Iterable[Row], log_start: int, log_end: int, wall: int
    ) -> Cursor:
        """What the rows say, within the log that there is. Raises RowError.

        Needs the rows of CURSOR, ACK and COUNT. Those of DUE may be left out, then `needs_due` asks for them; when
        they are given, they must be all there are.
        """
        recovered = recovery.recover(found, log_start, log_end)
        cursor = cls(config, recovered.window, recovered.due)
        cursor._changed = recovered.changed
        cursor.totals["expired"] = recovered.expired
        if recovered.due.stored:
            # there may be rows of what was settled before its time
            cursor._idle_due = True
            cursor._changed = cursor._changed or not cursor.waiting
        for chunk in recovered.window.chunks.values():
            if DYING_RUN.search(chunk.state):
                cursor._to_bury(chunk)
        return cursor

    # -- consumers -------------------------------------------------------------------------------------------

    def attach(self, consumer: str, now: int) -> None:
        """The consumer has a session. Under Key_Shared it gets nothing before `reassign` names it."""
        if consumer not in self._consumers:
            self._consumers[consumer] = Consumer(consumer, now)

    def detach(self, consumer: str, ending: Ending, now: int, wall: int) -> None:
        """Its session ended: what it held comes back at once. See Ending for whether that delivery counts."""
        who = self._consumers.pop(consumer, None)
        if who is None:
            return
        crashed = ending == Ending.CRASHED
        counts = crashed or (ending == Ending.LEFT and self._config.leave_counts)
        for lease in list(who.leases.values()):
            for chunk, first, end in held(self._window, lease):
                if not counts:
                    self._move(chunk, first, end, ACQUIRED, AVAILABLE)
                    continue
                if crashed:
                    self.totals["crashed"] += end - first
                self._fail(chunk, first, end, GONE, wall)
            self._leases.close(lease)
        self._advance()

    def reassign(self, selector: Owners, now: int) -> None:
        """Key_Shared: slots have other owners. What is in hand stays where it is."""
        if self._keyed is not None:
            self._keyed.reassign(selector, now)

    # -- dispatch --------------------------------------------------------------------------------------------

    def wants_more(self, consumer: str, given: int = 0) -> bool:
        """Whether batches should be fed for this consumer: nothing is ready for it, and there is room for more.

        Key_Shared: for one that was `given` something already, only while not much waits. Reading far ahead to give
        it yet more makes the records of every later poll lie further apart.

        Never while `needs_due` mends the due rows (see due.py): what is read then could be taken for what was lost.
        """
        if not self._room(consumer) or self._due.mending:
            return False
        if self._keyed is None:
            return not self._window.n[AVAILABLE]
        ahead = self._config.lookahead
        if given and ahead > FILL_UP:
            ahead = FILL_UP
        return not self._keyed.has(consumer) and self._may_look(self._keyed, ahead)

    def can_serve(self, consumer: str, log_end: int) -> bool:
        """Whether it is worth asking again for this consumer."""
        if not self._room(consumer) or self._due.mending:
            return False
        if self._keyed is None:
            return self._window.n[AVAILABLE] > 0 or self.read < log_end
        return self._keyed.has(consumer) or (
            self.read < log_end and self._may_look(self._keyed, self._config.lookahead)
        )

    def _may_look(self, keyed: KeyShared | Strict, ahead: int) -> bool:
        """Whether more may be read while that many may wait, and more if they are of deep slots."""
        if keyed.queued >= ahead:
            keyed.relieve(ahead)
        return keyed.queued < ahead and not self.window_full

    @property
    def waiting_ahead(self) -> int:
        """Key_Shared: how many records that were read wait, without those of deep slots: what the look-ahead bounds."""
        return self._keyed.queued if self._keyed is not None else 0

    @property
    def window_full(self) -> bool:
        """Key_Shared: so much waits in deep slots that no more is read for anybody."""
        window, keyed = self._window, self._keyed
        return (
            len(window.chunks) >= WINDOW
            and keyed is not None
            and window.n[AVAILABLE] >= max(self._config.lookahead, keyed.queued + 1)
            and self.read >= window.known
        )

    def _room(self, consumer: str) -> bool:
        """Whether anything more may be acquired by this consumer."""
        if self._window.n[ACQUIRED] >= self._config.max_locks:
            return False
        who = self._consumers.get(consumer)
        return who is None or who.in_hand < self._config.receiver_queue

    def fair_share(self, consumer: str, consumers: int, log_end: int) -> int:
        """Shared: how many records to give a consumer now, so that each of `consumers` has the same number in hand; one
        at least. What was not read yet counts by its offsets, up to `log_end`.
        """
        window = self._window
        there = window.n[AVAILABLE] + window.n[ACQUIRED] + max(log_end - self.read, 0)
        return max(-(-there // consumers) - self._consumers[consumer].in_hand, 1)

    def lock_share(self, consumer: str, sharers: Collection[str], coming: int) -> int:
        """How many records to give a consumer now, so that the others that share the partition's locks find some free:
        half of all locks is for all of them in equal parts, as far as they do not hold so much. One at least.

        `coming` more are about to attach.
        """
        max_locks, consumers = self._config.max_locks, self._consumers
        in_hand = consumers[consumer].in_hand
        others = coming + len(sharers) - (consumer in sharers)
        each = max_locks // (2 * (1 + others))
        free = max_locks - self._window.n[ACQUIRED]
        kept = each * others
        if kept and free - kept < self._config.receiver_queue - in_hand:
            # it matters how much they hold
            for name in sharers:
                other = consumers.get(name)
                if other is not None and name != consumer:
                    kept -= min(other.in_hand, each)
        return max(free - kept, each - in_hand, 1)

    def feed(self, batches: Sequence[Batch], now: int, wall: int) -> None:
        """Look at stored batches, ascending. What they leave out from `read` on is not there: DONE.

        Of offsets that were known before (Key_Shared after a load) only slots and deaths are taken. RuntimeError
        while the due rows are mended.
        """
        if self._due.mending:
            raise RuntimeError("The due rows must be mended first: needs_due, due_loaded.")
        window = self._window
        position = self.read
        plain = position
        # Key_Shared: the slots of batches that lie one behind the other are told together
        slots = array("H")
        for batch in batches:
            first, end, its, delayed, dead, skip = batch
            if end <= position:
                continue
            if first > position or skip or delayed or dead or self._keyed is not None:
                self._take_in(plain, position)
                if first > position:
                    self._keyed_fed(position, slots)
                    self._nothing(position, first)
                    position = first
                if skip:
                    self._keyed_fed(position, slots)
                    self._nothing(position, end)
                else:
                    known = max(window.known, position)
                    if end > known:
                        window.extend(end)
                    for begin, last, reason in dead:
                        for chunk, at, stop in window.runs(max(begin, position), last + 1, AVAILABLE_RUN):
                            self._doom(chunk, at, stop, AVAILABLE, reason)
                    if delayed:
                        self._delay(delayed, known, wall)
                    if self._keyed is None:
                        self._shared_fed(position, end)
                    elif its is None:
                        slots.extend(bytes(end - position))
                    else:
                        slots.extend(its if first == position else its[position - first :])
                position = plain = end
            else:
                position = end
            self.read = position
        self._keyed_fed(position, slots)
        self._take_in(plain, position)
        self.read = position
        self._advance()
        self._pass_over_settled()

    def _keyed_fed(self, end: int, slots: array[int]) -> None:
        """What was read up to `end`, and not told yet, has these slots, which are told now."""
        if self._keyed is not None and slots:
            self._keyed.fed(end - len(slots), end, slots)
            del slots[:]

    def poll(self, consumer: str, limit: int, now: int, wall: int) -> list[Acquired]:
        """Up to `limit` records for an attached consumer, ascending, locked from now on. KeyError if it is not."""
        who = self._consumers[consumer]
        config = self._config
        room = min(limit, config.max_locks - self._window.n[ACQUIRED], config.receiver_queue - who.in_hand)
        if room <= 0 or not self._window.n[AVAILABLE]:
            return []
        dispatcher = self._shared or self._keyed
        assert dispatcher is not None
        lease = self._leases.open(who, now + self._config.lock_ms)
        before = lease.remaining
        taken = dispatcher.take(lease, room)
        if not lease.remaining:
            self._leases.close(lease)
        totals = self.totals
        totals["delivered"] += lease.remaining - before
        totals["redelivered"] += sum([last + 1 - first for first, last, count in taken if count])
        return taken

    def give_back(self, consumer: str, ranges: Sequence[tuple[int, int]], now: int) -> None:
        """Acquired and not sent: AVAILABLE again, as if never taken. What it does not hold is passed over."""
        who = self._consumers.get(consumer)
        if who is None:
            return
        for first, last in ranges:
            for chunk, at, stop in self._window.pieces(first, last + 1):
                while at < stop:
                    at = chunk.state.find(ACQUIRED, at, stop)
                    if at < 0:
                        break
                    lease = self._leases.by_id[chunk.leases()[at]]
                    if lease.consumer is not who:
                        at += 1
                        continue
                    begin, end = next(chunk.held_runs(at, stop, lease.id))
                    self._move(chunk, begin, end, ACQUIRED, AVAILABLE)
                    self._leases.settle(lease, end - begin)
                    self.totals["delivered"] -= end - begin
                    at = end

    def withhold(self, consumer: str, offsets: Iterable[int]) -> None:
        """The answer with what was given by the poll that gave these offsets cannot leave yet: its lock begins with
        `sent`. What ran out before stays so.
        """
        who, window = self._consumers.get(consumer), self._window
        for offset in offsets:
            for chunk, at, _ in window.pieces(offset, offset + 1):
                if chunk.state[at] == ACQUIRED:
                    lease = self._leases.by_id[chunk.leases()[at]]
                    if lease.consumer is who:
                        self._leases.withhold(lease)

    def sent(self, consumer: str, now: int) -> None:
        """The answer leaves: what was withheld from the consumer is locked from now on."""
        who = self._consumers.get(consumer)
        if who is not None:
            for lease in who.leases.values():
                if lease.deadline == UNSENT:
                    self._leases.shorten(lease, now + self._config.lock_ms)

    def in_doubt(self, consumer: str, now: int) -> None:
        """What the consumer was given last may have been lost on its way. If it was given less than DOUBT_MS ago, and
        its lock lasts longer than that, the lock now runs out after DOUBT_MS. A renewal makes it a whole lock again.
        """
        who = self._consumers.get(consumer)
        last = who.last if who is not None else None
        if last is None or not last.remaining or last.deadline <= now + DOUBT_MS or last.deadline == UNSENT:
            return
        if last.deadline - self._config.lock_ms > now - DOUBT_MS:
            self._leases.shorten(last, now + DOUBT_MS)

    # -- acknowledgements ------------------------------------------------------------------------------------

    def acknowledge(
        self, consumer: str, batches: Sequence[tuple[int, int, bytes]], now: int, wall: int
    ) -> Refusal | None:
        """(first, last, types): one type for all or one each. 0 gap, 1 accept, 2 release, 3 reject, 4 renew.

        All of it is taken, or nothing. Below `start` is passed over, as in Kafka.
        """
        window, leases, keyed, totals = self._window, self._leases, self._keyed, self.totals
        who = self._consumers.get(consumer)
        pieces = check(window, self.read, leases, who, batches)
        if isinstance(pieces, Refusal):
            return pieces
        accepted = 0
        for chunk, first, end, lease, kind in pieces:
            number = end - first
            if kind <= ACCEPT:
                accepted += number
                chunk.held -= number
                if not chunk.held:
                    chunk.lease = None
                window.finish(chunk, first, end)
                if keyed is not None:
                    keyed.settled(chunk, first, end)
            elif kind == RELEASE:
                totals["nacked"] += number
                self._fail(chunk, first, end, NACKED, wall)
            elif kind == REJECT:
                totals["rejected"] += number
                for at, stop, count in chunk.count_runs(first, end):
                    chunk.set_count(at, stop, count + 1)
                    self._doom(chunk, at, stop, ACQUIRED, Reason.REJECTED)
            elif not self._renew(chunk, first, end, lease, now):
                continue
            leases.settle(lease, number)
        if accepted:
            window.n[ACQUIRED] -= accepted
            totals["acknowledged"] += accepted
            self._changed = True
        self._advance()
        return None

    def accept(self, consumer: str, firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> bool:
        """`acknowledge` for many ranges of Key_Shared that are accepted: first and last offsets.

        False, and nothing is done, when `acknowledge` must be asked: it is not all as it should be, or not strict.
        """
        window, leases, keyed = self._window, self._leases, self._keyed
        who = self._consumers.get(consumer)
        if who is None or not isinstance(keyed, Strict):
            return False
        checked = check_many(window, self.read, leases, who, firsts, lasts)
        if checked is None:
            return False
        pieces, held_by = checked
        accepted = 0
        for chunk, ats in pieces:
            accepted += len(ats)
            chunk.let_go(len(ats))
            window.finish_many(chunk, ats)
            keyed.settled_many(chunk, ats)
        for lease_id, number in held_by.items():
            leases.settle(leases.by_id[lease_id], number)
        window.n[ACQUIRED] -= accepted
        self.totals["acknowledged"] += accepted
        self._changed = True
        self._advance()
        return True

    # -- dead letters ----------------------------------------------------------------------------------------

    def dying(self, limit: int) -> list[Dying]:
        """Up to `limit` records to bury. They are not given again, or when the time of `not_buried` has come."""
        found: list[Dying] = []
        doomed, chunks = self._doomed, self._window.chunks
        while doomed and limit > 0:
            chunk = chunks.get(doomed[0])
            run = DYING_RUN.search(chunk.state) if chunk is not None else None
            if chunk is None or run is None:
                heappop(doomed)
                if chunk is not None:
                    chunk.doomed = False
                continue
            first, end = run.span()
            code = chunk.state[first]
            end = min(end, first + limit)
            same = chunk.state[first:end].lstrip(bytes((code,)))
            first, end, count = next(chunk.count_runs(first, end - len(same)))
            chunk.state[first:end] = FILL[code + BURYING - DYING][: end - first]
            found.append(Dying(chunk.base + first, chunk.base + end - 1, count, REASONS[code - DYING]))
            limit -= end - first
        return found

    def buried(self, ranges: Sequence[tuple[int, int]], *, dropped: bool = False) -> None:
        """Records that `dying` gave are dead letters now, in the same commit; or `dropped`, since nobody wants them."""
        for first, last in ranges:
            for chunk, at, stop in self._window.runs(first, last + 1, BURYING_RUN):
                self.totals["dropped" if dropped else "buried"] += stop - at
                self._move(chunk, at, stop, BURYING, DONE)
        self._advance()

    def not_buried(self, ranges: Sequence[tuple[int, int]], reason: str, retry_at_wall: int) -> None:
        """They cannot be dead letters now: `dying` gives them again from then on."""
        for first, last in ranges:
            heappush(self._unburied, (retry_at_wall, first, last, reason))

    # -- time ------------------------------------------------------------------------------------------------

    def tick(self, now: int, wall: int) -> None:
        """Locks that ran out, due times that came."""
        window = self._window
        for lease in self._leases.expired(now):
            for chunk, first, end in held(window, lease):
                self.totals["timed_out"] += end - first
                self._fail(chunk, first, end, TIMED_OUT, wall)
            self._leases.close(lease)
        self._wake(self._due.pop(wall))
        while self._unburied and self._unburied[0][0] <= wall:
            _, first, last, _ = heappop(self._unburied)
            for chunk, at, stop in window.runs(first, last + 1, BURYING_RUN):
                chunk.state[at:stop] = chunk.state[at:stop].translate(_TO_DYING)
                self._to_bury(chunk)
        self._advance()

    def next_due(self, now: int, wall: int) -> tuple[int | None, int | None]:
        """When `tick` has something to do: (monotonic ms, wall ms)."""
        due = self._due.next()
        if self._unburied and (due is None or self._unburied[0][0] < due):
            due = self._unburied[0][0]
        return self._leases.next_deadline(), due

    @property
    def needs_due(self) -> DueFrom | None:
        """Which DUE rows to scan and give to `due_loaded`, when nothing of this cursor is uncommitted."""
        return self._due.needs

    def due_loaded(self, found: Iterable[Row], complete: bool) -> bool:
        """The rows that `needs_due` named, in order; `complete`: the scan met the last.

        Whether there is something to write.
        """
        mending = self._due.mending
        self._due.loaded(found, complete)
        # Mended is a fact of the CURSOR row, and due rows that nothing waits for stayed while it was not.
        self._changed = self._changed or self._due.changed or mending != self._due.mending
        return self._changed

    # -- rows ------------------------------------------------------------------------------------------------

    def writes(self) -> list[Row]:
        """All rows that changed since the last call."""
        if not self._changed:
            return []
        self._changed = False
        found: list[Row] = []
        window = self._window
        window.dirty.update(window.chunks.keys() & self._due.awaited)
        if not self.waiting:
            window.dirty |= window.woken
            self._due.idle()
        recovery.choose(window)
        if self._due.lingering:
            self._due.said(window.dirty | window.left)
        if self._idle_due and not self.waiting and not self._due.mending:
            # nothing waits, so every due time left is of something that was settled
            self._idle_due = False
            self._due = DueTimes()
            found.append(rows.forget_all(rows.RowKind.DUE))
        if self._forget:
            self._forget = False
            found += [
                rows.forget_all(kind) for kind in (rows.RowKind.ACK, rows.RowKind.COUNT, rows.RowKind.DUE)
            ]
        found.extend(recovery.window_rows(window))
        found.extend(self._due.writes())
        n = window.n
        counts = rows.Counts(sum(n), n[DELAYED], n[BACKOFF], n[DYING])
        expired = self.totals["expired"]
        found.append(
            rows.cursor(window.start, window.known, self._due.stored, self._due.mending, counts, expired)
        )
        return found

    def say_awake(self) -> bool:
        """Let the next rows say of everything that it woke, and not only of chunks that are written anyway. Whether
        there is such a thing.
        """
        woken = self._window.woken
        self._window.dirty |= woken
        self._changed = self._changed or bool(woken)
        return bool(woken)

    # -- questions -------------------------------------------------------------------------------------------

    def look(self, offset: int) -> RecordState:
        """Why this record arrives or does not."""
        return look(self._window, self._leases, self._due, self._keyed, self._unburied, offset)

    def stats(self) -> dict[str, int]:
        """Positions, how many records are in which state, and what happened (`totals`)."""
        n = self._window.n
        return {
            "start": self.start,
            "read": self.read,
            "available": n[AVAILABLE],
            "acquired": n[ACQUIRED],
            "delayed": n[DELAYED],
            "backoff": n[BACKOFF],
            "dying": n[DYING],
            "open": sum(n),
            # failed before, and AVAILABLE again
            "redelivering": sum([chunk.failed_and_available() for chunk in self._window.chunks.values()]),
            "consumers": len(self._consumers),
            **self.totals,
        }

    def holding(self) -> dict[str, int]:
        """Consumer -> how many records it holds."""
        return {name: who.in_hand for name, who in self._consumers.items()}

    def holder_of(self, slot: int) -> str | None:
        """Key_Shared: who has records of a slot in hand."""
        return self._keyed.holder_of(slot) if self._keyed is not None else None

    def draining(self) -> list[Draining]:
        """Key_Shared: slots that still have records in the hands of who does not own them any more."""
        return self._keyed.draining() if self._keyed is not None else []

    def deep(self) -> list[Deep]:
        """Key_Shared, strict: slots of which so much waits that most of it does not count in the look-ahead."""
        return self._keyed.deep() if isinstance(self._keyed, Strict) else []
