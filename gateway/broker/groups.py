"""Groups at work: requests into the pure cores of `gateway.coordinators`, their writes into the store, then
their answers out.

A group in use is in memory; the others are rows. What a step wants written goes into the commit of this loop
turn, and nobody is answered from a state that is not durable: answers of later steps wait behind the writes
before them. If a group's row could not be written, the group is thrown away, everybody who waits is sent to
find the coordinator again, and the next request reads the group from the store.

Offsets are not kept in memory: an OffsetCommit is one commit, an OffsetFetch reads rows. See
`gateway.coordinators.offsets` for what they say.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.group_sweep import Sweep
from gateway.coordinators import group_rows, offsets
from gateway.coordinators.classic_events import (
    Answer,
    Delete,
    Effect,
    Heartbeat,
    Join,
    Plain,
    Request,
    Tick,
    Token,
)
from gateway.coordinators.classic_group import ClassicGroup
from gateway.coordinators.group_rows import Kind, RowError, State
from gateway.coordinators.group_state import Limits
from gateway.coordinators.offsets import Committed
from gateway.wire.errors import Error
from store.api import Delete as DeleteRow
from store.api import Family, Outcome, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic

log = logging.getLogger("magnetar.groups")

IDLE_CHECK = 60_000
"""A group without members that nobody asked for since the last check leaves memory; every so many ms."""


class Waiter:
    """A request's way back: `build` makes the response from the group's answer. It is the token of its event."""

    __slots__ = ("_build", "_future", "_response", "answered")

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self._build = build
        self._future: asyncio.Future[Any] | None = None
        self._response: Any = None
        self.answered = False

    def answer(self, value: Any) -> None:
        """Called once."""
        assert not self.answered
        self.answered = True
        response = self._build(value)
        if self._future is None:
            self._response = response
        elif not self._future.done():
            # done: the connection is gone and has cancelled it
            self._future.set_result(response)

    def result(self, loop: asyncio.AbstractEventLoop) -> Any:
        """The response, or a future of it."""
        if self.answered:
            return self._response
        self._future = loop.create_future()
        return self._future


class OffsetWrites(NamedTuple):
    """An OffsetCommit or OffsetDelete on its way to the store."""

    token: Token

    def refused(self, error: int) -> Plain:
        return Plain(error)


class Listed(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    kind: Kind
    members: int


class _Flight:
    """One commit on its way: what to do when it has landed."""

    __slots__ = ("effects", "futures", "own")

    def __init__(self, effects: list[Effect], own: Waiter | None = None) -> None:
        self.effects = effects
        # Of OffsetCommit and OffsetDelete: a failure concerns that request alone, not the group.
        self.own = own
        self.futures: list[asyncio.Future[None]] = []


class _Live:
    """A group in memory."""

    __slots__ = ("core", "due", "flights", "gone", "used", "waiting")

    def __init__(self, core: ClassicGroup) -> None:
        self.core = core
        # commits on their way, oldest first
        self.flights: deque[_Flight] = deque()
        # requests not answered yet
        self.waiting: dict[Waiter, Request | OffsetWrites] = {}
        # its place in the heap of timers, monotonic ms
        self.due: int | None = None
        self.used = True
        # True when this object has been replaced by what the store says
        self.gone = False


class Groups:
    """All groups of this node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        settings = broker.settings
        self._limits = Limits(
            settings.integer("group.initial.rebalance.delay.ms"), settings.integer("group.max.size")
        )
        self._live: dict[str, _Live] = {}
        self._timers: list[tuple[int, int, _Live]] = []
        self._timer_count = 0
        self._wake_at: int | None = None
        self._sweep = Sweep(broker, self, self._expire)
        # as soon as the loop is free
        broker.loop.call_soon(self.start)

    def start(self) -> None:
        """Look after the groups in the store from now on: sessions run, offsets expire."""
        self._sweep.start()
        self._check_idle()

    # -- membership ------------------------------------------------------------------------------------------

    def run(self, group_id: str, event: Request) -> Any:
        """Take a request to its group. `event.token` is a Waiter; returns the response or a future of it."""
        waiter: Waiter = event.token
        try:
            live = self._find(group_id)
        except KafkaError as error:
            waiter.answer(event.refused(error.code))
            return waiter.result(self._broker.loop)
        if live is None:
            if type(event) is Join and not event.member_id:
                live = self._enter(ClassicGroup(group_id, self._limits, self._broker.clock.wall_ms()))
            else:
                missing = Error.GROUP_ID_NOT_FOUND if type(event) is Delete else Error.UNKNOWN_MEMBER_ID
                waiter.answer(event.refused(missing))
                return waiter.result(self._broker.loop)
        live.waiting[waiter] = event
        self._step(live, event)
        if type(event) is not Heartbeat:
            # Heartbeats only put off what is due: the timer will find out.
            self._arm(live)
            self._tidy(live)
        return waiter.result(self._broker.loop)

    def get(self, group_id: str) -> ClassicGroup | None:
        """The group, to look at; None if there is none. Raises KafkaError if it cannot be read."""
        live = self._find(group_id)
        if live is None or live.core.state is State.DEAD:
            return None
        return live.core

    def listing(self) -> list[Listed]:
        """Every group there is, by id."""
        found: dict[str, Listed] = {}
        for key, value in self._broker.store.scan(Family.GROUP):
            group_id = key.decode()
            if group_id in self._live:
                continue
            try:
                head = group_rows.head(value)
            except RowError as error:
                log.error("group %s: %s", group_id, error)
                continue
            state, kind, members = State(head.state), Kind(head.kind), 0
            if kind is Kind.CLASSIC and state is not State.EMPTY:
                members = len(group_rows.classic(value).members)
            found[group_id] = Listed(group_id, head.protocol_type or "", state.shown, kind, members)
        for group_id, live in self._live.items():
            core = live.core
            if core.state is not State.DEAD:
                found[group_id] = Listed(
                    group_id, core.protocol_type or "", core.state.shown, Kind.CLASSIC, len(core.roster)
                )
        return [found[group_id] for group_id in sorted(found)]

    # -- offsets ---------------------------------------------------------------------------------------------

    def commit_offsets(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        rows: list[Write],
        waiter: Waiter,
    ) -> Any:
        """Store offsets on behalf of a member (or of nobody: generation -1). The answer is a Plain with the
        error.

        A group that does not exist is made by a commit without a generation; with one it is
        GROUP_ID_NOT_FOUND. `rows` are Puts made with `gateway.coordinators.offsets`.
        """
        broker = self._broker
        try:
            live = self._find(group_id)
        except KafkaError as error:
            waiter.answer(Plain(error.code))
            return waiter.result(broker.loop)
        if live is None:
            if generation >= 0:
                waiter.answer(Plain(Error.GROUP_ID_NOT_FOUND))
                return waiter.result(broker.loop)
            live = self._enter(ClassicGroup(group_id, self._limits, broker.clock.wall_ms()))
        live.waiting[waiter] = OffsetWrites(waiter)
        code = live.core.check_commit(member_id, instance_id, generation, broker.clock.monotonic_ms())
        answer: list[Effect] = [Answer(waiter, Plain(code))]
        if code or not rows:
            self._deliver(live, answer)
            self._tidy(live)
        elif made := live.core.store_simple():
            self._send(live, [*made, *rows], answer)
        else:
            self._send(live, rows, answer, waiter)
        if not code:
            broker.metrics.offset_commits.inc(len(rows))
        return waiter.result(broker.loop)

    def delete_offsets(self, group_id: str, keys: Iterable[bytes], waiter: Waiter) -> Any:
        """Forget committed offsets by their keys. The group must exist; the answer is a Plain."""
        live = self._find(group_id)
        assert live is not None
        rows: list[Write] = [DeleteRow(Family.OFFSET, key) for key in keys]
        answer: list[Effect] = [Answer(waiter, Plain(Error.NONE))]
        live.waiting[waiter] = OffsetWrites(waiter)
        if rows:
            self._send(live, rows, answer, waiter)
        else:
            self._deliver(live, answer)
        return waiter.result(self._broker.loop)

    def look(self, group_id: str) -> ClassicGroup | None:
        """The group if it is in memory."""
        live = self._live.get(group_id)
        return live.core if live is not None else None

    def busy(self, group_id: str) -> bool:
        """Whether something of the group is on its way to the store, so that its rows are not the last word."""
        live = self._live.get(group_id)
        return live is not None and bool(live.flights)

    def in_flight(self, group_id: str) -> asyncio.Future[None] | None:
        """A future that ends when all commits of the group that are under way have landed; None if none is."""
        live = self._live.get(group_id)
        if live is None or not live.flights:
            return None
        future: asyncio.Future[None] = self._broker.loop.create_future()
        live.flights[-1].futures.append(future)
        return future

    def committed(self, group_id: str, topic: Topic, partitions: Sequence[int]) -> list[Committed | None]:
        """What a group has committed in a topic, None where it has not. Raises StoreError."""
        get = self._broker.store.get
        prefix = offsets.topic_prefix(offsets.group_prefix(group_id), topic.name)
        found: list[Committed | None] = []
        for partition in partitions:
            value = get(Family.OFFSET, prefix + offsets.key_suffix(partition)) if partition >= 0 else None
            row = offsets.decode(value) if value is not None else None
            found.append(row if row is not None and row.topic_id == topic.topic_id else None)
        return found

    def all_committed(self, group_id: str) -> list[tuple[Topic, list[tuple[int, Committed]]]]:
        """Everything a group has committed in topics that exist, by topic. Raises StoreError."""
        catalog = self._broker.catalog
        found: list[tuple[Topic, list[tuple[int, Committed]]]] = []
        name: str | None = None
        topic: Topic | None = None
        for key, value in self._broker.store.scan(Family.OFFSET, offsets.group_prefix(group_id)):
            place = offsets.place(key)
            if place.topic != name:
                name = place.topic
                topic = catalog.get(name)
                if topic is not None:
                    found.append((topic, []))
            row = offsets.decode(value)
            if topic is not None and row.topic_id == topic.topic_id:
                found[-1][1].append((place.partition, row))
        return [(topic, rows) for topic, rows in found if rows]

    def topic_deleted(self, topic: Topic) -> Sequence[Write]:
        """What must be written together with the deletion of a topic: nothing.

        A commit names the id of its topic and is not seen once that is gone; the sweep removes its row.
        """
        return ()

    # -- steps and their writes ------------------------------------------------------------------------------

    def _step(self, live: _Live, event: Request | Tick) -> None:
        clock, core = self._broker.clock, live.core
        before = core.state
        try:
            step = core.step(event, clock.monotonic_ms(), clock.wall_ms())
        except Exception as error:
            # A fault of ours: what is in memory may be half a step. The store is not.
            log.exception("group %s failed", core.group_id)
            self._discard(live, error)
            return
        if core.state is State.STABLE and before is not State.STABLE:
            self._broker.metrics.rebalances.inc()
        if step.writes:
            self._send(live, step.writes, step.effects)
        else:
            self._deliver(live, step.effects)

    def _send(
        self, live: _Live, writes: Sequence[Write], effects: list[Effect], own: Waiter | None = None
    ) -> None:
        live.flights.append(_Flight(effects, own))
        self._broker.commit(writes, lambda outcome: self._landed(live, outcome))

    def _deliver(self, live: _Live, effects: list[Effect]) -> None:
        """Run effects that need no write, behind those that wait for one."""
        if live.flights:
            live.flights[-1].effects.extend(effects)
        else:
            self._perform(live, effects)

    def _landed(self, live: _Live, outcome: Outcome) -> None:
        """The oldest commit of the group is over."""
        if live.gone:
            return
        flight = live.flights.popleft()
        if outcome is None:
            self._perform(live, flight.effects)
        elif flight.own is not None:
            log.warning("group %s: offsets were not stored: %s", live.core.group_id, outcome)
            failed: list[Effect] = [Answer(flight.own, Plain(Error.COORDINATOR_NOT_AVAILABLE))]
            others = [effect for effect in flight.effects if effect[0] is not flight.own]
            self._perform(live, failed + others)
        else:
            self._discard(live, outcome)
        _finish(flight.futures)
        self._tidy(live)

    def _perform(self, live: _Live, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if type(effect) is Answer:
                live.waiting.pop(effect.token, None)
                effect.token.answer(effect.value)
            else:
                log.info(effect[0])

    def _discard(self, live: _Live, reason: Exception) -> None:
        """What is in memory is not what the store says: the group is read again by whoever asks next."""
        log.warning("group %s is read again from the store: %s", live.core.group_id, reason)
        self._leave(live)
        for waiter, event in list(live.waiting.items()):
            waiter.answer(event.refused(Error.COORDINATOR_NOT_AVAILABLE))
        live.waiting.clear()
        for flight in live.flights:
            _finish(flight.futures)

    # -- in memory and out -----------------------------------------------------------------------------------

    def _find(self, group_id: str) -> _Live | None:
        """The group, from memory or its row. Raises KafkaError."""
        live = self._live.get(group_id)
        if live is not None:
            live.used = True
            return live
        broker = self._broker
        try:
            value = broker.store.get(Family.GROUP, group_rows.key(group_id))
            if value is None:
                return None
            if group_rows.head(value).kind != Kind.CLASSIC:
                raise KafkaError(Error.INCONSISTENT_GROUP_PROTOCOL, f"{group_id} is a group of another type.")
            core = ClassicGroup.load(
                group_id, group_rows.classic(value), self._limits, broker.clock.monotonic_ms()
            )
        except StoreError as error:
            log.error("group %s cannot be read: %s", group_id, error)
            raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        except RowError as error:
            log.error("group %s: %s", group_id, error)
            raise KafkaError(Error.UNKNOWN_SERVER_ERROR, str(error)) from error
        live = self._enter(core)
        self._arm(live)
        return live

    def _enter(self, core: ClassicGroup) -> _Live:
        live = self._live[core.group_id] = _Live(core)
        return live

    def _leave(self, live: _Live) -> None:
        live.gone = True
        del self._live[live.core.group_id]

    def _tidy(self, live: _Live) -> None:
        """Let go of a group that came to nothing."""
        core = live.core
        if live.flights or live.gone or live.waiting:
            return
        if core.state is State.DEAD or (core.idle and not core.stored):
            self._leave(live)

    def release_idle(self) -> None:
        """Let go of groups without members that nobody asked for since the last call."""
        for live in list(self._live.values()):
            if not live.used and live.core.idle and not live.flights and not live.waiting:
                self._leave(live)
            live.used = False

    def _expire(self, group_id: str) -> None:
        """Delete an empty group whose offsets are all gone."""
        log.info("group %s has no members and no offsets any more: deleted", group_id)
        self.run(group_id, Delete(Waiter(lambda answer: None)))

    def _check_idle(self) -> None:
        self.release_idle()
        self._broker.call_at(self._broker.clock.monotonic_ms() + IDLE_CHECK, self._check_idle)

    def close(self) -> None:
        """The gateway stops: nobody waits any longer for others to join or sync."""
        for live in list(self._live.values()):
            for waiter, event in list(live.waiting.items()):
                if type(event) is not OffsetWrites:
                    waiter.answer(event.refused(Error.COORDINATOR_NOT_AVAILABLE))
                    del live.waiting[waiter]

    # -- time ------------------------------------------------------------------------------------------------

    def _arm(self, live: _Live) -> None:
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
        now = self._broker.clock.monotonic_ms()
        timers = self._timers
        if self._wake_at is not None and self._wake_at <= now:
            self._wake_at = None
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
            self._broker.call_at(due, self._wake)


def _finish(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
