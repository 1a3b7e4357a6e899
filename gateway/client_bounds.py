"""What binds one client: its buckets of Kafka's quotas. Whoever answers it asks the `ClientBounds` of its peer.

Work is charged when it is done. The answer leaves at once and says for how long the client should wait, and its
connection is not read for so long (KIP-219). A fetch is the exception: who owes something gets an empty answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from semantics.quotas import Bucket

MOST_WAIT_MS = 60_000
"""A client is left alone for no longer at a time, so that one whose quota was raised hears of it. It goes on owing."""

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


class ClientBounds:
    """Of one connection. Of each kind the bucket that binds it, which it may share with others; None: nothing does."""

    __slots__ = ("_hold", "_shared", "fetched", "mutations", "produced", "work")

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

    def begin(self) -> int:
        """When work begins, for `worked` and those that follow it."""
        return self._shared.ns()

    def worked(self, began: int) -> None:
        """A request was worked on since then."""
        if self.work is not None:
            self.work.take((self._shared.ns() - began) / 1e6, self._shared.now())

    def after_produce(self, size: int, began: int) -> int:
        """A Produce of so many bytes was taken: ms to wait. Whoever answers it leaves the connection unread."""
        shared, work = self._shared, self.work
        now = shared.now()
        owed = self.produced.take(size, now) if self.produced is not None else 0
        late = 0
        if work is not None:
            late = min(work.take((shared.ns() - began) / 1e6, now), shared.most_work_ms)
        # nearly always none, and this is on every producer's way
        return self._told(((PRODUCE, owed), (REQUEST, late)), size) if owed or late else 0

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
        """Whether an answer of so many bytes may go as it is: nothing is owed, and it is not too large at once. What
        `before_fetch` says and does is for one that may not.
        """
        fetched, now = self.fetched, self._shared.now()
        if fetched is not None and (size > fetched.most or fetched.wait(now)):
            return False
        return self.work is None or not self.work.wait(now)

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
