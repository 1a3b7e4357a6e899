"""Topics of other namespaces: who names them, with which rights, and what else a client learns of its neighbours."""

from __future__ import annotations

from typing import Any

import pytest

from gateway import logins
from gateway.peer import Peer
from gateway.rights import Unchecked
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from tests.gateway.apis.homes_asking import by_id, errors, run
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

D, R, W, C = Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.CREATE


class Granted(Unchecked):
    """Rights on topics of these names and operations; on all of a home without these."""

    checked = True

    def __init__(self, home: str, granted: dict[str, set[Operation]]) -> None:
        self._home = home
        self._granted = granted

    def topic(self, operation: Operation, name: str) -> bool:
        if name in self._granted:
            return operation in self._granted[name]
        # also what can be no topic: `homes.nowhere`
        return name.startswith(self._home or "//") or ("/" not in name and not self._home)

    def cluster(self, operation: Operation) -> bool:
        return operation is not C

    def cluster_of(self, operation: Operation, topic: str) -> bool:
        return operation is not C


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, set[Operation]]]:
    """By namespace, what its clients may do to topics of other ones: all of them are asked for rights."""
    found: dict[str, dict[str, set[Operation]]] = {"public/default": {}, "shop/eu": {}, "shop/us": {}}

    def made(*args: Any, namespace: str, **more: Any) -> Peer:
        home = "" if namespace == "public/default" else namespace + "/"
        return Peer(*args, namespace=namespace, **{**more, "rights": Granted(home, found[namespace])})

    monkeypatch.setattr(logins, "Peer", made)
    return found


Rights = dict[str, dict[str, set[Operation]]]


async def metadata(client: Client, *names: str, version: int = 12, create: bool = False) -> dict[str, int]:
    """What Metadata says of topics: error codes by name."""
    asked = messages.MetadataRequest.MetadataRequestTopic
    request = messages.MetadataRequest(
        topics=[asked(name=name) for name in names] if names else None, allow_auto_topic_creation=create
    )
    answer = await client.ask(3, version, request)
    return {topic.name: topic.error_code for topic in answer.topics}


async def made(client: Client, name: str) -> dict[str, int]:
    """What CreateTopics says of it."""
    asked = messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = await client.ask(19, 7, messages.CreateTopicsRequest(topics=[asked], timeout_ms=1000))
    return {topic.name: topic.error_code for topic in answer.topics}


async def listed(client: Client) -> list[str]:
    """All topics, a partition at a time."""
    request = messages.DescribeTopicPartitionsRequest
    told: list[str] = []
    cursor = None
    while True:
        answer = await client.ask(75, 0, request(topics=[], response_partition_limit=1, cursor=cursor))
        told += [topic.name for topic in answer.topics]
        if answer.next_cursor is None:
            return told
        cursor = request.Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )


async def filled(at_home: Client, eu: Client, us: Client) -> dict[str, bytes]:
    """Topics of each namespace, each with a record that says whose it is: their ids."""
    found = {}
    # behind those of the others in the order of names
    await create(at_home, "z")
    for where, client in (("home", at_home), ("eu", eu), ("us", us)):
        name = "own" if where == "home" else "orders"
        found[where] = await create(client, name)
        await client.ask(0, 9, produce_body(name, batch(where.encode())))
    return found


def test_without_rights_public_default_reaches_all_and_lists_all() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await filled(at_home, eu, us)
        everything = ["own", "shop.eu.orders", "shop.us.orders", "z"]
        assert sorted(await metadata(at_home)) == sorted(await listed(at_home)) == everything
        assert await metadata(at_home, "shop.eu.orders") == {"shop.eu.orders": 0}
        assert await metadata(eu, "shop.us.orders") == {"shop.us.orders": Error.UNKNOWN_TOPIC_OR_PARTITION}
        # a topic of its own with that very name hides the other one
        own = (await gateway.broker.create_topic("shop.eu.orders", 1, {})).topic_id
        for answer in (await listed(at_home), list(await metadata(at_home))):
            assert sorted(answer) == everything
        await at_home.ask(0, 9, produce_body("shop.eu.orders", batch(b"own")))
        answer = await at_home.ask(1, 12, fetch_body("shop.eu.orders", 0))
        assert b"own" in bytes(answer.responses[0].partitions[0].records)
        answer = await at_home.ask(3, 12, messages.MetadataRequest(topics=None))
        assert {topic.name: topic.topic_id for topic in answer.topics}["shop.eu.orders"] == own

    run(test)


