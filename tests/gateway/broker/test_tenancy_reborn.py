"""A namespace that is deleted, and made again for somebody else: nothing is left of those who were at home there."""

from __future__ import annotations

from typing import Any

from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from semantics.access.acl import Operation, ResourceType
from tests.gateway.login_client import connect, plain
from tests.gateway.serving import Client
from tests.gateway.tenants import EU, PASSWORD, US, Tenants, run

Commit = messages.OffsetCommitRequest
Begin = messages.InitProducerIdRequest
Alter = messages.IncrementalAlterConfigsRequest
Offsets = messages.OffsetFetchRequest


async def furnished(tenants: Tenants) -> tuple[Client, Client]:
    """A group with an offset and one with a config, a transaction that is open, a user: connections of its
    administrator, and of that user.
    """
    await tenants.user("shop.ann", str(EU))
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
        await tenants.allow("shop.ann", kind, Operation.READ, Operation.WRITE, Operation.DESCRIBE)
    boss, ann = await tenants.login("shop.boss"), await tenants.login("shop.ann")
    await tenants.topic(boss, "orders")
    answer = await ann.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        Commit(
            group_id="old",
            topics=[
                Commit.OffsetCommitRequestTopic(
                    name="orders",
                    partitions=[
                        Commit.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=0, committed_metadata="a note"
                        )
                    ],
                )
            ],
        ),
    )
    assert answer.topics[0].partitions[0].error_code == 0
    producer = await ann.ask(
        ApiKey.INIT_PRODUCER_ID,
        4,
        Begin(transactional_id="old", transaction_timeout_ms=60000, producer_id=-1, producer_epoch=-1),
    )
    add = messages.AddPartitionsToTxnRequest
    answer = await ann.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        add(
            v3_and_below_transactional_id="old",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[add.AddPartitionsToTxnTopic(name="orders", partitions=[0])],
        ),
    )
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    config = Alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = Alter.AlterConfigsResource(resource_type=32, resource_name="old", configs=[config])
    answer = await boss.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, Alter(resources=[resource]))
    assert answer.responses[0].error_code == 0
    return boss, ann


async def is_ended(client: Client) -> bool:
    try:
        await client.ask(ApiKey.METADATA, 12, messages.MetadataRequest(topics=None))
    except (OSError, EOFError):
        return True
    return False


def test_who_makes_a_tenant_again_inherits_nothing() -> None:
    async def test(tenants: Tenants) -> None:
        old: Any = await furnished(tenants)
        await tenants.user("root.eu", str(EU))
        tenancy = tenants.broker.tenancy
        await tenancy.delete_tenant("shop", force=True)
        assert [await is_ended(each) for each in old] == [True, True]
        assert (await plain(await connect(tenants.gateway), "shop.ann", PASSWORD)).error_code == 58
        await tenancy.create_tenant("shop", TenantRow(["shop.new"]))
        await tenancy.create(EU, NamespaceRow())
        await tenants.user("shop.new", str(EU))
        assert tenants.broker.users.names() == ["other.boss", "root", "shop.new"]
        new = await tenants.login("shop.new")
        assert (await new.ask(ApiKey.LIST_GROUPS, 4, messages.ListGroupsRequest())).groups == []
        asked = Offsets(groups=[Offsets.OffsetFetchRequestGroup(group_id="old", topics=None)])
        assert (await new.ask(ApiKey.OFFSET_FETCH, 8, asked)).groups[0].topics == []
        listed = await new.ask(ApiKey.LIST_TRANSACTIONS, 0, messages.ListTransactionsRequest())
        assert listed.transaction_states == []
        configs = messages.ListConfigResourcesRequest(resource_types=[32])
        assert (await new.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, configs)).config_resources == []
        # and nobody is known again by what was in memory alone
        assert (await plain(await connect(tenants.gateway), "shop.ann", PASSWORD)).error_code == 58

    run(test)


def test_what_others_have_stays() -> None:
    async def test(tenants: Tenants) -> None:
        boss, ann = await furnished(tenants)
        await tenants.broker.tenancy.delete(US, force=True)
        assert [await is_ended(each) for each in (boss, ann)] == [False, False]
        groups = (await ann.ask(ApiKey.LIST_GROUPS, 4, messages.ListGroupsRequest())).groups
        assert [each.group_id for each in groups] == ["old"]
        listed = await ann.ask(ApiKey.LIST_TRANSACTIONS, 0, messages.ListTransactionsRequest())
        assert [each.transaction_state for each in listed.transaction_states] == ["Ongoing"]
        configs = messages.ListConfigResourcesRequest(resource_types=[32])
        assert len((await boss.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, configs)).config_resources) == 1

    run(test)


def test_a_super_user_that_is_at_home_there_is_one_still() -> None:
    async def test(tenants: Tenants) -> None:
        await tenants.user("op", str(US))
        await tenants.broker.tenancy.delete(US)
        assert tenants.broker.users.get("op") is not None

    run(test, "super.users=User:root;User:op")


def test_nobody_logs_in_to_a_namespace_that_is_being_deleted() -> None:
    async def test(tenants: Tenants) -> None:
        row = tenants.broker.tenancy.namespace(EU)
        row.deleted = True
        assert (await plain(await connect(tenants.gateway), "shop.boss", PASSWORD)).error_code == 58

    run(test)
