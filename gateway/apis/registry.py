"""Which Kafka APIs are served, in which versions, by which function, how large their requests may be, and what they
count toward their connection's turn.

A handler takes `(broker, context, request)` and returns a response message, or an awaitable of one when it must
wait. Fetch, ShareFetch and ShareAcknowledge are decoded by hand, and become objects that wait (`waiting.py`).
ApiVersions advertises exactly what is registered here.

Produce is registered to be advertised; `connection.py` calls it without a look at its row. It is the one API that is
pipelined: a request is served while those before it are on their way to the store. It is bounded by what a connection
may have in flight and by the time of a turn, and only a Produce that is answered at once (refused, or acks=0) counts
toward the turn, as one request. Its frames may have socket.request.max.bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from store.pending import Pending

if TYPE_CHECKING:
    from gateway.apis.homes import Home
    from gateway.apis.waiting import Again, Direct, Quick
    from gateway.broker.broker import Broker
    from gateway.peer import Peer

SMALL_REQUEST = 1024 * 1024
"""The largest frame of most APIs: decoding takes many times its bytes, and all of it in one turn of the loop."""


class Context:
    """Who asks, and how: one per request that goes through the generated codec."""

    __slots__ = (
        "api_key",
        "api_version",
        "began",
        "client_id",
        "correlation_id",
        "home",
        "mutated",
        "peer",
        "told",
    )

    def __init__(
        self, peer: Peer, api_key: int, api_version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.peer = peer
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        # what puts its answer into the client's words; None where these are the catalog's
        self.home: Home | None = None
        # of a client whom quotas bind: when work on it began; None: that was counted
        self.began: int | None = None
        # whether its client is to wait for having made or deleted partitions, or wanted to
        self.mutated = False
        # what is called with the answer to a request that changes something: see audited.py
        self.told: Callable[[Any], None] | None = None


Handler = Callable[["Broker", Context, Any], Pending[Any]]


@dataclass(frozen=True, slots=True)
class Api:
    """One served API: Kafka's key, its name, the first and last version, and who answers."""

    key: int
    name: str
    min_version: int
    max_version: int
    handler: Handler | None
    # who answers where there is no handler, and from which version on a request's header has tags
    direct: Direct | None = None
    flexible: int = 0
    # the short way of the commonest request, and its answer once more
    quick: Quick | None = None
    again: Again | None = None
    # True when a request may wait for long and has no effect yet: a gateway that stops need not wait for it
    parks: bool = False
    # requests that it counts as toward its connection's turn (FAIR_SHARE of `connection.py`), which ends after some
    # time in any case; 0 for what is bounded otherwise
    counts: int = 1


APIS: dict[int, Api] = {}
"""Served APIs by key. Filled when `gateway.apis` modules are imported (see `gateway.apis.load_all`)."""

LARGEST: dict[int, int] = {}
"""Bytes of the largest frame by key, where it is more than SMALL_REQUEST. Produce goes by socket.request.max.bytes."""

F = TypeVar("F", bound=Handler)
D = TypeVar("D", bound="Direct")


def handles(
    key: int,
    name: str,
    min_version: int,
    max_version: int,
    *,
    parks: bool = False,
    counts: int = 1,
    largest: int = SMALL_REQUEST,
) -> Callable[[F], F]:
    """Register a handler for an API. Versions are inclusive, as in ApiVersions; `largest`: bytes of a frame."""

    def register(handler: F) -> F:
        _register(Api(key, name, min_version, max_version, handler, parks=parks, counts=counts), largest)
        return handler

    return register


def serves(
    key: int,
    name: str,
    min_version: int,
    max_version: int,
    *,
    flexible: int,
    quick: Quick | None = None,
    again: Again | None = None,
    parks: bool = False,
    counts: int = 1,
    largest: int = SMALL_REQUEST,
) -> Callable[[D], D]:
    """Register what decodes and answers an API by hand. `flexible`: the first version whose header has tags."""

    def register(direct: D) -> D:
        api = Api(key, name, min_version, max_version, None, direct, flexible, quick, again, parks, counts)
        _register(api, largest)
        return direct

    return register


def _register(api: Api, largest: int) -> None:
    if api.key in APIS:
        raise ValueError(f"API {api.key} ({api.name}) is registered twice")
    APIS[api.key] = api
    if largest > SMALL_REQUEST:
        LARGEST[api.key] = largest


def register_produce(min_version: int, max_version: int) -> None:
    """Produce, for ApiVersions: `connection.py` calls it."""
    if 0 not in APIS:
        _register(Api(0, "Produce", min_version, max_version, None, counts=0), SMALL_REQUEST)
