"""The rights of a client: names of the catalog and of kept groups are judged in the namespaces that they are of."""

from __future__ import annotations

import pytest

from gateway.broker import access, checked_rights
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.rights import ALL_CLUSTER, ALL_GROUP, ALL_TOPIC, UNCHECKED
from semantics.access.acl import Operation, PatternType, Permission, ResourceType
from semantics.group_names import scoped
from semantics.names import AUDIT, DEFAULT
from tests.gateway.broker.rights import ASKING, EU, HOST, SUPER, rights, row, shop
from tests.gateway.broker.subscriptions.world import World, run

READ, WRITE, DESCRIBE, ALTER = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER
GROUP, CLUSTER, ID = ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID


def test_where_rights_are_not_asked_for_everything_is_allowed() -> None:
    async def test(world: World) -> None:
        found = world.broker.access.rights_of("User:ada", HOST, DEFAULT)
        assert found is UNCHECKED
        assert not found.checked

    run(test)


def test_topics_are_judged_where_they_are() -> None:
    async def test(world: World) -> None:
        await shop(world)
        await world.broker.access.add([row("orders", namespace=EU), row("eu.x"), row("shop/eu// ", WRITE)])
        ada = rights(world)
        assert ada.checked
        assert ada.topic(READ, "shop/eu/orders")
        assert ada.topic(DESCRIBE, "shop/eu/orders")
        assert not ada.topic(WRITE, "shop/eu/orders")
        assert not ada.topic(READ, "orders")
        # no namespace
        assert ada.topic(READ, "eu.x")
        # what can be no topic is of the home of who says it, behind one more slash
        assert ada.topic(READ, "//eu.x")
        assert not ada.topic(READ, "shop/eu//eu.x")
        assert not ada.topic(WRITE, "shop/eu// ")
        assert not ada.topic(READ, "/")
        assert not rights(world, "User:bob").topic(READ, "shop/eu/orders")

    run(test, None, ASKING)


def test_rows_of_public_default_are_about_no_other_namespace() -> None:
    async def test(world: World) -> None:
        await shop(world)
        await world.broker.access.add([row("shop.", pattern=PatternType.PREFIXED), row("*", WRITE)])
        ada = rights(world)
        # a name with dots is its own, whichever namespaces there are
        for name in ("shop.us.orders", "shop.eu.orders"):
            assert ada.topic(READ, name)
            assert ada.topic(WRITE, name)
        for name in ("shop/us/orders", "shop/eu/orders"):
            assert not ada.topic(READ, name)
            assert not ada.topic(WRITE, name)

    run(test, None, ASKING)


def test_groups_and_transactional_ids_are_judged_at_their_homes() -> None:
    async def test(world: World) -> None:
        await shop(world)
        await world.broker.access.add(
            [row("billing", resource=GROUP, namespace=EU), row("tx", WRITE, resource=ID, namespace=EU)]
        )
        ada = rights(world, namespace=EU)
        assert ada.group(READ, scoped(EU, "billing"))
        assert not ada.group(READ, "billing")
        assert ada.transactional_id(WRITE, scoped(EU, "tx"))
        assert not ada.transactional_id(WRITE, "tx")

    run(test, None, ASKING)


def test_the_cluster_is_the_home_and_the_node_is_public_defaults() -> None:
    async def test(world: World) -> None:
        await shop(world)
        rows = [row("kafka-cluster", ALTER, resource=CLUSTER, namespace=each) for each in (EU, DEFAULT)]
        await world.broker.access.add(rows)
        there, home = rights(world, namespace=EU), rights(world)
        assert there.cluster(ALTER)
        # of a topic it is that of the topic's namespace
        assert there.cluster_of(ALTER, "shop/eu/orders")
        assert not there.cluster_of(ALTER, "shop/us/orders")
        assert not there.node(ALTER)
        assert home.cluster(ALTER)
        assert home.node(ALTER)
        await world.broker.access.remove([rows[1]])
        assert not home.cluster(ALTER)
        assert not home.node(ALTER)

    run(test, None, ASKING)


def test_super_users_may_everything() -> None:
    async def test(world: World) -> None:
        await shop(world, subscription_permissions={"s": ["bob"]})
        await world.broker.access.add([row("*", permission=Permission.DENY, principal="User:*")])
        root = rights(world, "User:root", EU)
        assert root.topic(READ, "orders")
        assert root.group(READ, scoped(EU, "s"))
        assert root.cluster(ALTER)
        assert root.node(ALTER)
        assert root.any(ResourceType.TOPIC, WRITE)
        assert root.operations(ResourceType.TOPIC, "orders") == ALL_TOPIC
        assert root.operations(GROUP, "g") == ALL_GROUP
        assert root.operations(CLUSTER, "kafka-cluster") == ALL_CLUSTER

    run(test, None, ASKING, SUPER)


