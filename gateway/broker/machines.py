"""Pure state machines at work: a request into a machine's step, its writes into the store, then its effects out.

A machine (a group) in use is in memory; the others are rows. What a step wants written goes into the commit of
this loop turn, and nobody is answered from a state that is not durable: effects of later steps wait behind the
writes before them. If a machine's row could not be written, the machine is thrown away, everybody who waits is
refused, and the next request reads it from the store.

`Groups` and `ShareGroups` are such; what is theirs is which machine, what it is asked, and what becomes of effects
that are neither an answer nor a note.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from gateway.broker.group_kinds import reading
from gateway.broker.loading import check_loaded
from gateway.broker.stood_still import HEARD_MS, STOOD_STILL_MS
from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import Note, Tick
from gateway.coordinators.group_rows import Kind, State
from gateway.promise import Promise
from gateway.wire.errors import Error
from store.api import Family, Outcome, Write, of_group
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.group_kinds import GroupKinds, Listed
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")


class Caller:
    """Stands for a request in its event and in the machine's answer; `build` makes the response of that answer."""

    __slots__ = ("_promise", "answered", "build")

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.build = build
        self._promise: Promise[Any] = Promise()
        self.answered = False

    def answer(self, value: Any) -> None:
        """Called once."""
        assert not self.answered
        self.answered = True
        self._promise.tell(self.build(value))

    def result(self) -> Pending[Any]:
        """The response, or a promise of it."""
        return self._promise.now()


class _HomeGoneError(Exception):
    """The namespace is deleted that a group's clients were at home in."""


class Core(Protocol):
    """A machine: a group of some type."""

    group_id: str
    state: State
    stored: bool

    def step(self, event: Any, now: int, wall: int, /) -> Any:
        """Take in one event: what to write, and the effects (Answer, Note, others) once that is durable."""
        ...

    def next_due(self) -> int | None:
        """When a Tick changes something, monotonic ms."""
        ...

    @property
    def idle(self) -> bool:
        """Nothing is in memory that the row does not say."""
        ...


CoreT = TypeVar("CoreT", bound=Core)


class Flight:
    """One commit on its way: what to do when it has landed."""

    __slots__ = ("effects", "landed", "own")

    def __init__(self, effects: list[Any], own: Caller | None = None) -> None:
        self.effects = effects
        # Of a write that is one request's alone: a failure concerns that request, not the machine.
        self.own = own
        # who else waits for it, whatever comes of it
        self.landed: list[Promise[None]] = []


class Live(Generic[CoreT]):
    """A machine in memory."""

    __slots__ = ("core", "due", "flights", "gone", "parted", "used", "waiting")

    def __init__(self, core: CoreT) -> None:
        self.core = core
        # commits on their way, oldest first
        self.flights: deque[Flight] = deque()
        # requests not answered yet
        self.waiting: dict[Caller, Any] = {}
        # its place in the heap of timers, monotonic ms
        self.due: int | None = None
        self.used = True
        # True when this object has been replaced by what the store says, or by a group of another kind
        self.gone = False
        # in the latter case its commits are still on their way, and those who wait for them are answered
        self.parted = False


