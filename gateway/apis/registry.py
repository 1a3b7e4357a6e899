"""Which Kafka APIs are served, in which versions, by which function.

A handler takes `(broker, context, request)` and returns a response message, or an awaitable of one when it must
wait. ApiVersions advertises exactly what is registered here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from gateway.broker.broker import Broker


class Context:
    """Who asks, and how: one per request that goes through the generated codec."""

    __slots__ = (
        "api_key",
        "api_version",
        "client_host",
        "client_id",
        "connection_id",
        "correlation_id",
        "listener",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        client_host: str,
        listener: str,
        connection_id: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        # as Kafka shows it, with a slash: "/127.0.0.1"
        self.client_host = client_host
        # the name of the listener the connection came in by
        self.listener = listener
        self.connection_id = connection_id


Handler = Callable[["Broker", Context, Any], Any | Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Api:
    """One served API: Kafka's key, its name, the first and last version, and who answers."""

    key: int
    name: str
    min_version: int
    max_version: int
    handler: Handler
    # True when a request may wait for long (JoinGroup, SyncGroup, Fetch): later requests of the connection
    # need not wait for it to take effect, though their answers leave after its answer.
    parks: bool = False


APIS: dict[int, Api] = {}
"""Served APIs by key. Filled when `gateway.apis` modules are imported (see `gateway.apis.load_all`)."""

F = TypeVar("F", bound=Handler)


def handles(
    key: int, name: str, min_version: int, max_version: int, *, parks: bool = False
) -> Callable[[F], F]:
    """Register a handler for an API. Versions are inclusive, as in ApiVersions."""

    def register(handler: F) -> F:
        if key in APIS:
            raise ValueError(f"API {key} ({name}) is registered twice")
        APIS[key] = Api(key, name, min_version, max_version, handler, parks)
        return handler

    return register


def register_by_hand() -> None:
    """Produce, Fetch, ShareFetch, ShareAcknowledge: served by `connection.py` with codecs of their own, listed here for
    ApiVersions.
    """
    from gateway.wire import fetch, produce, share

    def by_hand(broker: Broker, context: Context, request: Any) -> Any:
        raise AssertionError(f"{context.api_key} does not come this way")

    if 0 not in APIS:
        APIS[0] = Api(0, "Produce", produce.MIN_VERSION, produce.MAX_VERSION, by_hand)
        APIS[1] = Api(1, "Fetch", fetch.MIN_VERSION, fetch.MAX_VERSION, by_hand, parks=True)
        APIS[78] = Api(78, "ShareFetch", share.MIN_VERSION, share.MAX_VERSION, by_hand, parks=True)
        APIS[79] = Api(79, "ShareAcknowledge", share.MIN_VERSION, share.MAX_VERSION, by_hand)
