"""What one turn brings to one store: its participants, their writes, and who is answered when these are stored.

One commit is one fact: all of it is stored or nothing. When it is done three things happen in this order: what was
stored becomes visible, the answers leave, and those who wait for it are woken.

A store may be done with a commit before others that have nothing in common with it. Those who wait for a turn wait for
all before it, too: a batch that was sent twice, say, and is stored by a turn before. So what a store said early is kept
until all before it are over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.broker.commit_watch import CommitWatch
from gateway.broker.participant import Gathered, Participant
from store.api import Durability, Outcome, Refused, Store, StoreError, Unknown, Write
from store.steps import step

log = logging.getLogger("magnetar.broker")


class Loop(Protocol):
    """As much of an event loop as a turn needs."""

    def call_soon(self, callback: Callable[[], object], /) -> object: ...


class Host(Protocol):
    """As much of a node as a turn needs. Read each when it is needed: they may change."""

    @property
    def durable(self) -> Store:
        """The store whose commits tell whether writes fail."""
        ...

    def store_for(self, writes: Sequence[Write]) -> Store:
        """Where rows of nobody in particular go."""
        ...

    @property
    def durability(self) -> Durability:
        """What holds for writes that do not say."""
        ...

    @property
    def loop(self) -> Loop: ...

    @property
    def clock_ns(self) -> Callable[[], int]: ...


class Sender(Protocol):
    """The turn that a commit is of."""

    @property
    def host(self) -> Host: ...

    @property
    def watch(self) -> CommitWatch: ...

    @property
    def flush(self) -> Callable[[], None]:
        """Sends the answers that were made ready."""
        ...

    @property
    def flying(self) -> list[Commit]:
        """Commits that are not over yet, the oldest first."""
        ...

    def busy(self, store: Store) -> bool:
        """Whether one of these is on its way to this store."""
        ...

    def failed(self, commit: Commit, error: StoreError) -> None:
        """Nothing of it is stored, or nobody knows."""
        ...


class Slot(Protocol):
    """A Produce that is answered when its turn's commit is over."""

    def settle(self, outcome: Outcome) -> None: ...


