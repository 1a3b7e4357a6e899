"""What tests of clients at home in another namespace begin with: requests of all APIs, three clients of one gateway."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import uvloop

from gateway import apis
from gateway.apis.homes import Role, role_of
from gateway.apis.registry import APIS
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.server import Gateway
from gateway.wire import messages, schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.schema import Field
from semantics.names import Namespace
from tests.gateway.serving import Client, serving
from tests.gateway.wire.values import Values

EU, US = Namespace("shop", "eu"), Namespace("shop", "us")
OWN, OTHERS = "shop/eu/orders", "shop/us/orders"
OWN_ID, OTHERS_ID = b"o" * 16, b"x" * 16
apis.load_all()


def fields_of(name: str) -> Iterator[tuple[str, Field, bool]]:
    """(the struct that it is in, the field, whether a type of resource stands beside it)."""

    def walk(where: str, fields: tuple[Field, ...]) -> Iterator[tuple[str, Field, bool]]:
        resource = any(each.attribute == "resource_type" for each in fields)
        for each in fields:
            if each.fields is not None:
                yield from walk(each.attribute, each.fields)
            else:
                yield where, each, resource

    return walk("", schema.load(name).fields)


def messages_of(key: int) -> list[str]:
    return [schema.api_name(key) + kind for kind in ("Request", "Response")]


CASES = [
    (key, version)
    for key, api in sorted(APIS.items())
    for version in range(api.min_version, api.max_version + 1)
    if key != ApiKey.PRODUCE or version >= 3
]


def filled(name: str, version: int, told: dict[Role, list[Any]], resources: dict[int, list[str]]) -> Any:
    """A message in which every name is one of these."""
    found = Values(f"{name} {version}").message(name, version)
    pick = Values(name).random

    def walk(its: Any, fields: tuple[Field, ...]) -> None:
        for field in fields:
            if version not in field.versions:
                continue
            value = getattr(its, field.attribute)
            if field.fields is not None:
                if field.array and not value:
                    # also where it may be null
                    value = [Values(field.name).struct_of(name, version, field)]
                    setattr(its, field.attribute, value)
                    value.append(Values(field.name).struct_of(name, version, field))
                for each in (value or []) if field.array else [value]:
                    if each is not None:
                        walk(each, field.fields)
                continue
            role = role_of(name, field)
            if role is not None:
                some = [pick.choice(told[role]) for _ in range(3)]
                setattr(its, field.attribute, some if field.array else some[0])
            elif field.attribute == "resource_name":
                its.resource_type = pick.choice(list(resources))
                its.resource_name = pick.choice(resources[its.resource_type])
            elif field.type == "string" and value is not None:
                setattr(its, field.attribute, ["w"] if field.array else "w")

    walk(found, schema.load(name).fields)
    return found


Body = Callable[[Gateway, Client, Client, Client], Coroutine[Any, Any, None]]


def run(test: Body, *settings: str) -> None:
    """With a client of public/default, one of shop/eu, and one of shop/us."""

    async def main() -> None:
        async with serving(
            "listener.name.eu.pulsar.namespace=shop/eu",
            "listener.name.us.pulsar.namespace=shop/us",
            "group.initial.rebalance.delay.ms=0",
            *settings,
            listeners="127.0.0.1:0,EU://127.0.0.1:0,US://127.0.0.1:0",
        ) as gateway:
            tenancy = gateway.broker.tenancy
            await tenancy.create_tenant("shop", TenantRow())
            for namespace in (EU, US):
                await tenancy.create(namespace, NamespaceRow())
            clients = [await Client.connect(gateway, listener=each) for each in ("PLAINTEXT", "EU", "US")]
            try:
                await test(gateway, *clients)
            finally:
                for client in clients:
                    client.close()

    uvloop.run(main())


def by_id(request: Any, topic_id: bytes) -> Any:
    """A Produce or a Fetch that names its only topic by an id."""
    topics = request.topic_data if hasattr(request, "topic_data") else request.topics
    topics[0].topic_id = topic_id
    return request


def errors(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.responses for each in topic.partitions]


def share_heartbeat(group: str, *topics: str) -> Any:
    return messages.ShareGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=0, subscribed_topic_names=list(topics)
    )


def share_fetch(group: str, topic_id: bytes, epoch: int = 0) -> Any:
    topic = messages.ShareFetchRequest.FetchTopic
    part = messages.ShareFetchRequest.FetchPartition
    return messages.ShareFetchRequest(
        group_id=group,
        member_id="m",
        share_session_epoch=epoch,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        max_records=100,
        batch_size=100,
        topics=[topic(topic_id=topic_id, partitions=[part(partition_index=0, acknowledgement_batches=[])])],
        forgotten_topics_data=[],
    )
