"""What stands in memory of a change is what the store has: where nobody knows how its commit ended, and where nobody
waits for that any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from gateway.auth.credentials import UserRow
from gateway.broker import access
from gateway.broker.broker import Broker
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.resource_groups import GroupRow
from gateway.broker.users import UserThereError
from gateway.peer import Peer
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.names import DEFAULT
from semantics.quotas import PRODUCED, entity_of
from store.api import Refused, StoreError, Unknown
from tests.gateway.broker.altering import setting
from tests.gateway.broker.held import HeldStore, run_held
from tests.gateway.broker.rights import EU, row
from tests.gateway.serving import Client, batch, create, produce_body

ADA = entity_of([("user", "ada")])


async def free() -> None:
    """No namespace is in the group."""


def quota(broker: Broker, rate: float | None) -> Awaitable[None]:
    return broker.client_quotas.alter([(ADA, {PRODUCED: rate})])


def quota_of_tenant(broker: Broker, rate: float | None) -> Awaitable[None]:
    return broker.client_quotas.alter([(ADA, {PRODUCED: rate})], owner="ada")


def quotas(broker: Broker) -> Any:
    """Which are in force for a client that was there before."""
    (peer,) = (each for each in broker.client_quotas._peers if each.principal == "User:ada")
    bound = peer.quotas.produced if peer.quotas is not None else None
    shown = broker.client_quotas.shown()
    assert (bound.rate if bound is not None else None) == dict(shown).get(ADA, {}).get(PRODUCED)
    return shown


def group(broker: Broker, rate: float | None) -> Awaitable[None]:
    groups = broker.resource_groups
    if rate is None:
        return groups.delete("small", free)
    return groups.change("small", lambda _: GroupRow(publish_messages=int(rate)))


def groups(broker: Broker) -> Any:
    return [(each.name, each.row) for each in broker.resource_groups]


async def user(broker: Broker, value: float | None) -> None:
    def changed(old: UserRow | None) -> UserRow | None:
        if value is None:
            return None
        return msgspec.structs.replace(old or UserRow(), home=f"shop/n{int(value)}")

    try:
        await broker.users.change({"ada": changed})
    except StoreError as error:
        raise from_store(error) from error


def users(broker: Broker) -> Any:
    return broker.users.names(), broker.users.get("ada")


def config(name: str) -> Callable[[Broker, float | None], Awaitable[None]]:
    def change(broker: Broker, value: float | None) -> Awaitable[None]:
        said = str(int(value)) if value is not None else None
        return broker.broker_configs.alter(name, setting("message.max.bytes", said))

    return change


def configs(broker: Broker) -> Any:
    rows = broker.broker_configs
    return rows.node, rows.cluster, broker.settings.integer("message.max.bytes")


def group_config(broker: Broker, value: float | None) -> Awaitable[None]:
    said = str(int(value)) if value is not None else None
    return broker.group_configs.alter("g", setting("pulsar.nack.delay.ms", said))


def group_configs(broker: Broker) -> Any:
    return dict(broker.group_configs.own("g")), broker.group_configs.get("g")


def metrics(broker: Broker, value: float | None) -> Awaitable[None]:
    said = str(int(value)) if value is not None else None
    return broker.client_metrics.alter("m", setting("interval.ms", said))


def metric(broker: Broker) -> Any:
    return broker.client_metrics.own("m")


def policy(broker: Broker, value: float | None) -> Awaitable[None]:
    said = {"pulsar.publish.rate.messages": str(int(value))} if value is not None else {}
    return broker.tenancy.change(DEFAULT, lambda row: msgspec.structs.replace(row, policies=said))


def policies(broker: Broker) -> Any:
    """Which are in force for a partition in use."""
    runtime = broker.at_home(b"t")
    assert runtime is not None
    throttle = broker.partition_of(runtime, 0).publish_throttle
    shown = broker.tenancy.namespace(DEFAULT).policies
    own = throttle.own.rate.messages if throttle is not None and throttle.own is not None else None
    said = shown.get("pulsar.publish.rate.messages")
    assert own == (float(said) if said is not None else None)
    return shown


KINDS = pytest.mark.parametrize(
    ("change", "shown"),
    [
        (quota, quotas),
        (quota_of_tenant, quotas),
        (group, groups),
        (user, users),
        (config("1"), configs),
        (config(""), configs),
        (group_config, group_configs),
        (metrics, metric),
        (policy, policies),
    ],
    ids=[
        "quotas", "quotas of tenants", "resource groups", "users", "configs of a node", "configs of all",
        "configs of a group", "client metrics", "policies of a namespace",
    ],
)  # fmt: skip

Change = Callable[[Broker, "float | None"], Awaitable[None]]
Shown = Callable[[Broker], Any]


def on_gateway(body: Callable[[Broker, HeldStore], Awaitable[None]]) -> None:
    """On a gateway with a client that quotas may bind."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        gateway.broker.client_quotas.opened(
            Peer(7, "/10.0.0.1", "PLAINTEXT", principal="User:ada"), lambda ms: None
        )
        await create(client, "t")
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        await body(gateway.broker, store)

    run_held(test, "node.id=1")