def test_a_foreign_topic_is_there_for_who_may_describe_it(granted: Rights) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        ids = await filled(at_home, eu, us)
        granted["public/default"]["shop/eu/orders"] = {D, W}
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert await metadata(at_home, "shop.eu.orders", "shop.us.orders", "own") == {
            "shop.eu.orders": 0, "shop.us.orders": missing, "own": 0,
        }  # fmt: skip
        # lists have the home alone
        assert list(await metadata(at_home)) == await listed(at_home) == ["own", "z"]
        asked = messages.MetadataRequest.MetadataRequestTopic
        request = messages.MetadataRequest(
            topics=[asked(name=None, topic_id=ids[each]) for each in ("eu", "us")]
        )
        answer = await at_home.ask(3, 12, request)
        assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
            ("shop.eu.orders", ids["eu"], 0),
            (None, ids["us"], Error.UNKNOWN_TOPIC_ID),
        ]

    run(test)


@pytest.mark.parametrize("version", [12, 13])
def test_foreign_topics_are_produced_to_and_fetched_by_the_name_that_was_said(
    granted: Rights, version: int
) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        ids = await filled(at_home, eu, us)
        granted["public/default"]["shop/eu/orders"] = {D, R, W}
        for name, where, code in (
            ("shop.eu.orders", "eu", 0),
            (
                "shop.us.orders",
                "us",
                Error.UNKNOWN_TOPIC_OR_PARTITION if version < 13 else Error.UNKNOWN_TOPIC_ID,
            ),
        ):
            body = by_id(fetch_body(name, 0, session=(0, 0)), ids[where])
            answer = await at_home.ask(1, version, body)
            (topic,) = answer.responses
            assert (errors(answer), topic.topic) == ([code], name if version < 13 else "")
            if not code:
                assert b"eu" in bytes(topic.partitions[0].records)
                # what comes of it in the session has the name, too
                body = by_id(produce_body(name, batch(b"from home")), ids[where])
                told = (await at_home.ask(0, version, body)).responses[0]
                assert told.partition_responses[0].error_code == 0
                assert told.name == (name if version < 13 else "")
                forgets = by_id(fetch_body(name, 1, session=(answer.session_id, 1)), ids[where])
                more = await at_home.ask(1, version, forgets)
                assert more.responses[0].topic == (name if version < 13 else "")
                assert b"from home" in bytes(more.responses[0].partitions[0].records)
        read = await eu.ask(1, 12, fetch_body("orders", 1))
        assert b"from home" in bytes(read.responses[0].partitions[0].records)

    run(test)


def test_nobody_reaches_a_topic_by_the_catalogs_name(granted: Rights) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await filled(at_home, eu, us)
        granted["public/default"]["shop/eu/orders"] = {D, W}
        name = "shop/eu/orders"
        assert await metadata(at_home, name, create=True) == {name: Error.INVALID_TOPIC_EXCEPTION}
        answer = await at_home.ask(0, 9, produce_body(name, batch(b"x")))
        (topic,) = answer.responses
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (topic.name, topic.partition_responses[0].error_code) == (name, missing)
        answer = await at_home.ask(1, 12, fetch_body(name, 0))
        assert (errors(answer), answer.responses[0].topic) == ([missing], name)

    run(test)


def test_a_home_comes_first_and_a_foreign_name_can_be_made_with_the_right_alone(granted: Rights) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        granted["public/default"] |= {"shop/eu/new": {C}, "shop/eu/both": {D}}
        await create(at_home, "shop.eu.new")
        catalog = gateway.broker.catalog
        assert [catalog.get(name) is not None for name in ("shop/eu/new", "shop.eu.new")] == [True, False]
        # without that right there is none, neither there nor at home in its place
        forbidden = {"shop.us.new": Error.TOPIC_AUTHORIZATION_FAILED}
        assert await made(at_home, "shop.us.new") == forbidden
        missing = {"shop.us.new": Error.UNKNOWN_TOPIC_OR_PARTITION}
        assert await metadata(at_home, "shop.us.new", create=True) in (forbidden, missing)
        assert [catalog.get(name) is not None for name in ("shop/us/new", "shop.us.new")] == [False, False]
        # where there is no such namespace it is a name like others
        await create(at_home, "shop.nowhere.new")
        assert catalog.get("shop.nowhere.new") is not None
        await create(eu, "both")
        home = await gateway.broker.create_topic("shop.eu.both", 1, {})
        answer = await at_home.ask(3, 12, messages.MetadataRequest(
            topics=[messages.MetadataRequest.MetadataRequestTopic(name="shop.eu.both")]
        ))  # fmt: skip
        assert [each.topic_id for each in answer.topics] == [home.topic_id]

    run(test)


