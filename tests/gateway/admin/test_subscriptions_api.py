"""Subscriptions over HTTP: made, moved, looked into, explained, on a real broker."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest

from gateway.admin import server, share_stats
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.wire import records
from semantics.subscriptions import due
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Ending
from store.api import Trim
from tests.gateway.admin.conftest import Admin

Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]

EARLIEST = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
ONE, ALL = b"\x01", 1_000


async def made(admin: Admin, kind: str = "shared", count: int = 5) -> None:
    """Topic `orders` with records, and subscription `billing` that begins with the first."""
    await admin.plain("orders")
    await admin.produce("orders", 0, [f"m{n}".encode() for n in range(count)])
    answer = await admin.ask("PUT", f"P/orders/subscription/billing?type={kind}", EARLIEST)
    assert answer.status == 204, answer


def cursor_of(admin: Admin) -> SubscriptionPartition:
    found = admin.broker.subscriptions.get("billing", "orders")
    assert found is not None
    return found.partition(0)


async def take(admin: Admin, consumer: str, limit: int = ALL) -> list[int]:
    """The offsets that a consumer is given."""
    at = cursor_of(admin)
    at.attach(consumer)
    await admin.broker.write([])
    delivery = at.fetch(consumer, limit, 1 << 20, True)
    if not isinstance(delivery, tuple):
        delivery = await delivery
    return [offset for first, last, _ in delivery.acquired for offset in range(first, last + 1)]


async def ack(admin: Admin, consumer: str, first: int, last: int, kind: int = 1) -> None:
    assert cursor_of(admin).acknowledge(consumer, [(first, last, bytes([kind]))]) == 0
    await admin.broker.write([])


async def stats(admin: Admin) -> dict[str, Any]:
    found: dict[str, Any] = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["billing"]
    return found


async def explain(admin: Admin, offset: int) -> dict[str, Any]:
    answer = await admin.ask("GET", f"P/orders/subscription/billing/explain?offset={offset}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def test_a_subscription_is_made_listed_and_deleted(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == ["billing"]
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 409
        assert await take(admin, "c1") == [0, 1, 2, 3, 4]
        assert (await admin.ask("DELETE", "P/orders/subscription/billing")).status == 204
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []
        assert (await admin.ask("GET", "P/orders/subscription/billing/explain?offset=0")).status == 404

    serve(test)


def test_a_subscription_begins_where_it_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b"])
        await admin.produce("orders", 0, [b"c"])
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        at = admin.broker.partition(topic, 0).log.position_of(2)
        body = json.dumps({"ledgerId": at.ledger, "entryId": at.entry})
        for name, sent, backlog in (("a", EARLIEST, 3), ("b", body, 1), ("c", "", 0)):
            assert (await admin.ask("PUT", f"P/orders/subscription/{name}", sent)).status == 204
            found = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"][name]
            assert (found["msgBacklog"], found["type"]) == (backlog, "Shared")

    serve(test)


def test_what_is_made_here_behaves_as_with_pulsars_clients_unless_the_group_says_otherwise(
    serve: Serve,
) -> None:
    """Seed 1: no ack timeout, a minute after a nack. It is the subscription's affair, not its group's."""

    async def test(admin: Admin) -> None:
        await made(admin)
        config = admin.broker.subscriptions.configs.on("billing", "orders").subscription
        assert (config.nack_delay_ms, config.lock_ms) == (60_000, 2**31 - 1)
        assert admin.broker.group_configs.own("billing") == {}
        group = admin.broker.group_configs.get("billing").subscription
        assert (group.nack_delay_ms, group.lock_ms) == (0, 30_000)
        own = {"pulsar.nack.delay.ms": "5", "share.record.lock.duration.ms": "15000"}
        await admin.broker.group_configs.alter("own", lambda old: {**old, **own})
        assert (await admin.ask("PUT", "P/orders/subscription/own?type=key_shared", EARLIEST)).status == 204
        config = admin.broker.subscriptions.configs.on("own", "orders").subscription
        assert (config.nack_delay_ms, config.lock_ms, config.type) == (5, 15_000, "key_shared")

    serve(test)


def test_a_subscription_elsewhere_changes_nothing_of_one_that_is_there(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("payments")
        await made(admin, kind="key_shared")
        assert await take(admin, "c1") == [0]
        assert (await admin.ask("PUT", "P/payments/subscription/billing", EARLIEST)).status == 204
        again = await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)
        assert again.status == 409
        kinds = {
            topic: (await admin.ask("GET", f"P/{topic}/stats")).json["subscriptions"]["billing"]["type"]
            for topic in ("orders", "payments")
        }
        assert kinds == {"orders": "Key_Shared", "payments": "Shared"}

    serve(test)


def test_properties_are_kept_shown_listed_and_replaced(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        body = {"ledgerId": -1, "entryId": -1, "properties": {"pulsar.nack.delay.ms": "1000", "team": "blue"}}
        assert (await admin.ask("PUT", "P/orders/subscription/billing", json.dumps(body))).status == 204
        path = "P/orders/subscription/billing/properties"
        assert (await admin.ask("GET", path)).json == body["properties"]
        for name, key in (("orders", "partitioned-stats"), ("orders-partition-1", "stats")):
            found = (await admin.ask("GET", f"P/{name}/{key}")).json["subscriptions"]["billing"]
            assert found["subscriptionProperties"] == body["properties"]
            assert found["magnetar"]["overrides"] == {
                "pulsar.nack.delay.ms": "1000",
                "pulsar.ack.timeout.ms": "0",
            }
        told = (await admin.ask("GET", "P/orders/subscriptions?details=true")).json
        assert told == [
            {
                "subscription": "billing",
                "type": "Shared",
                "overrides": {"pulsar.nack.delay.ms": "1000", "pulsar.ack.timeout.ms": "0"},
                "properties": body["properties"],
            }
        ]
        assert (
            await admin.ask("PUT", "P/orders/subscription/new", '{"properties": {"a": "b"}}')
        ).status == 204
        assert (await admin.ask("PUT", path, '{"team": "red"}')).status == 204
        assert (await admin.ask("GET", path)).json == {"team": "red"}
        assert (await admin.ask("PUT", path, "{}")).status == 204
        assert (await admin.ask("GET", path)).json == {}

    serve(test)


def test_wrong_properties_are_refused_and_nothing_is_made(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        path = "P/orders/subscription/billing"
        for properties, status, said in (
            ({"pulsar.nack.delay.ms": "soon"}, 412, "pulsar.nack.delay.ms"),
            ({"share.isolation.level": "read_committed"}, 412, "belongs to the group"),
            ({"team": 7}, 400, "object with texts"),
            (["team"], 400, "object with texts"),
        ):
            body = json.dumps({"ledgerId": -1, "entryId": -1, "properties": properties})
            refused = await admin.ask("PUT", path, body)
            assert (refused.status, said in refused.json["reason"]) == (status, True), refused.json
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []
        assert admin.broker.share_groups.get("billing") is None
        contradiction = json.dumps({"ledgerId": -1, "entryId": -1,
                                    "properties": {"pulsar.subscription.type": "key_shared"}})  # fmt: skip
        assert (await admin.ask("PUT", f"{path}?type=shared", contradiction)).status == 400
        assert (await admin.ask("GET", f"{path}/properties")).status == 404
        assert (await admin.ask("PUT", f"{path}/properties", "{}")).status == 404

    serve(test)


def test_a_consumer_groups_subscription_keeps_no_properties(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        path = "P/orders/subscription/billing"
        body = json.dumps({"ledgerId": -1, "entryId": -1, "properties": {"team": "blue"}})
        assert (await admin.ask("PUT", f"{path}?type=failover", body)).status == 501
        assert (await admin.ask("PUT", f"{path}?type=failover", EARLIEST)).status == 204
        assert (await admin.ask("GET", f"{path}/properties")).json == {}
        assert (await admin.ask("PUT", f"{path}/properties", '{"team": "blue"}')).status == 501
        told = (await admin.ask("GET", "P/orders/subscriptions?details=true")).json
        assert [one["type"] for one in told] == ["Failover"]

    serve(test)


def test_the_retry_topic_is_made_with_the_subscription_when_asked_for(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        assert (await admin.ask("PUT", "P/orders/subscription/billing?enableRetry=true")).status == 204
        made = await admin.ask("GET", "P/orders-billing-RETRY/partitions")
        assert made.json["partitions"] == 3
        assert (await admin.ask("GET", "P/orders-billing-RETRY/subscriptions")).json == ["billing"]
        # another subscription finds the one that somebody else made
        await admin.partitioned("orders-late-RETRY", 3)
        assert (await admin.ask("PUT", "P/orders/subscription/late?enableRetry=true")).status == 204
        assert (await admin.ask("GET", "P/orders-late-RETRY/subscriptions")).json == ["late"]

    serve(test)


def test_stats_say_what_is_unacknowledged_and_by_whom(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=10)
        assert await take(admin, "c1", 4) == [0, 1, 2, 3]
        await ack(admin, "c1", 0, 0)
        await ack(admin, "c1", 1, 1, kind=2)
        found = await stats(admin)
        assert (found["msgBacklog"], found["unackedMessages"], found["type"]) == (9, 2, "Shared")
        (consumer,) = found["consumers"]
        assert (consumer["consumerName"], consumer["unackedMessages"], consumer["msgOutCounter"]) == (
            "c1",
            2,
            4,
        )
        assert found["magnetar"]["states"]["backoff"] == 1

    serve(test)


def test_stats_say_how_many_failed_and_can_be_had_again(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.group_configs.alter("billing", lambda old: {**old, "pulsar.nack.delay.ms": "0"})
        await made(admin, count=10)
        assert await take(admin, "c1", 4) == [0, 1, 2, 3]
        await ack(admin, "c1", 1, 2, kind=2)
        assert (await stats(admin))["msgInReplay"] == 2
        assert await take(admin, "c1", 1) == [1]
        assert (await stats(admin))["msgInReplay"] == 1

    serve(test)


def test_a_partitioned_topic_sums_its_subscriptions(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        for index in range(3):
            await admin.produce("orders", index, [b"x", b"y"])
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        await admin.commit("readers", "orders", 1, 1)
        found = (await admin.ask("GET", "P/orders/partitioned-stats")).json["subscriptions"]
        assert found["billing"]["msgBacklog"] == 6
        assert not {"start", "read"} & set(found["billing"]["magnetar"]["states"])
        assert (found["readers"]["type"], found["readers"]["msgBacklog"]) == ("Failover", 1)
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == ["billing", "readers"]

    serve(test)


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
        headers = [("colour", b"blue"), ("pulsar-event-time", b"17")]
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


def test_why_a_message_does_not_arrive(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=4)
        timeout = {"pulsar.ack.timeout.ms": "30000", "pulsar.nack.delay.ms": "60000"}
        path = "P/orders/subscription/billing/properties"
        assert (await admin.ask("PUT", path, json.dumps(timeout))).status == 204
        assert "no consumer" in (await explain(admin, 0))["explanation"]
        await take(admin, "c1", 3)
        await ack(admin, "c1", 0, 0)
        await ack(admin, "c1", 1, 1, kind=2)
        done, waits, held, free = [await explain(admin, offset) for offset in range(4)]
        assert done["state"] == "DONE"
        assert (waits["state"], waits["failedDeliveries"], "due" in waits) == ("BACKOFF", 1, True)
        assert (held["state"], held["consumer"], "lockedUntil" in held) == ("ACQUIRED", "c1", True)
        assert "next consumer" in free["explanation"]
        await admin.produce("orders", 0, [b"m4"])
        assert "not known yet" in (await explain(admin, 4))["explanation"], "it may be delayed"
        missing = await admin.ask("GET", "P/orders/subscription/billing/explain?offset=9")
        assert (missing.status, "ends at offset 5" in missing.json["reason"]) == (404, True)
        at = admin.broker.partition(cursor_of(admin).subscription.partition(0).partition.topic.topic, 0)
        place = at.log.position_of(2)
        query = f"messageId={place.ledger}:{place.entry}:0:{place.batch_index}"
        by_id = await admin.ask("GET", f"P/orders/subscription/billing/explain?{query}")
        assert by_id.json["offset"] == 2

    serve(test)


def test_a_dead_letter_that_cannot_be_written_says_so(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        own = {"pulsar.dead.letter.topic": "orders"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **own})
        await take(admin, "c1")
        await ack(admin, "c1", 0, 0, kind=3)
        waits = await explain(admin, 0)
        assert (waits["state"], "due" in waits) == ("BACKOFF", True)
        assert waits["explanation"].startswith("It is to be a dead letter, which is tried again at ")
        assert "nacked" not in waits["explanation"]

    serve(test)


def test_a_due_time_that_is_not_in_memory_is_told_too(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        monkeypatch.setattr(due, "MOST", 4)
        monkeypatch.setattr(due, "FEW", 1)
        monkeypatch.setattr(share_stats, "DUE_ROWS", 3)
        await admin.plain("orders")
        now = admin.broker.clock.wall_ms()
        at = [now + 60_000 + n * 1000 for n in range(30)]
        later = [records.Record(n, now, None, b"", [("pulsar-deliver-at", b"%d" % at[n])]) for n in range(30)]
        batch = records.build_batch(later)
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
        await admin.broker.write([])
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        assert await take(admin, "c1") == []
        await admin.broker.write([])
        assert cursor_of(admin).ready().look(29).due is None
        for offset in (0, 29):
            found = await explain(admin, offset)
            due_at = datetime.fromisoformat(found["due"]).timestamp()
            assert (found["state"], round(due_at * 1000)) == ("DELAYED", at[offset])

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


def test_records_that_are_not_read_for_others_wait_for_their_keys_say_so(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.key.shared.look.ahead": "2"}
        )
        await made(admin, kind="key_shared")
        at = cursor_of(admin)
        at.attach("c1")
        await admin.broker.write([])
        await take(admin, "c1")
        await admin.produce("orders", 0, [b"m5"])
        assert await take(admin, "c1") == [], "all have one key, and its first record is in hand"
        found = await explain(admin, 5)
        assert found["state"] == "UNREAD"
        assert "pulsar.key.shared.look.ahead is 2" in found["explanation"]

    serve(test)


def test_a_key_of_which_very_much_waits_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.key.shared.look.ahead": "50"}
        )
        await made(admin, kind="key_shared")
        at = cursor_of(admin)
        at.attach("c1")
        await admin.broker.write([])
        await take(admin, "c1")
        for _ in range(3):
            await admin.produce("orders", 0, [b"more"] * 40)
            await take(admin, "c1")
        found = (await stats(admin))["magnetar"]
        slot = (await explain(admin, 4))["slot"]
        assert found["deepHashesCount"] == 1
        assert found["deepHashes"] == [{"hash": slot, "owner": "c1", "waiting": 124}]
        waits = await explain(admin, 120)
        assert waits["state"] == "BLOCKED"
        assert "c1 has a record of its slot; 119 earlier records of it wait" in waits["explanation"]
        lines = (await admin.ask("GET", "/metrics")).body.decode().splitlines()
        (line,) = [each for each in lines if each.startswith("magnetar_subscription_deep_hashes{")]
        assert line.endswith(" 1")

    serve(test)


def test_a_window_that_is_full_of_one_key_says_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        monkeypatch.setattr("semantics.subscriptions.cursor.WINDOW", 1)
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.key.shared.look.ahead": "50"}
        )
        await made(admin, kind="key_shared")
        at = cursor_of(admin)
        at.attach("c1")
        await admin.broker.write([])
        await take(admin, "c1")
        for _ in range(10):
            await admin.produce("orders", 0, [b"more"] * 100)
            await take(admin, "c1")
        (deep,) = (await stats(admin))["magnetar"]["deepHashes"]
        found = await explain(admin, 1_000)
        assert found["state"] == "UNREAD"
        assert f"Of slot {deep['hash']}, owned by c1, alone {deep['waiting']} wait" in found["explanation"]

    serve(test)


def test_without_an_ack_timeout_nothing_is_said_of_when_a_lock_ends(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.group_configs.alter("billing", lambda old: {**old, "pulsar.ack.timeout.ms": "0"})
        await made(admin)
        await take(admin, "c1", 1)
        found = await explain(admin, 0)
        assert (found["state"], found["consumer"], "lockedUntil" in found) == ("ACQUIRED", "c1", False)
        assert "no ack timeout" in found["explanation"]

    serve(test)


def test_a_record_whose_owner_is_awaited_after_a_restart_says_so(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, kind="key_shared")
        await take(admin, "c1")
        await admin.broker.write([])
        (held, *_) = await take(admin, "c1") or [0]
        assert "ownerAwaitedUntil" not in await explain(admin, held)
        # what a restart leaves: the member's slots, and no consumer
        at = cursor_of(admin)
        at.subscription.reserved["c1"] = admin.broker.clock.monotonic_ms() + 30_000
        at.detach("c1", Ending.STOPPED)
        await admin.broker.write([])
        waits = await explain(admin, held)
        assert (waits["state"], waits["owner"]) == ("AVAILABLE", "c1")
        assert waits["explanation"].startswith(f"It waits for c1, which owned slot {waits['slot']} before")
        assert waits["ownerAwaitedUntil"] in waits["explanation"]

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("GET", "P/nowhere/subscriptions", 404, "no topic"),
        ("GET", "P/orders/subscription/none/position/1", 404, "no subscription"),
        ("POST", "P/orders/subscription/billing/skip/x", 400, "whole number"),
        ("PUT", "P/orders/subscription/new?type=exclusive", 400, "shared, key_shared"),
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


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_stats_of_a_subscription_that_nobody_uses_come_from_its_row(serve: Serve, kind: str) -> None:
    """They say what they would say of a cursor that is loaded, and load none."""

    async def test(admin: Admin) -> None:
        await made(admin, kind, 12)
        now = admin.broker.clock.wall_ms()
        far = b"%d" % (now + 10**7)
        late = records.build_batch([records.Record(0, now, b"k", b"late", [("pulsar-deliver-at", far)])])
        partition = cursor_of(admin).partition
        partition.append(late, records.header(late), now)
        await admin.broker.write([])
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.nack.delay.ms": "600000"}
        )
        got: list[int] = []
        for number in range(20):
            # one by one: under Key_Shared they are of one key
            found = await take(admin, "c", 1)
            if found:
                got += found
                await ack(admin, "c", found[0], found[0], 2 if number == 2 else 1)
        assert len(got) >= 3
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        await admin.produce("orders", 0, [b"more", b"and more"])
        loaded = await stats(admin)
        assert (loaded["magnetar"]["states"]["delayed"], loaded["magnetar"]["states"]["backoff"]) in (
            (1, 1),
            (0, 1),
        )
        for _ in range(2):
            admin.broker.subscriptions.release_idle()
            admin.broker.share_groups.release_idle()
        assert not list(admin.broker.subscriptions.live())
        resting = await stats(admin)
        assert not list(admin.broker.subscriptions.live())
        assert not admin.broker.share_groups._live
        # what it has counted since it was loaded is gone with it; Key_Shared would read again from its start
        for found in (loaded, resting):
            found["magnetar"].pop("readOffset")
            found["magnetar"].pop("unread")
            states = found["magnetar"]["states"]
            found["magnetar"]["states"] = {
                key: states[key] for key in ("start", "open", "delayed", "backoff")
            }
        assert resting == loaded
        cursor_of(admin).ready()
        again = await stats(admin)
        assert (again["msgBacklog"], again["msgDelayed"]) == (loaded["msgBacklog"], loaded["msgDelayed"])

    serve(test)


def test_what_retention_took_is_no_backlog_of_a_subscription_that_nobody_uses(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=10)
        assert await take(admin, "c", 4) == [0, 1, 2, 3]
        await ack(admin, "c", 1, 1)
        at = cursor_of(admin)
        at.detach("c", Ending.STOPPED)
        number = at.id
        await admin.broker.write([])
        for _ in range(2):
            admin.broker.subscriptions.release_idle()
        await admin.broker.write([Trim(number, 10)])
        await admin.produce("orders", 0, [b"new"])
        found = await stats(admin)
        assert found["msgBacklog"] == 1
        assert found["magnetar"]["states"]["open"] == 0
        assert not list(admin.broker.subscriptions.live())

    serve(test)


def test_what_retention_took_of_what_waits_is_not_counted_either(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=10)
        own = {"pulsar.nack.delay.ms": "600000"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **own})
        assert await take(admin, "c", 6) == [0, 1, 2, 3, 4, 5]
        await ack(admin, "c", 0, 2, 2)
        await ack(admin, "c", 4, 5, 1)
        at = cursor_of(admin)
        at.detach("c", Ending.STOPPED)
        await admin.broker.write([])
        for _ in range(2):
            admin.broker.subscriptions.release_idle()
        assert not list(admin.broker.subscriptions.live())
        await admin.broker.topics.delete_records(at.partition, 2)
        states = (await stats(admin))["magnetar"]["states"]
        assert [states[key] for key in ("start", "open", "available", "backoff")] == [2, 6, 5, 1]

    serve(test)


def test_many_subscriptions_that_nobody_uses_are_looked_at_a_page_at_a_time(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        names = [f"s{number:03}" for number in range(250)]
        for name in names:
            assert (await admin.ask("PUT", f"P/orders/subscription/{name}", EARLIEST)).status == 204
        for _ in range(2):
            admin.broker.subscriptions.release_idle()
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        found = await share_stats.of_topic(admin.broker, topic, [0])
        assert list(found[0]) == names
        assert turns - before >= 4
        counting.cancel()
        assert not list(admin.broker.subscriptions.live())

    serve(test)


def test_a_large_answer_comes_whole(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        monkeypatch.setattr(server, "PIECE", 100)
        answer = await admin.ask("GET", "P/orders/stats")
        assert len(answer.body) > 1000
        assert answer.json["subscriptions"]["billing"]["msgBacklog"] == 5
        head = await admin.ask("HEAD", "P/orders/stats")
        assert (head.status, head.body) == (200, b"")

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
