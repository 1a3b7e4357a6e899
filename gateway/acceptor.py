"""Connections taken from a listening socket: no more than there are files for, whatever comes.

Over TLS a connection is made when its handshake is done. Until then it is counted here, and ended when others need its
place: who has not done it within a second is no hurried client.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from gateway.encrypted import Encrypted
from gateway.handshakes import Handshakes
from gateway.peer import canonical

log = logging.getLogger("magnetar.acceptor")

ACCEPTS = 64
"""Connections that are taken in one turn of the loop."""

PAUSE_SECONDS = 1.0
"""So long connections wait when there was no file for one."""

ROOM_SECONDS = 0.005
"""So long they wait while one is being closed to make room."""

QUIET_SECONDS = 10
"""Want of files is told again when there was none for so long."""

SHUTDOWN_SECONDS = 5.0
"""So long a client may take for its part of the end of TLS, and for the last of what it was sent."""

SLOW_HANDSHAKE = 1.0
"""Seconds after which a handshake may be ended for the place that it takes."""

_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Door(Protocol):
    """TLS, as one listener has it."""

    @property
    def handshakes(self) -> Handshakes: ...

    @property
    def timeout(self) -> float:
        """Seconds that a handshake may take."""
        ...

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        ...

    def crowded(self, address: str) -> bool:
        """Whether this address has as many connections as it may, those included whose handshake is under way."""
        ...

    def refused(self, address: str) -> None:
        """A connection was closed before its handshake: there were too many from there."""
        ...

    def failed(self, address: str, error: OSError) -> None:
        """A handshake did not succeed."""
        ...


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
        door: Door | None = None,
        admits: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`taken` tells how many of the connections are open, of at most `room`. `full` is called for each that
        is one too many: it answers whether it makes room; otherwise that connection is closed. With a `door` they
        are over TLS. `admits` says whether one from an address may come in now.
        """
        self._loop = loop
        self._sock = sock
        self._make = make
        self._room = room
        self._taken = taken
        self._full = full
        self._admits = admits
        # connections that are being made, by their tasks
        self._coming: dict[asyncio.Task[None], asyncio.BaseProtocol] = {}
        self._door = door
        # of these the ones that shake hands: since when, from where, and the task; the oldest first
        self._shaking: dict[Encrypted, tuple[float, str, asyncio.Task[None]]] = {}
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
            for _, _, task in list(self._shaking.values()):
                task.cancel()

    def _pause(self, seconds: float) -> None:
        """Those that come wait in the system's queue, and the loop is not told of them."""
        self._loop.remove_reader(self._sock.fileno())
        self._timer = self._loop.call_later(seconds, self.resume)

    def _accept(self) -> None:
        door = self._door
        for _ in range(ACCEPTS):
            too_many = self._taken() + len(self._coming) >= self._room and self._no_room()
            if too_many and (self._end_slow_handshake() or self._full()):
                self._pause(ROOM_SECONDS)
                return
            if door is not None and (wait := door.handshakes.wait(self._loop.time())):
                self._pause(wait)
                return
            try:
                sock, address = self._sock.accept()
            except OSError as error:
                if error.errno in _SHORT:
                    self._pause(PAUSE_SECONDS)
                    self._short("connections wait until some are closed", str(error))
                return
            if too_many:
                sock.close()
                self._short("more connections are refused", f"{self._room} are connections")
                continue
            came_from = canonical(address[0]) if isinstance(address, tuple) else ""
            if not self._admits(came_from):
                sock.close()
                continue
            sock.setblocking(False)
            if door is None:
                protocol = self._make()
                self._come(protocol, self._take(protocol, sock))
            elif (
                door.crowded(came_from)
                or (late := door.handshakes.begin(came_from, self._loop.time())) is None
            ):
                sock.close()
                door.refused(came_from)
            else:
                protocol = self._make()
                encrypted = Encrypted(self._loop, protocol, self._over)
                task = self._come(protocol, self._shake_hands(door, encrypted, sock, came_from, late))
                self._shaking[encrypted] = self._loop.time() + late, came_from, task
                # also where it is ended before it began
                task.add_done_callback(partial(self._ended, encrypted))

    def _come(self, protocol: asyncio.BaseProtocol, taking: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(taking)
        self._coming[task] = protocol
        task.add_done_callback(self._coming.pop)
        return task

    def _over(self, encrypted: Encrypted) -> None:
        """A handshake is, if it was not before."""
        found = self._shaking.pop(encrypted, None)
        if found is not None:
            assert self._door is not None
            self._door.handshakes.end(found[1])

    def _ended(self, encrypted: Encrypted, task: asyncio.Task[None]) -> None:
        self._over(encrypted)

    def _end_slow_handshake(self) -> bool:
        """Make room by ending the oldest handshake, if that takes its time."""
        for since, _, task in self._shaking.values():
            if self._loop.time() - since < SLOW_HANDSHAKE:
                return False
            if not task.cancelling():
                task.cancel()
                return True
        return False

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

    async def _shake_hands(
        self, door: Door, encrypted: Encrypted, sock: socket.socket, address: str, wait: float
    ) -> None:
        """In `wait` seconds."""
        if wait:
            try:
                await asyncio.sleep(wait)
            except BaseException:
                sock.close()
                raise
        try:
            await self._loop.connect_accepted_socket(
                lambda: encrypted,
                sock,
                ssl=door.context(),
                ssl_handshake_timeout=door.timeout,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except OSError as error:
            sock.close()
            door.failed(address, error)

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