def test_clients_at_home_elsewhere_reach_what_they_may(granted: Rights) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        ids = await filled(at_home, eu, us)
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert await metadata(eu, "shop.us.orders", "public.default.own", "orders") == {
            "shop.us.orders": missing, "public.default.own": missing, "orders": 0,
        }  # fmt: skip
        granted["shop/eu"] |= {"shop/us/orders": {D, R}, "own": {D, R}}
        assert await metadata(eu, "shop.us.orders", "public.default.own", "orders") == dict.fromkeys(
            ("shop.us.orders", "public.default.own", "orders"), 0
        )
        assert list(await metadata(eu)) == await listed(eu) == ["orders"]
        answer = await eu.ask(1, 12, fetch_body("public.default.own", 0))
        assert answer.responses[0].topic == "public.default.own"
        assert b"home" in bytes(answer.responses[0].partitions[0].records)
        answer = await eu.ask(1, 13, by_id(fetch_body("", 0), ids["us"]))
        assert errors(answer) == [0]

    run(test)


def test_neighbours_are_not_seen_as_one_cluster(granted: Rights) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        told = []
        for client in (at_home, eu, us):
            by_metadata = (await client.ask(3, 12, messages.MetadataRequest(topics=[]))).cluster_id
            described = (await client.ask(60, 0, messages.DescribeClusterRequest())).cluster_id
            assert by_metadata == described
            told.append(described)
        assert told[0] == gateway.broker.cluster_id
        assert len(set(told)) == 3
        assert {len(each) for each in told} == {len(gateway.broker.cluster_id)}

    run(test)


def test_without_rights_all_see_the_one_cluster() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        for client in (at_home, eu):
            told = await client.ask(60, 0, messages.DescribeClusterRequest())
            assert told.cluster_id == gateway.broker.cluster_id

    run(test)


def altered(group: str, name: str, value: str) -> Any:
    """A group's config is set."""
    request = messages.IncrementalAlterConfigsRequest
    entry = request.AlterableConfig(name=name, config_operation=0, value=value)
    return request(
        resources=[request.AlterConfigsResource(resource_type=32, resource_name=group, configs=[entry])],
        validate_only=False,
    )


@pytest.mark.parametrize("config", ["pulsar.dead.letter.topic", "pulsar.retry.letter.topic"])
def test_letters_go_where_who_sets_it_may_write_and_stay_in_the_namespace(
    granted: Rights, config: str
) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(us, "graves")
        granted["shop/eu"] |= {
            "shop/us/graves": {D, W},
            "shop/eu/read": {D},
            "shop/eu/unmade": {D, W},
        }

        async def said(value: str) -> tuple[int, str]:
            (answer,) = (await eu.ask(44, 1, altered("billing", config, value))).responses
            return answer.error_code, answer.error_message or ""

        code, why = await said("shop.us.graves")
        assert (code, "stay in shop/eu" in why) == (Error.INVALID_CONFIG, True)
        await create(us, "unmade")
        for name in ("read", "unmade"):
            code, why = await said(name)
            assert (code, f"written to {name}:" in why) == (Error.TOPIC_AUTHORIZATION_FAILED, True)
        assert await said("graves") == (0, "")
        kept = gateway.broker.group_configs.own("shop/eu/\x1fbilling")
        assert kept == {config: "shop/eu/graves"}
        # what is there already is not asked for again
        granted["shop/eu"]["shop/eu/graves"] = set()
        (answer,) = (await eu.ask(44, 1, altered("billing", "pulsar.dead.letter.enable", "true"))).responses
        assert answer.error_code == 0

    run(test)


def test_a_queue_topic_is_made_with_letters_of_its_own_namespace(granted: Rights) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(us, "graves")
        await create(eu, "orders")
        granted["shop/eu"]["shop/us/graves"] = {D, W}
        request = messages.CreateTopicsRequest

        async def made(value: str) -> int:
            asked = request.CreatableTopic(
                name="orders-g-QUEUE",
                num_partitions=1,
                replication_factor=-1,
                configs=[request.CreatableTopicConfig(name="pulsar.dead.letter.topic", value=value)],
            )
            (found,) = (await eu.ask(19, 7, request(topics=[asked], timeout_ms=1000))).topics
            return int(found.error_code)

        assert await made("shop.us.graves") == Error.INVALID_CONFIG
        assert await made("graves") == 0

    run(test)
