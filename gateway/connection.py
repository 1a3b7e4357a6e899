"""One client's connection: frames in, answers out, in order, within bounds.

Requests take effect in the order they came, and their answers leave in that order. Produce requests are pipelined:
each joins the group of its loop turn, and its answer leaves when that group is committed. Everything else waits
until the Produce requests before it are settled, and holds back what comes after it until its answer is there, as
Kafka's muted channel does. Only a parked Fetch or ShareFetch gives way: the next request ends it early.

Memory is bounded: at most one frame being received, or kept until what came before it is answered (of one connection
socket.request.max.bytes, less for other APIs than Produce; of all of them memory.max.bytes), at most MAX_IN_FLIGHT
bytes of Produce requests not yet settled, and one answer beyond what the client may leave unread
(memory.connection.max.bytes).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from gateway.answers_in_turn import AnswersInTurn
from gateway.apis.dispatch import dispatch
from gateway.apis.produce import produce
from gateway.apis.produce_held import HeldSlot
from gateway.apis.produce_owed import OwedError, Owing, told_to_wait
from gateway.apis.produce_slots import ProduceSlot
from gateway.apis.registry import APIS, Context
from gateway.apis.waiting import Answer, asked
from gateway.auth.errors import RefusedError
from gateway.broker.fetching import LARGE
from gateway.broker.publishers import Publishing
from gateway.broker.turn import MAX_BYTES as MAX_TURN
from gateway.client_bounds import MOST_WAIT_MS
from gateway.connection_state import BUSY, ENDED, STOPPING, THROTTLED, UNREAD, State
from gateway.framing import PRODUCE, BadFrame, Frame, Framing, Locked, LoginOver
from gateway.large_answers import frame_size
from gateway.peer import NOBODY, Peer, host_of
from gateway.promise import Promise
from gateway.wire import codec
from gateway.wire import produce as wire
from gateway.wire.malformed import malformed
from gateway.wire.varint import skip_tags
from store.steps import step

if TYPE_CHECKING:
    from gateway.connection_host import Host

log = logging.getLogger("magnetar.connection")

MAX_IN_FLIGHT = 8 * 1024 * 1024
"""Bytes of unsettled Produce requests after which a connection is not read."""
HELD_AT_MOST = 5
"""Requests of a connection that wait for backlogs, when all of them are told to come again: so many unanswered ones are
what most clients allow themselves, and their other topics would wait as well.
"""
FAIR_SHARE = 32
"""Requests that are answered at once, after which others get their turn: a client that pipelines without end must not
keep the loop to itself. What each API counts as, the registry says."""
LONG_TURN = 0.01
"""Seconds of work after which others get their turn as well: a request may name 100,000 things, or unfold 64 MB."""

OPEN, WORKING, JOINING, PARKED = State.OPEN, State.WORKING, State.JOINING, State.PARKED
SENDING, CLOSING, CLOSED = State.SENDING, State.CLOSING, State.CLOSED

T = TypeVar("T")


class Connection(AnswersInTurn):
    """Fed by the event loop; `settled`, `flush` and `close` are for those who answer later."""

    __slots__ = (
        "_frames",
        "_held",
        "_in_flight",
        "_kept",
        "_owing",
        "_served",
        "_slots",
        "id",
        "idled",
        "last_used",
        "publishing",
    )
    _listener: Host[Connection]

    def __init__(self, listener: Host[Connection], number: int) -> None:
        super().__init__(listener)
        self.id = number
        self._frames = Framing(listener.max_request)
        # True when it is closed because nothing was asked on it for too long
        self.idled = False
        # Produce requests in the order of their answers
        self._slots: deque[ProduceSlot | _Ready] = deque()
        self._in_flight = 0
        # those of them that wait for a backlog to become smaller
        self._held: list[HeldSlot] = []
        # whether a large request that waits for the one before it counts as one that is being received
        self._kept = False
        # requests answered at once since others had their turn
        self._served = 0
        self.last_used = 0
        # what it has to wait for before it may produce, and is still to be asked; None: nothing
        self._owing: Owing | None = Owing(self._broker)

    # -- the transport's side ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        host = host_of(transport.get_extra_info("peername"))
        refused: RefusedError | None = None
        try:
            peer = self._listener.peer_for(self._listener.identity_of(transport), host, self.id)
        except RefusedError as error:
            refused = error
            peer = self._listener.peer_for(NOBODY, host, self.id)
        self.begin(transport, peer)
        self._listener.opened(self)
        if refused is not None:
            self.close(refused.reason)

    def begin(self, transport: asyncio.BaseTransport, peer: Peer) -> None:
        """Serve this client from now on: one that was just accepted, or has logged in."""
        self.transport = cast(asyncio.Transport, transport)
        self.peer = peer
        self.publishing = Publishing(self.peer, self._broker.clock)
        self._broker.publishing.add(self.publishing)
        self.last_used = self._broker.clock.monotonic_ms()
        self._use = self._broker.tenant_uses.of(self.peer.namespace)
        self._broker.client_quotas.opened(self.peer, self.throttle)
        self._bound_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed:
            self._enter(CLOSING if self._state is SENDING else CLOSED)
            self._paused |= ENDED
        self._account_unsent(0)
        self._listener.receiving(self, 0)
        self._frames.clear()
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            fetch.cancel()
        self._give_up()
        if self._owing is not None:
            self._owing.release()
        self.publishing.close()
        self._broker.publishing.discard(self.publishing)
        self._broker.client_quotas.closed(self.peer)
        self._broker.fetch_sessions.connection_lost(self.id)
        self._broker.share_sessions.connection_lost(
            self.id, stopping=bool(self._paused & STOPPING), idled=self.idled
        )
        self._listener.closed(self)

    @step("bytes.received")
    def data_received(self, data: bytes) -> None:
        self._listener.received.value += len(data)
        self._use.received += len(data)
        if self._large is not None:
            self._large.look()
            if self.closed:
                return
        self._take(data)
        turn = self._broker.turn
        if turn.bytes > MAX_TURN:
            turn.end()

    def throttle(self, ms: int) -> None:
        if ms >= MOST_WAIT_MS:
            # it may owe more than it is told at a time
            self._owing = self._owing or Owing(self._broker, self._broker.clock.monotonic_ms())
        super().throttle(ms)
        self._use.throttled_ms += ms

    # -- requests ---------------------------------------------------------------------------------------------------

    def _take(self, data: bytes = b"") -> None:
        """Serve the frames that have come, with these bytes or before, as far as they can be served now."""
        now = perf_counter()
        until = now + LONG_TURN
        frames, use, peer = self._frames, self._use, self.peer
        if self._kept:
            self._kept = False
            self._listener.receiving(self, 0)
        begun = frames.unfinished
        if peer.quotas is not None:
            peer.quotas.since = now
        try:
            frame = frames.receive(data)
            if begun:
                if frame is None:
                    self._listener.receiving(self, frames.unfinished)
                    return
                self._listener.receiving(self, 0)
            self.last_used = self._listener.now
            while frame is not None:
                key, version, correlation_id, client_length, data, position, stop = frame
                if self._state is not OPEN or self._paused & UNREAD:
                    # What is behind a parked fetch ends its wait; then it is served, unless its answer is not read.
                    if self._fetch is not None:
                        self._fetch.expire()
                    if self._state is not OPEN or self._paused & UNREAD:
                        self._hold(data, position)
                        return
                body = position + 14 + (client_length if client_length > 0 else 0)
                if data[position + 12 : body] != peer.named and body <= stop:
                    # once for nearly all clients
                    self._named(data[position + 12 : body], now)
                # By the registry this would take 0.2 us more of 4.5 that a Produce takes before its commit.
                if key == PRODUCE and 3 <= version <= 13:
                    if version >= 9:
                        body = body + 1 if not data[body] else skip_tags(data, body)
                    while True:
                        if self._owing is not None and self._owes(self._owing, frame, body):
                            return
                        try:
                            self._produce(version, correlation_id, data, body, stop)
                            break
                        except OwedError as error:
                            self._owing = Owing(self._broker, group=error.group)
                    if self._in_flight > MAX_IN_FLIGHT or len(self._slots) > self._listener.max_slots:
                        self._pause(BUSY)
                        # nobody could see what comes behind them
                        self._give_up()
                elif self._slots and key != PRODUCE:
                    # It must see what the Produce requests before it did.
                    self._hold(data, position)
                    self._give_up()
                    return
                else:
                    self._serve(frame, now)
                use.requests += 1
                now = perf_counter()
                if (self._served >= FAIR_SHARE or now > until) and self._state is OPEN:
                    self._served = 0
                    self._pause(BUSY)
                    self._broker.loop.call_soon(self._proceed)
                if self._paused:
                    self._hold(data, stop)
                    return
                if not frames.more:
                    return
                frame = frames.receive()
            if frames.unfinished:
                self._listener.receiving(self, frames.unfinished)
        except LoginOver as error:
            self.close(str(error))
        except BadFrame as error:
            self._listener.malformed.inc()
            self.close(str(error))
        except Exception as error:
            if not malformed(error):
                log.exception("a request failed", extra={"client": self.peer.host})
                self.close("an internal error, see the log")
                return
            self._listener.malformed.inc()
            self.close(f"malformed request: {error}")
        finally:
            if peer.quotas is not None:
                peer.quotas.settle(now)

    def _named(self, named: bytes, now: float) -> None:
        """Its client has come, or calls itself otherwise: other quotas may bind it."""
        peer = self.peer
        if peer.quotas is not None:
            peer.quotas.settle(now)
        peer.call(named)
        self._broker.client_quotas.look(peer)
        self._owing = self._owing or Owing(self._broker)
        if peer.quotas is not None:
            peer.quotas.since = now

    def _owes(self, owing: Owing, frame: Frame, body: int) -> bool:
        """Whether a Produce has to wait for what its client owes, or a resource group. Then it is kept, or answered,
        and what stands behind it goes on by itself.
        """
        _, version, correlation_id, _, data, position, stop = frame
        broker = self._broker
        now = broker.clock.monotonic_ms()
        owing.release()
        left = owing.left(self.peer, now)
        if not left:
            self.publishing.groups |= owing.groups
            self._owing = None
            return False
        request = wire.decode(version, data, body, stop)
        wait = owing.keep(request, left, len(data) - position, now)
        if wait:
            self._hold(data, position)
            self.throttle(wait)
        elif request.acks == 0:
            self.close("a Produce with acks=0 came while its client owes, and there is no memory to keep it")
        else:
            self._produced(told_to_wait(version, correlation_id, request, left))
            if pause := owing.refuse(self.peer.quotas, now):
                self.throttle(pause)
            self._hold(data, stop)
            broker.loop.call_soon(self._proceed)
        return True

    def _hold(self, data: bytes, position: int) -> None:
        """Keep what cannot be served yet, and read no more meanwhile."""
        self._frames.keep(data, position)
        if len(data) - position > LARGE and not self.closed:
            # more than one read brings: it may be for long that it waits, such as for a JoinGroup
            self._kept = True
            self._listener.receiving(self, len(data) - position)
        self._pause(BUSY)

    def _proceed(self) -> None:
        """Go on with what was held back, if nothing holds it back any more."""
        paused = self._paused
        if paused & STOPPING:
            self.shutdown()
            return
        if not paused & BUSY or paused & (UNREAD | THROTTLED) or self._state is not OPEN:
            return
        if self._in_flight > MAX_IN_FLIGHT or len(self._slots) > self._listener.max_slots:
            return
        self._paused = paused & ~BUSY
        self._take()
        if not self._paused:
            self.transport.resume_reading()

    @step("frame.found")
    def _produce(self, version: int, correlation_id: int, data: bytes, body: int, stop: int) -> None:
        answer = produce(self._broker, self, version, correlation_id, data, body, stop)
        if type(answer) is ProduceSlot and answer.payload:
            # what nearly all are: one call less
            self._slots.append(answer)
            self._in_flight += answer.size
            if self._held:
                self._give_up()
        elif answer is None or isinstance(answer, (ProduceSlot, bytes)):
            self._produced(answer)
        else:
            # its batches are prepared in a thread; what comes behind it waits, so that the order holds
            self._serving = PRODUCE
            self._wait(answer, self._prepared)

    def _prepared(self, answer: ProduceSlot | bytes | None) -> None:
        self._enter(OPEN)
        self._produced(answer)
        if self._paused:
            self._proceed()

    def _produced(self, answer: ProduceSlot | bytes | None) -> None:
        if not isinstance(answer, ProduceSlot) or not answer.payload:
            # answered at once, or with acks=0 never: the client need not wait before it goes on
            self._served += 1
        if type(answer) is HeldSlot:
            self._held.append(answer)
        if self._held and (
            type(answer) is not HeldSlot or len(self._held) >= HELD_AT_MOST or self._paused & STOPPING
        ):
            self._give_up()
        if isinstance(answer, ProduceSlot):
            self._slots.append(answer)
            self._in_flight += answer.size
        elif self._slots and answer is not None:
            self._slots.append(_Ready(answer))
        elif answer is not None:
            self._send(answer)

    def held_behind(self, slot: HeldSlot) -> list[HeldSlot]:
        """What waits for a backlog and came after a request that does so."""
        return self._held[self._held.index(slot) + 1 :] if slot in self._held else []

    def held_no_longer(self, slot: HeldSlot) -> None:
        """What waited for a backlog is over."""
        if slot in self._held:
            self._held.remove(slot)

    def _give_up(self) -> None:
        """What waits for a backlog does so no longer: others wait behind its answer, or nobody does any more."""
        held, self._held = self._held, []
        for slot in held:
            slot.give_up()

    def _serve(self, frame: Frame, started: float) -> None:
        """A request that is not pipelined: nothing before it is unanswered."""
        key, version, correlation_id, _, data, position, stop = frame
        api = APIS.get(key)
        self._served += api.counts if api is not None else 1
        if api is not None and api.direct is not None and api.min_version <= version <= api.max_version:
            if (
                api.quick is not None
                and (found := api.quick(self._broker, self.peer, data, position, stop)) is not None
            ):
                size = frame_size(found)
                self._listener.sent.value += size
                self._use.sent += size
                if size < LARGE:
                    self.transport.writelines(cast("Sequence[bytes]", found))
                    self._listener.observe(key, perf_counter() - started)
                else:
                    self._serving = key
                    self._began = started
                    assert api.again is not None, "quick answers of that size have it"
                    self._send_large(found, size, partial(api.again, self._broker, data, position, stop))
                return
            quotas = self.peer.quotas
            work = quotas.begin() if quotas is not None else 0
            waiting = api.direct(self._broker, asked(self.peer, data, position, stop, api.flexible))
            result = waiting.start()
            if quotas is not None:
                quotas.worked(work)
            self._serving = key
            self._began = started
            if type(result) is list:
                if not self._blocked_by_sending(waiting, result):
                    self._listener.observe(key, perf_counter() - started)
            elif isinstance(result, Promise):
                self._enter(PARKED)
                self._fetch = waiting
                result.then(partial(self._fetched, waiting))
            else:
                self._wait(cast("Awaitable[Answer]", result), partial(self._fetched, waiting))
            return
        request = data[position + 4 : stop]
        *_, client_id, body = codec.decode_request_header(request)
        context = Context(self.peer, key, version, correlation_id, client_id)
        answer = dispatch(self._broker, context, request, body)
        if type(answer) is bytes:
            self._send(answer)
            self._listener.observe(key, perf_counter() - started)
        elif answer is not None:
            self._serving = key
            self._began = started
            state = JOINING if APIS[key].parks else WORKING
            if isinstance(answer, Promise):
                self._enter(state)
                answer.then(self._told)
            else:
                self._wait(cast("Awaitable[bytes]", answer), self._handled, state)

    # -- answers ----------------------------------------------------------------------------------------------------

    def settled(self, slot: ProduceSlot) -> None:
        """A Produce of this connection is committed or has failed: its answer may leave."""
        self._in_flight -= slot.size
        slots = self._slots
        if slots and slots[0] is slot:
            # those behind it leave with it, if they are ready, and not before it
            self._broker.answering.append(self)

    @step("answers.before")
    def flush(self) -> None:
        """Send the answers that are ready, up to the first that is not."""
        slots = self._slots
        if self._paused & ENDED:
            slots.clear()
            return
        out = []
        while slots and slots[0].ready:
            out.append(slots.popleft().payload)
        if len(out) == 1:
            self._send(out[0])
        elif out:
            self._send(b"".join(out))
        if self._paused:
            self._proceed()

    # -- its life ---------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing is being served: the client owes the next request."""
        return (self._state is OPEN or self._state is CLOSED) and not self._slots

    def lock(self, over: Callable[[], bool]) -> None:
        """Its login is over: until the client has logged in again, nothing else is served. What waits for records
        waits no longer; what else is being served is.
        """
        self._frames = Locked(self._frames, over)
        if self._fetch is not None:
            self._fetch.expire()

    def shutdown(self) -> None:
        """End it as soon as what is in flight is answered. What only waits is not in flight."""
        if not self._paused & STOPPING:
            self._pause(STOPPING)
            self._give_up()
            if self._fetch is not None:
                self._fetch.expire()
        if self._state is JOINING or (self._state is OPEN and not self._slots):
            self._end()


class _Ready(NamedTuple):
    """An answer that waits only for those before it."""

    payload: bytes
    ready: bool = True
