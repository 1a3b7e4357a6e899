"""A connection over TLS, between the loop's transport and the protocol above it: large answers leave in pieces.

What is written to a transport of TLS is encrypted at once and whole, and held a second time until the client takes it;
the transport counts none of that which it has given to the socket's. So a large answer would hold the loop for as long
as its encryption takes, and a client that does not read would hold memory that nobody sees. Here a piece is encrypted
when the one before it has left, or nearly; the rest waits as it is, and counts.

The socket is nobody's business: whoever wrote to it would send what everybody can read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

Buffer = bytes | bytearray | memoryview

PIECE = 256 * 1024
"""Bytes that are encrypted in one go. At most two such pieces have been and wait for the client."""
AT_ONCE = 1024 * 1024
"""Bytes of one connection after which others get their turn, also where the client takes all of it."""
JOINED = 64 * 1024
"""Answers up to this size are put together first: each part of them would be a record of TLS."""
HIGH = 64 * 1024
"""Bytes that may wait before the protocol is told, unless it says otherwise: asyncio's."""


class Encrypted(asyncio.Protocol, asyncio.Transport):
    """The protocol of the transport below, and the transport of the protocol above."""

    __slots__ = (
        "_closing",
        "_full",
        "_high",
        "_inner",
        "_loop",
        "_low",
        "_made",
        "_protocol",
        "_size",
        "_soon",
        "_told",
        "_waiting",
        "data_received",
    )
    data_received: Callable[[bytes], None]  # type: ignore[assignment]
    """The protocol's own: nothing stands between it and what a client sends."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.BaseProtocol,
        made: Callable[[Encrypted], None] = lambda _: None,
    ) -> None:
        """`made` is called when the handshake is done, before the protocol has its transport."""
        super().__init__()
        self._made = made
        self._loop = loop
        self._inner: asyncio.Transport | None = None
        # what was written and is not encrypted yet, and its bytes
        self._waiting: deque[Buffer] = deque()
        self._size = 0
        # the transport below has more than its socket takes
        self._full = False
        # the protocol was told that the client does not read
        self._told = False
        self._high, self._low = HIGH, HIGH // 4
        self._closing = False
        self._soon = False
        self.set_protocol(protocol)

    # -- the transport below ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        inner = self._inner = cast(asyncio.Transport, transport)
        # told as soon as anything has to wait there, and again when nothing does
        inner.set_write_buffer_limits(high=1)
        self._made(self)
        self._protocol.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._forget()
        protocol = self._protocol
        # it has this transport, which would keep it
        self.set_protocol(_NOBODY)
        protocol.connection_lost(exc)

    def eof_received(self) -> bool:
        """TLS has no half of a connection: what still waits can not be sent any more."""
        self._forget()
        self._protocol.eof_received()
        return False

    def pause_writing(self) -> None:
        self._full = True
        self._control()

    def resume_writing(self) -> None:
        self._full = False
        self._push()

    # -- the protocol above -----------------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)
        self.data_received = self._protocol.data_received

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As below; there is no "socket"."""
        return (
            default if name == "socket" or self._inner is None else self._inner.get_extra_info(name, default)
        )

    def write(self, data: Buffer) -> None:
        if self._waiting or self._full or len(data) > PIECE:
            self._wait((data,))
        elif not self._closing:
            self._below.write(data)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        pieces = list(list_of_data)
        size = sum(map(len, pieces))
        if self._waiting or self._full or size > PIECE:
            self._wait(pieces)
        elif not self._closing:
            if size <= JOINED:
                self._below.write(b"".join(pieces))
            else:
                self._below.writelines(pieces)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As asyncio has it. The protocol is told at once."""
        if high is None:
            high = HIGH if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low
        self._control()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """What waits to be encrypted, and what was and waits for the socket's own buffer, of which there may be another
        piece."""
        return self._size + (self._inner.get_write_buffer_size() if self._inner is not None else 0)

    def can_write_eof(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return self._below.is_reading()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        if not self._closing:
            self._below.resume_reading()

    def is_closing(self) -> bool:
        return self._closing or self._below.is_closing()

    def close(self) -> None:
        """Read no more, and end when all that was written has left."""
        if self._closing:
            return
        self._closing = True
        if self._waiting:
            self._below.pause_reading()
        else:
            self._below.close()

    def abort(self) -> None:
        self._closing = True
        self._forget()
        self._below.abort()

    # -- pieces -----------------------------------------------------------------------------------------------------

    @property
    def _below(self) -> asyncio.Transport:
        assert self._inner is not None, "not connected yet"
        return self._inner

    def _wait(self, pieces: Iterable[Buffer]) -> None:
        if self._closing:
            return
        for piece in pieces:
            if size := len(piece):
                self._waiting.append(piece)
                self._size += size
        self._push()

    def _push(self) -> None:
        """Encrypt as much as the socket takes, in pieces, and in turns with others."""
        sent = 0
        while self._waiting and not self._full:
            if sent >= AT_ONCE:
                if not self._soon:
                    self._soon = True
                    self._loop.call_soon(self._go_on)
                break
            piece = self._next()
            sent += PIECE
            self._below.writelines(piece)
        if self._closing and not self._waiting:
            self._below.close()
        self._control()

    def _go_on(self) -> None:
        self._soon = False
        self._push()

    def _next(self) -> list[Buffer]:
        """The next piece, taken from what waits."""
        waiting, found, room = self._waiting, list[Buffer](), PIECE
        while waiting and room:
            first = waiting[0]
            if len(first) <= room:
                found.append(waiting.popleft())
                room -= len(first)
            else:
                first = memoryview(first)
                found.append(first[:room])
                waiting[0] = first[room:]
                room = 0
        self._size -= PIECE - room
        return found

    def _control(self) -> None:
        """Tell the protocol whether its client reads, if that has changed. Last in whatever calls it: it writes more
        then."""
        size = self.get_write_buffer_size()
        if self._told:
            if size <= self._low:
                self._told = False
                self._protocol.resume_writing()
        elif size > self._high:
            self._told = True
            self._protocol.pause_writing()

    def _forget(self) -> None:
        self._waiting.clear()
        self._size = 0


_NOBODY = asyncio.Protocol()
