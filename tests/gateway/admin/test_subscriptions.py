"""Subscriptions over HTTP that are there: moved, looked into, on a real broker."""

from __future__ import annotations

import asyncio
import json
import struct

import pytest

from gateway.wire import records
from semantics.subscriptions.cursor import Cursor
from tests.gateway.admin.billing import EARLIEST, Serve, ack, explain, made, stats, take
from tests.gateway.admin.conftest import Admin


def test_skip_clear_and_reset(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=6)
        assert (await admin.ask("POST", "P/orders/subscription/billing/skip/2")).status == 204
        assert (await stats(admin))["msgBacklog"] == 4
        assert await take(admin, "c1", 1) == [2]
        assert (await admin.ask("POST", "P/orders/subscription/billing/skip_all")).status == 204
        assert (await stats(admin))["msgBacklog"] == 0
        assert (await admin.ask("POST", "P/orders/subscription/billing/resetcursor/0")).status == 204
        assert await take(admin, "c1") == [0, 1, 2, 3, 4, 5]
        assert (await admin.ask("POST", "P/orders/subscription/billing/resetcursor", "{}")).status == 204
        assert (await stats(admin))["msgBacklog"] == 0
        assert (await admin.ask("POST", "P/orders/subscription/billing/resetcursor", EARLIEST)).status == 204
        assert (await stats(admin))["msgBacklog"] == 6

    serve(test)


