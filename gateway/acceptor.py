"""Connections taken from a listening socket: no more than there are files for, whatever comes."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Callable

log = logging.getLogger("magnetar.acceptor")

ACCEPTS = 64
"""Connections that are taken in one turn of the loop."""

PAUSE_SECONDS = 1.0
"""So long connections wait when there was no file for one."""

ROOM_SECONDS = 0.005
"""So long they wait while one is being closed to make room."""

QUIET_SECONDS = 10
"""Want of files is told again when there was none for so long."""

_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts from when it is made until `close`.

    Not the loop's own server: uvloop's ends without a word when a file is missing at the wrong moment, and opens a
    connection to find that it is one too many, while another thread may need that file.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        backlog: int,
        make: Callable[[], asyncio.BaseProtocol],
        *,
        room: int,
        taken: Callable[[], int],
        full: Callable[[], bool],
    ) -> None:
        """`taken` tells how many of the connections are open, of at most `room`. `full` is called for each that
        is one too many: it answers whether it makes room; otherwise that connection is closed.
        """
        self._loop = loop
        self._sock = sock
        self._make = make
        self._room = room
        self._taken = taken
        self._full = full
        # connections that are being made, by their tasks
        self._coming: dict[asyncio.Task[None], asyncio.BaseProtocol] = {}
        self._short_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        sock.listen(backlog)
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._accept)

    def resume(self) -> None:
        """Look again for connections, if they had to wait."""
        if self._timer is not None and not self._closed:
            self._timer.cancel()
            self._timer = None
            self._loop.add_reader(self._sock.fileno(), self._accept)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()

    def _pause(self, seconds: float) -> None:
        """Those that come wait in the system's queue, and the loop is not told of them."""
        self._loop.remove_reader(self._sock.fileno())
        self._timer = self._loop.call_later(seconds, self.resume)

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            too_many = self._taken() + len(self._coming) >= self._room and self._no_room()
            if too_many and self._full():
                self._pause(ROOM_SECONDS)
                return
            try:
                sock, _ = self._sock.accept()
            except OSError as error:
                if error.errno in _SHORT:
                    self._pause(PAUSE_SECONDS)
                    self._short("connections wait until some are closed", str(error))
                return
            if too_many:
                sock.close()
                self._short("more connections are refused", f"{self._room} are connections")
                continue
            sock.setblocking(False)
            protocol = self._make()
            task = self._loop.create_task(self._take(protocol, sock))
            self._coming[task] = protocol
            task.add_done_callback(self._coming.pop)

    def _no_room(self) -> bool:
        """Whether all room is taken. One that has its transport is among the `taken`, and its task ends only later."""
        coming = sum(getattr(each, "transport", None) is None for each in self._coming.values())
        return self._taken() + coming >= self._room

    async def _take(self, protocol: asyncio.BaseProtocol, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, sock)
        except OSError:
            # it went away in the meantime
            sock.close()

    def _short(self, what: str, why: str) -> None:
        """There is no file for a connection: say so, once until it is over."""
        now = self._loop.time()
        if now - self._short_at > QUIET_SECONDS:
            log.warning(
                "too many files are open (%s): %s; raise the hard limit (ulimit -Hn, or LimitNOFILE= of the service)",
                why,
                what,
            )
        self._short_at = now
