"""Configs of groups altered at run time: in force at once, durable, one change after the other."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from gateway.wire.errors import Error
from store import memory
from store.api import Family
from tests.gateway.broker.altering import setting
from tests.gateway.broker.held import run, serving_on
from tests.gateway.serving import Client


def test_in_force_at_once_for_this_group_alone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        configs = gateway.broker.group_configs
        told: list[tuple[str, int]] = []
        configs.watch(lambda group: told.append((group, configs.get(group).subscription.nack_delay_ms)))
        await configs.alter("g", setting("pulsar.nack.delay.ms", "7"))
        assert configs.get("g").subscription.nack_delay_ms == 7
        assert configs.get("other").subscription.nack_delay_ms == 0
        assert configs.named() == ["g"]
        await configs.alter("g", setting("pulsar.nack.delay.ms", None))
        assert told == [("g", 7), ("g", 0)], "watchers are told once the change is in force"
        assert configs.named() == []
        assert list(gateway.broker.store.scan(Family.POLICY, b"group/")) == []

    run(test)


def test_they_are_there_after_a_restart() -> None:
    async def main() -> None:
        store = memory.open()
        async with serving_on(store) as gateway:
            await gateway.broker.group_configs.alter("g", setting("pulsar.nack.delay.ms", "7"))
        again = memory.open()
        again._rows, again._keys = store._rows, store._keys
        async with serving_on(again) as gateway:
            assert gateway.broker.group_configs.get("g").subscription.nack_delay_ms == 7

    asyncio.run(main())


@pytest.mark.parametrize(
    ("group", "name", "value", "code"),
    [
        ("", "pulsar.nack.delay.ms", "1", Error.INVALID_REQUEST),
        ("g", "pulsar.nack.delay", "1", Error.INVALID_CONFIG),
        ("g", "pulsar.nack.delay.ms", "soon", Error.INVALID_CONFIG),
    ],
)
def test_refused(group: str, name: str, value: str, code: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        with pytest.raises(KafkaError) as caught:
            await gateway.broker.group_configs.alter(group, setting(name, value))
        assert caught.value.code == code
        assert gateway.broker.group_configs.named() == []

    run(test)


def test_the_type_stays_while_members_are_connected() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        configs = gateway.broker.group_configs
        gateway.broker.share_groups.members = lambda group_id: 2 if group_id == "busy" else 0  # type: ignore[method-assign]
        await configs.alter("idle", setting("pulsar.subscription.type", "key_shared"))
        with pytest.raises(KafkaError) as caught:
            await configs.alter("busy", setting("pulsar.subscription.type", "key_shared"))
        assert caught.value.code == Error.INVALID_CONFIG
        assert str(caught.value.text) == (
            "Group busy is shared and cannot become key_shared (auto_split) while it has consumers (2): stop them, "
            "change it, start them again."
        )
        # what it is already is no change
        await configs.alter("busy", setting("pulsar.subscription.type", "shared"))
        await configs.alter("busy", setting("pulsar.nack.delay.ms", "5"))
        with pytest.raises(
            KafkaError, match=r"shared \(auto_split\) and cannot become shared \(consistent_hashing\)"
        ):
            await configs.alter("busy", setting("pulsar.key.shared.mode", "consistent_hashing"))

    run(test)
