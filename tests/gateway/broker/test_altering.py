"""What holds of the configs of topics, groups and brokers alike when they are altered at run time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

import pytest

from gateway.broker.broker import Broker
from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from store.api import Refused
from tests.gateway.broker.altering import setting
from tests.gateway.broker.held import HeldStore, run_held
from tests.gateway.serving import Client, create


class Resource(NamedTuple):
    """One kind of resource: how it is altered, and what two of its configs are, set for it and in force."""

    alter: Callable[..., Coroutine[Any, Any, None]]
    own: Callable[[Broker], Mapping[str, str]]
    in_force: Callable[[Broker], tuple[object, object]]
    # a new value each, other than what is in force without them
    one: tuple[str, str]
    other: tuple[str, str]


def topic_in_force(broker: Broker) -> tuple[object, object]:
    found = broker.topic(b"t")
    assert found is not None
    return found.config.retention_bytes, found.config.max_message_bytes


def group_in_force(broker: Broker) -> tuple[object, object]:
    config = broker.group_configs.get("g")
    return config.subscription.nack_delay_ms, config.read_committed


RESOURCES = {
    "topic": Resource(
        lambda broker, *args, **options: broker.topics.configure("t", *args, **options),
        lambda broker: broker.topics.get("t").configs,
        topic_in_force,
        ("retention.bytes", "5"),
        ("max.message.bytes", "1000"),
    ),
    "group": Resource(
        lambda broker, *args, **options: broker.group_configs.alter("g", *args, **options),
        lambda broker: broker.group_configs.own("g"),
        group_in_force,
        ("pulsar.nack.delay.ms", "7"),
        ("share.isolation.level", "read_committed"),
    ),
    "broker": Resource(
        lambda broker, *args, **options: broker.broker_configs.alter("", *args, **options),
        lambda broker: broker.broker_configs.cluster,
        lambda broker: (
            broker.settings.integer("log.retention.bytes"),
            broker.settings.integer("message.max.bytes"),
        ),
        ("log.retention.bytes", "5"),
        ("message.max.bytes", "1000"),
    ),
}


@pytest.fixture(params=list(RESOURCES))
def resource(request: pytest.FixtureRequest) -> Resource:
    return RESOURCES[request.param]


def test_only_checked_changes_nothing(resource: Resource) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        broker = gateway.broker
        before, count = resource.in_force(broker), len(store.commits)
        await resource.alter(broker, setting(*resource.one), validate_only=True)
        assert resource.in_force(broker) == before
        assert len(store.commits) == count
        await resource.alter(broker, setting(*resource.one))
        assert resource.in_force(broker) != before

    run_held(test)


def test_two_changes_at_once_both_hold(resource: Resource) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        store.holding = True
        changes = [
            asyncio.ensure_future(resource.alter(gateway.broker, setting(*each)))
            for each in (resource.one, resource.other)
        ]
        await store.has(1)
        store.release()
        await asyncio.gather(*changes)
        assert resource.own(gateway.broker) == dict([resource.one, resource.other])

    run_held(test)


def test_a_change_that_is_not_stored_is_not_in_force(resource: Resource) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        before = resource.in_force(gateway.broker)
        store.holding = True
        change = asyncio.ensure_future(resource.alter(gateway.broker, setting(*resource.one)))
        await store.has(1)
        store.fail(Refused("no"))
        with pytest.raises(KafkaError):
            await change
        assert resource.in_force(gateway.broker) == before
        assert resource.own(gateway.broker) == {}

    run_held(test)
