"""What a connection of a SASL listener begins with: its client logs in, and nothing else is served.

    ApiVersions        at most once, and before the handshake; error 35 for a version that is not served
    SaslHandshake      0: what follows are bare tokens; 1: what follows is SaslAuthenticate
    SaslAuthenticate   until the exchange is over

Then a `Connection` takes the transport over, with who the client is and what has come behind its login. Until then a
stranger reaches no other decoder, may send frames of sasl.server.max.receive.size, a few of them, and has
sasl.login.timeout.ms for all of it. Anything else ends the connection, as in Kafka (SaslServerAuthenticator).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Coroutine
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from gateway.apis.dispatch import dispatch, encode
from gateway.apis.registry import APIS, Context
from gateway.auth.errors import BusyError, RefusedError
from gateway.auth.login import Login, Step
from gateway.auth.session import FAILURE_MS, failure
from gateway.connection_host import Host
from gateway.logins import Logins
from gateway.peer import Identity, Peer, host_of
from gateway.strangers import not_kafka
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from gateway.wire.malformed import Malformed, malformed

if TYPE_CHECKING:
    from gateway.metrics import Counter

log = logging.getLogger("magnetar.gate")

MOST_FRAMES = 16
"""Frames of one login. The longest of any client's has six: two ApiVersions, a handshake, three of the exchange."""
HEARD_MS = 200
"""How long the connection of who is refused stays open behind the answer, unless its client ends it before, as clients
do that have heard it. Where the end comes with the answer, kafka-python drops what it has read, and takes the refusal
for a fault of the network."""

_SIZE = struct.Struct(">i")
_SMALLEST = 10
"""Bytes of a request's header."""


class Stage(Enum):
    """How far a login is."""

    NEW = auto()
    """Nothing was said: ApiVersions or SaslHandshake."""
    TOLD = auto()
    """It knows what is served: SaslHandshake."""
    EXCHANGE = auto()
    """It has chosen a mechanism: SaslAuthenticate."""
    TOKENS = auto()
    """The same by handshake 0: each frame is a token, without a header."""
    REFUSED = auto()
    """It was told that it is refused, and has a moment to hear it: what it says is not looked at."""
    OVER = auto()
    """It is logged in, or refused, or gone."""


class Admission(NamedTuple):
    """A client that may come in."""

    identity: Identity
    peer: Peer
    lifetime_ms: int
    """how long that lasts; 0: without end"""


class Hall(Host["Gate"], Protocol):
    """What gates need of their listener."""

    @property
    def logins(self) -> Logins: ...

    @property
    def late(self) -> Counter:
        """Those that did not log in in time."""
        ...

    def admission(self, gate: Gate, identity: Identity, /) -> Admission:
        """Whether this client may come in. Raises RefusedError."""
        ...

    def let_in(self, gate: Gate, admission: Admission, rest: bytes, /) -> None:
        """A connection takes the gate's place, its transport, and what has come behind the login."""
        ...


