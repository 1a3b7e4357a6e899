"""Who asks."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.rights import UNCHECKED, Rights
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.client_bounds import ClientBounds

ANONYMOUS = "User:ANONYMOUS"
"""Everybody's principal where nobody is asked who they are; Kafka's word."""
HOME = "public/default"
"""The namespace whose topics have bare names."""

_MAPPED = "::ffff:"
"""How an IPv4 address begins that came in by a socket for both families."""


def canonical(address: str) -> str:
    """The one way to write a client's address, by which ACLs and quotas know it: of IPv4 always as such."""
    return address.removeprefix(_MAPPED) if address.startswith(_MAPPED) and "." in address else address


def is_address(host: str) -> bool:
    """Whether a client can have it, in the one way to write it."""
    try:
        return str(ip_address(host)) == host == canonical(host)
    except ValueError:
        return False


def host_of(peername: object) -> str:
    """What a transport says of its other end, as `Peer.host` has it; "/unknown" where it says nothing."""
    return f"/{canonical(str(peername[0]))}" if isinstance(peername, tuple) and peername else "/unknown"


_LONGEST = 256
"""Characters of a client id that are kept: a connection that says more would cost memory as long as it lasts."""


class Numbers:
    """The numbers of a node's connections, over all its listeners: they ascend, and none comes again."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest = 0
        """the highest so far: a connection with a higher one comes later"""

    def next(self) -> int:
        """Of a connection that opens."""
        self.newest += 1
        return self.newest


class Identity(NamedTuple):
    """Who a client has proved to be."""

    principal: str
    """as Kafka writes it: User:ada"""
    mechanism: str
    """by which: a SASL mechanism, "SSL", "token"; "" for nobody"""
    home: str | None = None
    """the namespace that it is bound to; None: tenancy.unbound says where it is at home"""
    expires_at: int | None = None
    """when its token ends, ms since 1970"""
    user: str | None = None
    """its name among the users that are kept; None where another vouches for it (a CA, an issuer of tokens)"""
    chosen: bool = False
    """whether the client itself has said where it is at home, and nobody has bound it to that"""


NOBODY = Identity(ANONYMOUS, "")
"""Where nobody is asked."""


class Progress(NamedTuple):
    """How a login goes on, as SaslAuthenticate tells it."""

    error: int
    text: str | None = None
    data: bytes = b""
    lifetime_ms: int = 0
    """how long it lasts; 0: without end, or it is not done"""


class Session(Protocol):
    """A login over SASL, which its client may renew: `auth/session.py`."""

    @property
    def offered(self) -> tuple[str, ...]:
        """Mechanisms."""
        ...

    def handshake(self, mechanism: str) -> Pending[int]:
        """The client logs in again: Kafka's error code."""
        ...

    def authenticate(self, data: bytes) -> Pending[Progress]:
        """Its bytes."""
        ...


class Peer:
    """The other end of a connection. It is made when the connection opens and handed to all that answers it, so that a
    new property of who asks reaches every API.
    """

    __slots__ = (
        "client_id",
        "connection",
        "host",
        "listener",
        "named",
        "namespace",
        "prefix",
        "principal",
        "quotas",
        "reads",
        "reads_by",
        "rights",
        "session",
        "software",
        "user",
    )

    def __init__(
        self,
        connection: int,
        host: str,
        listener: str,
        *,
        principal: str = ANONYMOUS,
        namespace: str = HOME,
        rights: Rights = UNCHECKED,
        user: str | None = None,
    ) -> None:
        self.connection = connection
        """its number, which no other has"""
        self.host = host
        """as Kafka shows it, with a slash: "/127.0.0.1\""""
        self.listener = listener
        """the name of the listener that it came in by"""
        self.principal = principal
        self.user = user
        """its name among the users that are kept, if it is one of those"""
        self.rights = rights
        """what it may do"""
        self.reads = b""
        """the id of the topic that it was last allowed to read on the short way"""
        self.reads_by = -1
        """the version of the rules by which that was so (`Rights.rules`)"""
        self.session: Session | None = None
        """where it has logged in over SASL: how long that lasts"""
        self.quotas: ClientBounds | None = None
        """the quotas that bind it; None: none does"""
        self.namespace = namespace
        """its home: the one namespace that it sees"""
        self.prefix = "" if namespace == HOME else namespace + "/"
        """how the names of its topics begin in the catalog; "" where they are the client's own"""
        self.software = ""
        """name and version of its client library, as it says (KIP-511)"""
        self.client_id = ""
        """as the last request said that had one, of whatever API; its beginning, if it is long"""
        self.named = b""
        """the same as it stands in a request's header: an i16 that says how long it is, and UTF-8. A connection
        compares it with each request's, and calls again when they differ"""

    def at_home(self, name: str) -> bool:
        """Whether a topic of the catalog is one of its home."""
        prefix = self.prefix
        return name.startswith(prefix) and "/" not in name[len(prefix) :]

    def call(self, named: bytes) -> None:
        """A request says that its client is called so, or nothing: `named` is as in its header."""
        self.named = named = named[: 2 + 4 * _LONGEST]
        if len(named) > 2:
            self.client_id = str(named[2:], "utf-8", "replace")[:_LONGEST]

    def __repr__(self) -> str:
        return f"<Peer {self.connection} {self.host} {self.principal} {self.client_id}>"
