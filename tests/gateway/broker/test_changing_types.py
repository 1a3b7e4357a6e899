"""The type of a group changes while members, or lanes, are on their way to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from gateway.wire.errors import Error
from store.api import Family
from tests.gateway.apis.old_members import Old
from tests.gateway.broker.consumer_members import beat
from tests.gateway.broker.held import HeldStore, run_held
from tests.gateway.broker.share_members import alter
from tests.gateway.broker.share_members import beat as share_beat
from tests.gateway.serving import Client, create

TYPE = "pulsar__subscription__type"

Joining = Callable[[Client], Coroutine[Any, Any, Any]]


async def _changing(gateway: Gateway, store: HeldStore, kind: str) -> asyncio.Task[object]:
    """The group is about to be of that type: what says so is on its way to the store."""
    store.holding = True

    async def change() -> object:
        return await alter(gateway, "g", **{TYPE: kind})

    changing = asyncio.create_task(change())
    await store.has(1)
    return changing


@pytest.mark.parametrize(
    "join",
    [
        lambda client: Old(client).join(),
        lambda client: beat(client, "a", 0, "t"),
        lambda client: share_beat(client, "g", "a", 0, "t"),
    ],
    ids=["classic", "consumer", "share"],
)
@pytest.mark.parametrize("kind", ["exclusive", "failover"])
def test_nobody_joins_while_the_type_changes(join: Joining, kind: str) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        changing = await _changing(gateway, store, kind)
        assert (await join(client)).error_code == Error.COORDINATOR_LOAD_IN_PROGRESS
        store.release()
        await changing
        assert (await join(client)).error_code == 0

    run_held(test)


def test_who_is_kept_out_leaves_a_group_of_another_kind_as_it_is() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        await beat(client, "a", 0, "t")
        await beat(client, "a", -1)
        changing = await _changing(gateway, store, "exclusive")
        assert (await Old(client).join()).error_code == Error.COORDINATOR_LOAD_IN_PROGRESS
        assert gateway.broker.consumer_groups.claims("g")
        store.release()
        await changing

    run_held(test)


def test_lanes_do_not_come_to_a_group_that_becomes_exclusive() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        changing = await _changing(gateway, store, "exclusive")
        making = asyncio.create_task(gateway.broker.queues.make("t", "g", 2, {}))
        with pytest.raises(KafkaError, match="type of group g is changing"):
            await making
        store.release()
        await changing
        with pytest.raises(KafkaError, match="group g is exclusive"):
            await gateway.broker.queues.make("t", "g", 2, {})

    run_held(test)


def test_a_group_that_lanes_come_to_does_not_become_exclusive() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        store.holding = True
        making = asyncio.create_task(gateway.broker.queues.make("t", "g", 2, {}))
        await store.has(1)
        with pytest.raises(KafkaError, match="that is being made serve one of group g"):
            await alter(gateway, "g", **{TYPE: "exclusive"})
        store.release()
        assert (await making).name == "t-g-QUEUE"

    run_held(test)


def test_a_group_that_cannot_be_read_keeps_its_type() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        old = Old(client)
        await old.alone()
        gateway.broker.groups._leave(gateway.broker.groups._live["g"])
        key = b"g"
        row = store.inner.get(Family.GROUP, key)
        assert row is not None
        store.inner._rows[Family.GROUP][key] = b"\xc1"
        with pytest.raises(KafkaError) as raised:
            await alter(gateway, "g", **{TYPE: "exclusive"})
        assert raised.value.code == Error.UNKNOWN_SERVER_ERROR

    run_held(test)