class Commit(Gathered):
    """See the module."""

    __slots__ = (
        "_outcome",
        "_said",
        "_started",
        "_turn",
        "began",
        "behind",
        "broken",
        "cursors",
        "joined",
        "records",
        "rows",
        "slots",
        "store",
        "waits",
    )

    def __init__(self, turn: Sender, store: Store) -> None:
        super().__init__()
        self._turn = turn
        self.store = store
        self.rows: list[Participant] = []
        self.cursors: list[Participant] = []
        self.records: list[Participant] = []
        # the same by stage
        self.joined = (self.rows, self.cursors, self.records)
        self.slots: list[Slot] = []
        # those who write nothing themselves: as the slots, they wait for it and for all before it
        self.waits: list[Callable[[Outcome], None]] = []
        # why nothing of it is stored
        self.broken = ""
        # what one before it failed of, while the store stored this one
        self.behind: StoreError | None = None
        # what the store said while others before it were not over
        self._said = False
        self._outcome: Outcome = None
        # when the first request of its turn came, and when it went to the store, in ns
        self.began = self._started = 0

    @step("turn.ends")
    def collect(self) -> str:
        """Ask the participants what they write. The answer says what went wrong, or nothing.

        All of them are asked, whatever one does: each is told how it ended.
        """
        broken = ""
        for stage in self.joined:
            for participant in stage:
                try:
                    participant.writes(self)
                except Exception as error:
                    log.exception("a participant of a turn failed")
                    broken = f"a participant failed: {error}"
        return broken

    def send(self, broken: str) -> None:
        """Hand it to the store; or nothing of it when something of the turn is `broken`."""
        turn = self._turn
        if not (self.writes or self.slots or self.rows or self.waits or broken or turn.busy(self.store)):
            # cursors that had nothing to write
            self._settle()
            return
        self._started = turn.host.clock_ns()
        if broken:
            self._refuse(broken)
            return
        flying = turn.flying
        if flying:
            ahead = next((each.broken for each in flying if each.store is self.store and each.broken), "")
            if ahead:
                # it continues one that is not stored
                self._refuse(ahead)
                return
        flying.append(self)
        try:
            self.store.commit(self.writes, self.durability, self._done)
        except Exception as error:
            # The store refuses what would break its own rules: nothing of it is written, and nobody may wait for ever.
            log.exception("the store did not take a group")
            flying.remove(self)
            self._refuse(f"the group was not taken: {error}")

    def _refuse(self, broken: str) -> None:
        """Nothing of it is stored. Those ahead of it are told first: an empty commit comes back behind them."""
        self.broken = broken
        refused = Refused(broken)
        behind = self._turn.busy(self.store)
        self._turn.flying.append(self)
        if behind:
            try:
                self.store.commit((), Durability.OS, lambda outcome: self._done(outcome or refused))
                return
            except Exception:
                # It is closed, say: better out of order than never.
                log.exception("the store did not take an empty group")
                self._turn.flying.remove(self)
                self._over(refused)
                return
        self._done(refused)

    def _done(self, outcome: Outcome) -> None:
        """The store is done with it."""
        flying = self._turn.flying
        if len(flying) == 1:
            # nearly always: it is the only one
            flying.clear()
            self._over(outcome)
            return
        self._said, self._outcome = True, outcome
        while (first := next((each for each in flying if each.store is self.store), None)) and first._said:
            flying.remove(first)
            if first._outcome is not None:
                behind = behind_of(first._outcome)
                for each in flying:
                    if each.store is self.store and each.behind is None:
                        each.behind = behind
            first._over(first._outcome)

    def _over(self, outcome: Outcome) -> None:
        """So are all before it."""
        turn, slots = self._turn, self.slots
        watch = turn.watch
        now = turn.host.clock_ns()
        watch.ended((now - self._started) * 1e-9, len(slots), len(self.records))
        if outcome is not None:
            turn.failed(self, outcome)
            return
        if watch.reason and self.writes and self.store is turn.host.durable:
            watch.succeeded()
        if slots:
            # One measure for all of a turn: they came within it, and leave together.
            seconds = (now - self.began) * 1e-9
            watch.produced(seconds, len(slots), self.batches, self.messages, self.size)
        self._settle()

    def _settle(self) -> None:
        """It is stored."""
        waking = _show(self.records) if self.records else []
        if self.cursors:
            waking += _show(self.cursors)
        tap = self._turn.watch.tap
        if tap is not None and self.writes and (told := tap(self.writes)) is not None:
            waking.append(told)
        if self.slots:
            _answer(self.slots, self.behind)
        if self.rows:
            waking += _show(self.rows)
        if self.waits:
            _tell(self.waits, self.behind)
        self._turn.flush()
        for wake in waking:
            try:
                wake()
            except Exception:
                log.exception("those who waited for a participant were not woken")

    # -- when it fails ------------------------------------------------------------------------------------------------

    def lose(self, error: StoreError, *, sent: bool) -> None:
        """It was not stored, be it sent or still open: what it has changed in memory goes."""
        _fail(self.records, error, sent)
        _fail(self.cursors, error, sent)

    def refuse(self, error: StoreError, *, sent: bool) -> None:
        """Tell those who wait for it."""
        _answer(self.slots, error)
        _fail(self.rows, error, sent)
        _tell(self.waits, error)


def behind_of(error: StoreError) -> StoreError:
    """What those are told that wait behind one that failed so."""
    return error if type(error) is not Unknown else StoreError("a write before this one failed")


# One that breaks must not keep the others of its turn waiting.


def _show(participants: list[Participant]) -> list[Callable[[], None]]:
    """What they have stored shows; who is to be woken then."""
    waking = []
    for participant in participants:
        try:
            wake = participant.committed()
        except Exception:
            log.exception("a participant failed behind its commit")
            continue
        if wake is not None:
            waking.append(wake)
    return waking


def _answer(slots: list[Slot], outcome: Outcome) -> None:
    for slot in slots:
        try:
            slot.settle(outcome)
        except Exception:
            log.exception("an answer failed behind its commit")


def _tell(waits: list[Callable[[Outcome], None]], outcome: Outcome) -> None:
    for done in waits:
        try:
            done(outcome)
        except Exception:
            log.exception("an answer failed behind its commit")


def _fail(participants: list[Participant], error: StoreError, sent: bool) -> None:
    for participant in participants:
        try:
            if sent:
                participant.failed(error)
            else:
                participant.dropped(error)
        except Exception:
            log.exception("a participant failed behind its commit")
