"""Clients at home in another namespace than public/default: every name of every API, each version."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import apis
from gateway.apis import homes
from gateway.apis.homes import Home, Role, plan, role_of
from gateway.apis.registry import APIS
from gateway.broker.catalog import Catalog, Topic
from gateway.broker.namespaces import NamespaceRow
from gateway.config import group_table
from gateway.peer import Peer
from gateway.wire import codec, messages, schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.schema import Field
from semantics.group_names import MARK, SEPARATOR, scoped
from semantics.names import is_canonical
from store import memory
from store.api import Durability
from tests.gateway.apis.homes_asking import (
    CASES,
    EU,
    OTHERS,
    OTHERS_ID,
    OWN,
    OWN_ID,
    US,
    fields_of,
    filled,
    messages_of,
)

BY_HAND = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
"""Names in these are looked up where they are decoded: test_homes_topics.py and test_homes_groups.py ask them."""

IN_WORDS = {ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
"""Names in these may be prefixes, or of any namespace: test_acls.py asks them."""

apis.load_all()

SAME_EVERYWHERE = {
    # who speaks
    "member_id", "group_instance_id", "instance_id", "client_id", "client_host", "leader", "client_software_name",
    "client_software_version", "client_instance_id", "reason",
    # where
    "host", "rack", "rack_id", "cluster_id", "log_dir", "path", "replica_directory_id", "documentation",
    # words of the protocol; the pattern of KIP-848 is over the topics of its group's home
    "protocol_type", "protocol_name", "protocol_data", "group_state", "group_type", "states_filter", "types_filter",
    "state_filters", "unknown_state_filters", "transaction_state", "transactional_id_pattern",
    "mechanism", "mechanisms", "assignor_name", "server_assignor", "subscribed_topic_regex", "requested_metrics",
    "configuration_keys", "committed_metadata", "feature",
    # whose quotas: of users, clients and addresses
    "entity_type", "entity_name", "match", "key",
    # users, by what they log in with
    "user", "salt", "salted_password",
    # what a config is called and says: names of topics among these are `group_table.NAME_TOPICS`
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
    ("DescribeQuorumResponse", "listeners"),
    ("AlterUserScramCredentialsRequest", "deletions"), ("AlterUserScramCredentialsRequest", "upsertions"),
    ("DescribeUserScramCredentialsRequest", "users"),
}  # fmt: skip


@pytest.mark.parametrize("key", sorted(APIS.keys() - IN_WORDS), ids=lambda key: APIS[key].name)
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


@pytest.mark.parametrize(
    ("key", "version"), [each for each in CASES if each[0] not in IN_WORDS], ids=lambda each: str(each)
)
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
        assert name in ("shop/eu/orders", "shop/eu/shop.us.orders", "shop/eu//a/b"), name
    assert names_topics == bool(list(named(asked, request, version, Role.TOPIC)))

    told = filled(
        response,
        version,
        {
            Role.TOPIC: [OWN, OTHERS, "elsewhere", "shop/eu//a/b"],
            Role.GROUP: [scoped(EU, "billing"), scoped(US, "elsewhere"), "elsewhere"],
            Role.ID: [OWN_ID],
            Role.TEXT: [f"Topic {OWN}, group {scoped(EU, 'billing')}: persistent://shop/eu/orders."],
        },
        {homes.TOPIC: [OWN, OTHERS], homes.GROUP: [scoped(EU, "billing"), "elsewhere"], 4: ["1"]},
    )
    home.outward(key, told)
    seen = codec.encode_response(key, version, told)
    for secret in (b"elsewhere", OTHERS.encode(), b"shop.eu.", MARK.encode(), b"shop/eu//"):
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("There is no topic 'shop/eu/orders'.", "There is no topic 'orders'."),
        (f"shop/eu/orders: {scoped(EU, 'billing')} reads it.", "orders: billing reads it."),
        ("shop/eu//a/b cannot be one.", "a/b cannot be one."),
        # of another namespace
        ("'shop/us/orders' is not 'shop/eu/orders'", "'shop.us.orders' is not 'orders'"),
        ("'shop/uk/orders', /var/shop/us/x", "'shop/uk/orders', /var/shop/us/x"),
        # the words lie within another name
        ("There is no topic 'myshop/eu/x'.", "There is no topic 'myshop/eu/x'."),
        ("'my.shop/eu/x', 'my-shop/eu/x', 'my_shop/eu/x'", "'my.shop/eu/x', 'my-shop/eu/x', 'my_shop/eu/x'"),
        (f"my{scoped(EU, 'billing')}", f"my{scoped(EU, 'billing')}"),
        ("myshop/eu/a/b", "myshop/eu/a/b"),
        ("persistent://shop/eu/orders", "persistent://shop/eu/orders"),
        ("persistent://public/default/shop.eu.orders", "persistent://public/default/shop.eu.orders"),
        # a client's own name has them
        ("Topic 'shop/eu/a-shop.eu.b' exists.", "Topic 'a-shop.eu.b' exists."),
        ("shop/eu/shop.eu.x", "shop.eu.x"),
        ("shop/eu//shop/eu/x", "shop/eu/x"),
        ("shop-eu.x shop.eu-x", "shop-eu.x shop.eu-x"),
    ],
)
def test_in_a_sentence_only_the_begin_of_a_name_is_the_clients_affair(text: str, told: str) -> None:
    assert home_of(_Broker()).sentence(text) == told


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
    assert known == group_table.NAME_TOPICS


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
    assert [each.value for each in resource.configs] == ["shop/eu/graves", "true"]
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
    assert made.configs[0].value == "shop/eu/shop.us.orders"
    row = messages.DescribeConfigsResponse.DescribeConfigsResourceResult
    synonym = messages.DescribeConfigsResponse.DescribeConfigsSynonym
    result = messages.DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=homes.GROUP,
        resource_name=scoped(EU, "billing"),
        configs=[
            row(
                name="pulsar.dead.letter.topic",
                value="shop/eu/graves",
                synonyms=[synonym(name="pulsar.dead.letter.topic", value="shop/eu/graves")],
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
    if is_canonical(found):
        assert there
        assert broker.catalog.namespaces.full(found).namespace == EU
    else:
        assert broker.catalog.get(found) is None


def test_the_separator_is_what_the_wire_refuses() -> None:
    from gateway.wire.primitives import NO_GROUP_HAS

    assert NO_GROUP_HAS == SEPARATOR


def test_a_plan_is_made_once_and_finds_what_is_deep() -> None:
    assert plan("OffsetFetchResponse") is plan("OffsetFetchResponse")
    ((_, _, groups),) = [each for each in plan("OffsetFetchResponse").inner if each[0] == "groups"]
    assert groups.named == "group_id"
    assert [each[0] for each in groups.inner] == ["topics"]
