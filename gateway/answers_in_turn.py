"""The answers of one client, but for those of pipelined Produce requests: what is waited for, how it is sent, and when
the connection ends behind it.

One request is worked on at a time (`connection_state`), and nothing behind it is served until its answer is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from gateway.apis.produce_held import HeldSlot
from gateway.broker.fetching import LARGE, Fetch
from gateway.connection_state import ENDED, LEGAL, UNREAD, State
from gateway.flow_control import FlowControl
from gateway.framing import PRODUCE
from gateway.large_answers import LargeAnswer, frame_size
from gateway.wire.malformed import Malformed
from store.pending import Pending
from store.steps import step

if TYPE_CHECKING:
    from gateway.apis.waiting import Answer, Waiting
    from gateway.connection_host import Host
    from gateway.pace import Pace
    from gateway.peer import Peer
    from gateway.tenant_use import TenantUse

log = logging.getLogger("magnetar.connection")

OPEN, WORKING, SENDING = State.OPEN, State.WORKING, State.SENDING
CLOSING, CLOSED = State.CLOSING, State.CLOSED

T = TypeVar("T")


class AnswersInTurn(FlowControl):
    """What a connection is doing, and what it sends. `_proceed` goes on with what came meanwhile."""

    __slots__ = ("_began", "_fetch", "_serving", "_state", "_task", "_use", "pace", "peer")
    peer: Peer
    # what its tenant has used
    _use: TenantUse

    def __init__(self, listener: Host[Any]) -> None:
        super().__init__(listener)
        self._state = OPEN
        # the fetch that waits for records; the task of what else is waited for
        self._fetch: Waiting | None = None
        self._task: asyncio.Future[Any] | None = None
        # the API of the request that is waited for, and when it came
        self._serving = PRODUCE
        self._began = 0.0
        # how the client takes large answers, once there was one
        self.pace: Pace | None = None

    # -- what is waited for -----------------------------------------------------------------------------------------

    def _wait(self, answer: Awaitable[T], then: Callable[[T], None], state: State = WORKING) -> None:
        """Hold back what comes until there is an answer; `then` goes on with it, unless the connection has ended."""
        if self._state is not CLOSED:
            self._enter(state)
        self._task = asyncio.ensure_future(self._later(answer, then))

    async def _later(self, answer: Awaitable[T], then: Callable[[T], None]) -> None:
        try:
            found = await answer
            self._task = None
            if self._state is not CLOSED:
                then(found)
            elif isinstance(found, HeldSlot):
                # nobody waits for it any more
                found.give_up()
        except Malformed as error:
            self._listener.malformed.inc()
            self.close(f"malformed request: {error}")
        except Exception:
            log.exception("a request failed", extra={"client": self.peer.host, "api": self._serving})
            self.close("an internal error, see the log")

    def _told(self, frame: Pending[bytes]) -> None:
        """What a handler has promised is there."""
        if type(frame) is not bytes:
            self._task = asyncio.ensure_future(self._later(cast("Awaitable[bytes]", frame), self._handled))
        elif self._state is not CLOSED:
            self._handled(frame)

    def _handled(self, frame: bytes) -> None:
        """A handler that waited has its answer."""
        self._send(frame)
        self._answered(perf_counter())

    def _fetched(self, waiting: Waiting, answer: Pending[Answer]) -> None:
        """A fetch that was parked, or asked a disk, has its answer."""
        self._fetch = None
        if not isinstance(answer, list):
            self._wait(cast("Awaitable[Answer]", answer), partial(self._fetched, waiting))
        elif self._state is not CLOSED and not self._blocked_by_sending(waiting, answer):
            self._answered(perf_counter())

    def _answered(self, at: float) -> None:
        """What was waited for has been sent then: go on."""
        self._listener.observe(self._serving, at - self._began)
        self._enter(OPEN)
        if self._paused:
            self._proceed()

    # -- what is sent -----------------------------------------------------------------------------------------------

    @step("socket.before", "socket.after")
    def _send(self, frames: bytes) -> None:
        self._listener.sent.value += len(frames)
        self._use.sent += len(frames)
        self.transport.write(frames)

    def _blocked_by_sending(self, waiting: Waiting, pieces: Answer) -> bool:
        """Send one frame, whose first four bytes say how long it is. True when a thread does that, or more is to come:
        until then this connection is blocked, and goes on by itself.
        """
        size = frame_size(pieces)
        self._listener.sent.value += size
        self._use.sent += size
        if size < LARGE or type(waiting) is not Fetch:
            self.transport.writelines(cast("list[bytes]", pieces))
            return False
        self._send_large(pieces, size, waiting.again)
        return True

    def _send_large(self, pieces: Answer, size: int, again: Callable[[], Awaitable[Answer]]) -> None:
        self._enter(SENDING)
        # it may all be in memory before the loop hears of it, and others must be given less from now on
        self._account_unsent(size)
        large = self._large = LargeAnswer(self, self._listener, pieces, again)
        large.send()
        if self._paused:
            large.want()

    def sent_large(self, at: float) -> None:
        """A large answer has left, or cannot any more; or the transport has what is left of it. `at`: when that was."""
        self._large = None
        if self._state is CLOSING:
            # it was waited for
            self._enter(CLOSED)
            self.transport.close()
            return
        self._account_unsent(self.transport.get_write_buffer_size() if self._paused & UNREAD else 0)
        self._answered(at)

    # -- its life ---------------------------------------------------------------------------------------------------

    def _enter(self, state: State) -> None:
        assert state in LEGAL[self._state], f"from {self._state} to {state}"
        self._state = state

    @property
    def closed(self) -> bool:
        """It has ended, or ends when a large answer has left."""
        return self._state is CLOSED or self._state is CLOSING

    def close(self, reason: str) -> None:
        """End the connection when what it has to send is sent; the reason goes to the log."""
        if self.closed:
            return
        self._listener.closing(self, reason)
        if self._state is SENDING:
            self._listener.ending(self)
            self._enter(CLOSING)
            self._paused |= ENDED
            if self._large is not None:
                self._large.want()
        else:
            self._end()

    def _end(self) -> None:
        self._enter(CLOSED)
        self._paused |= ENDED
        self._listener.ending(self)
        self.transport.close()

    def abort(self) -> None:
        """End it with what it still had to send."""
        self.transport.abort()