class Gate(asyncio.Protocol):
    """One connection whose client has not logged in."""

    __slots__ = (
        "_broker",
        "_bytes",
        "_frames",
        "_hall",
        "_held",
        "_login",
        "_most",
        "_stage",
        "_task",
        "_timer",
        "_working",
        "id",
        "peer",
        "since",
        "transport",
    )
    transport: asyncio.Transport
    peer: Peer
    since: int
    """monotonic ms"""

    def __init__(self, hall: Hall, number: int) -> None:
        self._hall = hall
        self._broker = hall.broker
        self.id = number
        self._stage = Stage.NEW
        # what has come and was not taken
        self._bytes = bytearray()
        self._most = self._broker.settings.integer("sasl.server.max.receive.size")
        self._frames = 0
        self._login: Login | None = None
        # it waits for a password or a token to be compared, or to be told that it is refused
        self._working = False
        # memory is short over all connections
        self._held = False
        self._task: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # -- the transport's side ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peer = Peer(self.id, host_of(transport.get_extra_info("peername")), self._hall.name)
        self.since = self._broker.clock.monotonic_ms()
        timeout = self._broker.settings.integer("sasl.login.timeout.ms")
        self._timer = self._broker.call_at(self.since + timeout, self._late)
        self._hall.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        task, self._task = self._task, None
        if task is not None:
            # what it waits for goes on, and nobody hears of it
            task.cancel()
        self._hall.closed(self)

    def data_received(self, data: bytes) -> None:
        self._hall.received.value += len(data)
        if self._stage in (Stage.REFUSED, Stage.OVER):
            return
        self._bytes += data
        self._go_on()

    def eof_received(self) -> None:
        """The client sends no more, so it is not going to log in."""
        self.shutdown()

    @property
    def over(self) -> bool:
        """It has ended, and is only not gone yet."""
        return self._stage is Stage.OVER

    def _leave(self) -> None:
        """It is no gate any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._bytes.clear()
        # it is read again, if it was held
        self._hall.receiving(self, 0)
        self._stage = Stage.OVER

    def _late(self) -> None:
        self._hall.late.inc()
        self.close("it has not logged in within sasl.login.timeout.ms")

    # -- what memory and the listener ask for -----------------------------------------------------------------------

    def hold_reading(self) -> None:
        self._held = True
        self._read()

    def release_reading(self) -> None:
        self._held = False
        self._read()

    def _read(self) -> None:
        if self._stage is Stage.OVER or self.transport.is_closing():
            return
        if self._held or self._working:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def close(self, reason: str) -> None:
        """End the connection; the reason goes to the log."""
        if self._stage is not Stage.OVER:
            self._hall.closing(self, reason)
            self._end()

    def _end(self) -> None:
        self._leave()
        self._hall.ending(self)
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def shutdown(self) -> None:
        """The gateway stops: nothing is in flight here."""
        if self._stage is not Stage.OVER:
            self._end()

    # -- frames -----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Take the frames that have come."""
        data = self._bytes
        try:
            while self._stage is not Stage.OVER and not self._working and len(data) >= 4:
                (size,) = _SIZE.unpack_from(data)
                if not (0 if self._stage is Stage.TOKENS else _SMALLEST) <= size <= self._most:
                    raise Malformed(not_kafka(bytes(data[:16]), 0, size, None))
                if len(data) < 4 + size:
                    break
                frame = bytes(data[4 : 4 + size])
                del data[: 4 + size]
                self._frames += 1
                if self._frames > MOST_FRAMES:
                    raise Malformed("too many requests for one login")
                if self._stage is Stage.TOKENS:
                    self._token(frame)
                else:
                    self._request(frame)
        except Exception as error:
            if not malformed(error):
                log.exception("a login broke", extra={"client": self.peer.host})
                self.close("an internal error, see the log")
                return
            self._hall.malformed.inc()
            self.close(f"not a login: {error}")
            return
        if self._stage is not Stage.OVER and not self._working:
            self._hall.receiving(self, len(data))

    def _request(self, frame: bytes) -> None:
        key, version, correlation_id, client_id, body = codec.decode_request_header(frame)
        self.peer.call(frame[8 : 10 + max(0, int.from_bytes(frame[8:10], "big", signed=True))])
        context = Context(self.peer, key, version, correlation_id, client_id)
        api = APIS.get(key)
        served = api is not None and api.min_version <= version <= api.max_version
        if key == ApiKey.API_VERSIONS and self._stage is Stage.NEW:
            answer = dispatch(self._broker, context, frame, body)
            assert isinstance(answer, bytes), "nothing has to be waited for"
            self._send(answer)
            if served and not int.from_bytes(answer[8:10], "big"):
                self._stage = Stage.TOLD
        elif key == ApiKey.SASL_HANDSHAKE and served and self._stage in (Stage.NEW, Stage.TOLD):
            self._handshake(context, codec.decode_request(key, version, frame, body))
        elif key == ApiKey.SASL_AUTHENTICATE and served and self._stage is Stage.EXCHANGE:
            self._authenticate(context, codec.decode_request(key, version, frame, body).auth_bytes)
        elif key == ApiKey.SASL_HANDSHAKE and served:
            self._told(
                context, messages.SaslHandshakeResponse(error_code=Error.ILLEGAL_SASL_STATE, mechanisms=[])
            )
            raise Malformed("a SaslHandshake within a login")
        else:
            name = api.name if api is not None else f"API {key}"
            raise Malformed(
                f"{name} version {version} before a login: this listener asks who its clients are"
            )

    def _handshake(self, context: Context, request: messages.SaslHandshakeRequest) -> None:
        logins = self._hall.logins
        known = request.mechanism in logins.offered
        error = Error.NONE if known else Error.UNSUPPORTED_SASL_MECHANISM
        answer = messages.SaslHandshakeResponse(error_code=error, mechanisms=list(logins.offered))
        if not known:
            self._refuse(
                None, f"it asks for {request.mechanism[:64]}, which is not offered", encode(context, answer)
            )
            return
        self._told(context, answer)
        self._login = logins.begin(request.mechanism)
        self._stage = Stage.EXCHANGE if context.api_version else Stage.TOKENS

    def _authenticate(self, context: Context, data: bytes) -> None:
        self._exchange(_Asked(context), data)

    def _token(self, data: bytes) -> None:
        self._exchange(_BARE, data)

    # -- the exchange -----------------------------------------------------------------------------------------------

    def _exchange(self, form: _Form, data: bytes) -> None:
        assert self._login is not None
        try:
            step = self._login.step(data)
            if isinstance(step, Awaitable):
                self._working = True
                self._read()
                self._task = asyncio.ensure_future(self._later(form, step))
                if isinstance(step, Coroutine):
                    # its client may go before the task's first turn, and then nobody awaits it
                    self._task.add_done_callback(lambda _: step.close())
            else:
                self._went(form, step)
        except RefusedError as error:
            self._refuse(self._login, error.reason, form.refusal(self._login.mechanism))

    async def _later(self, form: _Form, step: Awaitable[Step]) -> None:
        assert self._login is not None
        try:
            found = await step
            self._task = None
            self._working = False
            if self._stage is not Stage.OVER:
                self._read()
                self._went(form, found)
                self._go_on()
        except RefusedError as error:
            if self._stage is not Stage.OVER:
                self._refuse(self._login, error.reason, form.refusal(self._login.mechanism))
        except BusyError as error:
            if self._stage is not Stage.OVER:
                self._put_off(self._login, str(error))
        except Exception:
            log.exception("a login broke", extra={"client": self.peer.host})
            self.close("an internal error, see the log")

    def _went(self, form: _Form, step: Step) -> None:
        """Tell the client, and let it in if it has proved who it is. Raises RefusedError."""
        if step.identity is None:
            self._send(form.answer(step.data, 0))
            return
        admission = self._hall.admission(self, step.identity)
        self._send(form.answer(step.data, admission.lifetime_ms))
        rest = bytes(self._bytes)
        self._leave()
        self._hall.let_in(self, admission, rest)

    def _refuse(self, login: Login | None, reason: str, answer: bytes) -> None:
        """Say so, a little later, and end the connection when that can have been heard. Why goes to the log."""
        self._hall.logins.failed(self.peer, login, reason)
        self._working = True
        self._read()
        self._broker.call_at(self._broker.clock.monotonic_ms() + FAILURE_MS, lambda: self._refused(answer))

    def _put_off(self, login: Login, reason: str) -> None:
        """Nobody has looked at what it says. Whatever it were answered, clients would take it for a login that failed,
        which many do not repeat; a connection that ends within a login they all try again.
        """
        self._hall.logins.put_off(self.peer, login)
        # as late as those that are refused: else all of them would be here again at once
        self._broker.call_at(self._broker.clock.monotonic_ms() + FAILURE_MS, lambda: self.close(reason))

    def _refused(self, answer: bytes) -> None:
        if self._stage is Stage.OVER:
            return
        self._leave()
        if not answer:
            self._end()
            return
        self._send(answer)
        self._stage = Stage.REFUSED
        self._working = False
        # its end is seen
        self._read()
        self._timer = self._broker.call_at(self._broker.clock.monotonic_ms() + HEARD_MS, self.shutdown)

    def _told(self, context: Context, answer: Any) -> None:
        self._send(encode(context, answer))

    def _send(self, data: bytes) -> None:
        self._hall.sent.value += len(data)
        if data:
            self.transport.write(data)


class _Form(Protocol):
    """How the steps of an exchange are told."""

    def answer(self, data: bytes, lifetime_ms: int) -> bytes: ...

    def refusal(self, mechanism: str) -> bytes: ...


class _Asked(NamedTuple):
    """As SaslAuthenticate."""

    context: Context

    def answer(self, data: bytes, lifetime_ms: int) -> bytes:
        response = messages.SaslAuthenticateResponse(
            error_code=Error.NONE, error_message=None, auth_bytes=data, session_lifetime_ms=lifetime_ms
        )
        return encode(self.context, response)

    def refusal(self, mechanism: str) -> bytes:
        response = messages.SaslAuthenticateResponse(
            error_code=Error.SASL_AUTHENTICATION_FAILED,
            error_message=failure(mechanism),
            auth_bytes=b"",
            session_lifetime_ms=0,
        )
        return encode(self.context, response)


class _Bare:
    """As a token, behind handshake 0: who is refused is told nothing."""

    def answer(self, data: bytes, lifetime_ms: int) -> bytes:
        return _SIZE.pack(len(data)) + data

    def refusal(self, mechanism: str) -> bytes:
        return b""


_BARE = _Bare()
