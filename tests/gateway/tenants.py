"""A gateway with tenants: `shop` of shop/eu and shop/us, and `other` of other/ns. Their users log in, and rights are
asked for. The password of all is PASSWORD.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.users import row_of, verifiers_of
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.names import Namespace
from store import memory
from tests.gateway.broker.held import serving_on
from tests.gateway.login_client import LISTENERS, MECHANISMS, connect, plain
from tests.gateway.serving import Client, create

EU, US, OTHER = Namespace("shop", "eu"), Namespace("shop", "us"), Namespace("other", "ns")
PASSWORD = "secret"
_VERIFIERS = verifiers_of(PASSWORD)
FLAGS = (
    MECHANISMS,
    "sasl.plain.insecure=true",
    "authorization=true",
    "super.users=User:root",
    "group.initial.rebalance.delay.ms=0",
)


class Tenants:
    """The gateway, and whoever has logged in."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.broker = gateway.broker
        self._open: list[Client] = []

    async def user(self, name: str, home: str | None = None) -> None:
        await self.broker.users.create(name, row_of(_VERIFIERS, home))

    async def login(self, name: str) -> Client:
        client = await connect(self.gateway)
        self._open.append(client)
        answer = await plain(client, name, PASSWORD)
        assert answer.error_code == 0, name
        return client

    async def allow(
        self, name: str, kind: ResourceType, *operations: Operation, home: Namespace = EU
    ) -> None:
        """For all of that kind that there is at home."""
        rows = [
            Acl(kind, PatternType.LITERAL, "*", f"User:{name}", "*", each, Permission.ALLOW, home)
            for each in operations
        ]
        await self.broker.access.add(rows)

    async def topic(self, client: Client, name: str) -> bytes:
        """Make one: its id."""
        return await create(client, name)

    def close(self) -> None:
        for client in self._open:
            client.close()


async def furnish(tenants: Tenants) -> None:
    """Tenants, and an administrator of each."""
    tenancy = tenants.broker.tenancy
    await tenants.user("root")
    await tenancy.create_tenant("shop", TenantRow(["shop.boss"]))
    await tenancy.create_tenant("other", TenantRow(["other.boss"]))
    for namespace in (EU, US, OTHER):
        await tenancy.create(namespace, NamespaceRow())
    await tenants.user("shop.boss", str(EU))
    await tenants.user("other.boss", str(OTHER))


def run(test: Callable[[Tenants], Awaitable[None]], *flags: str) -> None:
    async def main() -> None:
        async with serving_on(memory.open(), *FLAGS, *flags, listeners=LISTENERS) as gateway:
            tenants = Tenants(gateway)
            await furnish(tenants)
            try:
                await test(tenants)
            finally:
                tenants.close()

    uvloop.run(main())


async def users(client: Client, *names: str, iterations: int = 4096) -> list[tuple[int, str | None]]:
    """Make these users as Kafka's tool does: what becomes of each."""
    request = messages.AlterUserScramCredentialsRequest
    made = [
        request.ScramCredentialUpsertion(
            name=name, mechanism=1, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
        )
        for name in names
    ]
    answer: Any = await client.ask(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request(deletions=[], upsertions=made)
    )
    return [(each.error_code, each.error_message) for each in answer.results]
