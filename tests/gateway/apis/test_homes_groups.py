"""Groups of clients at home in another namespace: of their own, with subscriptions there, and named by nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.apis import homes
from gateway.apis.homes import Role, role_of
from gateway.apis.registry import APIS
from gateway.server import Gateway
from gateway.wire import codec, messages, schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.group_names import scoped
from tests.gateway.apis.homes_asking import (
    CASES,
    EU,
    OTHERS_ID,
    fields_of,
    filled,
    messages_of,
    run,
    share_fetch,
    share_heartbeat,
)
from tests.gateway.apis.old_members import Old
from tests.gateway.broker import consumer_members
from tests.gateway.broker.consumer_members import assigned, beat, listed
from tests.gateway.serving import Client, batch, create, produce_body


def test_share_groups_of_one_name_have_subscriptions_of_their_own() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own, others = await create(eu, "orders"), await create(us, "orders")
        alter = messages.IncrementalAlterConfigsRequest
        config = alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        for client, value in ((eu, b"eu"), (us, b"us")):
            resource = alter.AlterConfigsResource(resource_type=32, resource_name="billing", configs=[config])
            answer = await client.ask(44, 1, alter(resources=[resource]))
            assert answer.responses[0].error_code == 0
            await client.ask(0, 9, produce_body("orders", batch(value)))
            answer = await client.ask(76, 1, share_heartbeat("billing", "orders"))
            assert answer.error_code == 0, answer.error_message
            (assigned,) = answer.assignment.topic_partitions
            assert assigned.topic_id == (own if client is eu else others)
        fetched = await eu.ask(78, 1, share_fetch("billing", own))
        (found,) = fetched.responses[0].partitions
        assert b"eu" in bytes(found.records)
        fetched = await eu.ask(78, 1, share_fetch("billing", others, 1))
        told = {each.topic_id: each.partitions[0].error_code for each in fetched.responses}
        assert told[others] == Error.UNKNOWN_TOPIC_ID
        subscriptions = gateway.broker.subscriptions
        assert [row.topic for row in subscriptions.of_group(scoped(EU, "billing"))] == ["shop/eu/orders"]
        assert subscriptions.of_group("billing") == []

        # a client of public/default may read there, and have no subscription
        answer = await at_home.ask(76, 1, share_heartbeat("billing", "shop.eu.orders"))
        assert answer.assignment.topic_partitions == []
        altered = messages.AlterShareGroupOffsetsRequest
        topic = altered.AlterShareGroupOffsetsRequestTopic(
            topic_name="shop.eu.orders",
            partitions=[altered.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)],
        )
        answer = await at_home.ask(91, 0, altered(group_id="another", topics=[topic]))
        ((told_so,),) = [each.partitions for each in answer.responses]
        assert told_so.error_code == Error.POLICY_VIOLATION
        listed = [
            (await each.ask(16, 4, messages.ListGroupsRequest(states_filter=[]))) for each in (eu, at_home)
        ]
        assert [[each.group_id for each in answer.groups] for answer in listed] == [
            ["billing"],
            ["another", "billing"],
        ]
        described = messages.DescribeShareGroupOffsetsRequest
        for client, count in ((eu, 1), (us, 1), (at_home, 0)):
            group = described.DescribeShareGroupOffsetsRequestGroup(group_id="billing", topics=None)
            answer = await client.ask(90, 1, described(groups=[group]))
            assert [topic.topic_name for topic in answer.groups[0].topics] == ["orders"] * count

    run(test)


def everything(name: str, version: int) -> Any:
    """A request that names nothing, which most take for all that there is."""
    found = getattr(messages, name)()
    for field in schema.load(name).fields:
        if field.array and version in field.nullable:
            setattr(found, field.attribute, None)
    return found


def test_whatever_is_asked_nothing_of_others_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Requests of every API and version, with whatever in their fields, of a client of shop/eu."""

    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        for client in (at_home, us):
            await create(client, "secret", 2)
            await client.ask(0, 9, produce_body("secret", batch(b"secret")))
            await client.ask(76, 1, share_heartbeat("secret", "secret"))
        await create(eu, "orders", 2)
        told = 0
        for key, version in CASES:
            api = APIS[key]
            if api.handler is None or api.parks:
                continue
            names: dict[Role, list[Any]] = {
                Role.TOPIC: ["orders", "public.default.x", "shop.us.x", "a/b", "", ".."],
                Role.GROUP: ["billing", "shop/us/billing", "x" * 300],
                Role.ID: [OTHERS_ID, bytes(16)],
                Role.TEXT: ["w"],
            }
            resources = {homes.TOPIC: ["orders", ".."], homes.GROUP: ["billing"], 4: ["1", ""], 99: ["x"]}
            name = messages_of(key)[0]
            for request in (filled(name, version, names, resources), everything(name, version)):
                client = await Client.connect(gateway, listener="EU")
                client.send(key, version, codec.encode_request(key, version, request))
                try:
                    size = int.from_bytes(await asyncio.wait_for(client.reader.readexactly(4), 10), "big")
                    answer = await client.reader.readexactly(size)
                except asyncio.IncompleteReadError:
                    # it says why in the log
                    continue
                finally:
                    client.close()
                assert b"secret" not in answer, (api.name, version)
                told += 1
        assert told > 200

    run(test)
    assert [record for record in caplog.records if record.exc_info] == []


