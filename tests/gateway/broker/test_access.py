"""Rows of ACLs: kept, in force when they are durable, and gone with what they go with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker import access, acl_rows
from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.wire.errors import Error
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.names import DEFAULT, Namespace
from store.api import Refused
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.rights import ASKING, EU, rights, row, shop
from tests.gateway.broker.subscriptions.world import World, run

READ, WRITE = Operation.READ, Operation.WRITE
GROUPS = row("*", resource=ResourceType.GROUP, namespace=EU)


def stored(world: World) -> set[Acl]:
    return {each for each, _ in acl_rows.read(world.store)}


def test_rows_survive(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await shop(world)
        rows = [row(), row(permission=Permission.DENY, host="10.0.0.2"), row(namespace=EU)]
        await world.broker.access.add([*rows, rows[0]])
        await world.broker.access.add(rows[:1])
        await world.broker.access.remove([rows[2], row("none")])
        await world.crash()
        assert set(world.broker.access.rows()) == set(rows[:2])
        assert world.broker.access.rows(EU) == []
        assert rights(world).topic(READ, "orders")

    run(test, folder, ASKING)


def test_they_count_when_they_are_durable_and_whoever_watches_is_told() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        broker = world.broker
        told: list[int] = []
        broker.access.watchers.append(lambda: told.append(broker.access.version))
        ada = rights(world)
        assert not ada.topic(READ, "orders")
        store.holding = True
        adding = asyncio.ensure_future(broker.access.add([row()]))
        await store.has(1)
        assert not ada.topic(READ, "orders")
        assert told == []
        store.land()
        await adding
        assert ada.topic(READ, "orders")
        assert told == [1]
        # one that is refused changes nothing
        removing = asyncio.ensure_future(broker.access.remove([row()]))
        await store.has(1)
        store.fail(Refused("no"))
        with pytest.raises(KafkaError) as caught:
            await removing
        assert caught.value.code == Error.KAFKA_STORAGE_ERROR
        assert ada.topic(READ, "orders")
        # of one whose outcome is unknown the store knows what there is
        removing = asyncio.ensure_future(broker.access.remove([row()]))
        await store.has(1)
        store.land_unknown()
        with pytest.raises(KafkaError):
            await removing
        assert not ada.topic(READ, "orders")
        store.release()

    run(test, None, ASKING)


def test_one_change_at_a_time_also_when_nobody_waits() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        made = world.broker.access
        store.holding = True
        first = asyncio.ensure_future(made.add([row()]))
        await store.has(1)
        first.cancel()
        second = asyncio.ensure_future(made.change(lambda: access.Change(remove=made.rows())))
        await asyncio.sleep(0)
        store.release()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert made.rows() == []
        assert not list(acl_rows.read(store.inner))

    run(test)


def test_what_rights_go_by_tells_whoever_watches() -> None:
    async def test(world: World) -> None:
        told: list[int] = []
        world.broker.access.watchers.append(lambda: told.append(world.broker.access.version))
        tenancy = world.broker.tenancy

        async def tells(change: object) -> None:
            before = len(told)
            await change  # type: ignore[misc]
            assert len(told) > before
            assert told == sorted(set(told))

        await tells(tenancy.create_tenant("shop", TenantRow()))
        await tells(tenancy.create(EU, NamespaceRow()))
        await tells(tenancy.update_tenant("shop", lambda _: TenantRow(["ada"])))
        await tells(tenancy.change(EU, lambda _: NamespaceRow(subscription_auth_mode="Prefix")))
        await tells(world.broker.access.add([row()]))
        await tells(world.broker.access.remove([row()]))
        await tells(tenancy.delete(EU))

    run(test)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (row("x" * 250), "name has at most 249"),
        (row(principal="User:" + "x" * 1_020), "principal has at most 1024"),
        (row(host="x" * 256), "host has at most 255"),
        (row(namespace=Namespace("no", "such")), "no namespace no/such"),
    ],
)
def test_all_or_none_are_added(wrong: Acl, words: str) -> None:
    async def test(world: World) -> None:
        with pytest.raises(KafkaError, match=words) as caught:
            await world.broker.access.add([row(), wrong])
        assert caught.value.code == Error.INVALID_REQUEST
        assert world.broker.access.rows() == []

    run(test)


def test_a_namespace_that_is_being_deleted_takes_none() -> None:
    async def test(world: World) -> None:
        await shop(world)
        # what a deletion leaves that fails in the middle
        await world.broker.tenancy.change(EU, lambda _: NamespaceRow(deleted=True))
        with pytest.raises(KafkaError, match="no namespace shop/eu"):
            await world.broker.access.add([row(namespace=EU)])

    run(test)


def test_a_tenant_has_its_share_of_rows_however_many_namespaces_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "MOST_OF_TENANT", 3)

    async def test(world: World) -> None:
        await shop(world)
        us = Namespace("shop", "us")
        await world.broker.tenancy.create(us, NamespaceRow())
        made = world.broker.access
        await made.add([row(name, namespace=EU) for name in "ab"])
        with pytest.raises(KafkaError, match="at most 3 ACLs in tenant shop") as caught:
            await made.add([row(name, namespace=us) for name in "ab"])
        assert caught.value.code == Error.POLICY_VIOLATION
        await made.add([row("a", namespace=us)])
        await made.remove([row("a", namespace=EU)])
        await made.add([row("b", namespace=us)])
        # others have room
        await made.add([row(name) for name in "abcd"])

    run(test)


def test_there_are_so_many_rows_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST", 5)
    monkeypatch.setattr(access, "MOST_OF_TENANTS", 2)

    async def test(world: World) -> None:
        await shop(world)
        made = world.broker.access
        await made.add([row(name, namespace=EU) for name in "ab"])
        with pytest.raises(KafkaError, match="at most 2 ACLs in shop/eu") as caught:
            await made.add([row("c", namespace=EU)])
        assert caught.value.code == Error.POLICY_VIOLATION
        await made.add([row(name) for name in "abc"])
        with pytest.raises(KafkaError, match="at most 5 ACLs"):
            await made.add([row("d")])
        # those that are there take no more room
        await made.add([row("a"), row("a", namespace=EU)])

    run(test)


def test_rows_go_with_their_namespace(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await shop(world)
        await world.topic("shop/eu/orders")
        kept = [row(), row(namespace=Namespace("shop", "eu2"))]
        await world.broker.tenancy.create(kept[1].namespace, NamespaceRow())
        await world.broker.access.add([*kept, row(namespace=EU)])
        await world.broker.permissions.grant(EU, "orders", "bob", ["consume"])
        await world.broker.tenancy.delete(EU, force=True)
        assert set(world.broker.access.rows()) == stored(world) == set(kept)
        with pytest.raises(KafkaError, match="no namespace"):
            await world.broker.access.add([row(namespace=EU)])
        await world.broker.tenancy.create(EU, NamespaceRow())
        await world.topic("shop/eu/orders")
        assert not rights(world).topic(READ, "shop/eu/orders")
        await world.crash()
        assert set(world.broker.access.rows()) == set(kept)

    run(test, folder, ASKING)


def test_what_pulsars_verbs_allow_on_a_topic_goes_with_it_and_acls_stay() -> None:
    async def test(world: World) -> None:
        await shop(world)
        for name in ("shop/eu/orders", "shop/eu/other", "orders"):
            await world.topic(name)
        made, grant = world.broker.access, world.broker.permissions.grant
        acl = row(operation=WRITE, namespace=EU)
        await made.add([acl])
        for role in ("ada", "bob"):
            await grant(EU, "orders", role, ["produce", "consume"])
        await grant(EU, "other", "bob", ["consume"])
        await grant(DEFAULT, "orders", "ada", ["consume"])
        # which is remembered
        assert rights(world).topic(READ, "shop/eu/orders")
        await world.broker.topics.delete("shop/eu/orders")
        assert not rights(world).topic(READ, "shop/eu/orders")
        # bob consumes another topic: his row on groups stays, and ada's goes
        left = {
            acl,
            row("other", principal="User:bob", namespace=EU),
            GROUPS._replace(principal="User:bob"),
            row(),
            GROUPS._replace(namespace=DEFAULT),
        }
        assert set(made.rows()) == stored(world) == left
        await world.topic("shop/eu/orders")
        assert not rights(world).topic(READ, "shop/eu/orders")
        assert rights(world).topic(WRITE, "shop/eu/orders")

    run(test, None, ASKING)


def test_a_row_that_somebody_has_made_as_it_is_stays_theirs() -> None:
    async def test(world: World) -> None:
        await world.topic("orders")
        grant, made = world.broker.permissions.grant, world.broker.access
        await made.add([row()])
        await grant(DEFAULT, "orders", "ada", ["consume"])
        await grant(DEFAULT, "orders", "bob", ["consume"])
        # and so is one that they make of Pulsar's
        bobs = row(principal="User:bob")
        await made.add([bobs])
        await world.broker.topics.delete("orders")
        # both still consume it: their rows on groups stay
        groups = {GROUPS._replace(namespace=DEFAULT, principal=each) for each in ("User:ada", "User:bob")}
        assert set(made.rows()) == stored(world) == {row(), bobs} | groups

    run(test)


def test_a_grant_is_in_place_of_what_the_role_could() -> None:
    async def test(world: World) -> None:
        permissions, made = world.broker.permissions, world.broker.access
        kept = [
            row("*", Operation.DESCRIBE),
            row("*", WRITE, principal="User:bob"),
            row("*", WRITE, Permission.DENY),
            row("*", WRITE, host="10.0.0.1"),
            row("x", WRITE, pattern=PatternType.PREFIXED),
        ]
        await made.add([*kept, row("*", Operation.ALL), row("*", WRITE)])
        assert permissions.on(DEFAULT) == {"ada": ["produce", "consume"], "bob": ["produce"]}
        await permissions.grant(DEFAULT, "*", "ada", ["consume"])
        assert permissions.on(DEFAULT) == {"ada": ["consume"], "bob": ["produce"]}
        groups = GROUPS._replace(namespace=DEFAULT)
        assert set(made.rows()) == stored(world) == {*kept, row("*"), groups}
        assert await permissions.revoke(DEFAULT, "*", "ada")
        assert not await permissions.revoke(DEFAULT, "*", "ada")
        assert set(made.rows()) == stored(world) == set(kept)

    run(test)


def test_what_is_allowed_on_topics_is_told_whoever_made_it() -> None:
    async def test(world: World) -> None:
        await world.broker.permissions.grant(DEFAULT, "orders", "ada", ["sinks"])
        await world.broker.access.add(
            [row("later", WRITE), row("*", WRITE), row("no topic", WRITE), row("x", WRITE, Permission.DENY)]
        )
        told = await world.broker.permissions.on_topics(DEFAULT)
        assert told == {"later": {"ada": ["produce"]}, "orders": {"ada": ["sinks"]}}

    run(test)
