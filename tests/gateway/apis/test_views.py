"""What clients see who have logged in: of their home, and of other namespaces, by ACLs that are kept."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.errors import Error
from semantics.access.acl import Operation, ResourceType
from semantics.names import DEFAULT, Namespace
from tests.gateway.apis.homes_asking import by_id, errors
from tests.gateway.auth.known import MemoryUsers
from tests.gateway.broker.rights import EU, row
from tests.gateway.login_client import connect, plain, run
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

DESCRIBE, READ, WRITE, CREATE = Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.CREATE
FORBIDDEN, MISSING = Error.TOPIC_AUTHORIZATION_FAILED, Error.UNKNOWN_TOPIC_OR_PARTITION


class World:
    """shop/eu with the topics orders and bills, public/default with home. Of its users ada may do everything, eva is at
    home in shop/eu, and max and tim in public/default.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.ids: dict[str, bytes] = {}

    async def allow(self, user: str, name: str, *operations: Operation, namespace: Namespace = EU) -> None:
        """On a topic, by what it is called in its namespace."""
        rows = [row(name, each, principal=f"User:{user}", namespace=namespace) for each in operations]
        await self.gateway.broker.access.add(rows)

    @contextlib.asynccontextmanager
    async def client(self, user: str) -> AsyncIterator[Client]:
        client = await connect(self.gateway)
        try:
            assert (await plain(client, user)).error_code == 0
            yield client
        finally:
            client.close()


def served(body: Callable[[World], Awaitable[None]]) -> None:
    async def test(gateway: Gateway, users: MemoryUsers) -> None:
        world = World(gateway)
        await gateway.broker.tenancy.create_tenant("shop", TenantRow())
        await gateway.broker.tenancy.create(EU, NamespaceRow())
        users.put("eva", "secret", home="shop/eu")
        users.put("max", "secret")
        users.put("tim", "secret")
        async with world.client("ada") as admin:
            for name in ("shop.eu.orders", "shop.eu.bills", "home"):
                world.ids[name] = await create(admin, name)
                await admin.ask(0, 9, produce_body(name, batch(name.encode())))
        await body(world)

    run(test)


async def metadata(client: Client, *names: str) -> dict[str, int]:
    """Error codes by name; of all topics without names."""
    asked = messages.MetadataRequest.MetadataRequestTopic
    request = messages.MetadataRequest(
        topics=[asked(name=name) for name in names] if names else None, allow_auto_topic_creation=False
    )
    return {topic.name: topic.error_code for topic in (await client.ask(3, 12, request)).topics}


async def described(client: Client) -> list[str]:
    request = messages.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10)
    return [topic.name for topic in (await client.ask(75, 0, request)).topics]


async def fetched(client: Client, name: str) -> tuple[list[int], bytes]:
    answer = await client.ask(1, 12, fetch_body(name, 0))
    return errors(answer), b"".join(
        bytes(each.records or b"") for topic in answer.responses for each in topic.partitions
    )


def test_who_is_at_home_elsewhere_asks_by_bare_names_and_rows_of_that_namespace() -> None:
    async def test(world: World) -> None:
        await world.allow("eva", "orders", READ, WRITE)
        # what is called so in public/default is another's
        await world.allow("eva", "bills", READ, namespace=DEFAULT)
        async with world.client("eva") as eva:
            assert await metadata(eva, "orders", "bills", "nobodys") == {
                "orders": 0, "bills": FORBIDDEN, "nobodys": FORBIDDEN,
            }  # fmt: skip
            assert list(await metadata(eva)) == await described(eva) == ["orders"]
            codes, records = await fetched(eva, "orders")
            assert (codes, b"shop.eu.orders" in records) == ([0], True)
            assert await fetched(eva, "bills") == await fetched(eva, "nobodys") == ([FORBIDDEN], b"")
            answer = await eva.ask(0, 9, produce_body("orders", batch(b"more")))
            assert [each.error_code for each in answer.responses[0].partition_responses] == [0]
            # public/default is as far away as shop/eu is from there
            assert await metadata(eva, "public.default.home") == {"public.default.home": FORBIDDEN}
            await world.allow("eva", "home", READ, namespace=DEFAULT)
            assert await metadata(eva, "public.default.home") == {"public.default.home": 0}
            assert list(await metadata(eva)) == ["orders"]

    served(test)


def test_a_right_in_another_namespace_is_a_right_by_its_dotted_name() -> None:
    async def test(world: World) -> None:
        await world.allow("max", "orders", READ)
        async with world.client("max") as client:
            assert await metadata(client, "shop.eu.orders", "shop.eu.bills", "shop.eu.nobodys") == {
                "shop.eu.orders": 0, "shop.eu.bills": FORBIDDEN, "shop.eu.nobodys": FORBIDDEN,
            }  # fmt: skip
            codes, records = await fetched(client, "shop.eu.orders")
            assert (codes, b"shop.eu.orders" in records) == ([0], True)
            answer = await client.ask(0, 9, produce_body("shop.eu.orders", batch(b"x")))
            assert [each.error_code for each in answer.responses[0].partition_responses] == [FORBIDDEN]
            # it is no topic of the home: no list has it
            assert await metadata(client) == {}
            assert await described(client) == []
            await world.allow("max", "home", DESCRIBE, namespace=DEFAULT)
            assert list(await metadata(client)) == await described(client) == ["home"]

    served(test)