def subscription(*topics: str) -> bytes:
    """What a consumer joins with."""
    found = messages.ConsumerProtocolSubscription(topics=list(topics), user_data=None)
    return b"\0\0" + codec.encode_data("ConsumerProtocolSubscription", 0, found)


def assignment(topic: str) -> bytes:
    """What a member is given: the first partition of a topic."""
    place = messages.ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=[0])
    found = messages.ConsumerProtocolAssignment(assigned_partitions=[place], user_data=None)
    return b"\0\0" + codec.encode_data("ConsumerProtocolAssignment", 0, found)


def test_what_members_of_a_consumer_group_say_among_themselves_is_of_their_home() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own = await create(eu, "orders")
        await create(eu, "parts")
        await create(at_home, "orders")
        protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol
        members = {}
        for client in (eu, at_home):
            join = messages.JoinGroupRequest(
                group_id="billing",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol(name="range", metadata=subscription("orders"))],
            )
            joined = await client.ask(11, 3, join)
            assert joined.error_code == 0
            # as it was said
            assert [bytes(each.metadata) for each in joined.members] == [subscription("orders")]
            members[client] = joined.member_id
            given = messages.SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=joined.member_id, assignment=assignment("orders")
            )
            sync = messages.SyncGroupRequest(
                group_id="billing", generation_id=1, member_id=joined.member_id, assignments=[given]
            )
            assert (await client.ask(14, 3, sync)).error_code == 0
        kept = gateway.broker.groups.get(scoped(EU, "billing"))
        assert kept is not None
        assert kept.subscribed == frozenset({"shop/eu/orders"})
        shared_out = gateway.broker.groups.assignment
        assert shared_out(scoped(EU, "billing")) == {members[eu]: {"shop/eu/orders": [0]}}
        assert shared_out("billing") == {members[at_home]: {"orders": [0]}}
        topic = messages.OffsetCommitRequest.OffsetCommitRequestTopic
        part = messages.OffsetCommitRequest.OffsetCommitRequestPartition
        commit = messages.OffsetCommitRequest(
            group_id="billing",
            generation_id_or_member_epoch=1,
            member_id=members[eu],
            topics=[
                topic(name=name, partitions=[part(partition_index=0, committed_offset=0)])
                for name in ("orders", "parts")
            ],
        )
        committed = await eu.ask(8, 8, commit)
        assert [(each.name, each.partitions[0].error_code) for each in committed.topics] == [
            ("orders", 0),
            ("parts", 0),
        ]
        forget = messages.OffsetDeleteRequest
        asked = forget(
            group_id="billing",
            topics=[
                forget.OffsetDeleteRequestTopic(
                    name=name, partitions=[forget.OffsetDeleteRequestPartition(partition_index=0)]
                )
                for name in ("orders", "parts")
            ],
        )
        deleted = await eu.ask(47, 0, asked)
        assert {each.name: each.partitions[0].error_code for each in deleted.topics} == {
            "orders": Error.GROUP_SUBSCRIBED_TO_TOPIC,
            "parts": 0,
        }
        fetch = messages.OffsetFetchRequest
        group = fetch.OffsetFetchRequestGroup(group_id="billing", topics=None)
        for client, names in ((eu, ["orders"]), (at_home, []), (us, [])):
            answer = await client.ask(9, 9, fetch(groups=[group]))
            assert [each.name for each in answer.groups[0].topics] == names
        by_its_id = fetch.OffsetFetchRequestGroup(
            group_id="billing",
            topics=[fetch.OffsetFetchRequestTopics(topic_id=own, partition_indexes=[0])],
        )
        for client, code in ((eu, 0), (us, Error.UNKNOWN_TOPIC_ID)):
            answer = await client.ask(9, 10, fetch(groups=[by_its_id]))
            ((told,),) = [each.partitions for each in answer.groups[0].topics]
            assert told.error_code == code
            assert answer.groups[0].topics[0].topic_id == own

    run(test)


