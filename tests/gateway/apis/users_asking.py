"""What tests of tenants that are told apart by their users begin with: one listener, users at home in shop/eu and in
public/default, and rights by rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from gateway import apis
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.users import row_of, verifiers_of
from gateway.server import Gateway
from gateway.wire import messages
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.names import DEFAULT, Namespace
from store import memory
from tests.gateway.apis.homes_asking import share_fetch, share_heartbeat
from tests.gateway.broker.held import serving_on
from tests.gateway.login_client import FLAGS, LISTENERS, connect, plain
from tests.gateway.serving import Client, batch, produce_body

EU = Namespace("shop", "eu")
RIGHTS = ("authorization=true", "super.users=User:root", "group.initial.rebalance.delay.ms=0")


class Users:
    """Clients of one gateway by their users: `root`, who may do everything; `shop.boss`, who may in shop/eu and is at
    home there; `max`, who is at home in public/default and may do what a test grants.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.broker = gateway.broker
        self.open: list[Client] = []

    async def login(self, name: str) -> Client:
        client = await connect(self.gateway)
        self.open.append(client)
        assert (await plain(client, name, "secret")).error_code == 0
        return client

    async def make(self, name: str, home: str | None = None) -> None:
        await self.broker.users.create(name, row_of(verifiers_of("secret"), home))

    async def allow(
        self, user: str, kind: ResourceType, name: str, *operations: Operation, where: Namespace = DEFAULT
    ) -> None:
        rows = [
            Acl(kind, PatternType.LITERAL, name, f"User:{user}", "*", each, Permission.ALLOW, where)
            for each in operations
        ]
        await self.broker.access.add(rows)


def run(test: Callable[[Users], Awaitable[None]], store: Any = None, *, first: bool = True) -> None:
    """With a gateway on a store. `first`: users and namespaces are made."""

    async def main() -> None:
        flags = [each for each in FLAGS if not each.startswith("super.users")]
        async with serving_on(store or memory.open(), *flags, *RIGHTS, listeners=LISTENERS) as gateway:
            users = Users(gateway)
            if first:
                await gateway.broker.tenancy.create_tenant("shop", TenantRow(["shop.boss"]))
                await gateway.broker.tenancy.create(EU, NamespaceRow())
                await users.make("root")
                await users.make("max")
                await users.make("shop.boss", "shop/eu")
            try:
                await test(users)
            finally:
                for client in users.open:
                    client.close()

    apis.load_all()
    uvloop.run(main())


async def made(client: Client, name: str, **configs: str) -> tuple[int, str, bytes]:
    """CreateTopics for one with a partition: (error code, sentence, id)."""
    request = messages.CreateTopicsRequest
    said = [
        request.CreatableTopicConfig(name=key.replace("__", "."), value=value)
        for key, value in configs.items()
    ]
    asked = request.CreatableTopic(name=name, num_partitions=1, replication_factor=-1, configs=said)
    (found,) = (await client.ask(19, 7, request(topics=[asked], timeout_ms=1000))).topics
    return found.error_code, found.error_message or "", found.topic_id


async def joined(client: Client, group: str, *topics: str) -> tuple[int, str]:
    """What a share group's heartbeat is answered: (error code, sentence)."""
    answer = await client.ask(76, 1, share_heartbeat(group, *topics))
    return answer.error_code, answer.error_message or ""


async def rejected(
    client: Client,
    group: str,
    topic: str,
    topic_id: bytes,
    producer: Client,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """A member of a share group joins, is given a new record, and rejects it. `meanwhile`: what happens before that."""
    assert await joined(client, group, topic) == (0, "")
    await client.ask(78, 1, share_fetch(group, topic_id))
    await producer.ask(0, 9, produce_body(topic, batch(b"bad")))
    request = share_fetch(group, topic_id, 1)
    request.max_wait_ms = 5000
    request.min_bytes = 1
    request.topics = []
    (found,) = (await client.ask(78, 1, request)).responses[0].partitions
    (got,) = found.acquired_records
    meanwhile()
    ack = messages.ShareAcknowledgeRequest
    rows = ack.AcknowledgementBatch(
        first_offset=got.first_offset, last_offset=got.last_offset, acknowledge_types=[3]
    )
    partition = ack.AcknowledgePartition(partition_index=0, acknowledgement_batches=[rows])
    answer = await client.ask(
        79,
        1,
        ack(
            group_id=group,
            member_id="m",
            share_session_epoch=2,
            topics=[ack.AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
        ),
    )
    assert [part.error_code for topic in answer.responses for part in topic.partitions] == [0]
