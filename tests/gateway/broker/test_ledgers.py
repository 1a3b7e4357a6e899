"""When ledgers are closed: by the settings that broker.conf has, of all topics, from the next message on."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker.ledgers import rollover
from gateway.config import Settings
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from store import memory
from store.limits import Rollover
from tests.gateway.broker.altering import setting
from tests.gateway.broker.held import part, run, serving_on
from tests.gateway.serving import Client, batch, create, produce_body

ENTRIES, LEAST = "managedLedgerMaxEntriesPerLedger", "managedLedgerMinLedgerRolloverTimeMinutes"


async def send(client: Client) -> None:
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x")))
    assert part(answer).error_code == 0


def entries(gateway: Gateway) -> list[int]:
    """Of each ledger of the topic."""
    topic = gateway.broker.catalog.get("t")
    assert topic is not None
    (partition,) = topic.partitions
    return [each.entries for each in gateway.broker.store.log(partition).ledgers()]


def test_the_defaults_are_those_that_a_store_has() -> None:
    assert rollover(Settings.load()) == Rollover()


def test_units() -> None:
    settings = Settings.load(
        ["managedLedgerMaxSizePerLedgerMbytes=3", f"{LEAST}=2", "managedLedgerMaxLedgerRolloverTimeMinutes=5"]
    )
    assert rollover(settings) == Rollover(size=3 << 20, least_ms=120_000, most_ms=300_000)


@pytest.mark.parametrize("persistence", ["persistent", "non-persistent"])
def test_a_ledger_ends_as_the_settings_say(persistence: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await gateway.broker.create_topic(
            "t", 1, {"pulsar.persistence": persistence, "retention.bytes": "-1"}
        )
        for _ in range(5):
            await send(client)
        assert entries(gateway) == [2, 2, 1]

    run(test, f"{ENTRIES}=2", f"{LEAST}=0")


def test_a_change_holds_at_once_and_after_a_restart() -> None:
    async def main() -> None:
        store = memory.open()
        async with serving_on(store, "node.id=1") as gateway:
            client = await Client.connect(gateway)
            await create(client, "t")
            await send(client)
            await gateway.broker.broker_configs.alter("", setting(ENTRIES, "1"))
            await send(client)
            assert entries(gateway) == [2], "not before its shortest time is over"
            await gateway.broker.broker_configs.alter("", setting(LEAST, "0"))
            await send(client)
            assert entries(gateway) == [2, 1]
            client.close()
        again = memory.open()
        again._rows, again._keys = store._rows, store._keys
        async with serving_on(again, "node.id=1") as gateway:
            assert gateway.broker.store.rollover == Rollover(entries=1, least_ms=0)

    asyncio.run(main())
