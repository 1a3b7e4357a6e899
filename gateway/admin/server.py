"""The admin server: HTTP on the gateway's own loop, on a port of its own.

Importing this module imports aiohttp, which takes 160 ms: do it when the Kafka listeners are open. Bind the
socket before that, so that a port in use is told at once and a client that comes early waits in its queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.http_exceptions import HttpProcessingError

from gateway import logs
from gateway.acceptor import Acceptor
from gateway.admin import exchange, group_ids, performing, previews, roles
from gateway.admin.asker import EVERYBODY, Asker, asker_of
from gateway.admin.connection import Connection
from gateway.admin.context import Context
from gateway.admin.exchange import COMMAND, HTML, LOOKUP, ROOT, WHY, Call, RefusedError, Reply, Told
from gateway.admin.hosts import check_host, check_origin, own_names
from gateway.admin.login import CHALLENGE, NEEDED, LoginError, Logins
from gateway.admin.pages import Asked, MakePages, Pages, is_page
from gateway.admin.rates import SAMPLE_EVERY, Counted, Rates
from gateway.admin.recent import Recent
from gateway.admin.repeated import Read, Repeated
from gateway.admin.routes import AT_ONCE, OLD, VERBS, key_of
from gateway.admin.scrape import Scrape
from gateway.admin.slices import Pace, give_way, let_go, turn
from gateway.admin.unserved import refused_elsewhere
from gateway.audit import clean
from gateway.auth.entrance import Entrance, certificate_of
from gateway.broker.errors import KafkaError
from gateway.broker.tenancy import TenancyError
from gateway.metrics import CONTENT_TYPE
from gateway.open_files import shares
from gateway.peer import NOBODY, canonical
from semantics.access.acl import Operation
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.admin.routes import Key
    from gateway.auth.context import Tls
    from gateway.broker.broker import Broker

MAX_BODY = 1_048_576
"""Bytes in a request's body at most; the largest there is holds a namespace's policies."""

PIECE = 256 * 1024
"""Bytes of an answer that are given to the socket in one go."""

BODY_SECONDS = 30.0
"""How long a client may take to send its body."""

UNREAD = 64 * 1024
"""Bytes of a body that are thrown away behind a refusal, so that its client gets to read it."""

UNREAD_SECONDS = 1.0
"""How long they may take."""

CONNECTIONS = 256
"""Connections of HTTP clients at once. The oldest makes room for the next: nothing here takes long."""

_log = logging.getLogger(__name__)


class _Complaints(logging.Filter):
    """Bytes that are no HTTP, and clients that go away, are the client's affair: answered if possible, not logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        problem = record.exc_info[1] if record.exc_info else None
        return not isinstance(problem, HttpProcessingError | ConnectionError)


_server_log = logging.getLogger("magnetar.admin.http")
_server_log.addFilter(_Complaints())


def _ready() -> str | None:
    return None


async def start(
    broker: Broker,
    where: socket.socket | tuple[str, int],
    *,
    not_ready: Callable[[], str | None] = _ready,
    tls: Tls | None = None,
    pages: MakePages | None = None,
) -> AdminServer:
    """Serve on a bound (or listening) socket, or on a host and port.

    `not_ready` gives None while the gateway takes traffic, else a sentence for /health/ready. With `tls` it is HTTPS.
    `pages` makes what answers beside the API. Raises OSError when the address cannot be had.
    """
    server = AdminServer(broker, not_ready, tls)
    await server.open(where, pages)
    return server


