"""Configs of groups altered at run time: in force at once, durable, one change after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from gateway.wire.errors import Error
from store import memory
from store.api import Family, Refused
from tests.gateway.broker.held import HeldStore, run, run_held, serving_on
from tests.gateway.serving import Client


def setting(name: str, value: str | None) -> Callable[[dict[str, str]], dict[str, str]]:
    def change(old: dict[str, str]) -> dict[str, str]:
        rest = {key: each for key, each in old.items() if key != name}
        return rest if value is None else {**rest, name: value}

    return change


def test_in_force_at_once_for_this_group_alone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        configs = gateway.broker.group_configs
        told: list[tuple[str, int]] = []
        configs.watchers.append(
            lambda group: told.append((group, configs.get(group).subscription.nack_delay_ms))
        )
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
        configs.members_of = lambda group: 2 if group == "busy" else 0
        await configs.alter("idle", setting("pulsar.subscription.type", "key_shared"))
        with pytest.raises(KafkaError) as caught:
            await configs.alter("busy", setting("pulsar.subscription.type", "key_shared"))
        assert caught.value.code == Error.INVALID_CONFIG
        assert str(caught.value.text) == (
            "pulsar.subscription.type of group busy is shared and cannot become key_shared while 2 members of that "
            "kind are connected: stop them, change it, start them again."
        )
        # what it is already is no change
        await configs.alter("busy", setting("pulsar.subscription.type", "shared"))
        await configs.alter("busy", setting("pulsar.nack.delay.ms", "5"))
        with pytest.raises(KafkaError):
            await configs.alter("busy", setting("pulsar.key.shared.mode", "consistent_hashing"))

    run(test)


def test_only_checked_changes_nothing() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        count = len(store.commits)
        configs = gateway.broker.group_configs
        await configs.alter("g", setting("pulsar.nack.delay.ms", "7"), validate_only=True)
        assert configs.get("g").subscription.nack_delay_ms == 0
        assert len(store.commits) == count

    run_held(test)


def test_two_changes_at_once_both_hold() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        configs = gateway.broker.group_configs
        store.holding = True
        changes = [
            asyncio.ensure_future(configs.alter("g", setting("pulsar.nack.delay.ms", "7"))),
            asyncio.ensure_future(configs.alter("g", setting("share.isolation.level", "read_committed"))),
        ]
        await store.has(1)
        store.release()
        await asyncio.gather(*changes)
        assert dict(configs.own("g")) == {
            "pulsar.nack.delay.ms": "7",
            "share.isolation.level": "read_committed",
        }

    run_held(test)


def test_a_change_that_is_not_stored_is_not_in_force() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        configs = gateway.broker.group_configs
        store.holding = True
        change = asyncio.ensure_future(configs.alter("g", setting("pulsar.nack.delay.ms", "7")))
        await store.has(1)
        store.fail(Refused("no"))
        with pytest.raises(KafkaError):
            await change
        assert configs.get("g").subscription.nack_delay_ms == 0

    run_held(test)
