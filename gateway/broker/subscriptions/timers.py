"""One heap of what is due for all cursors: locks that run out, delays and backoffs that end, letters tried again.

The event loop gets a single timer. A cursor is in the heap at most once with a time that counts; what is left of
earlier ones is passed over.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol

from gateway.broker.stood_still import HEARD_MS, STOOD_STILL_MS

if TYPE_CHECKING:
    import asyncio

    from gateway.broker.node import Time, Timer
    from store.api import Buffer

log = logging.getLogger("magnetar.subscriptions")

NEVER = 1 << 62

DRIFT_MS = 5
"""The clock on the wall was set when it moved by more than this against the monotonic one."""

_LOOK_MS = 1000

_FEW = 1000


class Timed(Protocol):
    """Something that has times. `due_at` belongs to the timers: monotonic ms, NEVER when not in the heap."""

    due_at: int

    def tick(self) -> None:
        """Something may be due."""

    def next_due(self) -> int:
        """When it wants its next tick, monotonic ms, or NEVER."""


class Timers:
    """Start at the first `arm`; `close` ends it."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._heap: list[tuple[int, int, Timed]] = []
        self._count = 0
        # entries from which on what does not count any more is taken out
        self._most = _FEW
        self._handle: Timer | None = None
        # when `_handle` calls, monotonic ms
        self._calls_at = NEVER
        self._ahead = 0
        # what was sent while the process stood still has been read since
        self._heard = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._heap)

    def arm(self, timed: Timed, due: int) -> None:
        """See to a tick at `due` (monotonic ms) or soon after. One that is armed earlier stays so: a tick that comes
        too early does nothing.
        """
        if due >= timed.due_at or self._closed:
            return
        timed.due_at = due
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, timed))
        if len(self._heap) > self._most:
            self._tidy()
        if due < self._calls_at:
            self._call_by(due)

    def _tidy(self) -> None:
        """Keep one entry for each that is armed: those that were armed earlier meanwhile leave others behind."""
        armed = {timed: entry for entry in self._heap if (timed := entry[2]).due_at == entry[0]}
        self._heap = list(armed.values())
        heapq.heapify(self._heap)
        self._most = max(_FEW, 2 * len(self._heap))

    def disarm(self, timed: Timed) -> None:
        timed.due_at = NEVER

    def close(self) -> None:
        self._closed = True
        if self._handle is not None:
            self._handle.cancel()
        self._heap.clear()

    def _call_by(self, due: int) -> None:
        clock = self._time.clock
        now = clock.monotonic_ms()
        if self._calls_at == NEVER:
            self._ahead = clock.wall_ms() - now
        # now and then the clocks are compared, and nobody waits beside a clock that was set
        due = min(due, now + _LOOK_MS)
        # what was due when it was armed is late for another reason than a stand-still
        due = max(due, now)
        if due >= self._calls_at:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._call_at(due)

    def _call_at(self, due: int) -> None:
        self._calls_at = due
        self._handle = self._time.call_at(due, self._ring)

    def _ring(self) -> None:
        self._handle = None
        clock = self._time.clock
        now = clock.monotonic_ms()
        stood_still, self._calls_at = now - self._calls_at >= STOOD_STILL_MS, NEVER
        if stood_still and not self._heard:
            # what consumers have acknowledged or renewed meanwhile lies unread, and their locks are none of that
            self._heard = True
            self._call_at(now + HEARD_MS)
            return
        self._heard = False
        # When the clock on the wall was set, everybody's due times have moved.
        end = NEVER if abs(clock.wall_ms() - now - self._ahead) > DRIFT_MS else now
        heap = self._heap
        ready: list[Timed] = []
        while heap and (heap[0][0] <= end or heap[0][2].due_at != heap[0][0]):
            due, _, timed = heapq.heappop(heap)
            if timed.due_at == due:
                timed.due_at = NEVER
                ready.append(timed)
        for timed in ready:
            try:
                timed.tick()
                self.arm(timed, max(timed.next_due(), now + 1))
            except Exception:
                # one that breaks must not keep the others waiting
                log.exception("a timer of a subscription failed")
        if self._heap:
            self._call_by(self._heap[0][0])


class Turns:
    """Long work of many, a slice of one at a time: whoever waits goes on in a round of the loop of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[list[Buffer]]] = deque()
        self._going = False

    def next(self) -> asyncio.Future[list[Buffer]]:
        """Ends, with nothing, when those that came before had their turn."""
        # a future, and not a promise: it knows when nobody waits for it any more, and the next one has that turn
        future: asyncio.Future[list[Buffer]] = self._loop.create_future()
        self._waiting.append(future)
        if not self._going:
            self._going = True
            self._loop.call_soon(self._go)
        return future

    def _go(self) -> None:
        waiting = self._waiting
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result([])
                self._loop.call_soon(self._go)
                return
        self._going = False
