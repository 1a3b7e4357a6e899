"""What a connection needs of the listener that it came in by, and shares with the listener's other connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

    from gateway.broker.broker import Broker
    from gateway.metrics import Counter
    from gateway.peer import Identity, Peer
    from gateway.sending import Senders

C = TypeVar("C", contravariant=True)


class Files(Protocol):
    """For large answers, which threads send by descriptors of their own."""

    @property
    def senders(self) -> Senders: ...

    @property
    def sent(self) -> Counter:
        """Bytes, of all answers."""
        ...

    @property
    def scarce(self) -> bool:
        """Whether files or memory become few."""
        ...

    def take_file(self) -> bool:
        """Whether one more may be open; to be given back."""
        ...

    def return_file(self) -> None: ...


class Host(Files, Protocol[C]):
    """`C` is the connection's type."""

    @property
    def broker(self) -> Broker: ...

    @property
    def name(self) -> str: ...

    def identity_of(self, transport: asyncio.BaseTransport, /) -> Identity:
        """Who a client is by how it came: NOBODY where nothing says so."""
        ...

    def peer_for(self, identity: Identity, host: str, number: int, /) -> Peer:
        """Who sends the requests of a connection of this number. Raises RefusedError."""
        ...

    @property
    def now(self) -> int:
        """Monotonic ms, near enough to tell an idle connection."""
        ...

    @property
    def max_request(self) -> int:
        """Bytes of a frame."""
        ...

    @property
    def max_slots(self) -> int:
        """Produces of one connection that wait for their commits."""
        ...

    @property
    def max_unsent(self) -> int:
        """Bytes that one client may leave before it is not read."""
        ...

    @property
    def received(self) -> Counter:
        """Bytes."""
        ...

    @property
    def malformed(self) -> Counter: ...

    def opened(self, connection: C, /) -> None:
        """It may be closed at once: there are too many."""
        ...

    def closing(self, connection: C, /, reason: str) -> None:
        """The gateway ends it, and says why."""
        ...

    def ending(self, connection: C, /) -> None:
        """Nothing more is answered on it: it may take what it was sent before, if it does so soon."""
        ...

    def closed(self, connection: C, /) -> None: ...

    def receiving(self, connection: C, size: int, /) -> None:
        """So many bytes of a request that has not come whole are held."""
        ...

    def observe(self, api_key: int, seconds: float, /) -> None:
        """A request was answered."""
        ...
