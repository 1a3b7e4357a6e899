"""What binds one client: its buckets of Kafka's quotas. Whoever answers it asks the `ClientBounds` of its peer.

Work is charged when it is done. The answer leaves at once and says for how long the client should wait, and its
connection is not read for so long (KIP-219). A fetch is the exception: who owes something gets an empty answer.

What comes with one read of the socket is charged together where that makes no difference. Its first Produce looks at
the clock and the buckets. While there is enough in these, those behind it take their bytes out by themselves, and the
work on all of them is charged when the read is over. One for which there is not enough is charged by itself, so that
its answer says for how long to wait, and nothing behind it is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from semantics.quotas import Bucket

MOST_WAIT_MS = 25_000
"""A client is left alone for no longer at a time: what it has sent before it was told to wait is answered before it
gives that up (most do after half a minute), and one whose quota was raised hears of it. It goes on owing."""

AT_ONCE_MS = 20
"""Of work, which is more than one read takes: a connection that has so much left hears of a debt soon enough."""

PRODUCE, FETCH, REQUEST, MUTATIONS = "produce", "fetch", "request", "mutations"
"""Why a client has to wait, as metrics call it."""


class Shared(NamedTuple):
    """What the bounds of all clients have in common."""

    now: Callable[[], int]
    """monotonic ms"""
    ns: Callable[[], int]
    """for durations"""
    most_work_ms: int
    """how long a client waits at most at a time because of its request_percentage: a window, as in Kafka"""
    held: Callable[[str, int, int], None]
    """(why, ms, bytes): a client is told to wait"""


_FRESH = 0.001
"""Seconds: buckets are filled by the millisecond."""
_ENDLESS = Bucket(math.inf, 1, 0)
"""Where nothing is said of bytes."""


class ClientBounds:
    """Of one connection. Of each kind the bucket that binds it, which it may share with others; None: nothing does."""

    __slots__ = (
        "_hold",
        "_shared",
        "_unsettled",
        "at_once",
        "fetched",
        "mutations",
        "produced",
        "since",
        "work",
    )

    def __init__(
        self,
        shared: Shared,
        hold: Callable[[int], None],
        produced: Bucket | None,
        fetched: Bucket | None,
        work: Bucket | None,
        mutations: Bucket | None,
    ) -> None:
        """`hold`: leaves the connection unread for so many ms. `work` is in ms of the loop."""
        self._shared = shared
        self._hold = hold
        self.produced = produced
        self.fetched = fetched
        self.work = work
        self.mutations = mutations
        self.since = 0.0
        """since when the work of this read is not charged (s, of the clock of `Shared.ns`); 0: nothing is being read"""
        self.at_once: Bucket | None = None
        """where a Produce may take its bytes out by itself, if there are as many, and is not asked for more; None where
        it has to ask `lets_produce`, as the first of each read has"""
        # whether the work since then is to be charged in the end
        self._unsettled = False

    def settle(self, now: float) -> None:
        """What came with one read has been looked at, `now` as `since`."""
        if self._unsettled:
            self._unsettled = False
            self.at_once = None
            if self.work is not None:
                # it was filled in this read, or just before
                self.work.level -= (now - self.since) * 1000
        self.since = 0.0

    def _fill(self, bucket: Bucket) -> None:
        """Others that share it need not ask for the time for as long as the clock may show the same."""
        bucket.fill(self._shared.now())
        bucket.fresh = self.since + _FRESH

    def begin(self) -> int:
        """When work begins, for `worked` and those that follow it: in a read, since when it is not charged."""
        return int(self.since * 1e9) if self.since else self._shared.ns()

    def worked(self, began: int) -> None:
        """A request was worked on since then."""
        if self.work is not None:
            ended = self._shared.ns()
            self.work.take((ended - began) / 1e6, self._shared.now())
            if self.since:
                self.since = ended / 1e9

    def after_produce(self, size: int, began: int) -> int:
        """A Produce of so many bytes was taken: ms to wait. Whoever answers it leaves the connection unread."""
        shared, work = self._shared, self.work
        now = shared.now()
        owed = self.produced.take(size, now) if self.produced is not None else 0
        late = 0
        if work is not None:
            ended = shared.ns()
            late = min(work.take((ended - began) / 1e6, now), shared.most_work_ms)
            if self.since:
                self.since = ended / 1e9
        # nearly always none, and this is on every producer's way
        if owed or late:
            return self._told(((PRODUCE, owed), (REQUEST, late)), size)
        return 0

    def lets_produce(self, size: int) -> bool:
        """Whether there is enough for a Produce of so many bytes, taken in this read: they are taken out then, and
        those behind it may do so by themselves (`at_once`); `settle` charges the work. `after_produce` is for one for
        which there is not.
        """
        if not self.since:
            return False
        produced, work = self.produced, self.work
        if work is not None:
            if self.since >= work.fresh:
                self._fill(work)
            if work.level < AT_ONCE_MS:
                return False
        if produced is None:
            produced = _ENDLESS
        elif self.since >= produced.fresh:
            self._fill(produced)
        left = produced.level - size
        if left < 0:
            return False
        produced.level = left
        self.at_once = produced
        self._unsettled = True
        return True

    def after_request(self, *, mutated: bool = False) -> int:
        """A request was worked on: ms to wait, and the connection is not read for so long."""
        now = self._shared.now()
        owed = self.mutations.wait(now) if mutated and self.mutations is not None else 0
        wait = self._told(((MUTATIONS, owed), (REQUEST, self._work_owed(now))), 0)
        if wait:
            self._hold(wait)
        return wait

    def before_fetch(self) -> int:
        """ms that a client has to wait before it is given records: it gets an empty answer then, and its connection is
        not read for so long. 0: it may have some.
        """
        now = self._shared.now()
        owed = self.fetched.wait(now) if self.fetched is not None else 0
        wait = self._told(((FETCH, owed), (REQUEST, self._work_owed(now))), 0)
        if wait:
            self._hold(wait)
        return wait

    def lets_fetch(self, size: int) -> bool:
        """Whether an answer of so many bytes may go as it is: nothing is owed, and it is not too large at once. What it
        has is to be taken out of `fetched`, and the work is charged by `settle`: so it was asked for in this read. What
        `before_fetch` says and does is for one that may not.
        """
        fetched, work, since = self.fetched, self.work, self.since
        if not since:
            # all work since the clock began would be charged
            return False
        if fetched is not None:
            if since >= fetched.fresh:
                self._fill(fetched)
            if size > fetched.most or fetched.level < 0:
                return False
        if work is not None:
            if since >= work.fresh:
                self._fill(work)
            if work.level < 0:
                return False
        self._unsettled = True
        return True

    @property
    def most_fetched(self) -> int | None:
        """Bytes of one answer at most, unless its first batch has more; None: no bound of its own."""
        return int(self.fetched.most) if self.fetched is not None else None

    def after_fetch(self, size: int) -> None:
        """So many bytes of records leave."""
        if self.fetched is not None and size:
            self.fetched.take(size, self._shared.now())

    def may_mutate(self) -> bool:
        """Whether partitions may be made or deleted (KIP-599)."""
        return self.mutations is None or not self.mutations.wait(self._shared.now())

    def mutate(self, partitions: int) -> None:
        """So many are made or deleted."""
        if self.mutations is not None:
            self.mutations.take(partitions, self._shared.now())

    def _work_owed(self, now: int) -> int:
        return min(self.work.wait(now), self._shared.most_work_ms) if self.work is not None else 0

    def _told(self, owed: tuple[tuple[str, int], ...], size: int) -> int:
        why, wait = max(owed, key=lambda each: each[1])
        wait = min(wait, MOST_WAIT_MS)
        if wait:
            self._shared.held(why, wait, size)
        return wait