class Machines(Generic[CoreT]):
    """Machines of one kind, by group id: what a `GroupKind` does that is the same for all."""

    kind: Kind

    def __init__(self, node: Node, kinds: GroupKinds) -> None:
        self._node = node
        self._kinds = kinds
        self._live: dict[str, Live[CoreT]] = {}
        self._timers: list[tuple[int, int, Live[CoreT]]] = []
        self._timer_count = 0
        self._wake_at: int | None = None
        # the process stood still past a timer, and has read its connections since
        self._heard_since = False

    # -- for those who know which machine it is ----------------------------------------------------------------------

    def _stepped(self, core: CoreT, before: State) -> None:
        """A step was taken: to be counted, and what else follows in its turn."""

    def _happen(self, core: CoreT, effect: Any) -> None:
        """An effect that is neither an answer nor a note."""
        raise AssertionError(effect)

    def _own_failure(self, live: Live[CoreT], caller: Caller, outcome: Exception) -> Any:
        """The answer to a request whose own write failed."""
        raise AssertionError(caller)

    def _load(self, group_id: str, row: bytes) -> CoreT:
        """A machine from its row. Raises RowError, KafkaError."""
        raise NotImplementedError

    def _was_read(self, core: CoreT) -> None:
        """A machine is in memory as its row says: perhaps in the place of one whose effects never happened."""

    def _loaded(self, group_id: str) -> Pending[None]:
        """Until the group is in memory, or what there is of it can be read: whoever asks for it waits for that first,
        and then they go on in the order in which they came.
        """
        return None if group_id in self._live else self._kinds.load((group_id,))

    def _find(self, group_id: str) -> Live[CoreT] | None:
        """The group, from memory or its row; None if there is none. Raises KafkaError; Loading."""
        live = self._live.get(group_id)
        if live is not None:
            live.used = True
            return live
        check_loaded(self._node.store, of_group(group_id))
        with reading(group_id):
            row = self._node.store.get(Family.GROUP, group_rows.key(group_id))
            self._kinds.check(self.kind, group_id, row)
            if row is None:
                return None
            core = self._load(group_id, row)
        live = self._enter(core)
        self._arm(live)
        self._was_read(core)
        return live

    # -- steps and their writes --------------------------------------------------------------------------------------

    def _run(self, live: Live[CoreT], event: Any) -> Any:
        """Take in a request; the response, or a future of it."""
        caller: Caller = event.token
        live.waiting[caller] = event
        self._step(live, event)
        return caller.result()

    def _step(self, live: Live[CoreT], event: Any) -> None:
        clock, core = self._node.clock, live.core
        before = core.state
        try:
            step = core.step(event, clock.monotonic_ms(), clock.wall_ms())
        except Exception as error:
            # A fault of ours: what is in memory may be half a step. The store is not.
            log.exception("group %s failed", core.group_id)
            self._discard(live, error)
            return
        self._stepped(core, before)
        if step.writes:
            self._send(live, step.writes, step.effects)
        else:
            self._deliver(live, step.effects)

    def _send(
        self, live: Live[CoreT], writes: Sequence[Write], effects: list[Any], own: Caller | None = None
    ) -> None:
        live.flights.append(Flight(effects, own))
        self._node.commit(writes, lambda outcome: self._landed(live, outcome))

    def _deliver(self, live: Live[CoreT], effects: list[Any]) -> None:
        """Run effects that need no write, behind those that wait for one."""
        if live.flights:
            live.flights[-1].effects.extend(effects)
        else:
            self._perform(live, effects)

    def _landed(self, live: Live[CoreT], outcome: Outcome) -> None:
        """The machine's oldest commit is over."""
        if live.gone and not live.parted:
            return
        flight = live.flights.popleft()
        self._kinds.changed.add(live.core.group_id)
        if outcome is None:
            self._perform(live, flight.effects)
        elif flight.own is not None:
            answer = self._own_failure(live, flight.own, outcome)
            live.waiting.pop(flight.own, None)
            flight.own.answer(answer)
            self._perform(live, [effect for effect in flight.effects if effect[0] is not flight.own])
        else:
            self._discard(live, outcome)
        _tell(flight.landed)
        self._tidy(live)

    def _perform(self, live: Live[CoreT], effects: Iterable[Any]) -> None:
        for effect in effects:
            caller = effect[0]
            if type(caller) is Caller:
                live.waiting.pop(caller, None)
                caller.answer(effect.value)
            elif type(effect) is Note:
                log.info(effect.text)
            else:
                try:
                    self._happen(live.core, effect)
                except Exception:
                    # others wait for their answers
                    log.exception("what follows from a group", extra={"group": live.core.group_id})

    def _discard(self, live: Live[CoreT], reason: Exception) -> None:
        """What is in memory is not what the store says: the machine is read again by whoever asks next."""
        log.warning("group %s is read again from the store: %s", live.core.group_id, reason)
        if not live.gone:
            self._leave(live)
        live.parted = False
        for caller, event in list(live.waiting.items()):
            caller.answer(event.refused(Error.COORDINATOR_NOT_AVAILABLE))
        live.waiting.clear()
        for flight in live.flights:
            _tell(flight.landed)

    # -- in memory and out -------------------------------------------------------------------------------------------

    def look(self, group_id: str) -> CoreT | None:
        """The machine if it is in memory."""
        live = self._live.get(group_id)
        return live.core if live is not None else None

    def claims(self, group_id: str) -> bool:
        """Whether a group of that id is in memory, so that its row, if it has one, is not the last word."""
        live = self._live.get(group_id)
        return live is not None and live.core.state is not State.DEAD

    def busy(self, group_id: str) -> bool:
        """Whether something of the group is on its way to the store, so that its rows are not the last word."""
        live = self._live.get(group_id)
        return live is not None and bool(live.flights)

    def each_listed(self, listed: Callable[[CoreT], Listed | None]) -> Iterator[Listed]:
        """What `listed` says of those that are in memory now, and still are when it is their turn."""
        for live in list(self._live.values()):
            if not live.gone and (found := listed(live.core)) is not None:
                yield found

    def _enter(self, core: CoreT) -> Live[CoreT]:
        live = self._live[core.group_id] = Live(core)
        return live

    def _leave(self, live: Live[CoreT]) -> None:
        live.gone = True
        del self._live[live.core.group_id]

    def _part(self, live: Live[CoreT]) -> None:
        """A group of another kind takes the place of this one, in the open turn. What is on its way lands as ever."""
        self._leave(live)
        live.parted = True

    def _tidy(self, live: Live[CoreT]) -> None:
        """Let go of a group that came to nothing."""
        core = live.core
        if live.flights or live.gone or live.waiting:
            return
        if core.state is State.DEAD or (core.idle and not core.stored):
            self._leave(live)

    def drop(self, group_id: str) -> None:
        """A group goes with its home, whoever is in it: its rows are deleted in the open turn."""
        live = self._live.get(group_id)
        if live is not None:
            self._discard(live, _HomeGoneError("its home is deleted"))

    def release_idle(self) -> None:
        """Let go of groups without members that nobody asked for since the last call."""
        for live in list(self._live.values()):
            if not live.used and live.core.idle and not live.flights and not live.waiting:
                self._leave(live)
            live.used = False

    # -- time --------------------------------------------------------------------------------------------------------

    def _arm(self, live: Live[CoreT]) -> None:
        """See to it that the group is looked at when something of it is due."""
        if live.gone:
            return
        due = live.core.next_due()
        if due is None or (live.due is not None and live.due <= due):
            return
        live.due = due
        self._timer_count += 1
        heapq.heappush(self._timers, (due, self._timer_count, live))
        self._wake_by(due)

    def _wake(self) -> None:
        now = self._node.clock.monotonic_ms()
        timers = self._timers
        if self._wake_at is not None and self._wake_at <= now:
            stood_still = now - self._wake_at >= STOOD_STILL_MS
            self._wake_at = None
            if stood_still and not self._heard_since:
                # what members have sent meanwhile lies unread, and would come too late
                self._heard_since = True
                self._wake_by(now + HEARD_MS)
                return
        self._heard_since = False
        while timers and timers[0][0] <= now:
            due, _, live = heapq.heappop(timers)
            if live.gone or live.due != due:
                continue
            live.due = None
            actual = live.core.next_due()
            if actual is not None and actual <= now:
                self._step(live, Tick())
                self._tidy(live)
            self._arm(live)
        if timers:
            self._wake_by(timers[0][0])

    def _wake_by(self, due: int) -> None:
        """Have `_wake` called at `due` or before: an earlier call than needed is harmless."""
        if self._wake_at is None or due < self._wake_at:
            self._wake_at = due
            self._node.call_at(due, self._wake)


def _tell(landed: list[Promise[None]]) -> None:
    for each in landed:
        each.tell(None)