def test_topics_of_a_subscription_are_called_by_the_name_of_the_group() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(eu, "orders")
        answer = await eu.ask(76, 1, share_heartbeat("billing", "orders", "orders-billing-RETRY"))
        assert len(answer.assignment.topic_partitions) == 2
        assert gateway.broker.catalog.get("shop/eu/orders-billing-RETRY") is not None
        config = gateway.broker.group_configs.get(scoped(EU, "billing"))
        kept = scoped(EU, "billing")
        assert config.dead_letters_of(kept, "shop/eu/orders") == "shop/eu/orders-billing-DLQ"
        rows = gateway.broker.subscriptions.of_group(kept)
        assert {row.topic for row in rows} == {"shop/eu/orders", "shop/eu/orders-billing-RETRY"}
        # that of the retries follows that of the topic
        for row in rows:
            base = gateway.broker.subscriptions.configs.base_of(row)
            assert base == ("shop/eu/orders" if row.topic.endswith("RETRY") else None)
        full = ("persistent://shop/eu/orders", "billing")
        assert gateway.broker.subscriptions.configs.retries_into("shop/eu/orders-billing-RETRY") == full

    run(test)


GROUPS_NAMED = sorted(
    key
    for key, api in APIS.items()
    # of a Produce the producer id says whose transaction it is
    if key not in (ApiKey.FIND_COORDINATOR, ApiKey.PRODUCE)
    and any(
        role_of(name, field) is Role.GROUP for name in messages_of(key)[:1] for _, field, _ in fields_of(name)
    )
)


@pytest.mark.parametrize("key", GROUPS_NAMED, ids=lambda key: APIS[key].name)
def test_nobody_names_the_group_of_another_home(key: int) -> None:
    """In what names nothing but groups: the bytes follow no schema then."""

    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        version = APIS[key].max_version
        names: dict[Role, list[Any]] = {Role.TOPIC: ["orders"], Role.ID: [bytes(16)], Role.TEXT: ["w"]}
        names[Role.GROUP] = [scoped(EU, "billing")]
        request = filled(messages_of(key)[0], version, names, {})
        for client in (at_home, us):
            client.send(key, version, request)
            assert await client.at_end()

    run(test)


