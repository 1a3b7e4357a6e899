"""A gateway whose listener asks who its clients are, and a client that says so by hand."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from unittest import mock

import uvloop

from gateway.broker.broker import Broker
from gateway.clock import Clock as AnyClock
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from store import memory
from tests.gateway.auth.known import MemoryTokens, MemoryUsers, ScramClient
from tests.gateway.broker.held import serving_on
from tests.gateway.serving import Client, batch, create, produce_body

LISTENERS = "SASL_PLAINTEXT://127.0.0.1:0"
MECHANISMS = "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
FLAGS = (
    MECHANISMS,
    "sasl.plain.insecure=true",
    # these tests are about who a client is, not about what it may do
    "super.users=User:ada;User:bob;User:tom;User:ANONYMOUS",
)

HANDSHAKE, AUTHENTICATE, VERSIONS = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS


@contextlib.asynccontextmanager
async def asking(
    users: MemoryUsers,
    *flags: str,
    tokens: MemoryTokens | None = None,
    clock: AnyClock | None = None,
    listeners: str = LISTENERS,
    access: Any = None,
) -> AsyncIterator[Gateway]:
    """A started gateway that knows these users and tokens, all mechanisms offered."""

    def made(*given: Any, **more: Any) -> Any:
        broker: Any = Broker(*given, **more)
        if users is not None:
            broker.users = users
        if tokens is not None:
            broker.tokens = tokens
        if access is not None:
            broker.access = access
        return broker

    with mock.patch("gateway.server.Broker", made):
        async with serving_on(memory.open(), *FLAGS, *flags, clock=clock, listeners=listeners) as gateway:
            yield gateway


def run(
    body: Callable[[Gateway, MemoryUsers], Coroutine[Any, Any, None]], *flags: str, **options: Any
) -> None:
    """One test, with the user ada, whose password is secret."""
    users = MemoryUsers(ada="secret")

    async def main() -> None:
        async with asking(users, *flags, **options) as gateway:
            await body(gateway, users)

    uvloop.run(main())


async def connect(gateway: Gateway, listener: str = "SASL_PLAINTEXT") -> Client:
    return await Client.connect(gateway, "test", listener)


async def handshake(client: Client, mechanism: str, version: int = 1) -> Any:
    return await client.ask(HANDSHAKE, version, messages.SaslHandshakeRequest(mechanism=mechanism))


async def say(client: Client, data: bytes, version: int = 2) -> Any:
    return await client.ask(AUTHENTICATE, version, messages.SaslAuthenticateRequest(auth_bytes=data))


async def plain(client: Client, name: str = "ada", password: str = "secret", version: int = 2) -> Any:
    """The answer to the password."""
    assert (await handshake(client, "PLAIN")).error_code == 0
    return await say(client, f"\0{name}\0{password}".encode(), version)


async def scram(
    client: Client, name: str = "ada", password: str = "secret", mechanism: str = "SCRAM-SHA-256"
) -> Any:
    """The answer to the proof."""
    assert (await handshake(client, mechanism)).error_code == 0
    machine = ScramClient(mechanism, name, password)
    told = await say(client, machine.first)
    assert (told.error_code, told.session_lifetime_ms) == (0, 0)
    return await say(client, machine.final(told.auth_bytes))


async def logged_in(gateway: Gateway, name: str = "ada", password: str = "secret") -> Client:
    """A client that may ask what it wants."""
    client = await connect(gateway)
    assert (await plain(client, name, password)).error_code == 0
    return client


async def works(client: Client, topic: str = "t") -> None:
    """It is served."""
    await create(client, topic)
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(b"v")))
    assert answer.responses[0].partition_responses[0].error_code == 0


def value(family: Any, *labels: str) -> float:
    """What a metric with these labels stands at."""
    found: float = family.labels(*labels).value
    return found
