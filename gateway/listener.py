"""One listening socket: the connections that came in by it, and their bounds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from gateway.acceptor import Acceptor
from gateway.apis.registry import APIS
from gateway.auth.entrance import Entrance, certificate_of
from gateway.connection import Connection
from gateway.errors import StartError
from gateway.gate import Admission, Gate
from gateway.logins import Logins
from gateway.open_files import shares
from gateway.peer import NOBODY, Identity, Peer
from gateway.sending import Senders
from store.steps import step

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.auth.context import Tls
    from gateway.broker.broker import Broker
    from gateway.config.listeners import Listener as Setting
    from gateway.metrics import Histogram

log = logging.getLogger("magnetar.listener")

CLOSING_SECONDS = 10
"""How long a closed connection may take to send what it has: a client that reads nothing would keep it for ever."""
SLOW_LOGIN_MS = 1000
"""Who has not logged in after so long may have to make room for others: a client takes a tenth of it."""
STOPPING_SECONDS = 1
"""And while the gateway stops. A consumer that works on what it has read reads its next answer much later."""


Client = Connection | Gate


class Listener:
    """What its connections share."""

    def __init__(
        self, broker: Broker, setting: Setting, port: int, senders: Senders, tls: Tls | None = None
    ) -> None:
        """`tls` is needed where the setting says that the listener speaks it. Raises StartError."""
        settings = broker.settings
        self.broker = broker
        self.senders = senders
        self.name = setting.name
        self.protocol = setting.protocol
        self._client_auth = settings.client_auth(setting)
        self._tls = tls if setting.tls else None
        assert not setting.tls or tls is not None
        self.namespace = str(setting.namespace)
        self._asks = setting.sasl
        self.logins = Logins(broker, setting)
        if self._asks and not self.logins.offered:
            if not settings.strings("sasl.enabled.mechanisms"):
                raise StartError(
                    f"Nobody could log in at {setting.protocol}://{setting}: sasl.enabled.mechanisms is empty. Name "
                    "SCRAM-SHA-256 or another there, or leave it out."
                )
            raise StartError(
                f"Nobody could log in at {setting.protocol}://{setting}: of sasl.enabled.mechanisms none is left. "
                "PLAIN is offered over TLS only: add SCRAM-SHA-256, make it SASL_SSL, or set sasl.plain.insecure=true."
            )
        self.address = f"[{setting.host}]:{port}" if ":" in setting.host else f"{setting.host or '*'}:{port}"
        # what clients are told to come back to
        told_host, told_port = broker.endpoints[setting.name]
        self.advertised = f"[{told_host}]:{told_port}" if ":" in told_host else f"{told_host}:{told_port}"
        self.max_request = settings.integer("socket.request.max.bytes")
        self.max_slots = settings.integer("queued.max.requests")
        self.max_unsent = settings.integer("memory.connection.max.bytes")
        # monotonic ms, renewed by housekeeping: near enough to tell an idle connection
        self.now = broker.clock.monotonic_ms()
        self.connections: set[Connection] = set()
        # those whose clients have not logged in: they count like connections
        # the oldest first
        self.gates: dict[Gate, None] = {}
        # this listener's share of what the limit of open files leaves to connections, and what it has of it
        self._room = shares().connections // len(settings.listeners)
        self._files = 0
        self._by_host: Counter[str] = Counter()
        # connections that were closed and still have something to send, and how many seconds are left to each
        self._closing: dict[Client, int] = {}
        self._acceptor: Acceptor | None = None
        self._stopping: asyncio.Event | None = None
        metrics = broker.metrics
        self._open = metrics.connections.labels(self.name)
        self._open_gates = metrics.gates.labels(self.name)
        self._accepted = metrics.connections_accepted.labels(self.name)
        self._over_limit = metrics.connections_refused.labels(self.name, "limit")
        self.late = metrics.connections_refused.labels(self.name, "login")
        self._idle = metrics.connections_refused.labels(self.name, "idle")
        self._too_fast = metrics.connections_refused.labels(self.name, "rate")
        self.received = metrics.network_in_bytes.labels(self.name)
        self.sent = metrics.network_out_bytes.labels(self.name)
        self.malformed = metrics.requests_malformed
        self._seconds: dict[int, Histogram] = {
            api.key: metrics.request_seconds.labels(api.name) for api in APIS.values()
        }
        self.receiving = broker.receiving.account

    @step("start.listening")
    async def start(self, sock: socket.socket, backlog: int) -> None:
        """Accept connections from now on."""
        size = self.broker.settings.integer("socket.send.buffer.bytes")
        if size >= 0:
            # before the first of them: each inherits it
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        if self._asks:
            self.broker.users.watchers.append(self.logins.user_changed)
            # before what they have
            self.broker.tenancy.leaving.insert(0, self.logins.home_goes)
        self._acceptor = Acceptor(
            self.broker.loop,
            sock,
            backlog,
            self._make,
            room=self._room,
            taken=lambda: self._files,
            full=self._refuse,
            door=self._entrance(),
            admits=self._admits,
        )

    def _entrance(self) -> Entrance | None:
        """Where clients shake hands, if this listener speaks TLS."""
        if self._tls is None:
            return None
        self._tls.shown.append(self._shown)
        failed = self.broker.metrics.handshakes_failed
        return Entrance(
            self._tls,
            self._client_auth,
            crowded=self._crowded,
            refused=failed.labels(self.name, "refused").inc,
            failed=failed.labels(self.name, "failed").inc,
        )

    def _crowded(self, address: str, coming: int) -> bool:
        """Whether an address has as many connections as it may, with those that are being made."""
        most = self.broker.settings.integer("max.connections.per.ip")
        return self._by_host[f"/{address}"] + coming >= most

    def identity_of(self, transport: asyncio.BaseTransport) -> Identity:
        """Who a client has proved to be by its certificate. Raises RefusedError."""
        return NOBODY if self._tls is None or self._asks else self._tls.identity_of(transport)

    def _shown(self) -> dict[bytes, list[Callable[[], None]]]:
        """Certificates that clients have shown, and how their connections end."""
        found: dict[bytes, list[Callable[[], None]]] = {}
        for connection in self.connections:
            if (certificate := certificate_of(connection.transport)) is not None:
                end = partial(connection.close, "the CA of its certificate is not trusted any more")
                found.setdefault(certificate, []).append(end)
        return found

    def _refuse(self) -> bool:
        """There is no room for a connection that waits, unless it can be made."""
        if self._make_room():
            return True
        self._over_limit.inc()
        return False

    def _admits(self, address: str) -> bool:
        """Whether one from an address may come in: connection_creation_rate of it (KIP-612)."""
        if self.broker.client_quotas.admits(address):
            return True
        self._too_fast.inc()
        return False

    def _make_room(self) -> bool:
        """End a login that takes long: strangers must not keep out those that are known."""
        now = self.broker.clock.monotonic_ms()
        for gate in self.gates:
            if now - gate.since < SLOW_LOGIN_MS:
                return False
            if not gate.over:
                self.late.inc()
                gate.close("others need its place, and it has not logged in")
                return True
        return False

    def _make(self) -> Client:
        number = self.broker.connection_numbers.next()
        return Gate(self, number) if self._asks else Connection(self, number)

    def peer_for(self, identity: Identity, host: str, number: int) -> Peer:
        """Who sends the requests of a connection: what it may do, and where it is at home. Raises RefusedError."""
        return self.logins.peer_for(identity, host, number)

    def admission(self, gate: Gate, identity: Identity) -> Admission:
        """Whether a client that has proved who it is may come in. Raises RefusedError."""
        # it counts as a connection that comes now: a producer may have an older one that is served
        peer = self.peer_for(identity, gate.peer.host, self.broker.connection_numbers.next())
        return Admission(identity, peer, self.logins.lifetime_ms(identity))

    def let_in(self, gate: Gate, admission: Admission, rest: bytes) -> None:
        """A connection takes the place of a gate, with what has come behind the login."""
        identity, peer, lifetime_ms = admission
        connection = Connection(self, peer.connection)
        peer.software = gate.peer.software
        peer.call(gate.peer.named)
        self.broker.client_software.note(peer.host, peer.client_id, peer.software)
        peer.session = self.logins.session(identity, peer, lifetime_ms, connection)
        self._left(gate)
        self.connections.add(connection)
        connection.begin(gate.transport, peer)
        self.logins.succeeded(peer, identity)
        gate.transport.set_protocol(connection)
        if rest:
            # they were counted when they came
            self.received.value -= len(rest)
            connection.data_received(rest)

    def opened(self, connection: Client) -> None:
        self._files += 1
        settings = self.broker.settings
        host = connection.peer.host
        full = len(self.connections) + len(self.gates) >= settings.integer("max.connections")
        if (
            self._by_host[host] >= settings.integer("max.connections.per.ip")
            or self._stopping is not None
            or (full and not self._make_room())
        ):
            self._over_limit.inc()
            connection.close("too many connections (max.connections, max.connections.per.ip)")
            return
        if isinstance(connection, Gate):
            self.gates[connection] = None
            self._open_gates.value += 1
        else:
            self.connections.add(connection)
        self._by_host[host] += 1
        self._open.value += 1
        self._accepted.value += 1

    def closing(self, connection: Client, reason: str) -> None:
        """The gateway ends a connection, and says why."""
        log.info(
            "closing a connection",
            extra={"client": connection.peer.host, "client_id": connection.peer.client_id, "reason": reason},
        )

    def ending(self, connection: Client) -> None:
        """Nothing more is answered on a connection: it may take what it was sent before, if it does so soon."""
        self._closing[connection] = CLOSING_SECONDS if self._stopping is None else STOPPING_SECONDS

    def closed(self, connection: Client) -> None:
        self._files -= 1
        self._closing.pop(connection, None)
        if connection in self.gates or connection in self.connections:
            if isinstance(connection, Gate):
                self._left(connection)
            else:
                self.connections.discard(connection)
                self.logins.left(connection)
            self._open.value -= 1
            self._by_host[connection.peer.host] -= 1
            if not self._by_host[connection.peer.host]:
                del self._by_host[connection.peer.host]
        if self._stopping is not None and not self.connections and not self.gates:
            self._stopping.set()

    def _left(self, gate: Gate) -> None:
        """It is no gate any more."""
        self.gates.pop(gate, None)
        self._open_gates.value -= 1

    def take_file(self) -> bool:
        """One file more, if there is room: a connection whose answer a thread sends has two. `return_file` follows."""
        if self._files >= self._room:
            return False
        self._files += 1
        return True

    def return_file(self) -> None:
        self._files -= 1

    @property
    def scarce(self) -> bool:
        """Whether what large answers take must come back as soon as they have left, not some milliseconds later."""
        return 2 * self._files > self._room or 4 * self.broker.unsent_bytes > self.broker.memory_limit

    def observe(self, api_key: int, seconds: float) -> None:
        """A request was answered."""
        histogram = self._seconds.get(api_key)
        if histogram is not None:
            histogram.observe(seconds)

    def second(self) -> None:
        """Once a second: renew the clock, end what was closed or idle for too long."""
        self.now = self.broker.clock.monotonic_ms()
        self._end_slow()
        self.close_idle()
        self.logins.second()

    def _end_slow(self) -> None:
        """Once a second: who has had time enough to take what it was sent is cut off."""
        for connection, left in list(self._closing.items()):
            if left > 0:
                self._closing[connection] = left - 1
            else:
                connection.abort()

    def close_idle(self) -> None:
        """Close connections on which nothing was asked for connections.max.idle.ms."""
        limit = self.broker.settings.integer("connections.max.idle.ms")
        if limit < 0:
            return
        oldest = self.now - limit
        for connection in [each for each in self.connections if each.last_used < oldest and each.idle]:
            self._idle.inc()
            connection.idled = True
            connection.close("idle for connections.max.idle.ms")

    def accept_no_more(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()

    @step("stop.listener")
    async def stop(self, timeout: float) -> None:
        """Accept nobody any more, answer what is in flight (at most `timeout` seconds), close."""
        self._stopping = asyncio.Event()
        self.accept_no_more()
        for connection in self._closing:
            self.ending(connection)
        open_now: list[Client] = [*self.gates, *self.connections]
        for each in open_now:
            each.shutdown()
        until = self.broker.loop.time() + timeout
        while (self.connections or self.gates) and (left := until - self.broker.loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), min(1, left))
            self._end_slow()
        for gate in list(self.gates):
            gate.abort()
        if self.connections:
            log.warning("closing connections with requests in flight", extra={"count": len(self.connections)})
            for connection in list(self.connections):
                connection.close("the gateway stops")
                connection.abort()
