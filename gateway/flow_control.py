"""What one client may have the gateway hold: whether its connection is read, and how much it may leave unread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from gateway.connection_state import BUSY, MEMORY, THROTTLED, UNREAD
from store.api import Buffer

if TYPE_CHECKING:
    from gateway.connection_host import Host
    from gateway.large_answers import LargeAnswer


class FlowControl(asyncio.Protocol):
    """A connection as the transport sees it. It is read while there is no reason not to (`connection_state`); whoever
    takes a reason away goes on with what was held back for it.
    """

    __slots__ = ("_broker", "_large", "_listener", "_paused", "_throttles", "_unsent", "transport")
    transport: asyncio.Transport

    def __init__(self, listener: Host[Any]) -> None:
        self._listener = listener
        self._broker = listener.broker
        # why it is not read: a sum of BUSY, UNREAD, MEMORY, THROTTLED, STOPPING, ENDED
        self._paused = 0
        # timers that are to end a throttle: several, where requests of it waited for backlogs
        self._throttles = 0
        # bytes that it counts for in those that clients have not taken yet
        self._unsent = 0
        # the answer that is sent by a thread
        self._large: LargeAnswer | None = None

    def _proceed(self) -> None:
        """Go on with what was held back, if nothing holds it back any more."""
        raise NotImplementedError

    # -- reading ----------------------------------------------------------------------------------------------------

    def _pause(self, reason: int) -> None:
        """Read no more, until `_resume` with the same reason."""
        if not self._paused:
            self.transport.pause_reading()
        self._paused |= reason
        if self._large is not None:
            self._large.want()

    def _resume(self, reason: int) -> None:
        """Read again, if this was the only reason not to."""
        if self._paused:
            self._paused &= ~reason
            if not self._paused:
                self.transport.resume_reading()

    def hold_reading(self) -> None:
        """Memory is short over all connections: read no more until `release_reading`."""
        self._pause(MEMORY)

    def release_reading(self) -> None:
        self._resume(MEMORY)

    def throttle(self, ms: int) -> None:
        """Read no more for so long. What was read is answered meanwhile."""
        self._pause(THROTTLED)
        self._throttles += 1
        broker = self._broker
        broker.call_at(broker.clock.monotonic_ms() + ms, self._throttle_ends)

    def _throttle_ends(self) -> None:
        self._throttles -= 1
        if self._throttles:
            # another one lasts longer
            return
        self._resume(THROTTLED)
        if self._paused:
            self._proceed()

    def eof_received(self) -> bool:
        """The client sends no more. Told again, when reading goes on, if an answer to it is on its way."""
        if self._large is None:
            self._listener.ending(self)
            return False
        self._pause(BUSY)
        return True

    # -- what the client leaves unread ------------------------------------------------------------------------------

    def _bound_writing(self) -> None:
        high = self._listener.max_unsent
        self.transport.set_write_buffer_limits(high=high, low=high // 4)

    def pause_writing(self) -> None:
        """The client does not read its answers: read no more requests until it does."""
        self._account_unsent(self.transport.get_write_buffer_size())
        self._pause(UNREAD)

    def resume_writing(self) -> None:
        self._bound_writing()
        self._account_unsent(0)
        self._resume(UNREAD)
        if self._paused:
            self._proceed()

    def write_large(self, pieces: Sequence[Buffer]) -> None:
        """Let the transport send what a thread did not. Nothing more is served until the client has taken it."""
        self.transport.writelines(cast("list[bytes]", pieces))
        if self.transport.get_write_buffer_size():
            # `pause_writing` is called at once, so that it counts, and `resume_writing` when nothing is left
            self.transport.set_write_buffer_limits(high=0)

    def _account_unsent(self, size: int) -> None:
        self._broker.unsent_bytes += size - self._unsent
        self._unsent = size
