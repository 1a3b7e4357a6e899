"""One client's connection: aiohttp's, with a shorter way for reads that are repeated (`repeated.py`).

The shorter way is open while nothing is under way here: each byte that came was a part of one request, which is
answered. Whoever sends requests otherwise (many at once, bodies of unknown length) is served by aiohttp alone from then
on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http import HttpVersion11

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.admin.repeated import Read, Repeated

COUNTED = 64 * 1024
"""Bytes of a request at most for which it is known where it ends."""

SHORT_WAY_SECONDS = 60.0
"""So long the shorter way is open after an answer of aiohttp's, which closes connections that are idle for longer, and
sees nothing of what goes that way.
"""


class Connection(web.RequestHandler):
    """A protocol of the event loop."""

    __slots__ = ("_came", "_now", "_open_until", "_repeated")

    def __init__(
        self, server: web.Server, repeated: Repeated, loop: asyncio.AbstractEventLoop, **options: Any
    ) -> None:
        """`options` are aiohttp's."""
        super().__init__(server, loop=loop, **options)
        self._repeated = repeated
        self._now = loop.time
        # what has come of the request that is under way, nothing while none is; None: nobody knows any more
        self._came: bytes | None = b""
        self._open_until = 0.0

    def data_received(self, data: bytes) -> None:
        came, transport = self._came, self.transport
        if came == b"" and self._now() < self._open_until and not self.writing_paused:
            answer = self._repeated.answer(data)
            if answer is not None and transport is not None and not transport.is_closing():
                transport.write(answer)
                return
        if came is not None:
            self._came = came + data if len(came) + len(data) <= COUNTED else None
        super().data_received(data)

    def answered(self, request: web.BaseRequest, read: Read | None, reply: Reply) -> None:
        """The answer to a request is written. `read`: what it is if it may come again."""
        came, self._came = self._came, None
        if came is not None and _is_all(came, request):
            self._came = b""
            self._open_until = self._now() + SHORT_WAY_SECONDS
            if read is not None and not request.body_exists:
                self._repeated.learn(came, read, reply)


def _is_all(came: bytes, request: web.BaseRequest) -> bool:
    """Whether these bytes are this request and nothing else, and another one may follow."""
    headers = request.headers
    if request.version != HttpVersion11 or not request.keep_alive:
        return False
    if "Transfer-Encoding" in headers or "Upgrade" in headers or "Expect" in headers:
        return False
    end = came.find(b"\r\n\r\n")
    return end >= 0 and len(came) - end - 4 == int(headers.get("Content-Length", "0"))