def test_who_administrates_a_tenant_may_everything_in_its_namespaces() -> None:
    async def test(world: World) -> None:
        await shop(world, "ada", subscription_permissions={"s": ["bob"]}, subscription_auth_mode="Prefix")
        ada = rights(world, namespace=EU)
        assert ada.topic(ALTER, "shop/eu/orders")
        assert ada.cluster(ALTER)
        assert ada.group(READ, scoped(EU, "s"))
        assert ada.any(ResourceType.TOPIC, WRITE)
        assert not ada.topic(READ, "orders")
        assert not ada.group(READ, "s")
        assert not ada.node(ALTER)
        # a principal of another kind is no role
        assert not rights(world, "ada", EU).topic(READ, "shop/eu/orders")
        await world.broker.tenancy.update_tenant("shop", lambda _: TenantRow(["bob"]))
        assert not ada.topic(ALTER, "shop/eu/orders")
        assert not ada.any(ResourceType.TOPIC, WRITE)
        # of public: its namespace is hers, the gateway is not
        await world.broker.tenancy.update_tenant("public", lambda _: TenantRow(["ada"]))
        home = rights(world)
        assert home.cluster(ALTER)
        assert not home.node(ALTER)

    run(test, None, ASKING)


def test_pulsars_permissions_of_subscriptions_narrow() -> None:
    async def test(world: World) -> None:
        await shop(world, subscription_permissions={"billing": ["bob"]})
        await world.broker.access.add([row("*", resource=GROUP, namespace=EU, principal="User:*")])
        ada, bob = (rights(world, each, EU) for each in ("User:ada", "User:bob"))
        billing, other = scoped(EU, "billing"), scoped(EU, "other")
        assert not ada.group(READ, billing)
        assert ada.group(DESCRIBE, billing)
        assert ada.group(READ, other)
        assert bob.group(READ, billing)
        # they allow nothing by themselves, and say nothing of other homes
        assert not bob.group(READ, "billing")

        def prefixed(old: NamespaceRow) -> NamespaceRow:
            return NamespaceRow(subscription_auth_mode="Prefix")

        await world.broker.tenancy.change(EU, prefixed)
        assert not ada.group(READ, billing)
        assert ada.group(READ, scoped(EU, "ada-1"))
        assert not bob.group(READ, scoped(EU, "ada-1"))
        assert not rights(world, "Other:ada", EU).group(READ, scoped(EU, "ada-1"))

    run(test, None, ASKING)


def test_operations_are_told_as_bits() -> None:
    async def test(world: World) -> None:
        await world.broker.access.add(
            [row(), row(operation=Operation.ALL, resource=GROUP, name="g"), row(operation=Operation.SINKS)]
        )
        ada = rights(world)
        assert ada.operations(ResourceType.TOPIC, "orders") == 1 << READ | 1 << DESCRIBE
        assert ada.operations(GROUP, "g") == ALL_GROUP
        assert ada.operations(CLUSTER, "kafka-cluster") == 0
        assert ada.any(ResourceType.TOPIC, READ)
        assert not ada.any(ResourceType.TOPIC, WRITE)

    run(test, None, ASKING)


def test_what_no_row_is_about_may_be_open() -> None:
    async def test(world: World) -> None:
        await world.broker.access.add([row(principal="User:bob")])
        ada = rights(world)
        assert not ada.topic(READ, "orders")
        assert ada.topic(READ, "other")
        assert ada.any(ResourceType.TOPIC, WRITE)

    run(test, None, ASKING, "allow.everyone.if.no.acl.found=true")


def test_what_is_kept_of_names_is_bounded_and_follows_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_rights, "MOST_KEPT", 10)
    monkeypatch.setattr(access, "_CACHED", 2)

    async def test(world: World) -> None:
        await world.broker.access.add([row("t3")])
        ada, bob = rights(world), rights(world, "User:bob")
        assert rights(world) is ada
        for number in range(30):
            assert ada.topic(READ, f"t{number}") is (number == 3)
            assert not bob.group(READ, f"g{number}")
            kept = sum(
                len(each) for rights in (ada, bob) for each in (rights._topics, rights._groups, rights._ids)
            )
            assert kept <= 10
        # a client's own answer changes, whether others are kept for who is the same or not
        rights(world, "User:eve")
        assert rights(world) is not ada
        await world.broker.access.remove([row("t3")])
        assert not ada.topic(READ, "t3")

    run(test, None, ASKING)


def test_the_audits_topic_is_for_super_users_whatever_rows_say() -> None:
    async def test(world: World) -> None:
        await world.broker.access.add([row("*"), row(AUDIT), row("magnetar", pattern=PatternType.PREFIXED)])
        ada = rights(world)
        assert ada.topic(READ, "magnetar-other")
        assert not any(ada.topic(operation, AUDIT) for operation in Operation)
        assert rights(world, "User:root").topic(READ, AUDIT)

    run(test, None, ASKING, SUPER)
