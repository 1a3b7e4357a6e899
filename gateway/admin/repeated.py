"""Reads that a client repeats: known by their bytes, they are answered when they come, without being parsed anew.

A monitor asks for the same stats over the same connection all day, in the same bytes. The HTTP library has parsed them
once, and `server.py` has found the verb and its call: bytes that are the same mean the same. What is kept is who
answers, never an answer. A verb that has to wait, or fails, has said nothing yet: the request then takes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gateway.admin.exchange import Call, Reply
    from gateway.admin.routes import Verb

MOST = 1_000
"""Requests that are known; beyond that all are forgotten."""
LONGEST = 2_048
"""Bytes of a request that is known."""


class Read(NamedTuple):
    """A call that changes nothing, as its verb is given it."""

    verb: Verb
    call: Call


class Repeated:
    """The requests of all connections."""

    def __init__(
        self, serve: Callable[[Read], Coroutine[Any, Any, Reply]], wall_ms: Callable[[], int]
    ) -> None:
        """`serve` gives the reply; `wall_ms` tells the time, in ms since 1970."""
        self._serve = serve
        self._wall_ms = wall_ms
        # None: that one has had to wait, and would do so again
        self._known: dict[bytes, Read | None] = {}
        self._second, self._date = -1, ""

    def learn(self, request: bytes, read: Read, reply: Reply) -> None:
        """What the bytes of one whole request mean, and what they were answered."""
        if len(request) > LONGEST or request in self._known or not _short(reply):
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[request] = read

    def answer(self, request: bytes) -> bytes | None:
        """The whole answer to a request that is known, None where it cannot be told at once."""
        read = self._known.get(request)
        if read is None:
            return None
        serving = self._serve(read)
        try:
            serving.send(None)
        except StopIteration as done:
            reply: Reply = done.value
        except Exception:
            # who serves it the long way meets the same, and can tell it
            return None
        else:
            # it is a read: to begin it again does no harm
            serving.close()
            self._known[request] = None
            return None
        return self._bytes(reply) if _short(reply) else None

    def _bytes(self, reply: Reply) -> bytes:
        """As the library writes it."""
        second = self._wall_ms() // 1000
        if second != self._second:
            self._second, self._date = second, formatdate(second, usegmt=True)
        head = (
            f"HTTP/1.1 200 OK\r\nServer: Magnetar\r\nContent-Type: {reply.content_type}\r\n"
            f"Content-Length: {len(reply.body)}\r\nDate: {self._date}\r\n\r\n"
        )
        return head.encode() + reply.body


SHORT = 64 * 1024
"""Bytes of an answer that is given to the socket in one go."""


def _short(reply: Reply) -> bool:
    """Whether it has the usual head, and its body is at hand."""
    return (
        reply.status == 200
        and reply.content_type is not None
        and not reply.headers
        and not reply.pieces
        and len(reply.body) <= SHORT
    )
