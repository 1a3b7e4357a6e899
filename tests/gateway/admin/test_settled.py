"""What became of a settled record: `explain` finds its dead letter, and says what is not there any more."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.admin import settled
from gateway.wire import records
from tests.gateway.admin.billing import Serve, ack, cursor_of, explain, made, take
from tests.gateway.admin.conftest import Admin

DLQ = "orders-billing-DLQ"


async def letters(admin: Admin, number: int) -> None:
    """Wait until so many dead letters are stored."""
    async with asyncio.timeout(30):
        while True:
            topic = admin.broker.catalog.get(DLQ)
            if topic is not None and admin.broker.partition(topic, 0).high_watermark >= number:
                return
            await asyncio.sleep(0)


def test_a_dead_letter_is_named_with_its_place(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=6)
        await take(admin, "c1")
        await ack(admin, "c1", 0, 0)
        for offset in (3, 1):
            await ack(admin, "c1", offset, offset, kind=3)
        await letters(admin, 2)
        for offset, place in ((3, 0), (1, 1)):
            found = await explain(admin, offset)
            assert found["state"] == "DONE"
            assert found["deadLetter"] == {
                "topic": DLQ,
                "partition": 0,
                "offset": place,
                "reason": "REJECTED",
                "deliveries": 1,
            }
            assert "failedDeliveries" not in found
            assert DLQ in found["explanation"]
        accepted = await explain(admin, 0)
        assert "deadLetter" not in accepted
        assert f"no dead letter in {DLQ}" in accepted["explanation"]

    serve(test)


def test_letters_of_other_records_are_not_taken_for_it(serve: Serve) -> None:
    """Of another topic, partition or group with the same offset: a topic of letters may be for many."""

    async def test(admin: Admin) -> None:
        await made(admin, count=2)
        same = json.dumps({"pulsar.dead.letter.topic": "graves"})
        assert (await admin.ask("PUT", "P/orders/subscription/billing/properties", same)).status == 204
        await admin.plain("payments")
        await admin.produce("payments", 0, [b"p0", b"p1"])
        earliest: Any = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
        assert (await admin.ask("PUT", "P/payments/subscription/billing?type=shared", earliest)).status == 204
        assert (await admin.ask("PUT", "P/payments/subscription/billing/properties", same)).status == 204
        other = admin.broker.subscriptions.get("billing", "payments")
        assert other is not None
        at = other.partition(0)
        at.attach("c")
        await admin.broker.write([])
        at.fetch("c", 10, 1 << 20, 10)
        assert at.acknowledge("c", [(0, 0, b"\3")]) == 0
        await admin.broker.write([])
        await take(admin, "c1")
        await ack(admin, "c1", 0, 0)
        async with asyncio.timeout(30):
            while (topic := admin.broker.catalog.get("graves")) is None:
                await asyncio.sleep(0)
        assert admin.broker.partition(topic, 0).high_watermark == 1
        assert "deadLetter" not in await explain(admin, 0)

    serve(test)


def test_of_many_letters_the_latest_are_looked_through(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "_STRETCH", 2_000)

    async def test(admin: Admin) -> None:
        await made(admin, count=300)
        await take(admin, "c1")
        for offset in range(300):
            await ack(admin, "c1", offset, offset, kind=3)
        await letters(admin, 300)
        for offset in (0, 150, 299):
            assert (await explain(admin, offset))["deadLetter"]["offset"] == offset
        monkeypatch.setattr(settled, "LOOKED_AT_MOST", 10_000)
        assert (await explain(admin, 299))["deadLetter"]["offset"] == 299
        beyond = await explain(admin, 0)
        assert "deadLetter" not in beyond
        assert "as far as its latest" in beyond["explanation"]

    serve(test)


def test_a_batch_that_cannot_be_opened_is_found_by_each_of_its_offsets(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        good = records.build_batch([records.Record(n, 1, None, b"v" * 100, []) for n in range(4)], codec=4)
        broken = records.assemble(records.header(good), b"\xff" * 40)
        partition = cursor_of(admin).partition
        partition.append(broken, records.header(broken), admin.broker.clock.wall_ms())
        await admin.broker.write([])
        await admin.produce("orders", 0, [b"behind"])
        assert await take(admin, "c1") == [0, 1, 2, 7]
        await letters(admin, 1)
        await ack(admin, "c1", 0, 2, kind=1)
        await ack(admin, "c1", 7, 7, kind=3)
        await letters(admin, 2)
        for offset in range(3, 7):
            found = await explain(admin, offset)
            assert found["deadLetter"]["offset"] == 0
            assert found["deadLetter"]["reason"] == "CORRUPT"
            assert "as a whole" in found["explanation"]
        assert "deadLetter" not in await explain(admin, 2)
        assert (await explain(admin, 7))["deadLetter"]["offset"] == 1

    serve(test)


def test_a_record_that_is_not_there_any_more(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=6)
        await take(admin, "c1")
        await ack(admin, "c1", 0, 0, kind=3)
        await letters(admin, 1)
        partition = cursor_of(admin).partition
        await admin.broker.topics.delete_records(partition, 4)
        buried = await explain(admin, 0)
        assert buried["deadLetter"]["topic"] == DLQ
        gone = await admin.ask("GET", "P/orders/subscription/billing/explain?offset=1")
        assert (gone.status, "begins at offset 4" in gone.json["reason"]) == (404, True)

    serve(test)
