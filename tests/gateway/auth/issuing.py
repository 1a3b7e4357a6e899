"""A server of https on this machine, and a CA that the system may trust."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import trustme
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def https(handler: Handler, issued: trustme.LeafCert) -> AsyncIterator[str]:
    """A server on a free port; the address of its keys."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    app = web.Application()
    app.router.add_get("/{name}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    await web.SockSite(runner, sock, ssl_context=context).start()
    try:
        yield f"https://localhost:{sock.getsockname()[1]}/jwks"
    finally:
        await runner.cleanup()


CA = trustme.CA()
LEAF = CA.issue_cert("localhost")