def test_nobody_finds_the_group_of_another_home_or_its_configs() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        kept, code = scoped(EU, "billing"), Error.INVALID_GROUP_ID
        own = await eu.ask(32, 4, describe("billing"))
        assert own.results[0].error_code == 0
        for client in (at_home, us):
            find = messages.FindCoordinatorRequest
            answer = await client.ask(10, 4, find(key_type=0, coordinator_keys=[kept, "billing"]))
            assert [(each.key, each.error_code) for each in answer.coordinators] == [
                (kept, code),
                ("billing", 0),
            ]
            assert (await client.ask(10, 3, find(key=kept, key_type=0))).error_code == code
            for key, version, resources in ((33, 2, replaced(kept)), (44, 1, changed(kept))):
                answer = await client.ask(key, version, resources)
                assert [each.error_code for each in answer.responses] == [code]
            answer = await client.ask(32, 4, describe(kept))
            assert [(each.error_code, each.configs) for each in answer.results] == [(code, [])]
        assert gateway.broker.group_configs.named() == []
        assert (await eu.ask(44, 1, changed("billing"))).responses[0].error_code == 0
        assert gateway.broker.group_configs.named() == [kept]

    run(test)


def describe(group: str) -> Any:
    found = messages.DescribeConfigsRequest
    resource = found.DescribeConfigsResource(resource_type=32, resource_name=group, configuration_keys=None)
    return found(resources=[resource])


def replaced(group: str) -> Any:
    found = messages.AlterConfigsRequest
    config = found.AlterableConfig(name="share.auto.offset.reset", value="earliest")
    return found(
        resources=[found.AlterConfigsResource(resource_type=32, resource_name=group, configs=[config])]
    )


def changed(group: str) -> Any:
    found = messages.IncrementalAlterConfigsRequest
    config = found.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    return found(
        resources=[found.AlterConfigsResource(resource_type=32, resource_name=group, configs=[config])]
    )


def test_settings_of_the_broker_are_not_altered_from_a_listener_of_a_namespace() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        alter = messages.AlterConfigsRequest
        config = alter.AlterableConfig(name="metrics.topics", value="all")
        for client, code in ((eu, Error.CLUSTER_AUTHORIZATION_FAILED), (at_home, 0)):
            resource = alter.AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
            answer = await client.ask(33, 2, alter(resources=[resource]))
            assert answer.responses[0].error_code == code

    run(test)


def test_consumer_groups_of_the_new_protocol_read_in_their_home() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own, others = await create(eu, "orders"), await create(us, "orders")
        plain = await create(at_home, "orders")
        for client, topic in ((eu, own), (us, others), (at_home, plain)):
            assert assigned(await beat(client, "a", 0, "orders", group="billing")) == {topic: [0]}
            answer = await beat(client, "p", 0, group="patterned", subscribed_topic_regex="^ord.*")
            assert assigned(answer) == {topic: [0]}
            described = await consumer_members.describe(client, "billing")
            (topics,) = [each.assignment for each in described.members]
            assert [each.topic_name for each in topics.topic_partitions] == ["orders"]
            assert {each[0] for each in await listed(client, "consumer")} == {"billing", "patterned"}
        # those of public/default may name another namespace
        answer = await beat(at_home, "b", 0, "shop.eu.orders", group="abroad")
        assert assigned(answer) == {own: [0]}
        answer = await beat(at_home, "c", 0, group="all abroad", subscribed_topic_regex="shop.us.ord.*")
        assert assigned(answer) == {others: [0]}

    run(test)


def test_members_of_both_protocols_read_in_their_home() -> None:
    """A classic member names topics in bytes of its own, which nobody translates on their way."""

    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        topic, _ = await create(eu, "orders", 2), await create(at_home, "orders", 2)
        old = Old(eu)
        await old.alone(topic="orders")
        came = await beat(eu, "a", 0, "orders")
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        assert (await old.join("orders")).error_code == 0
        assert await old.sync() == {"orders": [0]}
        assert assigned(await beat(eu, "a", came.member_epoch)) == {topic: [1]}
        await beat(eu, "a", -1)
        assert [each[:2] for each in await listed(eu)] == [("g", "classic")]
        assert await old.beat() == Error.REBALANCE_IN_PROGRESS
        await old.alone(topic="orders")
        assert await listed(at_home) == []

    run(test)
