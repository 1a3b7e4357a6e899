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
                "state": "open",
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


def letter(offset: int, place: int | None, message_id: str = "") -> records.Record:
    """A dead letter of group billing on orders: of the record at `place`, and of which message it was at first."""
    headers: list[tuple[str, bytes | None]] = [
        ("REAL_TOPIC", b"persistent://public/default/orders"),
        ("REAL_SUBSCRIPTION", b"billing"),
        ("ORIGIN_MESSAGE_ID", message_id.encode()),
        ("pulsar-dead-letter-reason", b"REJECTED"),
    ]
    if place is not None:
        headers += [
            ("__dlq.errors.topic", b"orders"),
            ("__dlq.errors.partition", b"0"),
            ("__dlq.errors.offset", b"%d" % place),
            ("__dlq.errors.group", b"billing"),
        ]
    else:
        headers += [("__dlq.errors.topic", b"orders-billing-RETRY"), ("__dlq.errors.offset", b"0")]
    return records.Record(offset, 1, None, b"v", headers)


async def buried(admin: Admin, batch: bytes, index: int = 0) -> None:
    """Somebody writes this to the topic of dead letters."""
    topic = admin.broker.catalog.get(DLQ)
    assert topic is not None
    admin.broker.partition(topic, index).append(batch, records.header(batch), admin.broker.clock.wall_ms())
    await admin.broker.write([])


async def accepted(admin: Admin, count: int, partitions: int = 1) -> str:
    """Topic orders, all of it acknowledged, and a topic for dead letters; the id of message 1."""
    await made(admin, count=count)
    await take(admin, "c1")
    await ack(admin, "c1", 0, count - 1)
    await admin.partitioned(DLQ, partitions)
    found: str = (await explain(admin, 1))["messageId"]
    return found


def test_the_letter_of_the_very_record_goes_before_one_of_a_message_that_was_made_of_it(serve: Serve) -> None:
    """A letter that is played back with its headers becomes a record of its own, with the first one's origin."""

    async def test(admin: Admin) -> None:
        message = await accepted(admin, 4)
        await buried(admin, records.build_batch([letter(0, 1, message), letter(1, 3, message)]))
        assert (await explain(admin, 1))["deadLetter"]["offset"] == 0
        assert (await explain(admin, 3))["deadLetter"]["offset"] == 1
        assert "deadLetter" not in await explain(admin, 2)

    serve(test)


def test_the_letter_of_a_retry_is_found_in_whichever_partition_it_is(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        message = await accepted(admin, 3, partitions=3)
        await buried(admin, records.build_batch([letter(0, None, message)]), index=2)
        found = (await explain(admin, 1))["deadLetter"]
        assert (found["partition"], found["offset"]) == (2, 0)
        assert "deadLetter" not in await explain(admin, 0)

    serve(test)


@pytest.mark.parametrize("other", ["REAL_TOPIC", "REAL_SUBSCRIPTION"])
def test_of_another_topic_or_subscription_an_origin_says_nothing(serve: Serve, other: str) -> None:
    async def test(admin: Admin) -> None:
        message = await accepted(admin, 3)
        its = letter(0, None, message)
        headers = [(name, b"another" if name == other else value) for name, value in its.headers]
        await buried(admin, records.build_batch([its._replace(headers=headers)]))
        assert "deadLetter" not in await explain(admin, 1)

    serve(test)


def test_what_cannot_be_opened_hides_no_letter(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        message = await accepted(admin, 3)
        await buried(admin, records.build_batch([letter(0, 1, message)]))
        good = records.build_batch([letter(0, 2, message)])
        await buried(admin, records.assemble(records.header(good), b"\xff" * 40 + message.encode()))
        # a client's own, which would unfold on the loop
        await buried(admin, records.build_batch([letter(n, 1, message) for n in range(50)], codec=3))
        monkeypatch.setattr(settled, "MOST_RECORDS", 20)
        await buried(admin, records.build_batch([letter(n, 1, message) for n in range(21)]))
        assert (await explain(admin, 1))["deadLetter"]["offset"] == 0

    serve(test)


def test_one_stretch_of_large_letters_is_not_looked_through_without_end(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters are small on the average and large at the end."""

    async def test(admin: Admin) -> None:
        message = await accepted(admin, 3)
        for _ in range(100):
            await buried(admin, records.build_batch([letter(0, 1, message)]))
        large = letter(0, 2, message)._replace(value=b"x" * 50_000)
        for _ in range(20):
            await buried(admin, records.build_batch([large]))
        monkeypatch.setattr(settled, "_STRETCH", 100_000)
        monkeypatch.setattr(settled, "LOOKED_AT_MOST", 200_000)
        topic = admin.broker.catalog.get(DLQ)
        assert topic is not None
        partition, read = admin.broker.partition(topic, 0), list[int]()
        real = partition.read

        def counted(offset: int, most: int) -> Any:
            found = real(offset, most)
            read.append(sum(len(part) for part in found))  # type: ignore[misc, union-attr]
            return found

        monkeypatch.setattr(type(partition), "read", lambda self, offset, most: counted(offset, most))
        found = await explain(admin, 0)
        assert "as far as its latest" in found["explanation"]
        assert sum(read) < 500_000

    serve(test)


@pytest.mark.parametrize(("offset", "place"), [(19, 19), (0, None)])
def test_what_retention_takes_during_the_look_is_no_failure(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, offset: int, place: int | None
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=20)
        await take(admin, "c1")
        for each in range(20):
            await ack(admin, "c1", each, each, kind=3)
        await letters(admin, 20)
        topic = admin.broker.catalog.get(DLQ)
        assert topic is not None
        partition = admin.broker.partition(topic, 0)
        read, taken = type(partition).read, False

        async def late(start: int, most: int) -> Any:
            await admin.broker.topics.delete_records(partition, 18)
            found = read(partition, start, most)
            return found if isinstance(found, list) else await found

        def look(self: Any, start: int, most: int) -> Any:
            nonlocal taken
            if self is not partition or taken:
                return read(self, start, most)
            taken = True
            return late(start, most)

        monkeypatch.setattr(type(partition), "read", look)
        found = await explain(admin, offset)
        assert taken
        assert found.get("deadLetter", {}).get("offset") == place

    serve(test)


def test_a_letter_with_a_number_of_thousands_of_digits_is_found(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        message = await accepted(admin, 3)
        its = letter(0, 1, message)
        its.headers.append(("__dlq.errors.delivery.count", b"9" * 5_000))
        await buried(admin, records.build_batch([its]))
        found = (await explain(admin, 1))["deadLetter"]
        assert (found["offset"], found["deliveries"]) == (0, 0)

    serve(test)
