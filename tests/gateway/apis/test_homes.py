"""Clients at home in another namespace than public/default: every name of every API, each version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from gateway import apis
from gateway.apis import homes
from gateway.apis.homes import Home, Role, plan, role_of
from gateway.apis.registry import APIS
from gateway.broker.catalog import Catalog, Topic
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.config import group_table
from gateway.peer import Peer
from gateway.server import Gateway
from gateway.wire import codec, messages, schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from gateway.wire.schema import Field
from semantics.group_names import MARK, SEPARATOR, scoped
from semantics.names import Namespace, is_local
from store import memory
from store.api import Durability
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body, serving
from tests.gateway.wire.values import Values

EU, US = Namespace("shop", "eu"), Namespace("shop", "us")
OWN, OTHERS = "shop.eu.orders", "shop.us.orders"
OWN_ID, OTHERS_ID = b"o" * 16, b"x" * 16
BY_HAND = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
"""Their names are looked up where they are decoded: below they are asked on a socket."""

apis.load_all()

SAME_EVERYWHERE = {
    # who speaks
    "member_id", "group_instance_id", "instance_id", "client_id", "client_host", "leader", "client_software_name",
    "client_software_version", "client_instance_id", "reason", "transactional_id",
    # where
    "host", "rack", "rack_id", "cluster_id", "log_dir", "replica_directory_id", "documentation",
    # words of the protocol
    "protocol_type", "protocol_name", "protocol_data", "group_state", "group_type", "states_filter", "types_filter",
    "mechanism", "mechanisms", "assignor_name", "server_assignor", "subscribed_topic_regex", "requested_metrics",
    "configuration_keys", "committed_metadata",
    # what a config is called and says: names of topics among these are `homes.TOPIC_VALUED`
    "value",
    # bytes that clients exchange: names in them are read by the home of their group
    "metadata", "assignment", "member_metadata", "member_assignment", "auth_bytes", "records", "metrics",
    "accepted_compression_types",
}  # fmt: skip
NAMES_OF_OTHER_THINGS = {
    ("JoinGroupRequest", "protocols"), ("CreateTopicsRequest", "configs"), ("CreateTopicsResponse", "configs"),
    ("DescribeConfigsResponse", "configs"), ("DescribeConfigsResponse", "synonyms"),
    ("AlterConfigsRequest", "configs"), ("IncrementalAlterConfigsRequest", "configs"),
    ("ApiVersionsResponse", "supported_features"), ("ApiVersionsResponse", "finalized_features"),
}  # fmt: skip


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


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_of_every_field_it_is_known_what_it_names(key: int) -> None:
    """An API that is added with a name that nobody translates fails here."""
    for name in messages_of(key):
        for where, field, resource in fields_of(name):
            if field.type not in ("string", "uuid", "bytes", "records") or role_of(name, field) is not None:
                continue
            known = (
                field.attribute in SAME_EVERYWHERE
                or (field.attribute == "name" and (name, where) in NAMES_OF_OTHER_THINGS)
                or (field.attribute == "resource_name" and resource)
            )
            assert known, f"{name}: is {where}.{field.attribute} a name of a topic or a group?"


def test_all_go_through_the_translation_but_those_that_are_tested_by_hand() -> None:
    assert {key for key, api in APIS.items() if api.handler is None} == BY_HAND


class _Broker:
    def __init__(self, *, there: bool = True) -> None:
        self.store = memory.open()
        self.catalog = Catalog(self.store)
        rows = [NamespaceRow(), NamespaceRow()] if there else []
        writes = [self.catalog.namespaces.write(*each) for each in zip((EU, US), rows, strict=False)]
        for name, topic_id in ((OWN, OWN_ID), (OTHERS, OTHERS_ID)):
            writes += self.catalog.writes_create(Topic(name, topic_id, [1], 0))
        asyncio.run(self.store.write(writes, Durability.OS))
        for namespace in (EU, US):
            self.catalog.namespaces.changed(namespace)


PEER = Peer(1, "/127.0.0.1", "EU", namespace="shop/eu")


def home_of(broker: _Broker) -> Home:
    return Home(broker, PEER)  # type: ignore[arg-type]


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


@pytest.mark.parametrize(("key", "version"), CASES, ids=lambda each: str(each))
def test_what_is_asked_is_in_the_catalogs_words_and_what_is_told_in_the_clients(
    key: int, version: int
) -> None:
    home = home_of(_Broker())
    request, response = messages_of(key)
    asked = filled(
        request,
        version,
        {
            Role.TOPIC: ["orders", "shop.us.orders", "a/b"],
            Role.GROUP: ["billing"],
            Role.ID: [OTHERS_ID],
            Role.TEXT: ["w"],
        },
        {homes.TOPIC: ["orders"], homes.GROUP: ["billing"], 4: ["1"]},
    )
    home.inward(key, asked)
    seen = codec.encode_request(key, version, asked)
    names_topics = any(role_of(request, each) is Role.TOPIC for _, each, _ in present(request, version))
    assert OTHERS_ID not in seen
    for _, field, _ in present(request, version):
        if role_of(request, field) is Role.GROUP:
            assert scoped(EU, "billing").encode() in seen
    for name in sorted(set(named(asked, request, version, Role.TOPIC))):
        assert name in ("shop.eu.orders", "shop.eu.shop.us.orders", "shop/eu/a/b"), name
    assert names_topics == bool(list(named(asked, request, version, Role.TOPIC)))

    told = filled(
        response,
        version,
        {
            Role.TOPIC: [OWN, OTHERS, "elsewhere", "shop/eu/a/b"],
            Role.GROUP: [scoped(EU, "billing"), scoped(US, "elsewhere"), "elsewhere"],
            Role.ID: [OWN_ID],
            Role.TEXT: [f"Topic {OWN}, group {scoped(EU, 'billing')}: persistent://shop/eu/orders."],
        },
        {homes.TOPIC: [OWN, OTHERS], homes.GROUP: [scoped(EU, "billing"), "elsewhere"], 4: ["1"]},
    )
    home.outward(key, told)
    seen = codec.encode_response(key, version, told)
    for secret in (b"elsewhere", OTHERS.encode(), b"shop.eu.", MARK.encode(), b"shop/eu/a"):
        assert secret not in seen, (secret, told)


def present(name: str, version: int) -> list[tuple[str, Field, bool]]:
    return [each for each in fields_of(name) if version in each[1].versions]


def named(message: Any, name: str, version: int, role: Role) -> Iterator[str]:
    """All texts of a message that are such names."""

    def walk(its: Any, fields: tuple[Field, ...]) -> Iterator[str]:
        for field in fields:
            value = getattr(its, field.attribute) if version in field.versions else None
            if value is None:
                continue
            if field.fields is not None:
                for each in value if field.array else [value]:
                    yield from walk(each, field.fields)
            elif role_of(name, field) is role:
                yield from value if field.array else [value]

    return walk(message, schema.load(name).fields)


def test_an_id_of_others_is_told_as_it_was_asked() -> None:
    home = home_of(_Broker())
    topics = [
        messages.MetadataRequest.MetadataRequestTopic(topic_id=each)
        for each in (OTHERS_ID, OTHERS_ID, OWN_ID)
    ]
    request = messages.MetadataRequest(topics=topics)
    home.inward(ApiKey.METADATA, request)
    masked = [each.topic_id for each in topics]
    assert masked[0] == masked[1] != OTHERS_ID
    assert masked[2] == OWN_ID
    response = messages.MetadataResponse(
        topics=[messages.MetadataResponse.MetadataResponseTopic(name=None, topic_id=masked[0])]
    )
    home.outward(ApiKey.METADATA, response)
    assert response.topics[0].topic_id == OTHERS_ID


def test_it_is_known_which_configs_name_topics() -> None:
    known = {
        name for name, row in group_table.GROUP_CONFIGS.items() if row.setting.check is group_table._topic
    }
    assert known == homes.TOPIC_VALUED


def test_configs_that_name_topics_are_translated_and_others_are_not() -> None:
    home = home_of(_Broker())
    entry = messages.IncrementalAlterConfigsRequest.AlterableConfig
    resource = messages.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=homes.GROUP,
        resource_name="billing",
        configs=[
            entry(name="pulsar.dead.letter.topic", value="graves"),
            entry(name="pulsar.dead.letter.enable", value="true"),
        ],
    )
    home.inward(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, messages.IncrementalAlterConfigsRequest(resources=[resource])
    )
    assert [each.value for each in resource.configs] == ["shop.eu.graves", "true"]
    assert resource.resource_name == scoped(EU, "billing")
    made = messages.CreateTopicsRequest.CreatableTopic(
        name="orders-billing-QUEUE",
        configs=[
            messages.CreateTopicsRequest.CreatableTopicConfig(
                name="pulsar.dead.letter.topic", value="shop.us.orders"
            )
        ],
    )
    home.inward(ApiKey.CREATE_TOPICS, messages.CreateTopicsRequest(topics=[made]))
    assert made.configs[0].value == "shop.eu.shop.us.orders"
    row = messages.DescribeConfigsResponse.DescribeConfigsResourceResult
    synonym = messages.DescribeConfigsResponse.DescribeConfigsSynonym
    result = messages.DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=homes.GROUP,
        resource_name=scoped(EU, "billing"),
        configs=[
            row(
                name="pulsar.dead.letter.topic",
                value="shop.eu.graves",
                synonyms=[synonym(name="pulsar.dead.letter.topic", value="shop.eu.graves")],
            )
        ],
    )
    home.outward(ApiKey.DESCRIBE_CONFIGS, messages.DescribeConfigsResponse(results=[result]))
    (told,) = result.configs
    assert (result.resource_name, told.value, told.synonyms[0].value) == ("billing", "graves", "graves")


@given(st.one_of(st.text(max_size=260), st.from_regex(r"[a-z./_-]{0,260}", fullmatch=True)), st.booleans())
def test_a_name_means_a_topic_of_the_namespace_or_none_and_comes_back(name: str, there: bool) -> None:
    broker = _Broker(there=there)
    home = home_of(broker)
    found = home.topic(name)
    assert home.local(found) == name
    if is_local(found) and len(found) <= 249:
        assert there
        assert broker.catalog.namespaces.full(found).namespace == EU
    else:
        assert broker.catalog.get(found) is None


# -- on sockets ------------------------------------------------------------------------------------------------------

Body = Callable[[Gateway, Client, Client, Client], Coroutine[Any, Any, None]]


def run(test: Body) -> None:
    """With a client of public/default, one of shop/eu, and one of shop/us."""

    async def main() -> None:
        async with serving(
            "listener.name.eu.pulsar.namespace=shop/eu",
            "listener.name.us.pulsar.namespace=shop/us",
            "group.initial.rebalance.delay.ms=0",
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


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_stores_in_the_namespace_and_nowhere_else(version: int) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own, others = await create(eu, "orders"), await create(us, "orders")
        assert own != others

        async def produced(name: str, topic_id: bytes) -> tuple[str, bytes, int, int]:
            answer = await eu.ask(0, version, by_id(produce_body(name, batch(b"v")), topic_id))
            (topic,) = answer.responses
            (found,) = topic.partition_responses
            return topic.name, topic.topic_id, found.error_code, found.base_offset

        named = version < 13
        assert await produced("orders", own) == (("orders", bytes(16)) if named else ("", own)) + (0, 0)
        # the second is one that is in use
        assert (await produced("orders", own))[2:] == (0, 1)
        told = await produced("shop.us.orders", others)
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION if named else Error.UNKNOWN_TOPIC_ID
        assert told[:3] == (("shop.us.orders", bytes(16)) if named else ("", others)) + (missing,)
        for name in ("", ".", "..", "shop.eu.orders", "a/b", "x" * 249) if named else ():
            assert (await produced(name, own))[2] == missing, name
        ends = {
            name: gateway.broker.partition(topic, 0).high_watermark
            for name in ("shop.eu.orders", "shop.us.orders")
            if (topic := gateway.broker.catalog.get(name))
        }
        assert ends == {"shop.eu.orders": 2, "shop.us.orders": 0}

    run(test)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_reads_in_the_namespace_and_nowhere_else(version: int) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own, others = await create(eu, "orders"), await create(us, "orders")
        for client, value in ((eu, b"eu"), (us, b"us")):
            await client.ask(0, 9, produce_body("orders", batch(value)))
        named = version < 13

        async def fetched(name: str, topic_id: bytes, session: tuple[int, int] = (0, -1)) -> Any:
            return await eu.ask(1, version, by_id(fetch_body(name, 0, session=session), topic_id))

        # twice: the second time all is in memory
        for _ in range(2):
            answer = await fetched("orders", own)
            (topic,) = answer.responses
            assert (topic.topic, topic.topic_id) == (("orders", bytes(16)) if named else ("", own))
            assert b"eu" in bytes(topic.partitions[0].records)
        answer = await fetched("shop.us.orders", others)
        missing = Error.UNKNOWN_TOPIC_OR_PARTITION if named else Error.UNKNOWN_TOPIC_ID
        assert errors(answer) == [missing]
        (topic,) = answer.responses
        assert (topic.topic, topic.topic_id) == (("shop.us.orders", bytes(16)) if named else ("", others))
        for name in ("", ".", "..", "shop.eu.orders", "a/b", "x" * 249) if named else ():
            answer = await fetched(name, own)
            assert errors(answer) == [missing]
            assert answer.responses[0].topic == name
        if version >= 7:
            opened = await fetched("orders", own, (0, 0))
            assert opened.session_id
            await eu.ask(0, 9, produce_body("orders", batch(b"2")))
            more = await fetched("orders", own, (opened.session_id, 1))
            assert errors(more) == [0]
            more = await fetched("shop.us.orders", others, (opened.session_id, 2))
            assert missing in errors(more)

    run(test)


def test_topics_are_listed_page_by_page_within_the_namespace() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        for client, names in ((at_home, ["a", "z"]), (eu, ["a", "b", "c"]), (us, ["a"])):
            for name in names:
                await create(client, name)
        request = messages.DescribeTopicPartitionsRequest
        told: list[str] = []
        cursor = None
        while True:
            answer = await eu.ask(75, 0, request(topics=[], response_partition_limit=1, cursor=cursor))
            told += [topic.name for topic in answer.topics]
            if answer.next_cursor is None:
                break
            cursor = request.Cursor(topic_name=answer.next_cursor.topic_name, partition_index=0)
        assert told == ["a", "b", "c"]
        logs = await eu.ask(35, 4, messages.DescribeLogDirsRequest(topics=None))
        assert [topic.name for topic in logs.results[0].topics] == ["a", "b", "c"]
        found = await eu.ask(74, 1, messages.ListConfigResourcesRequest(resource_types=[2]))
        assert [each.resource_name for each in found.config_resources] == ["a", "b", "c"]
        everything = await at_home.ask(3, 9, messages.MetadataRequest(topics=None))
        assert len(everything.topics) == 6

    run(test)


def test_no_topic_of_public_default_begins_like_those_of_a_namespace() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        topic = messages.CreateTopicsRequest.CreatableTopic
        names = ["shop.eu.", "shop.eu..", "shop.eu...", "shop.no.", "shop.eu"]
        asked = [topic(name=name, num_partitions=1, replication_factor=1) for name in names]
        answer = await at_home.ask(19, 5, messages.CreateTopicsRequest(topics=asked, timeout_ms=1000))
        refused = Error.INVALID_TOPIC_EXCEPTION
        assert {each.name: each.error_code for each in answer.topics} == dict(
            zip(names, [refused, refused, refused, 0, 0], strict=True)
        )
        found = await eu.ask(3, 9, messages.MetadataRequest(topics=None))
        assert found.topics == []

    run(test)


def test_metadata_and_deletion_by_id_reach_no_other_namespace() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        own, others = await create(eu, "orders"), await create(us, "orders")
        asked = messages.MetadataRequest.MetadataRequestTopic
        answer = await eu.ask(
            3,
            12,
            messages.MetadataRequest(topics=[asked(name=None, topic_id=each) for each in (own, others)]),
        )
        assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
            ("orders", own, 0),
            (None, others, Error.UNKNOWN_TOPIC_ID),
        ]
        state = messages.DeleteTopicsRequest.DeleteTopicState
        answer = await eu.ask(
            20, 6, messages.DeleteTopicsRequest(topics=[state(name=None, topic_id=others)], timeout_ms=1000)
        )
        assert [(each.topic_id, each.error_code) for each in answer.responses] == [
            (others, Error.UNKNOWN_TOPIC_ID)
        ]
        assert gateway.broker.catalog.get("shop.us.orders") is not None

    run(test)


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
        assert [row.topic for row in subscriptions.of_group(scoped(EU, "billing"))] == ["shop.eu.orders"]
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
        assert kept.subscribed == frozenset({"shop.eu.orders"})
        shared_out = gateway.broker.groups.assignment
        assert shared_out(scoped(EU, "billing")) == {members[eu]: {"shop.eu.orders": [0]}}
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
        assert gateway.broker.catalog.get("shop.eu.orders-billing-RETRY") is not None
        config = gateway.broker.group_configs.get(scoped(EU, "billing"))
        kept = scoped(EU, "billing")
        assert config.dead_letters_of(kept, "shop.eu.orders") == "shop.eu.orders-billing-DLQ"
        rows = gateway.broker.subscriptions.of_group(kept)
        assert {row.topic for row in rows} == {"shop.eu.orders", "shop.eu.orders-billing-RETRY"}
        # that of the retries follows that of the topic
        for row in rows:
            base = gateway.broker.subscriptions.configs.base_of(row)
            assert base == ("shop.eu.orders" if row.topic.endswith("RETRY") else None)
        full = ("persistent://shop/eu/orders", "billing")
        assert gateway.broker.subscriptions.configs.retries_into("shop.eu.orders-billing-RETRY") == full

    run(test)


@pytest.mark.parametrize(
    ("key", "version", "request_of"),
    [
        (12, 4, lambda group: messages.HeartbeatRequest(group_id=group, generation_id=1, member_id="m")),
        (15, 5, lambda group: messages.DescribeGroupsRequest(groups=[group])),
        (42, 2, lambda group: messages.DeleteGroupsRequest(groups_names=[group])),
        (78, 1, lambda group: share_fetch(group, bytes(16))),
    ],
)
def test_nobody_names_the_group_of_another_home(
    key: int, version: int, request_of: Callable[[str], Any]
) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        for client in (at_home, us):
            client.send(key, version, request_of(scoped(EU, "billing")))
            assert await client.at_end()

    run(test)


def test_settings_of_the_broker_are_not_altered_from_a_listener_of_a_namespace() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        alter = messages.AlterConfigsRequest
        config = alter.AlterableConfig(name="metrics.topics", value="all")
        for client, code in ((eu, Error.CLUSTER_AUTHORIZATION_FAILED), (at_home, 0)):
            resource = alter.AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
            answer = await client.ask(33, 2, alter(resources=[resource]))
            assert answer.responses[0].error_code == code

    run(test)


def test_the_separator_is_what_the_wire_refuses() -> None:
    from gateway.wire.primitives import NO_GROUP_HAS

    assert NO_GROUP_HAS == SEPARATOR


def test_a_plan_is_made_once_and_finds_what_is_deep() -> None:
    assert plan("OffsetFetchResponse") is plan("OffsetFetchResponse")
    ((_, _, groups),) = [each for each in plan("OffsetFetchResponse").inner if each[0] == "groups"]
    assert groups.named == "group_id"
    assert [each[0] for each in groups.inner] == ["topics"]
