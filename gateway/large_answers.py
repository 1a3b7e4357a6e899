"""The large answer of a Fetch on its way: by a thread, and by the transport where a thread cannot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, cast

from gateway.pace import Pace
from gateway.sending import Sending, in_memory, release
from store.api import Buffer, Piece

if TYPE_CHECKING:
    from gateway.connection_host import Files

log = logging.getLogger("magnetar.connection")


def frame_size(pieces: Sequence[Piece]) -> int:
    """Bytes of a frame, as its first four say."""
    return int.from_bytes(cast(bytes, pieces[0])[:4], "big") + 4


class Owner(Protocol):
    """The connection whose answer it is."""

    pace: Pace | None
    """how its client takes large answers, once there was one"""

    @property
    def transport(self) -> asyncio.Transport: ...

    def write_large(self, pieces: Sequence[Buffer]) -> None:
        """Let the transport send what a thread did not."""
        ...

    def sent_large(self, at: float) -> None:
        """It has left, or cannot any more; or the transport has what is left of it. `at`: when that was."""
        ...

    def close(self, reason: str) -> None: ...


class LargeAnswer:
    """What a blocked connection sends. It ends with `Connection.sent_large`, or with the connection."""

    __slots__ = ("_again", "_connection", "_listener", "_pieces", "_sending", "_task")

    def __init__(
        self,
        connection: Owner,
        listener: Files,
        pieces: Sequence[Piece],
        again: Callable[[], Awaitable[Sequence[Piece]]],
    ) -> None:
        """`again`: the same answer with its bytes in memory."""
        self._connection = connection
        self._listener = listener
        self._again = again
        self._pieces = pieces
        self._sending: Sending | None = None
        self._task: asyncio.Future[None] | None = None

    def send(self) -> None:
        """Begin. Nothing that was written before may be waiting in the transport unseen."""
        connection = self._connection
        if connection.transport.is_closing():
            release(self._pieces)
            connection.sent_large(perf_counter())
            return
        # over TLS there is none: what a thread wrote to it would leave as everybody can read it
        sock = connection.transport.get_extra_info("socket")
        if (
            sock is not None
            and not connection.transport.get_write_buffer_size()
            and self._listener.take_file()
        ):
            number = sock.fileno()
            senders = self._listener.senders
            if connection.pace is None:
                connection.pace = Pace(senders.waits)
            self._sending = senders.send(number, self._pieces, self._sent, connection.pace)
            if self._sending is not None:
                if self._listener.scarce:
                    self.want()
                return
            self._listener.return_file()
        self._write(in_memory(self._pieces))

    def look(self) -> None:
        """Go on if the thread is done: the client may be faster than the loop."""
        if self._sending is not None and self._sending.ended:
            self._listener.senders.heard(self._sending)

    def want(self) -> None:
        """Go on as soon as the thread is done: somebody waits."""
        if self._sending is not None:
            self._listener.senders.want(self._sending)

    def _sent(self, sending: Sending) -> None:
        """A thread has sent it, or could not."""
        self._sending = None
        self._listener.return_file()
        connection = self._connection
        if sending.missed and not connection.transport.is_closing():
            self._write(None)
            return
        if sending.failed:
            connection.close("its client is gone, or its answer could not be read")
        elif sending.left and not connection.transport.is_closing():
            connection.write_large(sending.left)
        connection.sent_large(sending.ended)

    def _write(self, buffers: Sequence[Buffer] | None) -> None:
        """Let the transport send it, once its bytes are in memory."""
        if buffers is None:
            self._listener.sent.value -= frame_size(self._pieces)
            self._task = asyncio.ensure_future(self._read_again())
            return
        self._connection.write_large(buffers)
        self._connection.sent_large(perf_counter())

    async def _read_again(self) -> None:
        try:
            self._pieces = await self._again()
        except Exception:
            log.exception("a fetch failed")
            self._connection.close("an internal error, see the log")
            self._connection.sent_large(perf_counter())
            return
        if self._connection.transport.is_closing():
            # it would keep these bytes, and be kept by them
            self._connection.sent_large(perf_counter())
        else:
            self._listener.sent.value += frame_size(self._pieces)
            self._write(cast("Sequence[Buffer]", self._pieces))
