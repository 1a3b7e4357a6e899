"""One subscription on one partition: who gets which record when, and what becomes of it.

Two rules. Everything that decides about a record lives in this package. Nothing here does I/O or reads a clock: the
methods change memory, and `writes()`, taken once a turn, says what must be made durable. If that fails, the object is
thrown away and loaded again from its rows, as after a crash.

The states of an offset, and what moves it from one to the next (`records.py` does it):

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
| ACQUIRED           | something is said in a transaction      | ACQUIRED by a trustee, no deadline |               |
| ACQUIRED           | reconsume later                         | BACKOFF(t), counting nothing    | due              |
| BACKOFF            | ... and it is on the RETRY topic        | DONE                            | state            |
| DYING              | buried                                  | DONE                            | state            |
| DYING              | could not be buried                     | DYING, shown as BACKOFF         |                  |
| DYING              | dead letters are off, by now            | DONE, counted as dropped        | state            |
| AVAILABLE, BACKOFF | its time to live is over                | DONE                            | state, count gone|
| DELAYED, BACKOFF   | an administrator ends the wait          | AVAILABLE                       | state            |
| ACQUIRED           | an administrator takes it back          | AVAILABLE                       |                  |
| ACQUIRED           | an administrator has it die             | DYING(REJECTED)                 | state            |
| any but DONE       | trimmed, expired, skipped, settled      | DONE                            | state, count gone|
|                    | ... and nothing waits any more          |                                 | all due gone     |
| any                | seek                                    | UNREAD                          | all gone         |

What an administrator has die while nobody has it, or while it waits, goes the way of what was fed and dies at once.
ACQUIRED is not stored: after a crash of the process what was in hand is AVAILABLE again with its count unchanged, so
no message dies before its last delivery. A record that woke from DELAYED is DELAYED again unless a later row of its
chunk says otherwise, and the first tick wakes it again; of what lanes are given it says so. DONE may be stored in a log
(recovery.py). The durable read position goes with every other row, so that a delay is looked for once; Key_Shared reads
again from the start for the slots of its records, and what is known stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from semantics.subscriptions import acknowledging, chosen, entrusted, feeding, held, leases, looking, recovery
from semantics.subscriptions.administration import Administration
from semantics.subscriptions.chunks import BURYING_RUN, MASK, SHIFT, Window
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.deliveries import Deliveries
from semantics.subscriptions.due import DueTimes
from semantics.subscriptions.explain import explain
from semantics.subscriptions.owners import Owners
from semantics.subscriptions.records import Records
from semantics.subscriptions.rows import Counts, CursorRow, due_key
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    DELAYED,
    DONE,
    DYING,
    Acquired,
    Batch,
    Deep,
    Draining,
    DueFrom,
    Dying,
    Ending,
    Ordering,
    Piece,
    RecordState,
    Refusal,
)
from semantics.subscriptions.strict import Strict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from semantics.taken import Taken


class Cursor:
    """The machine, as the gateway sees it. `now` is monotonic ms, `wall` ms since 1970.

    What it knows of the records is in `Records` (records.py). What batches, consumers, acknowledgements and
    administrators do to them is in one module each.
    """

    __slots__ = ("_administration", "_deliveries", "_records")

    def __init__(self, records: Records) -> None:
        """Use `fresh` or `load`."""
        self._records = records
        self._deliveries = Deliveries(records)
        self._administration = Administration(records)

    @classmethod
    def fresh(cls, config: SubscriptionConfig, start: int) -> Cursor:
        """A subscription that begins at offset `start`."""
        records = Records(config, Window(start), DueTimes())
        records.changed = True
        return cls(records)

    @classmethod
    def load(
        cls, config: SubscriptionConfig, found: Iterable[CursorRow], log_start: int, log_end: int, wall: int
    ) -> Cursor:
        """What the rows say, within the log that there is. Raises RowError.

        Needs the rows of CURSOR, ACK and COUNT. Those of DUE may be left out, then `needs_due` asks for them; when
        they are given, they must be all there are.
        """
        recovered = recovery.recover(found, log_start, log_end)
        records = Records(config, recovered.window, recovered.due)
        records.changed = recovered.changed
        records.totals["expired"] = recovered.expired
        if recovered.due.stored:
            # there may be rows of what was settled before its time
            records.idle_due = True
            records.changed = records.changed or not records.waiting
        return cls(records)

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def config(self) -> SubscriptionConfig:
        return self._records.config

    @property
    def start(self) -> int:
        """Mark-delete + 1: the first open offset, or `read`."""
        return self._records.window.start

    @property
    def read(self) -> int:
        """The first offset that the dispatcher has not looked at."""
        return self._records.read

    @property
    def known(self) -> int:
        """The first offset of which nothing is known: `read`, unless Key_Shared reads again."""
        return self._records.window.known

    @property
    def available(self) -> int:
        """Records looked at that nobody has and that wait for no time (BLOCKED ones among them)."""
        return self._records.window.n[AVAILABLE]

    @property
    def acquired(self) -> int:
        """Records in the hands of consumers."""
        return self._records.window.n[ACQUIRED]

    @property
    def waiting(self) -> int:
        """Records that wait for a time: DELAYED and BACKOFF."""
        return self._records.waiting

    @property
    def dying_records(self) -> int:
        """Records that are to be dead letters and are not yet."""
        return self._records.window.n[DYING]

    @property
    def totals(self) -> dict[str, int]:
        """Records since the cursor was loaded, and what whoever loads it adds, by what happened to them; what retention
        took of open ones (expired) since there is one.
        """
        return self._records.totals

    def backlog(self, log_end: int) -> int:
        """Records that are not settled, up to the log's end."""
        return self._records.backlog(log_end)

    # -- consumers -------------------------------------------------------------------------------------------

    def attach(self, consumer: str, now: int) -> None:
        """The consumer has a session. Under Key_Shared it gets nothing before `reassign` names it."""
        self._records.leases.attach(consumer, now)

    def detach(self, consumer: str, ending: Ending, now: int, wall: int) -> None:
        """Its session ended: what it held comes back at once. See Ending for whether that delivery counts."""
        self._deliveries.detach(consumer, ending, wall)

    def reassign(self, selector: Owners, now: int) -> None:
        """Key_Shared: slots have other owners. What is in hand stays where it is."""
        if self._records.keyed is not None:
            self._records.keyed.reassign(selector, now)

    # -- dispatch --------------------------------------------------------------------------------------------

    def wants_more(self, consumer: str, given: int = 0) -> bool:
        """Whether batches should be fed for this consumer, which was `given` so many records already: nothing is ready
        for it, and there is room for more. Never while `needs_due` mends the due rows.
        """
        return self._deliveries.wants_more(consumer, given)

    def can_serve(self, consumer: str, log_end: int) -> bool:
        """Whether it is worth asking again for this consumer."""
        return self._deliveries.can_serve(consumer, log_end)

    @property
    def waiting_ahead(self) -> int:
        """Key_Shared: how many records that were read wait, without those of deep slots: what the look-ahead bounds."""
        keyed = self._records.keyed
        return keyed.queued if keyed is not None else 0

    @property
    def window_full(self) -> bool:
        """Key_Shared: deep slots have so many waiting records that nothing more is read for any consumer."""
        return self._deliveries.window_full

    def fair_share(self, consumer: str, consumers: int, log_end: int) -> int:
        """Shared: how many records to give a consumer now, so that each of `consumers` has the same number in hand; one
        at least. What was not read yet counts by its offsets, up to `log_end`.
        """
        return self._deliveries.fair_share(consumer, consumers, log_end)

    def lock_share(self, consumer: str, sharers: Collection[str], coming: int) -> int:
        """How many records to give a consumer now, so that the others that share the partition's locks find some free;
        one at least. `coming` more are about to attach.
        """
        return self._deliveries.lock_share(consumer, sharers, coming)

    def feed(self, batches: Sequence[Batch], now: int, wall: int) -> None:
        """Look at stored batches, ascending. What they leave out from `read` on is not there: DONE.

        Of offsets that were known before (Key_Shared after a load) only slots and deaths are taken. RuntimeError
        while the due rows are mended.
        """
        feeding.feed(self._records, batches, wall)

    def poll(self, consumer: str, limit: int, now: int, wall: int) -> list[Acquired]:
        """Up to `limit` records for an attached consumer, ascending, locked from now on. KeyError if it is not."""
        return self._deliveries.poll(consumer, limit, now)

    def take_many(self, consumer: str, limit: int, now: int) -> Taken | None:
        """`poll` by columns, under Key_Shared; None for nothing."""
        return self._deliveries.take_many(consumer, limit, now)

    def give_back(self, consumer: str, ranges: Sequence[tuple[int, int]], now: int) -> None:
        """Acquired and not sent: AVAILABLE again, as if never taken. What it does not hold is passed over."""
        self._deliveries.give_back(consumer, ranges)

    def withhold(self, consumer: str, since: int) -> None:
        """The answer with what the consumer was given since then (monotonic ms) cannot leave yet: its locks begin with
        `sent`. What ran out before stays so.
        """
        self._deliveries.withhold(consumer, since)

    def sent(self, consumer: str, now: int) -> None:
        """The answer leaves: what was withheld from the consumer is locked from now on."""
        self._deliveries.sent(consumer, now)

    def in_doubt(self, consumer: str, now: int) -> None:
        """What the consumer was given last may have been lost on its way. If it was given less than DOUBT_MS ago, and
        its lock lasts longer than that, the lock now runs out after DOUBT_MS. A renewal makes it a whole lock again.
        """
        self._deliveries.in_doubt(consumer, now)

    # -- acknowledgements ------------------------------------------------------------------------------------

    def acknowledge(
        self,
        consumer: str,
        batches: Sequence[tuple[int, int, bytes]],
        now: int,
        wall: int,
        most: int = acknowledging.RENEW,
    ) -> Refusal | None:
        """(first, last, types): one type for all or one each. 0 gap, 1 accept, 2 release, 3 reject, 4 renew; none above
        `most`.

        All of it is taken, or nothing. Below `start` is passed over, as in Kafka.
        """
        return acknowledging.acknowledge(self._records, consumer, batches, now, wall, most)

    def accept(self, consumer: str, firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> bool:
        """`acknowledge` for many ranges of Key_Shared that are accepted: first and last offsets.

        False, and nothing is done, when `acknowledge` must be asked: it is not all as it should be, or not strict.
        """
        return acknowledging.accept(self._records, consumer, firsts, lasts)

    # -- lanes -----------------------------------------------------------------------------------------------

    def hold_again(self, consumer: str, ranges: held.Ranges, now: int) -> list[tuple[int, int]]:
        """After a load, before anything is dealt: what an attached consumer held before, as its own rows say. What of
        that it has again: the rest was settled, or waits for something.
        """
        return held.hold_again(self._records, consumer, ranges, now)

    def hold_only(self, consumer: str, ranges: held.Ranges) -> list[tuple[int, int]]:
        """It is to hold nothing but these, as its own rows say: the rest is AVAILABLE again, as if never taken. What it
        holds of them, ascending.
        """
        first, others = self.start, []
        for begin, last in ranges:
            if first < begin:
                others.append((first, begin - 1))
            first = max(first, last + 1)
        others.append((first, max(first, self._records.window.known)))
        self._deliveries.give_back(consumer, others)
        return held.holds(self._records, consumer, ranges)

    def holds(self, consumer: str, ranges: held.Ranges) -> list[tuple[int, int]]:
        """What a consumer holds of (first, last), ascending."""
        return held.holds(self._records, consumer, ranges)

    def settle(self, consumer: str, ranges: held.Ranges, now: int, wall: int) -> None:
        """Accept what a consumer holds of (first, last), ascending; what it does not hold is passed over."""
        held.settle(self._records, consumer, ranges, now, wall)

    def settle_many(self, consumer: str, offsets: NDArray[np.int64], now: int, wall: int) -> None:
        """`settle` for many single offsets, ascending: by columns under Key_Shared."""
        from semantics.subscriptions.held_many import settle_many

        settle_many(self._records, consumer, offsets, now, wall)

    def crash_many(self, consumer: str, offsets: NDArray[np.int64], most: int | None, wall: int) -> None:
        """`crash` for many single offsets, ascending: by columns under Key_Shared."""
        from semantics.subscriptions.held_many import crash_many

        crash_many(self._records, consumer, offsets, most, wall)

    def give_back_many(self, consumer: str, offsets: NDArray[np.int64], now: int) -> None:
        """`give_back` for many single offsets, ascending: by columns under Key_Shared."""
        from semantics.subscriptions.held_many import give_back_many

        if not give_back_many(self._records, consumer, offsets):
            self.give_back(consumer, [(offset, offset) for offset in offsets.tolist()], now)

    def reject(self, consumer: str, ranges: held.Ranges, now: int, wall: int) -> None:
        """The same; they are to be dead letters."""
        held.reject(self._records, consumer, ranges, now, wall)

    def nack(self, consumer: str, ranges: held.Ranges, wait_ms: int | None, now: int, wall: int) -> None:
        """The same; they are to be delivered again after so many ms, or after what the configs say."""
        held.nack(self._records, consumer, ranges, wait_ms, wall)

    def crash(self, consumer: str, ranges: held.Ranges, most: int | None, now: int, wall: int) -> None:
        """The same; they were in its hands when it was lost. Counts do not rise above `most`, if it is given."""
        held.crash(self._records, consumer, ranges, most, wall)

    def count(self, consumer: str, ranges: held.Ranges, most: int | None, wall: int) -> bool:
        """One more delivery of what a consumer holds has failed, and it holds it still: see `held.count`. Whether some
        of it died of that.
        """
        return held.count(self._records, consumer, ranges, most, wall)

    def reconsume_later(
        self, consumer: str, ranges: held.Ranges, wait_ms: int | None, wall: int
    ) -> tuple[list[tuple[int, int]], int]:
        """What of (first, last) a consumer holds is in BACKOFF for so many ms, or for what the configs say of a first
        nack, without that it counts: until `resent` says that it is on the retry letter topic. (what it held, ms)
        """
        records = self._records
        delay = records.wait(wait_ms)
        return held.reconsume_later(records, consumer, ranges, delay, wall), delay

    def resent(self, ranges: held.Ranges) -> None:
        """What of these is in BACKOFF still is on the retry letter topic now, in the same commit: done."""
        held.resent(self._records, ranges)

    def slots_of(self, ranges: held.Ranges) -> set[int] | None:
        """Key_Shared: the slots of (first, last); None when one is not known, as it was not read again since a load.
        Shared has none.
        """
        return held.slots_of(self._records, ranges)

    def place_of(self, consumer: str) -> int:
        """A number for who owns slots, as `places` has it; 0 for who owns none, and under Shared."""
        keyed = self._records.keyed
        return keyed.place_of(consumer) if keyed is not None else 0

    def places(self, first: int, end: int) -> NDArray[np.uint16]:
        """Key_Shared: of each offset of [first, end) whose slot it has; 0 for nobody's, and for what is settled."""
        return held.places(self._records, first, end)

    def in_slots(
        self, consumer: str, ranges: held.Ranges, slots: Collection[int] | None
    ) -> list[tuple[int, int]]:
        """What of these a consumer holds in one of the slots, or in one that is not known; None: in any."""
        return held.in_slots(self._records, consumer, ranges, slots)

    # -- transactions ----------------------------------------------------------------------------------------

    def entrust(self, consumer: str, trustee: str, ranges: held.Ranges, now: int) -> list[tuple[int, int]]:
        """Something is said of (first, last) inside of a transaction: what of it the consumer holds is in the hands of
        the trustee until that ends. What that is, ascending.
        """
        return entrusted.entrust(self._records, consumer, trustee, ranges, now)

    def entrusted_again(self, trustee: str, ranges: held.Ranges, now: int) -> list[tuple[int, int]]:
        """After a load, before anything is dealt: what of these is a trustee's again."""
        return entrusted.entrusted_again(self._records, trustee, ranges, now)

    def holders(self, ranges: held.Ranges) -> Iterator[tuple[int, int, str | None, int]]:
        """(first, last, who has them in hand, how many deliveries failed before) of what these name at or above the
        start. A piece of nobody's, None, is the last of its range.
        """
        return entrusted.holders(self._records, ranges)

    # -- dead letters ----------------------------------------------------------------------------------------

    def dying(self, limit: int) -> list[Dying]:
        """Up to `limit` records to bury. They are not given again, or when the time of `not_buried` has come."""
        return self._records.dead_letters.take(limit)

    def buried(self, ranges: Sequence[tuple[int, int]], *, dropped: bool = False) -> None:
        """Records that `dying` gave are dead letters now, in the same commit; or `dropped`, since nobody wants them."""
        records = self._records
        for first, last in ranges:
            for chunk, at, stop in records.window.runs(first, last + 1, BURYING_RUN):
                records.totals["dropped" if dropped else "buried"] += stop - at
                records.move(chunk, at, stop, chunk.state[at], DONE)
        records.advance()

    def not_buried(self, ranges: Sequence[tuple[int, int]], reason: str, retry_at_wall: int) -> None:
        """They cannot be dead letters now: `dying` gives them again from then on."""
        self._records.dead_letters.put_off(ranges, reason, retry_at_wall)

    # -- time ------------------------------------------------------------------------------------------------

    def tick(self, now: int, wall: int) -> None:
        """Locks that ran out, due times that came."""
        records = self._records
        self._deliveries.run_out(now, wall)
        records.wake(records.due.pop(wall))
        records.dead_letters.retry(wall)
        records.advance()

    def next_due(self, now: int, wall: int) -> tuple[int | None, int | None]:
        """When `tick` has something to do: (monotonic ms, wall ms)."""
        records = self._records
        due, retry = records.due.next(), records.dead_letters.next_retry()
        if retry is not None and (due is None or retry < due):
            due = retry
        return records.leases.next_deadline(), due

    @property
    def needs_due(self) -> DueFrom | None:
        """Which DUE rows to scan and give to `due_loaded`, when nothing of this cursor is uncommitted."""
        return self._records.due.needs

    @property
    def mending(self) -> bool:
        """Whether nothing may be fed, since the due rows are being mended."""
        return self._records.due.mending

    def due_loaded(self, found: Iterable[CursorRow], complete: bool) -> bool:
        """The rows that `needs_due` named, in order; `complete`: the scan met the last.

        Whether there is something to write.
        """
        return self._records.due_loaded(found, complete)

    # -- rows ------------------------------------------------------------------------------------------------

    def writes(self) -> list[CursorRow]:
        """All rows that changed since the last call."""
        return self._records.writes()

    def say_awake(self) -> bool:
        """Let the next rows say of everything that it woke, and not only of chunks that are written anyway. Whether
        there is such a thing.
        """
        return self._records.say_awake()

    # -- from outside ----------------------------------------------------------------------------------------

    def trimmed(self, log_start: int) -> None:
        """Everything below is gone from the log, or expired: DONE whatever it was."""
        self._administration.trimmed(log_start)

    def expire(self, before: int) -> int:
        """Retention deletes what lies below. Returns how many records of it were open; offsets that were not read
        count one each.
        """
        return self._administration.expire(before)

    def expire_open(self, first: int, end: int, keep: Sequence[int] = (), *, delayed: bool = False) -> int:
        """The time to live of [first, end) is over: see `Administration`."""
        return self._administration.expire_open(first, end, keep, delayed=delayed)

    def first_held(self, end: int) -> tuple[int, str] | None:
        """The first offset below `end` that is ACQUIRED, DELAYED, in BACKOFF or DYING, and which; None for none."""
        return self._administration.first_held(end)

    def settled(self, most: int) -> list[tuple[int, int]]:
        """Ranges [first, end) that are settled behind the first record that is not: the first `most` of them."""
        return self._administration.settled(most)

    def skip(self, count: int, end: int) -> int:
        """Settle the first `count` open records before `end`; offsets that were not read count one each. Returns how
        many were settled.
        """
        return self._administration.skip(count, end)

    def clear(self, end: int) -> None:
        """Settle everything before `end`."""
        self._administration.trimmed(end)

    def seek(self, offset: int) -> None:
        """Begin anew at this offset: all states are forgotten, and nobody holds anything."""
        self._records.begin_anew(offset)

    def act(self, do: chosen.Act, ranges: held.Ranges, consumers: Collection[str]) -> int:
        """What an administrator does to single records, (first, last) ascending, whoever has them: see `chosen.act`."""
        return chosen.act(self._records, do, ranges, consumers)

    def reconfigure(self, config: SubscriptionConfig) -> None:
        """Other limits from now on; deadlines and due times that were set stay. ValueError: a new type while held."""
        self._administration.reconfigure(config)

    def nth_open(self, number: int) -> int:
        """The offset of the n-th record that is not settled, from 1; every offset that was not read counts as one."""
        return self._administration.nth_open(number)

    # -- questions -------------------------------------------------------------------------------------------

    def look(self, offset: int, dues: Mapping[int, int] | None = None) -> RecordState:
        """Why this record arrives or does not. `dues`: see `due_times`, for who asks for several."""
        return explain(self._records, offset, dues)

    def holder_at(self, offset: int) -> str | None:
        """Who has a record in hand."""
        return next(self.holders([(offset, offset)]), (0, 0, None, 0))[2]

    def due_times(self, offsets: Collection[int]) -> dict[int, int]:
        """When these are due (wall ms), of those that wait and whose time memory knows."""
        records = self._records
        waiting = [each for each in offsets if records.window.state_of(each) in (DELAYED, BACKOFF)]
        return records.due.of_all(waiting)

    def waiting_in(self, first: int, length: int) -> tuple[int, int]:
        """How many of so many offsets of one chunk are DELAYED, and in BACKOFF."""
        chunk = self._records.window.chunks.get(first >> SHIFT)
        if chunk is None:
            return 0, 0
        at = first & MASK
        return chunk.state.count(DELAYED, at, at + length), chunk.state.count(BACKOFF, at, at + length)

    def due_runs(self) -> Iterator[tuple[int, int, int]]:
        """(due, first offset, how many) that memory knows, in no order; some of it waits no more."""
        return self._records.due.known()

    @property
    def due_beyond(self) -> bytes | None:
        """The key of the first due row that memory does not know; None where it knows all."""
        horizon = self._records.due.horizon
        return due_key(*horizon) if horizon is not None else None

    def first_in_hand(self, consumer: str) -> int | None:
        """The first record of the oldest lease of a consumer."""
        records = self._records
        who = records.leases.consumers.get(consumer)
        for lease in list(who.leases.values()) if who is not None else ():
            for chunk, first, _ in leases.held(records.window, lease):
                return chunk.base + first
        return None

    def planes(self, first: int, end: int) -> Iterator[Piece]:
        """What is known of [first, end), in pieces of up to 1,024 offsets; what is left out is DONE, or not known. The
        cursor may be changed while this runs.
        """
        records = self._records
        keyed = records.keyed
        for chunk, at, stop in records.window.pieces(first, end):
            slots = None
            if (
                keyed is not None
                and chunk.slots is not None
                and (read := min(stop, keyed.read - chunk.base)) > at
            ):
                slots = chunk.slots[at:read]
            yield Piece(chunk.base + at, bytes(chunk.state[at:stop]), slots)

    @property
    def ordering(self) -> Ordering:
        """What a record that nobody has may have to wait for."""
        keyed, config = self._records.keyed, self.config
        if isinstance(keyed, Strict):
            return Ordering(in_hand=True, failed=True, draining=False)
        if config.lanes and not config.one_of_a_key:
            return Ordering(in_hand=False, failed=True, draining=True)
        return Ordering(in_hand=False, failed=False, draining=not config.allow_out_of_order)

    def owned(self) -> list[tuple[int, int, str]]:
        """Key_Shared: whose slots are whose, (start, end, consumer)."""
        keyed = self._records.keyed
        return list(keyed.ranges()) if keyed is not None else []

    def first_ready(self, most: int) -> int | None:
        """The first open offset that does not wait for the time its producer set; see `looking.first_ready`."""
        return looking.first_ready(self._records, most)

    def blocked(self, most: int) -> tuple[int, bool]:
        """Key_Shared: how many records wait for others of their keys; see `looking.blocked`."""
        return looking.blocked(self._records, most)

    @property
    def full(self) -> bool:
        """Whether as many are in hand as may be, so that nothing is given to anybody."""
        return self.acquired >= self.config.max_locks

    @property
    def counts(self) -> Counts:
        """How many are open of what was looked at, delayed, in backoff, dying."""
        n = self._records.window.n
        return Counts(sum(n), n[DELAYED], n[BACKOFF], n[DYING])

    def failures(self, offset: int) -> int:
        """How many deliveries of a record failed, 0 when it is settled: `look` for who asks for very many."""
        return self._records.window.failures(offset)

    def stats(self) -> dict[str, int]:
        """Positions, how many records are in which state, and what happened (`totals`)."""
        window = self._records.window
        n = window.n
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
            "redelivering": sum([chunk.failed_and_available() for chunk in window.chunks.values()]),
            "consumers": len(self._records.leases.consumers),
            **self.totals,
        }

    def holding(self) -> dict[str, int]:
        """Consumer -> how many records it holds."""
        return {name: who.in_hand for name, who in self._records.leases.consumers.items()}

    def holder_of(self, slot: int) -> str | None:
        """Key_Shared: who has records of a slot in hand."""
        keyed = self._records.keyed
        return keyed.holder_of(slot) if keyed is not None else None

    def held_up(self) -> set[int]:
        """Key_Shared: slots whose next record waits for others of its slot, which drain, were nacked or are dying."""
        keyed = self._records.keyed
        return keyed.held_up() if keyed is not None else set()

    def draining(self) -> list[Draining]:
        """Key_Shared: slots with records still held by consumers that do not own them any more."""
        keyed = self._records.keyed
        return keyed.draining() if keyed is not None else []

    def draining_slots(self) -> list[int]:
        """The slots of `draining`, without who holds them."""
        keyed = self._records.keyed
        return list(keyed.since) if keyed is not None else []

    def deep(self) -> list[Deep]:
        """Key_Shared, strict: slots with so many waiting records that most of them do not count in the look-ahead."""
        keyed = self._records.keyed
        return keyed.deep() if isinstance(keyed, Strict) else []