class AdminServer:
    """Open until `stop`."""

    def __init__(self, broker: Broker, not_ready: Callable[[], str | None], tls: Tls | None) -> None:
        self._broker = broker
        self._tls = tls
        self._must_login = broker.settings.admin_authentication
        # where it does not matter who calls, nobody is asked
        self._asks = self._must_login or broker.settings.authorization
        identity_of = tls.identity_of if tls is not None else None
        self._logins = Logins(
            broker.users, broker.tokens, identity_of, broker.audit, broker.loop.time, broker.clock.wall_ms
        )
        now = broker.loop.time()
        self._context = Context(
            broker, Rates(self._partitions, now), Recent(broker, now), "", not_ready, tls is not None
        )
        self._scrape = Scrape(self._context)
        self._timer: asyncio.TimerHandle | None = None
        self._sampling: asyncio.Task[None] | None = None
        # without an application above: it has routes and middlewares to look for at each call, and here are none
        request = partial(web.BaseRequest, loop=broker.loop, client_max_size=MAX_BODY)
        self._server = web.Server(self._handle, request_factory=request, loop=broker.loop)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=2.0)
        self._repeated = Repeated(self._serve, broker.clock.wall_ms)
        self._acceptor: Acceptor | None = None
        self._pages: Pages | None = None
        # names that were good are good
        self._check_host = lru_cache(maxsize=64)(partial(check_host, names=own_names(broker.settings)))

    @property
    def address(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return self._context.address

    @property
    def url(self) -> str:
        return self._context.url("")

    @property
    def connections(self) -> list[web.RequestHandler]:
        """Those that are open, the oldest first."""
        return self._server.connections

    @property
    def parsed(self) -> int:
        """Requests that aiohttp has parsed since the start: all but the repeated ones that were answered at once."""
        return self._server.requests_count

    async def open(self, where: socket.socket | tuple[str, int], pages: MakePages | None = None) -> None:
        if pages is not None:
            self._pages = await pages(self._context)
            self._context.pages = True
        await self._runner.setup()
        loop = self._broker.loop
        try:
            sock = socket.create_server(where) if isinstance(where, tuple) else where
        except BaseException:
            await self._runner.cleanup()
            raise
        host, port = sock.getsockname()[:2]
        self._acceptor = Acceptor(
            loop,
            sock,
            128,
            self._connection,
            room=min(CONNECTIONS, shares().http),
            taken=lambda: len(self.connections),
            full=self._make_room,
            door=self._entrance(),
        )
        self._context.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._timer = self._broker.loop.call_later(SAMPLE_EVERY, self._sample)
        self._broker.metrics.collect(self._gauges)
        give_way(self._broker.loop, lambda: self._broker.turn.open)
        self._context.sums.start()

    async def stop(self) -> None:
        """Answer what is being answered (2 s at most), then stop listening."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sampling is not None:
            self._sampling.cancel()
        self._context.sums.stop()
        self._context.decoders.close()
        if self._acceptor is not None:
            self._acceptor.close()
        self._logins.close()
        await self._runner.cleanup()

    def _entrance(self) -> Entrance | None:
        """Where clients shake hands, over TLS. They may show a certificate where those of Kafka do, and need not: who
        has none may have a password."""
        if self._tls is None:
            return None
        self._tls.shown.append(self._shown)
        failed = self._broker.metrics.handshakes_failed
        return Entrance(
            self._tls,
            "requested" if self._tls.asks else "none",
            refused=failed.labels("admin", "refused").inc,
            failed=failed.labels("admin", "failed").inc,
        )

    def _shown(self) -> dict[bytes, list[Callable[[], None]]]:
        """Certificates that clients have shown, and how their connections end."""
        found: dict[bytes, list[Callable[[], None]]] = {}
        for connection in self.connections:
            transport = connection.transport
            if transport is not None and (certificate := certificate_of(transport)) is not None:
                found.setdefault(certificate, []).append(connection.force_close)
        return found

    def _make_room(self) -> bool:
        """Close the oldest connection that is not being closed."""
        for oldest in self.connections:
            if oldest.transport is not None:
                oldest.force_close()
                break
        return True

    def _connection(self) -> Connection:
        return Connection(
            self._server, self._repeated, self._broker.loop, access_log=None, logger=_server_log
        )

    def _partitions(self) -> list[Counted]:
        return list(self._broker.in_use.partitions())

    def _gauges(self) -> None:
        """What the broker keeps count of itself."""
        broker, metrics = self._broker, self._broker.metrics
        metrics.unsent_bytes.set(broker.unsent_bytes)
        metrics.unfinished_bytes.set(broker.receiving.total)
        metrics.loop_tasks.set(len(asyncio.all_tasks(broker.loop)))
        metrics.fetch_sessions.set(len(broker.fetch_sessions))
        metrics.log_lines_left_out.value = logs.left_out()

    def _sample(self) -> None:
        loop = self._broker.loop
        self._sampling = loop.create_task(self._sampled(loop.time()))
        self._timer = loop.call_later(SAMPLE_EVERY, self._sample)

    async def _sampled(self, now: float) -> None:
        """Others have their turn: there may be thousands of partitions."""
        pace = Pace()
        await pace.drive(self._context.rates.sample(now))
        await pace.drive(self._context.recent.sample(now))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        read: Read | None = None
        call: Call | None = None
        key: Key | None = None
        may = True
        try:
            found = self._find(request)
            if isinstance(found, str):
                reply = await self._other(request, found)
            else:
                call = found._replace(asker=await self._asker(request))
                key = key_of(call)
                await roles.check(self._broker, key, call)
                # of who may not, no body is read
                call = call._replace(body=await _body(request))
                verb, call = VERBS[key], group_ids.inward(self._broker, call)
                if request.method == "GET" and verb in AT_ONCE and not self._asks:
                    # who asks is not in what a request is known by
                    read = Read(verb, call)
                elif verb not in AT_ONCE:
                    # of many that come together each would have its first slice at once
                    await turn()
                reply = await verb(self._context, call)
        except LoginError as refused:
            reply = exchange.refusal(refused.status, refused.reason)._replace(headers=refused.headers)
        except (RefusedError, TenancyError, KafkaError, StoreError) as error:
            reply = performing.refused(self._broker, error)
            if (
                isinstance(error, RefusedError)
                and error.status == 403
                and call is not None
                and call.asker.checked
            ):
                may, reply = False, performing.not_allowed(self._broker, call, key, error)
        except (asyncio.CancelledError, ConnectionError, web.HTTPException):
            raise
        except Exception:
            _log.exception("The admin server failed at %s %s", request.method, request.rel_url.raw_path)
            reply = exchange.refusal(500, "The gateway failed at this request; its log says how.")
        if may and call is not None and key is not None and not previews.only(call, key, reply):
            performing.changed(self._broker, call, key, reply)
        if reply.content_type != HTML:
            # of what a page shows not a byte is changed
            reply = group_ids.outward(self._broker, reply)
        left = _is_long(request)
        try:
            response = await _send(request, reply, close=left)
            connection = request.protocol
            assert isinstance(connection, Connection)
            connection.answered(request, read, reply)
        finally:
            for many in reply.many:
                await let_go(*many)
        if left:
            await _leave(request)
        return response

    async def _asker(self, request: web.BaseRequest) -> Asker:
        """Who calls. Refuses with 401 who has to say so and does not, or says what is not so."""
        return await self._who(request, request.headers.get("Authorization"))

    async def _who(self, request: web.BaseRequest, authorization: str | None) -> Asker:
        """The same, of a caller that says this of itself."""
        if not self._asks:
            # of a read nothing is told
            return EVERYBODY if request.method == "GET" else Asker(NOBODY, _host(request))
        host = _host(request)
        identity = await self._logins.who(authorization, host, request.transport)
        if identity is NOBODY and self._must_login:
            self._broker.audit.login_refused("", host, "http", "HTTP", "it does not say who it is")
            raise LoginError(401, NEEDED, CHALLENGE)
        return asker_of(self._broker, identity, host)

    async def _serve(self, read: Read) -> Reply:
        """A read that was found before."""
        return group_ids.outward(self._broker, await read.verb(self._context, read.call))

    def _find(self, request: web.BaseRequest) -> Call | str:
        """The call, its body left out; the path of what is no call. Refuses who may not call."""
        path = request.rel_url.raw_path
        headers = request.headers
        self._check_host(headers.get("Host"))
        if OLD.fullmatch(path):
            path = ROOT + path.removeprefix("/admin")
        root = next((each for each in (ROOT, LOOKUP) if path.startswith(each + "/") or path == each), None)
        if root is None:
            return path
        check_origin(request.method, headers)
        method = "GET" if request.method == "HEAD" else request.method
        segments = _segments(path)[root.count("/") :]
        agent = headers.get("User-Agent", "")
        told = Told(clean(headers.get(COMMAND, "")), clean(headers.get(WHY, "")))
        return Call(
            method, segments, request.query, b"", headers.get("Host", ""), agent, root, EVERYBODY, told
        )

    async def _other(self, request: web.BaseRequest, path: str) -> Reply:
        """What is no call of Pulsar's second API."""
        method = "GET" if request.method == "HEAD" else request.method
        if self._pages is not None and is_page(path):
            check_origin(request.method, request.headers)
            asked = Asked(
                method,
                path,
                request.query,
                request.headers,
                partial(_body, request),
                partial(self._who, request),
            )
            return await self._pages.answer(asked)
        if path not in _HEALTH:
            asker = await self._asker(request)
            if path in _METRICS and not asker.node(Operation.DESCRIBE):
                raise self._no_metrics(asker)
        if "Expect" in request.headers:
            await _expected(request)
        if path in _METRICS or path in _HEALTH:
            if method != "GET":
                raise RefusedError(405, f"{path} can only be read (GET), not {method[:20]}.")
            if path in _METRICS:
                return Reply(200, content_type=CONTENT_TYPE, pieces=await self._scrape.text())
            if path == "/health/live":
                return exchange.text("ok")
            reason = self._context.not_ready()
            if reason is not None:
                raise RefusedError(503, reason)
            return exchange.text("ok")
        if (why := refused_elsewhere(method, path)) is not None:
            raise RefusedError(501, f"{why} ({method[:20]} {path[:200]})")
        raise RefusedError(
            404, f"There is nothing at {path[:200]}. Try /admin/v2/clusters, /metrics or /health/live."
        )

    def _no_metrics(self, asker: Asker) -> RefusedError:
        self._broker.audit.refused("GET", asker.principal, asker.host, "http", "metrics")
        if asker.identity is NOBODY:
            return LoginError(401, NEEDED, CHALLENGE)
        return RefusedError(
            403,
            f"{asker.principal[:200]} may not read the metrics: it takes a super-user, or the right to DESCRIBE the "
            "cluster.",
        )


_METRICS = frozenset({"/metrics", "/metrics/"})
_HEALTH = frozenset({"/health/live", "/health/ready"})
"""What is told to everybody: whoever starts gateways has no password."""


def _host(request: web.BaseRequest) -> str:
    """The address of the client."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return canonical(str(peer[0])) if isinstance(peer, tuple) else ""


def _segments(path: str) -> tuple[str, ...]:
    """The parts of a path, decoded after they were split: an encoded slash belongs to a name."""
    parts = path.strip("/").split("/")
    try:
        return tuple([unquote(part, errors="strict") for part in parts])
    except UnicodeDecodeError:
        raise RefusedError(400, "The path is not percent-encoded UTF-8.") from None


async def _send(request: web.BaseRequest, reply: Reply, *, close: bool) -> web.StreamResponse:
    headers = {"Server": "Magnetar", **reply.headers}
    if reply.content_type:
        headers["Content-Type"] = reply.content_type
    if reply.pieces or (len(reply.body) > PIECE and request.method != "HEAD"):
        return await _in_pieces(request, reply, headers)
    response = web.Response(status=reply.status, body=reply.body, headers=headers)
    if close:
        response.force_close()
    await response.prepare(request)
    await response.write_eof()
    return response


def _is_long(request: web.BaseRequest) -> bool:
    """Whether there is a body that nobody has read, longer than what is thrown away to get at the next request."""
    if not request.body_exists or request.content.is_eof():
        return False
    return request.content_length is None or request.content_length > UNREAD


async def _leave(request: web.BaseRequest) -> None:
    """End a connection whose client still sends a body that nobody wants."""
    left = UNREAD
    with contextlib.suppress(TimeoutError, ConnectionError, web.HTTPException):
        async with asyncio.timeout(UNREAD_SECONDS):
            while left > 0 and not request.content.is_eof():
                left -= len(await request.content.readany())
    request.protocol.force_close()


async def _expected(request: web.BaseRequest) -> None:
    """Tell a client to go on that waits for it before it sends its body."""
    if request.version != HttpVersion11:
        return
    if request.headers["Expect"].lower() != "100-continue":
        raise web.HTTPExpectationFailed(text=f"Unknown Expect: {request.headers['Expect']}")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # the answer itself has not begun
    request.writer.output_size = 0


async def _in_pieces(request: web.BaseRequest, reply: Reply, headers: dict[str, str]) -> web.StreamResponse:
    """A large answer, as fast as its client takes it: given to the socket at once it would be copied whole."""
    response = web.StreamResponse(status=reply.status, headers=headers)
    response.content_length = sum(each.size for each in reply.pieces) or len(reply.body)
    await response.prepare(request)
    parts = (each.data() for each in reply.pieces) if reply.pieces else (reply.body,)
    for whole in parts if request.method != "HEAD" else ():
        for start in range(0, len(whole), PIECE):
            await response.write(memoryview(whole)[start : start + PIECE])
            # a client that takes it all at once must not keep the loop for itself
            await turn()
    await response.write_eof()
    return response


async def _body(request: web.BaseRequest) -> bytes:
    """The whole body. Refuses one that is too large with 413, one that does not come with 408."""
    if "Expect" in request.headers:
        await _expected(request)
    if not request.body_exists:
        return b""
    try:
        if request.content.is_eof():
            # all of it is here
            return await request.read()
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise RefusedError(413, f"The body has more than {MAX_BODY} bytes.") from None
    except TimeoutError:
        raise RefusedError(408, f"The body did not come within {BODY_SECONDS:g} seconds.") from None
