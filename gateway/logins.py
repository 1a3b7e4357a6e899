"""Logins of one listener: by which mechanisms, where they lead to, how long they last, and what is told of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from gateway.auth.errors import RefusedError
from gateway.auth.login import Known, Login
from gateway.auth.plain import PLAIN
from gateway.auth.session import Serving, Session, lifetime_ms
from gateway.broker.stood_still import HEARD_MS, STOOD_STILL_MS, call_when_heard
from gateway.config.security import LISTENER, REFUSE
from gateway.peer import ANONYMOUS, Identity, Peer
from semantics.access.acl import Operation, ResourceType
from semantics.access.roles import role_of
from semantics.names import Namespace, NamingError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.node import Timer
    from gateway.config.listeners import Listener as Setting

log = logging.getLogger("magnetar.logins")

UNKNOWN = "unknown"
"""In metrics: the mechanism of a client that asked for one that is not offered."""


_SECOND_MS = 1000
_KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
_OPERATIONS = tuple(each for each in Operation if Operation.READ <= each <= Operation.IDEMPOTENT_WRITE)


class LoggedIn(Serving, Protocol):
    """A connection whose client has logged in."""

    @property
    def peer(self) -> Peer: ...

    @property
    def idle(self) -> bool: ...


class Logins:
    """For one listener, also for one that asks nobody: then all are at home where it is."""

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._setting = setting
        settings = broker.settings
        plain = setting.tls or settings.flag("sasl.plain.insecure")
        self.offered: tuple[str, ...] = (
            tuple(each for each in settings.strings("sasl.enabled.mechanisms") if each != PLAIN or plain)
            if setting.sasl
            else ()
        )
        """mechanisms, in the order of the setting"""
        self.longest = settings.integer("sasl.server.max.receive.size")
        """bytes of what a client says at a time"""
        metrics = broker.metrics
        self._counts = metrics.logins
        self._again = metrics.reauthentications
        self._by_user: dict[str, set[LoggedIn]] = {}
        self._sessions: dict[LoggedIn, Session] = {}
        # those that may end before their connections do
        self._ending: dict[LoggedIn, Session] = {}
        # what looks at them then
        self._timers: dict[LoggedIn, Timer] = {}
        # when `second` was called last
        self._second_at: int | None = None
        # until then nobody is closed for having said nothing
        self._not_before = 0

    # -- what a login leads to --------------------------------------------------------------------------------------

    def peer_for(self, identity: Identity, host: str, number: int) -> Peer:
        """Who sends the requests of a connection: what it may do, and where it is at home. Raises RefusedError.

        `host` as in `Peer.host`; `number`: the connection's.
        """
        home = self._home(identity, host)
        rights = self._broker.access.rights_of(identity.principal, host, home)
        return Peer(
            number,
            host,
            self._setting.name,
            principal=identity.principal,
            namespace=str(home),
            rights=rights,
            user=identity.user,
        )

    def _home(self, identity: Identity, host: str) -> Namespace:
        own = self._setting.namespace
        if not identity.mechanism:
            return own
        if identity.principal == ANONYMOUS:
            raise RefusedError("it has the name of those who are not asked for theirs")
        home = own
        said = identity.home
        name = role_of(identity.principal)
        if said is None and name and (user := self._broker.users.get(name)) is not None:
            # whoever vouches for it: one principal has one home
            said = user.home
        if said is not None:
            try:
                home = Namespace.parse(said)
            except NamingError as error:
                raise RefusedError(f"its home is no namespace: {error}") from None
        elif (unbound := self._broker.settings.text("tenancy.unbound")) == REFUSE:
            raise RefusedError("it is bound to no namespace, and tenancy.unbound is refuse")
        elif unbound != LISTENER:
            home = Namespace.parse(unbound)
        row = self._broker.catalog.namespaces.get(home)
        if identity.chosen and home != own and (row is None or not self._may_something(identity, host, home)):
            # else its answer would tell strangers which namespaces there are
            raise RefusedError(f"it wants to be at home in {home}, and may do nothing there")
        if row is None or row.deleted:
            raise RefusedError(f"it is at home in {home}, and there is no such namespace")
        return home

    def _may_something(self, identity: Identity, host: str, home: Namespace) -> bool:
        """Whether there can be something in a namespace that somebody has a right to."""
        rights = self._broker.access.rights_of(identity.principal, host, home)
        return any(rights.any(kind, operation) for kind in _KINDS for operation in _OPERATIONS)

    def lifetime_ms(self, identity: Identity) -> int:
        longest = self._broker.settings.integer("connections.max.reauth.ms")
        return lifetime_ms(identity.expires_at, longest, self._broker.clock.wall_ms())

    def session(self, identity: Identity, peer: Peer, lifetime_ms: int, connection: LoggedIn) -> Session:
        """From now on a connection is that of this client, until `left`."""
        if identity.user is not None:
            self._by_user.setdefault(identity.user, set()).add(connection)
        session = self._sessions[connection] = Session(identity, peer, lifetime_ms, self, connection)
        self._mind(session, connection)
        return session

    def _mind(self, session: Session, connection: LoggedIn) -> None:
        """Look at a session when it will be over, if it has an end."""
        if session.ends_at is None or session.watched:
            return
        session.watched = True
        self._ending[connection] = session
        self._timers[connection] = call_when_heard(
            self._broker, session.ends_at, lambda: self._look(session, connection)
        )

    def _look(self, session: Session, connection: LoggedIn) -> None:
        session.watched = False
        self._timers.pop(connection, None)
        if connection not in self._sessions:
            # it has ended
            return
        if session.over:
            # and who logs in again is minded again
            connection.lock(lambda: session.over)
        else:
            self._mind(session, connection)

    def second(self) -> None:
        """Once a second: who has not logged in again in time is closed, if it does not do so just now. Nothing of it is
        served meanwhile.
        """
        now, before = self.monotonic_ms(), self._second_at
        self._second_at = now
        if before is not None and now - before >= _SECOND_MS + STOOD_STILL_MS:
            # the process stood still: what they have sent meanwhile is read first
            self._not_before = now + HEARD_MS
        if now < self._not_before:
            return
        late = self._broker.settings.integer("sasl.login.timeout.ms")
        for connection, session in list(self._ending.items()):
            if session.over_for_ms > late and connection.idle:
                connection.close("its login is over, and it has not logged in again")

    def left(self, connection: LoggedIn) -> None:
        """A connection has ended, and nothing names it any more: over TLS it has some 40 KB, and its login may be for
        days.
        """
        self._sessions.pop(connection, None)
        self._ending.pop(connection, None)
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()
        connection.peer.session = None
        user = connection.peer.user
        if user is not None and (of_user := self._by_user.get(user)) is not None:
            of_user.discard(connection)
            if not of_user:
                del self._by_user[user]

    def user_changed(self, name: str) -> None:
        """A user is another now, or gone: whoever has logged in with it has to do so again."""
        for connection in list(self._by_user.get(name, ())):
            connection.close("its user was changed or deleted")

    async def home_goes(self, namespace: Namespace) -> None:
        """A namespace is being deleted: who has logged in and is at home there has nothing to do any more, also when
        there is another of this name later.
        """
        home = str(namespace)
        for connection in list(self._sessions):
            if connection.peer.namespace == home:
                connection.close("the namespace is deleted that it was at home in")

    # -- logins -----------------------------------------------------------------------------------------------------

    def monotonic_ms(self) -> int:
        return self._broker.clock.monotonic_ms()

    def begin(self, mechanism: str) -> Login:
        """A login by a mechanism that is offered."""
        broker = self._broker
        settings = broker.settings
        choose = settings.authorization and settings.text("tenancy.unbound") == LISTENER
        return Login(mechanism, Known(broker.users, broker.tokens, choose))

    def succeeded(self, peer: Peer, identity: Identity) -> None:
        """A client has logged in for the first time on its connection."""
        self._counts.labels(self._setting.name, identity.mechanism, "success").inc()
        self._broker.audit.login(identity.principal, peer.host.lstrip("/"), "kafka", identity.mechanism)
        log.debug(
            "a client has logged in",
            extra={
                "client": peer.host,
                "listener": peer.listener,
                "mechanism": identity.mechanism,
                "principal": peer.principal,
                "namespace": peer.namespace,
            },
        )

    def failed(self, peer: Peer, login: Login | None, reason: str) -> None:
        """And this one has failed to. `login` is None where its mechanism is not offered."""
        mechanism = login.mechanism if login is not None else UNKNOWN
        self._counts.labels(self._setting.name, mechanism, "failure").inc()
        self._tell(peer, login, reason)

    def put_off(self, peer: Peer, login: Login) -> None:
        """Of this one nobody knows whether it would, since too many log in at once."""
        self._counts.labels(self._setting.name, login.mechanism, "busy").inc()

    def renewed(self, session: Session) -> None:
        self._again.labels(self._setting.name, session.identity.mechanism, "success").inc()
        if session.connection in self._sessions:
            self._mind(session, session.connection)

    def not_renewed(self, session: Session, login: Login | None, reason: str) -> None:
        self._again.labels(self._setting.name, session.identity.mechanism, "failure").inc()
        self._tell(session.peer, login, reason)

    def not_renewed_now(self, session: Session) -> None:
        self._again.labels(self._setting.name, session.identity.mechanism, "busy").inc()

    def _tell(self, peer: Peer, login: Login | None, reason: str) -> None:
        mechanism = login.mechanism if login is not None else UNKNOWN
        user = (login.user if login is not None else "") or ""
        self._broker.audit.login_refused(user, peer.host.lstrip("/"), "kafka", mechanism, reason)
