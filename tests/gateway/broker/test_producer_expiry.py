"""Producers that were silent for long are forgotten, whether their partitions are in use or not."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker import producer_expiry
from gateway.broker.clock_watch import HOLD_MS
from gateway.broker.producer_expiry import ProducerExpiry
from gateway.broker.producers import ProducerTable
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from store.api import Family
from tests.gateway.broker.fake_broker import LOOP, FakeBroker
from tests.gateway.broker.held import Clock, part, run
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

DAY = 86_400_000


def test_silent_producers_are_forgotten_in_use_or_not() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        expiry = ProducerExpiry(
            gateway.broker,
            gateway.broker.clock_watch,
            lambda: [each.producers for each in gateway.broker.in_use.partitions()],
        )
        for topic in ("used", "idle"):
            await create(client, topic)
            each = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
            await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, each))
        for _ in range(3):
            gateway.broker.in_use.release_idle()
        await client.ask(ApiKey.PRODUCE, 9, produce_body("used", batch(b"v")))
        rows = list(gateway.broker.store.scan(Family.DEDUP))
        assert len(rows) == 2
        clock.now += 86_400_000
        await expiry.run()
        assert len(list(gateway.broker.store.scan(Family.DEDUP))) == 2, "not yet"
        clock.now += 1
        await expiry.run()
        assert list(gateway.broker.store.scan(Family.DEDUP)) == []
        later = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=44)
        for topic in ("used", "idle"):
            answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, later))
            assert part(answer).error_code == 0

    run(test, clock=clock)


def test_nobody_is_forgotten_by_a_clock_that_jumped(broker: FakeBroker) -> None:
    table = ProducerTable(1)
    table.take(7, 0, 0, 1, 0, broker.clock.wall_ms())
    table.flush()
    expiry = ProducerExpiry(broker, broker.clock_watch, lambda: [table])
    broker.clock.ahead += 100 * DAY
    LOOP.run_until_complete(expiry.run())
    assert list(table)
    broker.clock.now += HOLD_MS
    LOOP.run_until_complete(expiry.run())
    assert not list(table), "a clock that stays is believed"


@pytest.mark.parametrize("in_use", [True, False])
def test_who_writes_again_while_rows_are_looked_at_is_remembered(
    monkeypatch: pytest.MonkeyPatch, in_use: bool
) -> None:
    """One row at a time: after each of them others have their turn."""
    monkeypatch.setattr(producer_expiry, "_ROWS", 1)
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        broker = gateway.broker
        expiry = ProducerExpiry(
            broker, broker.clock_watch, lambda: [each.producers for each in broker.in_use.partitions()]
        )
        topics = ["a", "b", "c"]
        for topic in topics:
            await create(client, topic)
            each = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
            await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, each))
        if not in_use:
            for _ in range(3):
                broker.in_use.release_idle()
        clock.now += DAY
        await expiry.run()
        clock.now += 1
        run_out = asyncio.ensure_future(expiry.run())
        for topic in topics:
            await asyncio.sleep(0)
            each = batch(b"again", producer_id=7, producer_epoch=0, base_sequence=1)
            answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, each))
            assert part(answer).error_code == 0
            if not in_use:
                for _ in range(3):
                    broker.in_use.release_idle()
        await run_out
        # what is in memory and what a restart finds say the same
        kept = {key for key, _ in broker.store.scan(Family.DEDUP)}
        for topic in topics:
            again = batch(b"again", producer_id=7, producer_epoch=0, base_sequence=1)
            before = part(await client.ask(ApiKey.FETCH, 11, fetch_body(topic, 0))).high_watermark
            await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, again))
            after = part(await client.ask(ApiKey.FETCH, 11, fetch_body(topic, 0))).high_watermark
            assert before == after == 2, "it is a duplicate"
        assert len(kept) == 3

    run(test, clock=clock)
