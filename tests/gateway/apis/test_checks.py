"""What is told to who may not: which right is missing, on what, and for whom; in its own words, and of nothing that it
has not named."""

from __future__ import annotations

from typing import Any

from gateway.broker.namespaces import TenantRow
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation, ResourceType
from semantics.names import DEFAULT
from tests.gateway.serving import Client
from tests.gateway.tenants import EU, Tenants, run


def needs(who: str, operation: str, on: str, flag: str, or_cluster: str = "") -> str:
    how = "".join(part.capitalize() for part in operation.split("_"))
    return (
        f"{who} needs {operation} on {on}{or_cluster} "
        f"(kafka-acls --add --allow-principal {who} --operation {how} {flag})."
    )


async def create(client: Client, name: str) -> tuple[int, str | None]:
    request = messages.CreateTopicsRequest
    topic = request.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    told: Any = await client.ask(
        ApiKey.CREATE_TOPICS, 7, request(topics=[topic], timeout_ms=1000, validate_only=False)
    )
    return told.topics[0].error_code, told.topics[0].error_message


async def delete(client: Client, *, name: str | None = None, topic_id: bytes = bytes(16)) -> str | None:
    request = messages.DeleteTopicsRequest
    state = request.DeleteTopicState(name=name, topic_id=topic_id)
    told: Any = await client.ask(
        ApiKey.DELETE_TOPICS, 6, request(topics=[state], topic_names=[], timeout_ms=1000)
    )
    assert told.responses[0].error_code == Error.TOPIC_AUTHORIZATION_FAILED
    text: str | None = told.responses[0].error_message
    return text


async def grow(client: Client, name: str) -> str | None:
    request = messages.CreatePartitionsRequest
    topic = request.CreatePartitionsTopic(name=name, count=2, assignments=None)
    told: Any = await client.ask(
        ApiKey.CREATE_PARTITIONS, 3, request(topics=[topic], timeout_ms=1000, validate_only=False)
    )
    assert told.results[0].error_code == Error.TOPIC_AUTHORIZATION_FAILED
    text: str | None = told.results[0].error_message
    return text


async def coordinator(client: Client, kind: int, key: str) -> str | None:
    request = messages.FindCoordinatorRequest(key="", key_type=kind, coordinator_keys=[key])
    told: Any = await client.ask(ApiKey.FIND_COORDINATOR, 4, request)
    text: str | None = told.coordinators[0].error_message
    return text


def test_a_refusal_says_what_is_missing_in_the_words_of_its_client() -> None:
    async def test(tenants: Tenants) -> None:
        await tenants.user("shop.bob", str(EU))
        boss, bob, who = await tenants.login("shop.boss"), await tenants.login("shop.bob"), "User:shop.bob"
        topic_id = await tenants.topic(boss, "orders")
        text = needs(who, "CREATE", "topic new", "--topic shop.eu.new", ", or on the cluster")
        assert await create(bob, "new") == (Error.TOPIC_AUTHORIZATION_FAILED, text)
        for name in ("orders", "nobodys"):
            # by that name an administrator means it, at home there or in public/default
            flag = f"--topic shop.eu.{name}"
            deleting = needs(who, "DELETE", f"topic {name}", flag, ", or on the cluster")
            assert await delete(bob, name=name) == deleting
            assert await grow(bob, name) == needs(who, "ALTER", f"topic {name}", flag)
        assert await coordinator(bob, 0, "bill ing") == needs(
            who, "DESCRIBE", "group bill ing", "--group 'bill ing', by who is at home in shop/eu"
        )
        assert await coordinator(bob, 1, "tx") == needs(
            who, "DESCRIBE", "transactional id tx", "--transactional-id tx, by who is at home in shop/eu"
        )
        plain = Error.TOPIC_AUTHORIZATION_FAILED.sentence
        assert await delete(bob, topic_id=topic_id) == plain, "it has not said the name"
        await tenants.allow("shop.bob", ResourceType.TOPIC, Operation.DESCRIBE)
        assert "topic orders" in (await delete(bob, topic_id=topic_id) or "")

    run(test)


def test_a_topic_of_another_namespace_is_told_by_the_name_that_it_was_called() -> None:
    async def test(tenants: Tenants) -> None:
        await tenants.user("shop.bob", str(EU))
        await tenants.user("eve")
        root, bob, eve = [await tenants.login(name) for name in ("root", "shop.bob", "eve")]
        await tenants.topic(root, "all")
        await tenants.allow("shop.bob", ResourceType.TOPIC, Operation.DESCRIBE, home=DEFAULT)
        told = await grow(bob, "public.default.all")
        assert told == needs(
            "User:shop.bob", "ALTER", "topic public.default.all", "--topic public.default.all"
        )
        told = await grow(eve, "shop.eu.orders")
        assert told == needs("User:eve", "ALTER", "topic shop.eu.orders", "--topic shop.eu.orders")

    run(test)


def test_what_is_of_the_whole_gateway_is_told_as_such() -> None:
    async def test(tenants: Tenants) -> None:
        await tenants.user("shop.bob", str(EU))
        await tenants.user("eve")
        bob, eve, boss = [await tenants.login(name) for name in ("shop.bob", "eve", "shop.boss")]
        request = messages.DescribeUserScramCredentialsRequest(users=None)
        texts = []
        for client in (bob, eve):
            told: Any = await client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
            assert told.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
            texts.append(told.error_message)
        assert texts[0] == needs(
            "User:shop.bob", "DESCRIBE", "the cluster", "--cluster, by who is at home in shop/eu"
        )
        whole = needs("User:eve", "DESCRIBE", "the cluster", "--cluster")
        assert texts[1] == f"This is of the whole gateway: {whole}"
        update = messages.UpdateFeaturesRequest
        change = update.FeatureUpdateKey(feature="x", max_version_level=1, upgrade_type=1)
        told = await boss.ask(
            ApiKey.UPDATE_FEATURES,
            1,
            update(timeout_ms=1000, feature_updates=[change], validate_only=False),
        )
        needed = "User:shop.boss needs ALTER on the cluster of those at home in public/default."
        assert told.error_message == f"This is of the whole gateway: {needed}"

    run(test)


def test_topics_that_others_have_named_are_not_told() -> None:
    async def test(tenants: Tenants) -> None:
        await tenants.broker.tenancy.update_tenant("shop", lambda old: TenantRow(["shop.boss", "shop.bob"]))
        await tenants.user("shop.bob", str(EU))
        await tenants.user("shop.tom", str(EU))
        bob, tom = await tenants.login("shop.bob"), await tenants.login("shop.tom")
        await tenants.topic(bob, "secret")
        request = messages.ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m" * 22,
            member_epoch=0,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["secret"],
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=[],
        )
        assert (await bob.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)).error_code == 0
        await tenants.allow("shop.tom", ResourceType.GROUP, Operation.DESCRIBE)
        asked = messages.ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
        (told,) = (await tom.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, asked)).groups
        assert told.error_code == Error.TOPIC_AUTHORIZATION_FAILED
        assert told.error_message == Error.TOPIC_AUTHORIZATION_FAILED.sentence

    run(test)
