"""What a cursor consists of, and how it moves records from state to state: the table of cursor.py, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappush

from semantics.subscriptions.chunks import (
    DELAYED_RUN,
    DONE_RUN,
    DUE_RUN,
    FILL,
    KIND,
    MASK,
    NOT_SETTLED_RUN,
    SHIFT,
    Chunk,
    Window,
)
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.due import DueTimes, Popped
from semantics.subscriptions.key_shared import KeyShared
from semantics.subscriptions.leases import Consumer, Lease, Leases, pack
from semantics.subscriptions.shared import Shared
from semantics.subscriptions.states import (
    ACQUIRED,
    AVAILABLE,
    BACKOFF,
    DELAYED,
    DONE,
    DYING,
    NUMBER,
    Reason,
    legal,
)
from semantics.subscriptions.strict import Strict

TICK_MS = 1_000
"""how early a delayed record may be delivered when delays are not strict: Pulsar's tick"""

NACKED, TIMED_OUT, GONE = range(3)
"""how a delivery fails"""


class Moves:
    """The state of a cursor. What must be durable is noted as it changes."""

    __slots__ = (
        "_changed",
        "_config",
        "_consumers",
        "_doomed",
        "_due",
        "_forget",
        "_idle_due",
        "_keyed",
        "_leases",
        "_shared",
        "_unburied",
        "_window",
        "read",
        "totals",
    )

    def __init__(self, config: SubscriptionConfig, window: Window, due: DueTimes) -> None:
        """Use `fresh` or `load`."""
        self._config = config
        self._consumers: dict[str, Consumer] = {}
        self._window = window
        self._due = due
        self._leases = Leases()
        self._doomed: list[int] = []  # heap of the chunks that have something to bury
        self._unburied: list[tuple[int, int, int, str]] = []  # heap of (wall, first, last, why): to try again
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
                "expired",
            ),
            0,
        )
        """records since the cursor was loaded, and what whoever loads it adds; what retention took of open ones
        (expired) since there is one
        """
        self._changed = False
        self._forget = False
        self._idle_due = False
        """there may be due rows of what was settled before its time: they all go when nothing waits"""
        self._dispatch()

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """Mark-delete + 1: the first open offset, or `read`."""
        return self._window.start

    @property
    def known(self) -> int:
        """The first offset of which nothing is known: `read`, unless Key_Shared reads again."""
        return self._window.known

    @property
    def available(self) -> int:
        """Records looked at that nobody has and that wait for no time (BLOCKED ones among them)."""
        return self._window.n[AVAILABLE]

    @property
    def acquired(self) -> int:
        """Records in the hands of consumers."""
        return self._window.n[ACQUIRED]

    @property
    def waiting(self) -> int:
        """Records that wait for a time: DELAYED and BACKOFF."""
        return self._window.n[DELAYED] + self._window.n[BACKOFF]

    @property
    def dying_records(self) -> int:
        """Records that are to be dead letters and are not yet."""
        return self._window.n[DYING]

    def backlog(self, log_end: int) -> int:
        """Records that are not settled, up to the log's end."""
        return sum(self._window.n) + max(0, log_end - self._window.known)

    @property
    def config(self) -> SubscriptionConfig:
        return self._config

    # -- moves ---------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Make the dispatcher of the config's type from what the window says."""
        window = self._window
        self._shared: Shared | None = None
        self._keyed: KeyShared | Strict | None = None
        self.read = window.known
        """the first offset that the dispatcher has not looked at"""
        if self._config.type == "key_shared":
            self.read = window.start
            self._keyed = self._keyed_dispatcher()
            self._pass_over_settled()
        else:
            self._shared = Shared(window)

    def _keyed_dispatcher(self) -> KeyShared | Strict:
        config = self._config
        if config.strict and not config.allow_out_of_order:
            return Strict(self._window, self._leases, self.read)
        return KeyShared(self._window, self._leases, config, self.read)

    def _take_in(self, first: int, end: int) -> None:
        """Shared: [first, end) is AVAILABLE and nothing more is to be said of it."""
        if first < end:
            self._window.extend(end)
            self._shared_fed(first, end)

    def _shared_fed(self, first: int, end: int) -> None:
        if self._shared is not None:
            self._shared.fed(first, end)

    def _nothing(self, first: int, end: int) -> None:
        """There is nothing to deliver in [first, end)."""
        window = self._window
        spans: tuple[tuple[int, int], ...] = ((first, end),)
        if end > window.known:
            leapt = window.leap(end)
            if leapt is not None:
                spans = ((first, leapt[0]), (leapt[1], end))
            window.extend(end)
        for begin, last in spans:
            for chunk, at, stop in window.runs(begin, last, NOT_SETTLED_RUN):
                window.tally(chunk, at, stop, -1)
                window.finish(chunk, at, stop)
        self._changed = True
        if self._keyed is not None:
            self._keyed.read = max(self._keyed.read, end)

    def _advance(self) -> None:
        """Move start to the first open offset."""
        self._window.advance()
        if self._keyed is not None and not self._keyed.queued:
            self._keyed.rest()
        if self.read < self._window.start:
            # Key_Shared reads again, and what it had not come to is buried meanwhile
            self._pass_over_settled()

    def _pass_over_settled(self) -> None:
        """Key_Shared, reading again: what is DONE need not be read."""
        keyed = self._keyed
        if keyed is None:
            return
        window = self._window
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

    def _delay(self, delayed: Iterable[tuple[int, int]], known: int, wall: int) -> None:
        """(offset, due) each, ascending: those from `known` on are just read and AVAILABLE, and due later."""
        early = 0 if self._config.strict_delay else TICK_MS
        window = self._window
        later: list[tuple[int, int]] = []
        number = -1
        state = bytearray()
        for offset, due in delayed:
            due -= early
            if due <= wall or offset < known:
                continue
            if offset >> SHIFT != number:
                number = offset >> SHIFT
                chunk = window.chunks.get(number)
                if chunk is None:
                    # all of it died just now, and nobody wants the dead
                    state = bytearray(FILL[DONE])
                else:
                    state = chunk.state
                    window.dirty.add(number)
            if state[offset & MASK] == AVAILABLE:
                state[offset & MASK] = DELAYED
                later.append((offset, due))
        if later:
            window.n[AVAILABLE] -= len(later)
            window.n[DELAYED] += len(later)
            self._due.add_all(later)
            self._changed = True

    def _wake(self, popped: Popped) -> None:
        """The time of these has come: what of them still waits is AVAILABLE."""
        window, shared = self._window, self._shared
        for run in popped.runs:
            self._changed = True
            first = run >> SHIFT
            for chunk, at, stop in window.runs(first, first + (run & MASK) + 1, DUE_RUN):
                self._move(chunk, at, stop, chunk.state[at], AVAILABLE)
        chunks, n, woken = window.chunks, window.n, window.woken
        for run in popped.delayed:
            first = run >> SHIFT
            if run & MASK or shared is None:
                for chunk, at, stop in window.runs(first, first + (run & MASK) + 1, DELAYED_RUN):
                    self._wake_run(chunk, at, stop)
                continue
            # a record by itself, as most are whose due times lie scattered
            found = chunks.get(first >> SHIFT)
            if found is not None and found.state[first & MASK] == DELAYED:
                n[DELAYED] -= 1
                n[AVAILABLE] += 1
                found.state[first & MASK] = AVAILABLE
                woken.add(found.number)
                shared.freed(found, first & MASK)
        if self._due.over(woken) or (woken and not self.waiting):
            self._changed = True

    def _wake_run(self, chunk: Chunk, first: int, end: int) -> None:
        """[first, end), DELAYED, is AVAILABLE, which the next row of the chunk will say."""
        n = self._window.n
        n[DELAYED] -= end - first
        n[AVAILABLE] += end - first
        chunk.state[first:end] = FILL[AVAILABLE][: end - first]
        self._window.woken.add(chunk.number)
        if self._keyed is not None:
            self._keyed.moved(chunk, first, end, DELAYED, AVAILABLE)
        elif self._shared is not None:
            self._shared.freed(chunk, first)

    def _fail(self, chunk: Chunk, first: int, end: int, why: int, wall: int) -> None:
        """A delivery of [first, end), ACQUIRED, ended without an acknowledgement: one more of the limit is used.

        `why`: NACKED, TIMED_OUT, or GONE as its consumer is, which waits for nothing.
        """
        limit = self._config.delivery_limit
        self._window.dirty.add(chunk.number)
        self._changed = True
        counts = chunk.count
        if end - first == 1:
            runs = [(first, end, counts[first] if counts is not None else 0)]
        else:
            runs = list(chunk.count_runs(first, end))
        for at, stop, count in runs:
            count += 1
            chunk.set_count(at, stop, count)
            if limit and count >= limit:
                self._doom(chunk, at, stop, ACQUIRED, Reason.MAX_DELIVERIES)
                continue
            wait = self._wait(why, count)
            if wait:
                self._due.add(wall + wait, chunk.base + at, stop - at)
            self._move(chunk, at, stop, ACQUIRED, BACKOFF if wait else AVAILABLE)

    def _wait(self, why: int, count: int) -> int:
        """ms until a record that failed `count` times is delivered again."""
        config = self._config
        if why == NACKED:
            backoff = config.nack_backoff
            return backoff.delay_ms(count) if backoff is not None else config.nack_delay_ms
        if why == TIMED_OUT and config.timeout_backoff is not None:
            return config.timeout_backoff.delay_ms(count)
        return 0

    def _doom(self, chunk: Chunk, first: int, end: int, was: int, reason: Reason) -> None:
        """[first, end) is to be dead-lettered."""
        if self._config.dead_letters:
            self._move(chunk, first, end, was, DYING + NUMBER[reason])
            self._to_bury(chunk)
        else:
            self.totals["dropped"] += end - first
            self._move(chunk, first, end, was, DONE)

    def _move(self, chunk: Chunk, first: int, end: int, was: int, to: int) -> None:
        """[first, end), all in one state, is in another from now on."""
        assert legal(was, to), f"{was} to {to}: the table of cursor.py has no such line"
        window = self._window
        number = end - first
        window.n[KIND[was]] -= number
        if was == ACQUIRED:
            chunk.let_go(number)
        if to == DONE:
            window.finish(chunk, first, end)
            self._changed = True
        else:
            window.n[KIND[to]] += number
            chunk.state[first:end] = FILL[to][:number]
            if to > ACQUIRED or was > ACQUIRED:
                window.dirty.add(chunk.number)
                self._changed = True
        if self._keyed is not None:
            self._keyed.moved(chunk, first, end, was, to)
        elif to == AVAILABLE and self._shared is not None:
            self._shared.freed(chunk, first)

    def _to_bury(self, chunk: Chunk) -> None:
        if not chunk.doomed:
            chunk.doomed = True
            heappush(self._doomed, chunk.number)

    def _renew(self, chunk: Chunk, first: int, end: int, lease: Lease, now: int) -> bool:
        """Move [first, end) into a lease that runs out later; False if it is in that already."""
        later = self._leases.open(lease.consumer, now + self._config.lock_ms)
        if later is lease:
            return False
        plane = chunk.leases()
        for at in range(first, end):
            plane[at] = later.id
        later.runs.append(pack(chunk.base + first, end - first))
        later.remaining += end - first
        later.consumer.in_hand += end - first
        return True