@pytest.mark.parametrize("home", [False, True], ids=["without any right", "who may use all of its home"])
def test_who_has_no_right_there_is_told_the_same_whether_a_topic_is_there_or_not(home: bool) -> None:
    async def test(world: World) -> None:
        if home:
            await world.allow("tim", "*", READ, WRITE, namespace=DEFAULT)
        async with world.client("tim") as tim:
            # public/default has none of these names, and that is all that is said
            code = MISSING if home else FORBIDDEN
            names = "shop.eu.orders", "shop.eu.nobodys", "shop.us.nobodys"
            assert await metadata(tim, *names) == dict.fromkeys(names, code)
            for name in names:
                assert await fetched(tim, name) == ([code], b"")
                (told,) = (await tim.ask(0, 9, produce_body(name, batch(b"x")))).responses
                assert [each.error_code for each in told.partition_responses] == [code]
            # ids are those of nobody
            body = by_id(fetch_body("", 0), world.ids["shop.eu.orders"])
            assert errors(await tim.ask(1, 13, body)) == [Error.UNKNOWN_TOPIC_ID]
            assert await described(tim) == (["home"] if home else [])

    served(test)


def test_a_right_that_is_taken_away_ends_a_session_on_a_foreign_topic() -> None:
    async def test(world: World) -> None:
        await world.allow("max", "orders", READ)
        async with world.client("max") as client:
            answer = await client.ask(1, 12, fetch_body("shop.eu.orders", 0, session=(0, 0)))
            assert errors(answer) == [0]
            await world.gateway.broker.access.remove(
                [row("orders", READ, principal="User:max", namespace=EU)]
            )
            body = fetch_body("shop.eu.orders", 0, session=(answer.session_id, 1))
            (topic,) = (await client.ask(1, 12, body)).responses
            assert (topic.topic, topic.partitions[0].error_code) == ("shop.eu.orders", FORBIDDEN)
            assert not bytes(topic.partitions[0].records or b"")
            # and with the right it is there again, once
            await world.allow("max", "orders", READ)
            body = fetch_body("shop.eu.orders", 0, session=(answer.session_id, 2))
            (topic,) = (await client.ask(1, 12, body)).responses
            assert (topic.topic, topic.partitions[0].error_code) == ("shop.eu.orders", 0)

    served(test)


def test_a_topic_of_the_home_comes_before_one_that_may_be_read_elsewhere() -> None:
    async def test(world: World) -> None:
        await world.allow("max", "orders", READ)
        await world.gateway.broker.create_topic("shop.eu.orders", 1, {})
        async with world.client("max") as client:
            # and is another: the right is none to it
            assert await metadata(client, "shop.eu.orders") == {"shop.eu.orders": FORBIDDEN}
            body = by_id(fetch_body("", 0), world.ids["shop.eu.orders"])
            assert errors(await client.ask(1, 13, body)) == [0]

    served(test)


def test_a_topic_is_made_elsewhere_by_who_may() -> None:
    async def test(world: World) -> None:
        await world.allow("max", "new", CREATE)
        async with world.client("max") as client:
            topic = messages.CreateTopicsRequest.CreatableTopic
            asked = [
                topic(name=name, num_partitions=1, replication_factor=-1)
                for name in ("shop.eu.new", "shop.eu.other")
            ]
            request = messages.CreateTopicsRequest(topics=asked, timeout_ms=1000)
            made = (await client.ask(19, 7, request)).topics
            assert {each.name: each.error_code for each in made} == {
                "shop.eu.new": 0,
                "shop.eu.other": FORBIDDEN,
            }
        catalog = world.gateway.broker.catalog
        assert [name for name in catalog.names() if "new" in name or "other" in name] == ["shop/eu/new"]

    served(test)


def test_rows_that_somebody_makes_at_home_are_about_its_home() -> None:
    async def test(world: World) -> None:
        cluster = [
            row("kafka-cluster", each, resource=ResourceType.CLUSTER, principal="User:eva", namespace=EU)
            for each in (Operation.ALTER, DESCRIBE)
        ]
        await world.gateway.broker.access.add(cluster)
        creation = messages.CreateAclsRequest.AclCreation
        said: dict[str, Any] = {
            "resource_type": 2,
            "resource_pattern_type": 3,
            "host": "*",
            "permission_type": 3,
        }
        request = messages.CreateAclsRequest(
            creations=[creation(resource_name="orders", principal="User:max", operation=READ, **said)]
        )
        async with world.client("max") as client, world.client("eva") as eva:
            assert await metadata(client, "shop.eu.orders", "orders") == {
                "shop.eu.orders": FORBIDDEN, "orders": FORBIDDEN,
            }  # fmt: skip
            (made,) = (await eva.ask(30, 3, request)).results
            assert made.error_code == 0
            assert await metadata(client, "shop.eu.orders", "orders") == {
                "shop.eu.orders": 0, "orders": FORBIDDEN,
            }  # fmt: skip

    served(test)


def test_each_home_is_told_a_cluster_of_its_own() -> None:
    async def test(world: World) -> None:
        told = []
        for user in ("eva", "max"):
            async with world.client(user) as client:
                answer = await client.ask(3, 12, messages.MetadataRequest(topics=[]))
                told += [
                    answer.cluster_id,
                    (await client.ask(60, 0, messages.DescribeClusterRequest())).cluster_id,
                ]
        assert told[2] == told[3] == world.gateway.broker.cluster_id
        assert told[0] == told[1] != told[2]

    served(test)
