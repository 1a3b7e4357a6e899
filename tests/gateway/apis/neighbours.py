"""A gateway that knows its users by their passwords, with namespaces of two tenants, and rights as rows allow them."""

from __future__ import annotations

import hashlib
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
from tests.gateway.login_client import LISTENERS, logged_in
from tests.gateway.serving import Client, batch, fetch_body, produce_body

EU, US, OTHER = Namespace("shop", "eu"), Namespace("shop", "us"), Namespace("other", "ns")
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
NO_ID = bytes(16)
_FLAGS = (
    "sasl.enabled.mechanisms=PLAIN",
    "sasl.plain.insecure=true",
    "super.users=User:root",
    "group.initial.rebalance.delay.ms=0",
)


class World:
    """Users are root, who may do everything, and shop.boss at home in shop/eu, who administrates the tenant shop."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._open: list[Client] = []

    async def begin(self) -> None:
        tenancy = self.gateway.broker.tenancy
        await tenancy.create_tenant("shop", TenantRow(["shop.boss"]))
        await tenancy.create_tenant("other", TenantRow())
        for namespace in (EU, US, OTHER):
            await tenancy.create(namespace, NamespaceRow())
        await self.user("root")
        await self.user("shop.boss", "shop/eu")

    async def user(self, name: str, home: str | None = None) -> None:
        await self.gateway.broker.users.create(name, row_of(verifiers_of("secret"), home))

    async def login(self, name: str, password: str = "secret") -> Client:
        client = await logged_in(self.gateway, name, password)
        self._open.append(client)
        return client

    async def allow(
        self,
        user: str,
        *operations: Operation,
        kind: ResourceType = TOPIC,
        name: str = "kafka-cluster",
        namespace: Namespace = EU,
        pattern: PatternType = PatternType.LITERAL,
    ) -> None:
        rows = [
            Acl(kind, pattern, name, f"User:{user}", "*", operation, Permission.ALLOW, namespace)
            for operation in operations
        ]
        await self.gateway.broker.access.add(rows)

    def has(self, name: str) -> bool:
        """Whether there is such a topic, by the catalog's name."""
        return self.gateway.broker.catalog.get(name) is not None

    def close(self) -> None:
        for each in self._open:
            each.close()


def run(test: Callable[[World], Awaitable[None]], *flags: str) -> None:
    async def main() -> None:
        async with serving_on(memory.open(), *_FLAGS, *flags, listeners=LISTENERS) as gateway:
            world = World(gateway)
            await world.begin()
            try:
                await test(world)
            finally:
                world.close()

    uvloop.run(main())


async def make(client: Client, name: str, **configs: str) -> tuple[int, bytes]:
    """CreateTopics: the error code, and the id. In names of configs `__` is a dot."""
    request = messages.CreateTopicsRequest
    asked = request.CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            request.CreatableTopicConfig(name=config.replace("__", "."), value=value)
            for config, value in configs.items()
        ],
    )
    (told,) = (await client.ask(ApiKey.CREATE_TOPICS, 7, request(topics=[asked], timeout_ms=1000))).topics
    return told.error_code, told.topic_id


async def delete(client: Client, name: str | None = None, topic_id: bytes = NO_ID) -> int:
    """DeleteTopics."""
    request = messages.DeleteTopicsRequest
    asked = request(topics=[request.DeleteTopicState(name=name, topic_id=topic_id)], timeout_ms=1000)
    return int((await client.ask(ApiKey.DELETE_TOPICS, 6, asked)).responses[0].error_code)


async def put(client: Client, name: str, *values: bytes) -> int:
    """Produce."""
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(name, batch(*values)))
    return int(answer.responses[0].partition_responses[0].error_code)


async def get(client: Client, name: str) -> tuple[int, bytes]:
    """Fetch from the beginning: the error code, and what came."""
    (topic,) = (await client.ask(ApiKey.FETCH, 12, fetch_body(name, 0))).responses
    return topic.partitions[0].error_code, bytes(topic.partitions[0].records or b"")


async def give_password(client: Client, name: str, password: str) -> int:
    """AlterUserScramCredentials."""
    request: Any = messages.AlterUserScramCredentialsRequest
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 4096)
    upsertion = request.ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=salted
    )
    asked = request(deletions=[], upsertions=[upsertion])
    answer = await client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, asked)
    return int(answer.results[0].error_code)
