"""What one turn of the event loop brought becomes one commit.

Everything that arrives in a turn (batches of all connections, offsets, catalog changes) is collected here; at the end
of the turn it goes to the store as one group. Work is by group and not by request: that is where the speed is from.

Who has something to store is a `Participant`; the turn knows no more of it. It has them prepare until nobody joins any
more, collects their writes, and sends these.

A turn may span several stores, such as topics in memory beside durable ones. Then each store gets a commit of its own.
A fact of both (`Spanning`) is part of the durable commit, which decides. Else what is stored in the one is done or
fails without the other. An answer that depends on both waits for both, and is a failure when one of them failed, though
the other may have stored its part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gateway.broker.commit import Commit, Host, Slot, behind_of
from gateway.broker.commit_watch import CommitWatch
from gateway.broker.participant import Gathered, Participant, Stage
from store.api import Durability, Outcome, Store, StoreError, Write
from store.transient import Beside, Fact

log = logging.getLogger("magnetar.broker")

MAX_BYTES = 4 * 1024 * 1024
"""A turn that has collected this much ends before the loop comes round."""


class Rows:
    """Rows that belong to nobody who lives on: `done` is called with the outcome of their commit."""

    __slots__ = ("_done", "_durability", "_rows", "store")

    stage, prepares = Stage.ROWS, False

    def __init__(
        self, store: Store, rows: Sequence[Write], done: Callable[[Outcome], None], durability: Durability
    ) -> None:
        self.store = store
        self._rows = rows
        self._done = done
        self._durability = durability

    def prepare(self) -> None:
        """They are as they are."""

    def writes(self, commit: Gathered) -> None:
        commit.writes += self._rows
        if self._durability is Durability.FSYNC:
            commit.durability = Durability.FSYNC

    def committed(self) -> None:
        self._done(None)

    def failed(self, error: StoreError) -> None:
        self._done(error)

    def dropped(self, error: StoreError) -> None:
        self._done(error)


class Spanning(Rows):
    """Rows of both stores, one fact. They are part of the durable commit, so its rows are stored in the order in which
    they came; what goes to memory goes before that, or when it is done.
    """

    __slots__ = ("_fact",)

    def __init__(
        self, fact: Fact, durable: Store, done: Callable[[Outcome], None], durability: Durability
    ) -> None:
        super().__init__(durable, fact.durable, done, durability)
        self._fact = fact

    def writes(self, commit: Gathered) -> None:
        self._fact.begin()
        super().writes(commit)

    def committed(self) -> None:
        self._fact.end(done=True)
        super().committed()

    def failed(self, error: StoreError) -> None:
        self._fact.end(done=False)
        super().failed(error)

    def dropped(self, error: StoreError) -> None:
        self._fact.end(done=False)
        super().dropped(error)


class Together:
    """One that waits for `count` stores: told when all have answered, of a failure if there was one."""

    __slots__ = ("_count", "_outcome", "_settle")

    def __init__(self, settle: Callable[[Outcome], None], count: int, outcome: Outcome = None) -> None:
        self._settle = settle
        self._count = count
        self._outcome = outcome

    def settle(self, outcome: Outcome) -> None:
        if self._outcome is None:
            self._outcome = outcome
        self._count -= 1
        if not self._count:
            self._settle(self._outcome)


class Turn:
    """The open turn. `join`, `write` and `await_commit` fill it; `end` sends it and opens the next one."""

    __slots__ = (
        "_began",
        "_callbacks",
        "_durability",
        "_open",
        "_preparing",
        "_scheduled",
        "_slots",
        "bytes",
        "flush",
        "flying",
        "host",
        "watch",
    )

    def __init__(self, host: Host, watch: CommitWatch, flush: Callable[[], None]) -> None:
        """`flush` sends the answers that were made ready."""
        self.host = host
        self.watch = watch
        self.flush = flush
        self._scheduled = False
        # when its first request came, in ns
        self._began = 0
        # commits that are not over yet, the oldest first
        self.flying: list[Commit] = []
        # what it has for each store: begun when the first comes with something for it
        self._open: dict[Store, Commit] = {}
        # those that are asked to prepare, in the order in which they came
        self._preparing: list[Participant] = []
        # who waits for all stores
        self._slots: list[Slot] = []
        self._callbacks: list[Callable[[Outcome], None]] = []
        # how safe everything must be for them
        self._durability = Durability.OS
        # bytes of batches in this turn
        self.bytes = 0

    # -- what comes in ------------------------------------------------------------------------------------------------

    def join(self, participant: Participant) -> None:
        """A participant has something to store: to be called once a turn."""
        store = participant.store
        (self._open.get(store) or self._begin(store)).joined[participant.stage].append(participant)
        if participant.prepares:
            self._preparing.append(participant)

    def await_commit(self, slot: Slot, store: Store | None = None) -> None:
        """`slot.settle` is called when everything in the turn, and before it, is committed or has failed: all that
        goes to one store, or to any.
        """
        if store is not None:
            (self._open.get(store) or self._begin(store)).slots.append(slot)
            return
        self._slots.append(slot)
        self._schedule()

    def write(
        self, writes: Sequence[Write], done: Callable[[Outcome], None], durability: Durability | None = None
    ) -> None:
        """Writes of nobody who takes part: `done` is called with the outcome of their commit. Without any, it is called
        when everything in the turn, and before it, is committed or has failed, in whichever store. Raises ValueError
        for appends in memory with rows of a durable store.
        """
        host = self.host
        durability = durability or host.durability
        if writes:
            store = host.store_for(writes)
            self.join(
                Spanning(store.fact(writes), host.durable, done, durability)
                if isinstance(store, Beside)
                else Rows(store, writes, done, durability)
            )
            return
        self._callbacks.append(done)
        if durability is Durability.FSYNC:
            self._durability = durability
        self._schedule()

    def _begin(self, store: Store) -> Commit:
        commit = self._open[store] = Commit(self, store)
        self._schedule()
        return commit

    def _schedule(self) -> None:
        """It ends when the loop comes round."""
        if not self._scheduled:
            self._scheduled = True
            self._began = self.host.clock_ns()
            self.host.loop.call_soon(self.end)

    # -- its end ------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Send what was collected to the stores."""
        broken = self._prepare() if self._preparing else ""
        if self._slots or self._callbacks:
            self._spread()
        self._scheduled = False
        commits = list(self._open.values())
        self._open.clear()
        self.bytes = 0
        for commit in commits:
            broken = commit.collect() or broken
        for commit in commits:
            commit.began = self._began
            commit.send(broken)

    def _prepare(self) -> str:
        """Last changes, until nobody joins any more. The answer says what went wrong, or nothing."""
        broken = ""
        for participant in self._preparing:
            try:
                participant.prepare()
            except Exception as error:
                # A fault of ours: half of what belongs together must not be stored.
                log.exception("a participant of a turn failed")
                broken = f"a participant failed: {error}"
        self._preparing = []
        return broken

    def _spread(self) -> None:
        """Those who wait for all stores wait for each that has something of this turn, or on its way."""
        slots, self._slots = self._slots, []
        callbacks, self._callbacks = self._callbacks, []
        durability, self._durability = self._durability, Durability.OS
        if len(self._open) == 1 and not self.flying:
            # nearly always: there is one store, and nothing on its way
            commits = list(self._open.values())
        else:
            stores = {*self._open, *[commit.store for commit in self.flying]} or {self.host.durable}
            commits = [self._open.get(store) or self._begin(store) for store in stores]
        for commit in commits:
            if durability is Durability.FSYNC:
                commit.durability = durability
        first, *others = commits
        if not others:
            first.slots += slots
            first.waits += callbacks
            return
        for slot in slots:
            waits = Together(slot.settle, len(commits))
            first.slots.append(waits)
            for commit in others:
                commit.waits.append(waits.settle)
        for done in callbacks:
            waits = Together(done, len(commits))
            for commit in commits:
                commit.waits.append(waits.settle)

    # -- on the way ---------------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether something waits for its end."""
        return self._scheduled

    @property
    def in_flight(self) -> int:
        """Commits that are not over yet."""
        return len(self.flying)

    def busy(self, store: Store) -> bool:
        """Whether one is on its way to this store."""
        return any(commit.store is store for commit in self.flying)

    def failed(self, commit: Commit, error: StoreError) -> None:
        """The one failure path: what the commit touched is thrown away and read again from the store.

        What the open turn has for that store goes with it: its offsets continue those that were not stored.
        """
        self.watch.failed(error)
        behind = behind_of(error)
        left = self._open.pop(commit.store, None) or Commit(self, commit.store)
        self._preparing = [each for each in self._preparing if each.store is not commit.store]
        if self._open:
            # those who wait for all stores go on waiting for the others
            self._slots = [Together(slot.settle, 1, behind) for slot in self._slots]
            self._callbacks = [Together(done, 1, behind).settle for done in self._callbacks]
        else:
            left.slots += self._slots
            left.waits += self._callbacks
            self._slots, self._callbacks, self.bytes = [], [], 0
            self._durability = Durability.OS
        commit.lose(error, sent=True)
        left.lose(behind, sent=False)
        commit.refuse(error, sent=True)
        left.refuse(behind, sent=False)
        self.flush()
