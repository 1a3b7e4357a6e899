"""What is told of requests that change something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.apis.audited import AUDITED, begun
from gateway.apis.registry import APIS, Api, Context
from gateway.audit import Audit, Entry, Kind
from gateway.peer import Peer
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.rights_world import build
from tests.gateway.serving import Client, serving

Creatable = messages.CreateTopicsRequest.CreatableTopic
Config = messages.CreateTopicsRequest.CreatableTopicConfig
Altered = messages.IncrementalAlterConfigsRequest.AlterConfigsResource
AlteredConfig = messages.IncrementalAlterConfigsRequest.AlterableConfig


def run(test: Callable[[Gateway, Client], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with serving() as gateway:
            client = await Client.connect(gateway)
            await test(gateway, client)
            client.close()

    asyncio.run(main())


def last(gateway: Gateway) -> Entry:
    return gateway.broker.audit.last(1)[0]


def creation(*names: str, validate_only: bool = False) -> Any:
    topics = [
        Creatable(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return messages.CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=validate_only)


def test_topics_made_and_deleted_are_told() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        made = await client.ask(ApiKey.CREATE_TOPICS, 7, creation("orders", "bills"))
        entry = last(gateway)
        assert (entry.kind, entry.what, entry.who, entry.host) == (
            Kind.CHANGE, "CreateTopics", "User:ANONYMOUS", "127.0.0.1",
        )  # fmt: skip
        assert (entry.over, entry.outcome, entry.target) == ("kafka", "done", "orders, bills")
        await client.ask(ApiKey.CREATE_TOPICS, 7, creation("orders", "more"))
        assert last(gateway).outcome == "TOPIC_ALREADY_EXISTS (1 of 2)"
        # an id says nothing to who reads it
        asked = messages.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=made.topics[1].topic_id)
        await client.ask(
            ApiKey.DELETE_TOPICS, 6, messages.DeleteTopicsRequest(topics=[asked], timeout_ms=1000)
        )
        entry = last(gateway)
        assert (entry.what, entry.outcome, entry.target) == ("DeleteTopics", "done", "bills")

    run(test)


def test_what_only_asks_is_not_told() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.CREATE_TOPICS, 7, creation("orders", validate_only=True))
        await client.ask(
            ApiKey.METADATA,
            12,
            messages.MetadataRequest(
                topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
            ),
        )
        assert gateway.broker.audit.last(1) == []

    run(test)


def test_topics_that_metadata_makes_are_told() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        asked = messages.MetadataRequest(
            topics=[messages.MetadataRequest.MetadataRequestTopic(name=each) for each in ("a", "b/c", "d")],
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=False,
        )
        for _ in range(2):
            await client.ask(ApiKey.METADATA, 12, asked)
        (entry,) = gateway.broker.audit.last(10)
        assert (entry.kind, entry.what, entry.outcome, entry.target) == (
            Kind.CHANGE, "Metadata", "done", "a, d",
        )  # fmt: skip

    run(test)


def committing(member: str, generation: int, topic_id: bytes = bytes(16)) -> Any:
    commit = messages.OffsetCommitRequest
    partition = commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    return commit(
        group_id="billing",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[commit.OffsetCommitRequestTopic(name="orders", topic_id=topic_id, partitions=[partition])],
    )


def test_offsets_that_somebody_sets_from_outside_are_told_and_those_of_members_are_not() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.CREATE_TOPICS, 7, creation("orders"))
        await client.ask(ApiKey.OFFSET_COMMIT, 8, committing("m", 3))
        assert last(gateway).what == "CreateTopics"
        # consumers that assign partitions to themselves do this all day
        for _ in range(3):
            await client.ask(ApiKey.OFFSET_COMMIT, 8, committing("", -1))
        assert len(gateway.broker.audit.last(10)) == 2
        assert (last(gateway).what, last(gateway).outcome) == ("OffsetCommit", "done")
        assert last(gateway).target == "group billing: orders"

    run(test)


def test_topics_whose_offsets_are_set_by_their_ids_are_named() -> None:
    """From version 10 on; an id that is of no topic is told as it is."""

    async def test(gateway: Gateway, client: Client) -> None:
        made = await client.ask(ApiKey.CREATE_TOPICS, 7, creation("orders"))
        for topic_id, told in ((made.topics[0].topic_id, "orders"), (b"\xab" * 16, "ab" * 16)):
            await client.ask(ApiKey.OFFSET_COMMIT, 10, committing("", -1, topic_id))
            assert last(gateway).target == f"group billing: {told}"
        # other requests have no ids to fall back to, whatever they call a topic
        deleted = messages.OffsetDeleteRequest
        nameless = deleted.OffsetDeleteRequestTopic(name="", partitions=[])
        await client.ask(ApiKey.OFFSET_DELETE, 0, deleted(group_id="billing", topics=[nameless]))
        assert (last(gateway).what, last(gateway).target) == ("OffsetDelete", "group billing: ")

    run(test)


def test_of_many_things_the_first_are_named() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.CREATE_TOPICS, 7, creation(*(f"t{each:02}" for each in range(13))))
        assert last(gateway).target == ", ".join(f"t{each:02}" for each in range(10)) + " and 3 more"

    run(test)


def test_of_configs_names_are_told_and_no_values() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.CREATE_TOPICS, 7, creation("orders"))
        configs = [AlteredConfig(name="retention.ms", config_operation=0, value="54321")]
        resource = Altered(resource_type=2, resource_name="orders", configs=configs)
        request = messages.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert answer.responses[0].error_code == 0
        entry = last(gateway)
        assert entry.target == "topic orders: retention.ms"
        assert "54321" not in str(entry)

    run(test)


class Made:
    """What one request and its answer come to."""

    def __init__(self) -> None:
        self.broker: Any = SimpleNamespace(audit=Audit(100, lambda: 0, lambda: 0.0))

    def told(self, key: ApiKey, request: Any, answer: Any) -> Entry:
        peer = Peer(1, "/10.0.0.1", "SASL", principal="User:ada")
        tell = begun(self.broker, Context(peer, key, 0, 1, None), request)
        assert tell is not None
        tell(answer)
        entry: Entry = self.broker.audit.last(1)[0]
        return entry


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    for key in AUDITED:
        # some that are not served here
        monkeypatch.setitem(APIS, key, APIS.get(key) or Api(key, str(key), 0, 0, None))
    return Made()


def answer(key: ApiKey, **said: Any) -> Any:
    return build(key, said, "Response")


def deleted(*codes: int) -> Any:
    """Groups."""
    return answer(ApiKey.DELETE_GROUPS, results=[{"group_id": "g", "error_code": code} for code in codes])


Upsertion = messages.AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Creation = messages.CreateAclsRequest.AclCreation
Filter = messages.DeleteAclsRequest.DeleteAclsFilter
Quota = messages.AlterClientQuotasRequest
Markers = messages.WriteTxnMarkersRequest


@pytest.mark.parametrize(
    ("key", "request_", "target"),
    [
        (
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            messages.AlterUserScramCredentialsRequest(
                deletions=[],
                upsertions=[
                    Upsertion(name="ada", mechanism=1, iterations=4096, salt=b"sAlT", salted_password=b"sEcReT")
                ],
            ),
            "user ada: SCRAM-SHA-256",
        ),
        (
            ApiKey.CREATE_ACLS,
            messages.CreateAclsRequest(
                creations=[
                    Creation(
                        resource_type=2, resource_name="orders", resource_pattern_type=4, principal="User:eve",
                        host="*", operation=3, permission_type=3,
                    )
                ]
            ),
            "ALLOW READ to User:eve from * on TOPIC PREFIXED orders",
        ),
        (
            ApiKey.DELETE_ACLS,
            messages.DeleteAclsRequest(
                filters=[
                    Filter(
                        resource_type_filter=2, resource_name_filter=None, pattern_type_filter=1,
                        principal_filter="User:eve", host_filter=None, operation=99, permission_type=1,
                    )
                ]
            ),
            "ANY 99 to User:eve from ANY on TOPIC ANY ANY",
        ),
        (
            ApiKey.ALTER_CLIENT_QUOTAS,
            Quota(
                entries=[
                    Quota.EntryData(
                        entity=[
                            Quota.EntityData(entity_type="user", entity_name="ada"),
                            Quota.EntityData(entity_type="client-id", entity_name=None),
                        ],
                        ops=[Quota.OpData(key="producer_byte_rate", value=1e6, remove=False)],
                    )
                ],
                validate_only=False,
            ),
            "user ada client-id <default>: producer_byte_rate",
        ),
        (
            ApiKey.UPDATE_FEATURES,
            messages.UpdateFeaturesRequest(
                timeout_ms=1,
                feature_updates=[
                    messages.UpdateFeaturesRequest.FeatureUpdateKey(
                        feature="share.version", max_version_level=1, allow_downgrade=False, upgrade_type=1
                    )
                ],
                validate_only=False,
            ),
            "share.version",
        ),
        (
            ApiKey.OFFSET_DELETE,
            messages.OffsetDeleteRequest(
                group_id="billing",
                topics=[messages.OffsetDeleteRequest.OffsetDeleteRequestTopic(name="orders", partitions=[])],
            ),
            "group billing: orders",
        ),
        (ApiKey.DELETE_GROUPS, messages.DeleteGroupsRequest(groups_names=["billing"]), "billing"),
        (
            ApiKey.WRITE_TXN_MARKERS,
            Markers(
                markers=[
                    Markers.WritableTxnMarker(
                        producer_id=7, producer_epoch=0, transaction_result=False, coordinator_epoch=0,
                        topics=[Markers.WritableTxnMarkerTopic(name="orders", partition_indexes=[0])],
                    )
                ]
            ),
            "abort of producer 7: orders",
        ),
    ],
)  # fmt: skip
def test_each_kind_of_change_says_what_it_is_about(
    made: Made, key: ApiKey, request_: Any, target: str
) -> None:
    entry = made.told(key, request_, answer(key))
    assert (entry.kind, entry.who, entry.host, entry.outcome, entry.target) == (
        Kind.CHANGE, "User:ada", "10.0.0.1", "done", target,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "kind", "outcome"),
    [
        (deleted(Error.GROUP_AUTHORIZATION_FAILED), Kind.REFUSED, "not allowed"),
        (deleted(Error.GROUP_AUTHORIZATION_FAILED, 0), Kind.CHANGE, "GROUP_AUTHORIZATION_FAILED (1 of 2)"),
        (deleted(Error.NON_EMPTY_GROUP), Kind.CHANGE, "NON_EMPTY_GROUP"),
        (deleted(12345), Kind.CHANGE, "error 12345"),
    ],
)
def test_what_became_of_it(made: Made, said: Any, kind: Kind, outcome: str) -> None:
    entry = made.told(ApiKey.DELETE_GROUPS, messages.DeleteGroupsRequest(groups_names=["billing"]), said)
    assert (entry.kind, entry.outcome) == (kind, outcome)


@pytest.mark.parametrize(
    ("said", "kind", "outcome"),
    [
        ({"error_code": Error.GROUP_AUTHORIZATION_FAILED}, Kind.REFUSED, "not allowed"),
        (
            {
                "topics": [
                    {"name": "orders", "partitions": [{"partition_index": 0, "error_code": code}]}
                    for code in (0, 1)
                ]
            },
            Kind.CHANGE,
            "OFFSET_OUT_OF_RANGE (1 of 2)",
        ),
    ],
)
def test_what_became_of_it_as_a_whole_and_in_its_parts(
    made: Made, said: dict[str, Any], kind: Kind, outcome: str
) -> None:
    topic = messages.OffsetDeleteRequest.OffsetDeleteRequestTopic(name="orders", partitions=[])
    request = messages.OffsetDeleteRequest(group_id="billing", topics=[topic])
    entry = made.told(ApiKey.OFFSET_DELETE, request, answer(ApiKey.OFFSET_DELETE, **said))
    assert (entry.kind, entry.outcome) == (kind, outcome)


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        (ApiKey.DELETE_GROUPS, messages.DeleteGroupsRequest(groups_names=[])),
        (ApiKey.OFFSET_DELETE, messages.OffsetDeleteRequest(group_id="billing", topics=[])),
        (ApiKey.CREATE_ACLS, messages.CreateAclsRequest(creations=[])),
    ],
)
def test_what_names_nothing_changes_nothing(key: ApiKey, request_: Any) -> None:
    assert denied(key, request_, answer(key)) == []


def test_all_that_changes_something_for_others_is_told() -> None:
    assert {19, 20, 21, 30, 31, 33, 37, 42, 44, 47, 49, 51, 57} <= set(AUDITED)


# -- what somebody may not


class Barred:
    """Rights that are asked for, and not there."""

    checked = True


def denied(key: ApiKey, request: Any, answer: Any) -> list[Entry]:
    broker: Any = SimpleNamespace(audit=Audit(100, lambda: 0, lambda: 0.0))
    peer = Peer(1, "/10.0.0.1", "SASL", principal="User:eve", rights=Barred())  # type: ignore[arg-type]
    tell = begun(broker, Context(peer, key, 0, 1, None), request)
    assert tell is not None
    tell(answer)
    return list(broker.audit.last(10))


def named(code: int, **names: str) -> dict[str, Any]:
    return {"error_code": code, **names}


@pytest.mark.parametrize(
    ("key", "request_", "said", "target"),
    [
        (
            ApiKey.METADATA,
            SimpleNamespace(),
            {"topics": [named(0, name="a"), named(29, name="b"), named(29, name="c"), named(3, name="d")]},
            "b, c",
        ),
        (ApiKey.JOIN_GROUP, SimpleNamespace(group_id="billing"), named(30), "billing"),
        (ApiKey.INIT_PRODUCER_ID, SimpleNamespace(transactional_id="tx"), named(53), "tx"),
        (ApiKey.INIT_PRODUCER_ID, SimpleNamespace(transactional_id=None), named(31), ""),
        (
            ApiKey.LIST_OFFSETS,
            SimpleNamespace(),
            {"topics": [{"name": "orders", "partitions": [named(29), named(29)]}]},
            "orders",
        ),
        (
            ApiKey.FIND_COORDINATOR,
            SimpleNamespace(),
            {"coordinators": [named(30, key="billing"), named(0, key="mine")]},
            "billing",
        ),
        (
            ApiKey.CREATE_TOPICS,
            SimpleNamespace(validate_only=True),
            {"topics": [named(29, name="orders")]},
            "orders",
        ),
        # of versions that have no lists
        (ApiKey.FIND_COORDINATOR, SimpleNamespace(key="billing"), named(30), "billing"),
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            SimpleNamespace(),
            {
                "results_by_topic_v3_and_below": [
                    {"name": each, "results_by_partition": [{"partition_error_code": code}]}
                    for each, code in (("a", 55), ("b", 29))
                ]
            },
            "b",
        ),
        (
            ApiKey.DESCRIBE_TRANSACTIONS,
            SimpleNamespace(),
            {"transaction_states": [named(53, transactional_id="tx"), named(0, transactional_id="mine")]},
            "tx",
        ),
        # a group that may be asked for, and topics of it that may not
        (
            ApiKey.OFFSET_FETCH,
            SimpleNamespace(),
            {
                "groups": [
                    named(30, group_id="theirs"),
                    {"group_id": "mine", "topics": [{"name": "orders", "partitions": [named(29)]}]},
                ]
            },
            "theirs, orders",
        ),
    ],
)
def test_what_is_refused_to_who_may_not_is_told(
    key: ApiKey, request_: Any, said: dict[str, Any], target: str
) -> None:
    (entry,) = denied(key, request_, answer(key, **said))
    assert (entry.kind, entry.who, entry.host, entry.target) == (Kind.REFUSED, "User:eve", "10.0.0.1", target)


def test_of_a_topic_with_thousands_of_partitions_one_is_asked() -> None:
    class Topic:
        name = "orders"
        error_code = 29

        @property
        def partitions(self) -> list[Any]:
            raise AssertionError("its partitions are looked at")

    (entry,) = denied(ApiKey.METADATA, SimpleNamespace(), SimpleNamespace(error_code=0, topics=[Topic()]))
    assert entry.target == "orders"


@pytest.mark.parametrize("said", [{"topics": [named(0, name="a"), named(3, name="b")]}, named(15), {}])
def test_other_errors_are_no_refusals(said: dict[str, Any]) -> None:
    assert denied(ApiKey.METADATA, SimpleNamespace(), answer(ApiKey.METADATA, **said)) == []
