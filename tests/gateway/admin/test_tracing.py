"""One message through RETRY and dead letter topics, as real cursors and letters have it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.admin import browsing, tracing
from gateway.wire import records
from tests.gateway.admin.billing import EARLIEST, Serve, ack, made, take
from tests.gateway.admin.conftest import Admin

PATH = "P/orders/magnetar/trace"
RETRY, DLQ = "orders-billing-RETRY", "orders-billing-DLQ"


async def ids(admin: Admin, topic: str) -> list[str]:
    """Of the messages on a topic, in their order."""
    found = (await admin.ask("GET", f"P/{topic}/magnetar/records?dir=newer")).json
    return [each["messageId"] for each in found["records"]]


async def traced(admin: Admin, message_id: str, topic: str = "orders") -> dict[str, Any]:
    answer = await admin.ask("GET", f"P/{topic}/magnetar/trace?id={message_id}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


async def retry(admin: Admin, offset: int) -> None:
    """Put a record on the RETRY topic as a consumer does that has been given it: a copy, and a delay."""
    message_id = (await ids(admin, "orders"))[offset]
    topic = admin.broker.catalog.get(RETRY)
    assert topic is not None
    now = admin.broker.clock.wall_ms()
    headers: records.Headers = [("DELAY_TIME", b"5000"), ("ORIGIN_MESSAGE_ID", message_id.encode())]
    batch = records.build_batch([records.Record(0, now, b"k", b"m%d" % offset, headers)])
    admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
    await admin.broker.write([])


async def dead(admin: Admin, count: int) -> None:
    async with asyncio.timeout(30):
        while True:
            topic = admin.broker.catalog.get(DLQ)
            if topic is not None and admin.broker.partition(topic, 0).high_watermark >= count:
                return
            await asyncio.sleep(0)


async def scene(admin: Admin) -> list[str]:
    """m0 is acknowledged, m1 rejected, m2 tried again, m3 open: their ids."""
    await admin.plain("orders")
    await admin.produce("orders", 0, [f"m{n}".encode() for n in range(4)])
    answer = await admin.ask("PUT", "P/orders/subscription/billing?type=shared&enableRetry=true", EARLIEST)
    assert answer.status == 204, answer
    await take(admin, "c")
    await ack(admin, "c", 0, 0)
    await ack(admin, "c", 1, 1, 3)
    await retry(admin, 2)
    await ack(admin, "c", 2, 2)
    await dead(admin, 1)
    return await ids(admin, "orders")


def test_a_message_is_followed_to_where_it_went(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        listed = await scene(admin)
        found = [await traced(admin, each) for each in listed]
        assert [[event["what"] for event in each["events"]] for each in found] == [
            ["published"], ["published", "dead letter"], ["published", "to be tried again"], ["published"],
        ]  # fmt: skip
        states = [each["subscriptions"][0] for each in found]
        assert [(each["subscription"], each["state"]) for each in states] == [
            ("billing", "DONE"), ("billing", "DONE"), ("billing", "DONE"), ("billing", "ACQUIRED"),
        ]  # fmt: skip
        assert states[3]["consumer"] == "c"
        assert [each["messageId"] for each in found] == listed
        published, letter = found[1]["events"]
        assert (published["topic"], published["offset"], published["key"]["decoded"]) == ("orders", 1, "k")
        named = {name: letter[name] for name in letter if name not in ("timestamp", "time")}
        assert named == {
            "what": "dead letter", "topic": DLQ, "partition": 0, "offset": 0, "subscription": "billing",
            "reason": "REJECTED", "readFrom": "orders", "readPartition": 0, "readOffset": 1, "deliveries": 1,
        }  # fmt: skip
        again = found[2]["events"][1]
        assert (again["topic"], again["times"], again["delayMs"]) == (RETRY, 1, 5000)
        assert (found[0]["looked"], found[0]["of"], "atLeast" in found[0]) == (2, 2, False)

    serve(test)


def test_a_letter_leads_to_the_message_that_it_was(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        listed = await scene(admin)
        for topic, message_id in ((DLQ, listed[1]), (RETRY, listed[2])):
            (letter,) = await ids(admin, topic)
            assert (await traced(admin, letter, topic)) == await traced(admin, message_id)

    serve(test)


def test_a_search_that_takes_too_long_says_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        listed = await scene(admin)
        monkeypatch.setattr(tracing, "LONGEST_NS", -1)
        found = await traced(admin, listed[1])
        assert (len(found["events"]), found["atLeast"]) == (1, True)
        monkeypatch.setattr(tracing, "LONGEST_NS", 10**12)
        # in as many pages as it takes
        monkeypatch.setattr(browsing, "WORK_NS", 0)
        monkeypatch.setattr(browsing, "STRETCH", 1)
        assert len((await traced(admin, listed[1]))["events"]) == 2

    serve(test)


@pytest.mark.parametrize(
    ("message_id", "status"),
    [("", 400), ("x", 400), ("latest", 404), ("earliest", 400), ("99:0", 404), ("0:0:7", 404)],
)
def test_what_is_not_there_is_refused(serve: Serve, message_id: str, status: int) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("GET", f"{PATH}?id={message_id}")).status == status

    serve(test)


def test_a_header_that_lies_of_another_topic_leads_nowhere(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        listed = await scene(admin)
        topic = admin.broker.catalog.get(RETRY)
        assert topic is not None
        now = admin.broker.clock.wall_ms()
        headers: records.Headers = [
            ("ORIGIN_MESSAGE_ID", listed[3].encode()), ("REAL_TOPIC", b"persistent://public/default/other"),
        ]  # fmt: skip
        batch = records.build_batch([records.Record(0, now, b"k", b"v", headers)])
        admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
        await admin.broker.write([])
        assert len((await traced(admin, listed[3]))["events"]) == 1
        body = json.dumps({"pulsar.dead.letter.topic": "graves"})
        assert (await admin.ask("PUT", "P/orders/subscription/billing/properties", body)).status == 204
        # where its letters go is asked of the group's configs
        assert [event["what"] for event in (await traced(admin, listed[1]))["events"]] == ["published"]

    serve(test)
