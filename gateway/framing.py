"""Bytes in, frames out: where each request begins and ends, and which are refused by their heads. Pure.

A frame is four bytes that say how long it is, and a request (Kafka's RequestOrResponse). Most reads bring one or
several whole frames: they are found where they stand, and nothing is copied. Only the pieces of a frame that comes in
several reads are put together.

How large a frame may be goes by its API, which its first 14 bytes tell. A frame that is too large is refused then, and
its rest is not waited for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from gateway.apis.registry import LARGEST, SMALL_REQUEST
from gateway.strangers import not_kafka

PRODUCE = 0
_OF_LOGIN = (17, 36)
"""SaslHandshake and SaslAuthenticate."""
FIRST_REQUEST = 8 * SMALL_REQUEST
"""The largest frame that a connection may begin with: whoever has said nothing yet is not trusted with the memory of
socket.request.max.bytes. Nearly all clients begin with ApiVersions; the others begin with an ordinary Produce."""
CRUMB = 2048
"""Pieces of a frame below this are put together as they come: a list of small ones takes many times their bytes."""

_head = struct.Struct(">ihhih").unpack_from  # size, API key, version, correlation id, length of the client id
_HEAD = 14
"""Bytes of a frame that tell what it asks."""
_SMALLEST = _HEAD - 4

Frame = tuple[int, int, int, int, bytes, int, int]
"""API key, version, correlation id, length of the client id, and where it stands: bytes, first, one behind the last."""


class BadFrame(Exception):
    """Bytes that are no frame, or one that may not come; says which."""


class LoginOver(Exception):
    """A request of a client whose login has lasted as long as it may."""


class Framing:
    """The frames of one connection: `receive` takes what came, and gives one frame at a time.

    Whoever cannot serve a frame yet gives it back with `keep`, and gets it again.
    """

    __slots__ = ("_data", "_largest", "_max_request", "_needed", "_pieces", "_position", "more", "unfinished")

    def __init__(self, max_request: int) -> None:
        """`max_request`: bytes of the largest Produce, once a whole frame has come."""
        self._max_request = max_request
        self._largest = min(max_request, FIRST_REQUEST)
        # what has come and was not taken, from `_position` on
        self._data = b""
        self._position = 0
        self.more = False
        """Whether there is any of that."""
        # or else a frame that has not come whole, and how many bytes it takes to go on with it
        self._pieces: list[bytes | bytearray] = []
        self._needed = 0
        self.unfinished = 0
        """Bytes of a frame that has not come whole."""

    def receive(self, data: bytes = b"") -> Frame | None:
        """The first whole frame of what was not taken yet and this; None until more comes. Raises BadFrame.

        What stands behind the frame is kept: while there is `more`, call again without bytes.
        """
        position = 0
        if self.more:
            position = self._position
            if data:
                data = self._data[position:] + data
                position = 0
            else:
                data = self._data
        elif self.unfinished:
            if not self._finish(data):
                return None
            data = b"".join(self._pieces)
            self._pieces = []
            self.unfinished = 0
        left = len(data) - position
        if left >= _HEAD:
            size, key, version, correlation_id, client_length = _head(data, position)
            if (
                not _SMALLEST
                <= size
                <= (self._largest if key == PRODUCE else LARGEST.get(key, SMALL_REQUEST))
            ):
                raise BadFrame(not_kafka(data, position, size, key))
            whole = 4 + size
            if whole <= left:
                stop = position + whole
                if whole < left:
                    self._data = data
                    self._position = stop
                    self.more = True
                elif self.more:
                    self._data = b""
                    self.more = False
                self._largest = self._max_request
                return key, version, correlation_id, client_length, data, position, stop
        self._begin(data[position:])
        return None

    def keep(self, data: bytes, position: int) -> None:
        """Of the bytes of the last frame those from `position` on are not taken yet."""
        self._data = data[position:]
        self._position = 0
        self.more = bool(self._data)

    def clear(self) -> None:
        """Forget what was not taken."""
        self._data = b""
        self._pieces = []
        self.more = False
        self.unfinished = 0

    def _finish(self, data: bytes) -> bool:
        """One piece more of an unfinished frame; whether there are enough now to go on with it."""
        if len(data) >= CRUMB:
            self._pieces.append(data)
        elif type(last := self._pieces[-1]) is bytearray:
            last += data
        else:
            self._pieces.append(bytearray(data))
        self.unfinished += len(data)
        return self.unfinished >= self._needed

    def _begin(self, rest: bytes) -> None:
        """Keep what has come of a frame: until its head is there, then until all of it is."""
        needed = _HEAD
        if len(rest) >= 4:
            size = int.from_bytes(rest[:4], "big", signed=True)
            if not _SMALLEST <= size <= self._largest:
                raise BadFrame(not_kafka(rest, 0, size, None))
            if len(rest) >= needed:
                needed = 4 + size
        self._data = b""
        self.more = False
        if rest:
            self._needed = needed
            self._pieces.append(rest)
            self.unfinished = len(rest)


class Locked(Framing):
    """The frames of a client that has to log in again: while its login is over, others than those of a login are
    refused. Who is within its time pays nothing for this: its frames are found by `Framing`.
    """

    __slots__ = ("_over",)

    def __init__(self, frames: Framing, over: Callable[[], bool]) -> None:
        """Takes the place of `frames`. `over`: whether the login is over at present."""
        for name in Framing.__slots__:
            setattr(self, name, getattr(frames, name))
        self._over = over

    def receive(self, data: bytes = b"") -> Frame | None:
        """The same. Raises LoginOver, too."""
        frame = super().receive(data)
        if frame is not None and frame[0] not in _OF_LOGIN and self._over():
            raise LoginOver("its login is over (connections.max.reauth.ms, or the end of its token)")
        return frame