async def begun(change: Awaitable[None], store: HeldStore) -> asyncio.Future[None]:
    """A change whose commit is held, which is not one of those that only wait for others."""
    changing = asyncio.ensure_future(change)
    await store.has(1)
    while not store.queued[0][0]:
        store.land()
        await store.has(1)
    return changing


@KINDS
def test_where_nobody_knows_what_is_stored_the_store_is_asked(change: Change, shown: Shown) -> None:
    async def test(broker: Broker, store: HeldStore) -> None:
        seen = [shown(broker)]
        for value in (2000.0, 3000.0, None):
            store.holding = True
            # it is not stored
            changing = await begun(change(broker, value), store)
            store.fail(Unknown("who knows"))
            with pytest.raises(KafkaError) as caught:
                await changing
            assert caught.value.code == Error.KAFKA_STORAGE_ERROR
            assert shown(broker) == seen[-1]
            # it is
            changing = await begun(change(broker, value), store)
            store.land_unknown()
            with pytest.raises(KafkaError):
                await changing
            store.release()
            found = shown(broker)
            assert found not in seen[1:]
            if value is not None:
                # the same again, with an end that is known, changes nothing
                await change(broker, value)
                assert shown(broker) == found
            seen.append(found)
        assert seen[-1] == seen[0]

    on_gateway(test)


@KINDS
def test_what_is_refused_changes_nothing(change: Change, shown: Shown) -> None:
    async def test(broker: Broker, store: HeldStore) -> None:
        before = shown(broker)
        store.holding = True
        changing = await begun(change(broker, 2000.0), store)
        store.fail(Refused("no"))
        with pytest.raises(KafkaError):
            await changing
        assert shown(broker) == before

    on_gateway(test)


@KINDS
def test_it_is_in_force_also_when_nobody_waits_for_it(change: Change, shown: Shown) -> None:
    async def test(broker: Broker, store: HeldStore) -> None:
        before = shown(broker)
        store.holding = True
        changing = await begun(change(broker, 2000.0), store)
        changing.cancel()
        await asyncio.sleep(0)
        store.release()
        with pytest.raises(asyncio.CancelledError):
            await changing
        assert shown(broker) != before
        await change(broker, None)
        assert shown(broker) == before

    on_gateway(test)


def test_rows_that_are_stored_with_a_namespace_are_read_again_with_it() -> None:
    async def test(broker: Broker, store: HeldStore) -> None:
        await broker.tenancy.create_tenant("shop", TenantRow())
        store.holding = True
        first = access.Change(add=[row(namespace=EU)])
        making = await begun(
            broker.tenancy.create(EU, NamespaceRow(), made_with=lambda: broker.access.changing(first)), store
        )
        store.land_unknown()
        with pytest.raises(KafkaError):
            await making
        assert broker.catalog.namespaces.exists(EU)
        assert broker.access.rows(EU) == [row(namespace=EU)]
        store.release()
        await broker.tenancy.delete(EU)
        assert broker.access.rows(EU) == []

    on_gateway(test)


def test_a_user_that_is_being_made_is_made_once_also_when_nobody_waits_for_it() -> None:
    """A caller that is gone leaves its change to be waited for: the next one begins with what it left."""

    async def test(broker: Broker, store: HeldStore) -> None:
        store.holding = True
        first = await begun(broker.users.create("ada", UserRow(home="shop/eu")), store)
        first.cancel()
        second = asyncio.ensure_future(broker.users.create("ada", UserRow(home="shop/us")))
        await asyncio.sleep(0)
        store.land_unknown()
        store.release()
        with pytest.raises(asyncio.CancelledError):
            await first
        with pytest.raises(UserThereError):
            await second
        row = broker.users.get("ada")
        assert row is not None
        assert row.home == "shop/eu"

    on_gateway(test)


def test_of_two_changes_of_client_metrics_both_are_kept_also_when_nobody_waits_for_the_first() -> None:
    async def test(broker: Broker, store: HeldStore) -> None:
        rows = broker.client_metrics
        store.holding = True
        first = await begun(rows.alter("m", setting("interval.ms", "2000")), store)
        first.cancel()
        second = asyncio.ensure_future(rows.alter("m", setting("metrics", "org.")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        store.release()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert rows.own("m") == {"interval.ms": "2000", "metrics": "org."}

    on_gateway(test)