def test_the_backlog_of_a_consumer_group_moves_by_its_offsets(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        path = "P/orders/subscription/readers"
        assert (await admin.ask("PUT", f"{path}?type=failover", EARLIEST)).status == 204
        assert (await admin.ask("POST", f"{path}/skip/1")).status == 204
        assert (await admin.ask("GET", f"{path}/position/1")).body == b"b"
        assert (await admin.ask("GET", f"{path}/explain?offset=0")).json["state"] == "DONE"
        assert (await admin.ask("POST", f"{path}/skip_all")).status == 204
        assert (await admin.ask("POST", f"{path}/analyzeBacklog")).json["messages"] == 0
        await admin.join("readers", "orders")
        refused = await admin.ask("POST", f"{path}/resetcursor", EARLIEST)
        assert (refused.status, "members" in refused.json["reason"]) == (412, True)

    serve(test)


def test_peek_does_not_look_at_each_record_that_is_settled(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c1") == [0, 1, 2, 3, 4]
        await ack(admin, "c1", 1, 3)
        # there may be millions behind one that is stuck
        monkeypatch.delattr(Cursor, "look")
        assert (await admin.ask("GET", "P/orders/subscription/billing/position/1")).body == b"m0"
        assert (await admin.ask("GET", "P/orders/subscription/billing/position/2")).body == b"m4"
        assert (await admin.ask("GET", "P/orders/subscription/billing/position/3")).status == 404

    serve(test)


def test_peek_shows_what_is_not_settled_with_key_and_properties(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        now = admin.broker.clock.wall_ms()
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        partition = admin.broker.partition(topic, 0)
        headers: records.Headers = [("colour", b"blue"), ("pulsar-event-time", b"17")]
        batch = records.build_batch([records.Record(0, now, b"\xff", None, headers)])
        partition.append(batch, records.header(batch), now)
        await admin.broker.write([])
        await take(admin, "c1", 2)
        await ack(admin, "c1", 1, 1)
        path = "P/orders/subscription/billing/position"
        assert [(await admin.ask("GET", f"{path}/{n}")).body for n in (1, 2)] == [b"m0", b"m2"]
        async with admin.session.get(admin.server.url + "/admin/v2/persistent/public/default/orders"
                                     "/subscription/billing/position/3") as third:  # fmt: skip
            assert third.headers["X-Pulsar-partition-key"] == "/w=="
            assert third.headers["X-Pulsar-partition-key-b64-encoded"] == "true"
            assert third.headers["X-Pulsar-null-value"] == "true"
            assert third.headers["X-Pulsar-event-time"] == "17"
            assert json.loads(third.headers["X-Pulsar-PROPERTY"]) == {"colour": "blue"}
        assert (await admin.ask("GET", f"{path}/4")).status == 404
        assert (await admin.ask("GET", f"{path}/0")).status == 412

    serve(test)


def test_messages_by_position_and_by_id(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        path = "P/orders/examinemessage"
        first = await admin.ask("GET", f"{path}?initialPosition=earliest&messagePosition=2")
        last = await admin.ask("GET", f"{path}?initialPosition=latest&messagePosition=1")
        assert (first.body, last.body) == (b"m1", b"m2")
        assert (await admin.ask("GET", f"{path}?initialPosition=latest&messagePosition=4")).status == 404
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        at = admin.broker.partition(topic, 0).log.position_of(0)
        entry = await admin.ask("GET", f"P/orders/ledger/{at.ledger}/entry/{at.entry}")
        (size,) = struct.unpack_from(">I", entry.body)
        # 2: the key "k", 3: a payload of two bytes
        assert entry.body[4 : 4 + size] == b"\x12\x01k\x18\x02"
        assert entry.body.endswith(b"m2")
        assert (await admin.ask("GET", f"P/orders/ledger/{at.ledger}/entry/77")).status == 404

    serve(test)


def test_ids_of_a_plain_topic_have_no_partition_and_both_forms_are_read(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        await admin.partitioned("single", 1)
        for topic, index in (("plain", -1), ("single", 0)):
            await admin.produce(topic, 0, [b"a", b"b"])
            path = f"/admin/v2/persistent/public/default/{topic}"
            assert (await admin.ask("PUT", f"{path}/subscription/s", EARLIEST)).status == 204
            url = f"{admin.server.url}{path}/examinemessage?initialPosition=earliest&messagePosition=2"
            async with admin.session.get(url) as examined:
                found = examined.headers["X-Pulsar-Message-ID"].split(":")
            assert found[2:] == [str(index), "1"]
            explained = await admin.ask("GET", f"{path}/subscription/s/explain?offset=1")
            assert explained.json["messageId"] == ":".join(found)
            async with admin.session.get(
                f"{admin.server.url}{path}/ledger/{found[0]}/entry/{found[1]}"
            ) as entry:
                assert entry.headers["X-Pulsar-Message-ID"] == f"{found[0]}:{found[1]}:{index}"
            analyzed = (await admin.ask("POST", f"{path}/subscription/s/analyzeBacklog")).json
            assert analyzed["lastMessageId"] == ":".join(found)
            for said in ("-1", "0"):
                query = f"messageId={found[0]}:{found[1]}:{said}:1"
                again = await admin.ask("GET", f"{path}/subscription/s/explain?{query}")
                assert again.json["offset"] == 1
                body = {"ledgerId": int(found[0]), "entryId": int(found[1]), "partitionIndex": int(said),
                        "batchIndex": 1}  # fmt: skip
                reset = await admin.ask("POST", f"{path}/subscription/s/resetcursor", json.dumps(body))
                assert reset.status == 204
                stats = (await admin.ask("GET", f"{path}/stats")).json["subscriptions"]["s"]
                assert stats["msgBacklog"] == 1

    serve(test)


def test_analyze_backlog_counts_by_state(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=8)
        await take(admin, "c1", 5)
        await ack(admin, "c1", 1, 2)
        await ack(admin, "c1", 3, 3, kind=2)
        found = (await admin.ask("POST", "P/orders/subscription/billing/analyzeBacklog", "{}")).json
        assert (found["messages"], found["entries"], found["aborted"]) == (6, 1, False)
        states = found["magnetar"]["states"]
        assert (states["acquired"], states["backoff"]) == (2, 1)

    serve(test)


def test_a_key_its_slot_and_who_has_it(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        found = (await admin.ask("GET", "/admin/v2/magnetar/hash?key=Order-3459134")).json
        assert (found["murmur3"], found["slot"]) == (3112179635, 6067)
        await made(admin, kind="key_shared")
        held = await take(admin, "c1")
        for _ in range(10):
            # the selector's new member is durable first
            if held:
                break
            await asyncio.sleep(0)
            held = await take(admin, "c1")
        # all five have the key "k", and one is in hand at a time
        assert held == [0]
        found = (await admin.ask("GET", "P/orders/subscription/billing/hash?key=k")).json
        assert (found["owner"], found["holders"]) == ("c1", {"0": "c1"})
        (consumer,) = (await stats(admin))["consumers"]
        assert consumer["keyHashRangeArrays"] == [[0, 65535]]
        waits = await explain(admin, 1)
        assert (waits["state"], waits["slot"], waits["owner"]) == ("BLOCKED", found["slot"], "c1")
        await ack(admin, "c1", 0, 0)
        assert (await admin.ask("GET", "P/orders/subscription/billing/hash?key=k")).json["holders"] == {}

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("GET", "P/nowhere/subscriptions", 404, "no topic"),
        ("GET", "P/orders/subscription/none/position/1", 404, "no subscription"),
        ("POST", "P/orders/subscription/billing/skip/x", 400, "whole number"),
        ("PUT", "P/orders/subscription/new?type=queue", 400, "shared, key_shared, exclusive, failover"),
        ("PUT", "P/orders/subscription/billing", 409, "already"),
        ("POST", "P/orders/subscription/billing/resetcursor", 400, "message id"),
        ("GET", "P/orders/subscription/billing/explain", 400, "offset"),
        ("GET", "P/orders/subscription/billing/explain?messageId=7:x", 400, "message id"),
        ("GET", "P/orders/subscription/billing/hash?key=a", 412, "Key_Shared"),
        ("GET", "P/orders/subscription/billing/hash", 400, "key"),
        ("POST", "P/many/subscription/billing/skip/1", 405, "many-partition-0"),
        ("DELETE", "P/many-partition-1/subscription/billing", 412, "all partitions"),
    ],
)
def test_what_cannot_be_done_is_told(serve: Serve, method: str, path: str, status: int, word: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.partitioned("many", 2)
        assert (await admin.ask("PUT", "P/many/subscription/billing")).status == 204
        answer = await admin.ask(method, path)
        assert (answer.status, word in answer.json["reason"]) == (status, True), answer

    serve(test)


@pytest.mark.parametrize("body", ["", "null", "[]", "0", '""', "false"])
def test_a_cursor_is_not_moved_by_a_body_that_says_nothing(serve: Serve, body: str) -> None:
    """It went to the end of the topic, and what was not settled was gone."""

    async def test(admin: Admin) -> None:
        await made(admin)
        answer = await admin.ask("POST", "P/orders/subscription/billing/resetcursor", body)
        assert answer.status == 400, answer
        assert (await stats(admin))["msgBacklog"] == 5

    serve(test)
