"""What explain says of records of Shared and Key_Shared subscriptions, on a real broker."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from gateway.admin import explaining
from gateway.wire import records
from semantics.subscriptions import due
from semantics.subscriptions.states import Ending
from tests.gateway.admin.billing import EARLIEST, Serve, ack, cursor_of, explain, made, stats, take
from tests.gateway.admin.conftest import Admin


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
        at = admin.broker.partition(cursor_of(admin).partition.topic.topic, 0)
        place = at.log.position_of(2)
        query = f"messageId={place.ledger}:{place.entry}:0:{place.batch_index}"
        by_id = await admin.ask("GET", f"P/orders/subscription/billing/explain?{query}")
        assert by_id.json["offset"] == 2

    serve(test)


def test_what_waits_for_the_dispatch_rate_says_so(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=4)
        rate = {"pulsar.dispatch.rate.messages": "2", "pulsar.dispatch.rate.seconds": "3600"}
        await admin.broker.topics.configure("orders", lambda old: {**old, **rate})
        assert await take(admin, "c1", 4) == [0, 1]
        assert "within the dispatch rate" in (await explain(admin, 3))["explanation"]
        await admin.broker.topics.configure("orders", lambda old: {})
        assert "next consumer" in (await explain(admin, 3))["explanation"]

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
        assert waits["explanation"].endswith(
            "is the group's pulsar.dead.letter.topic. It failed 1 time so far."
        )
        assert ".)." not in waits["explanation"]

    serve(test)


def test_a_due_time_that_is_not_in_memory_is_told_too(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        monkeypatch.setattr(due, "MOST", 4)
        monkeypatch.setattr(due, "FEW", 1)
        monkeypatch.setattr(explaining, "DUE_ROWS", 3)
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
        monkeypatch.setattr("semantics.subscriptions.deliveries.WINDOW", 1)
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


def test_a_lock_that_has_not_begun_has_no_end(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        path = "P/orders/subscription/billing/properties"
        assert (await admin.ask("PUT", path, '{"pulsar.ack.timeout.ms": "30000"}')).status == 204
        await take(admin, "c1", 1)
        cursor_of(admin).withhold("c1", 0)
        found = await explain(admin, 0)
        assert (found["state"], found["consumer"], "lockedUntil" in found) == ("ACQUIRED", "c1", False)
        assert "waits to be sent" in found["explanation"]

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
        at, subscription = cursor_of(admin), admin.broker.subscriptions.get("billing", "orders")
        assert subscription is not None
        subscription.reserved["c1"] = admin.broker.clock.monotonic_ms() + 30_000
        at.detach("c1", Ending.STOPPED)
        await admin.broker.write([])
        waits = await explain(admin, held)
        assert (waits["state"], waits["owner"]) == ("AVAILABLE", "c1")
        assert waits["explanation"].startswith(f"It waits for c1, which owned slot {waits['slot']} before")
        assert waits["ownerAwaitedUntil"] in waits["explanation"]

    serve(test)


def test_where_consumers_have_left_a_message_waits_for_one_and_not_for_its_key(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, kind="key_shared")
        (before,) = await take(admin, "c1")
        await ack(admin, "c1", before, before)
        (first,) = await take(admin, "c1")
        cursor_of(admin).detach("c1", Ending.STOPPED)
        await admin.broker.write([])
        # as one that nobody uses is let go
        cursor_of(admin).discard()
        waits = await explain(admin, first)
        assert cursor_of(admin).ready().look(first).slot is None, "it is read when somebody comes"
        assert (waits["state"], "reason" in waits) == ("AVAILABLE", False)
        assert waits["explanation"].startswith("It can be delivered, but no consumer is connected.")

    serve(test)


def test_of_a_partition_that_no_consumer_has_asked_for_it_is_not_said_that_none_is_connected(
    serve: Serve,
) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        for index in range(2):
            await admin.produce("orders", index, [b"m"])
        answer = await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)
        assert answer.status == 204
        subscription = admin.broker.subscriptions.get("billing", "orders")
        assert subscription is not None
        for names, says in (
            ((), "but no consumer is connected."),
            (("c1",), "but the consumer that is connected has not asked for messages of partition 1 yet"),
            (
                ("c2",),
                "but none of the 2 consumers that are connected has asked for messages of partition 1 yet",
            ),
        ):
            for name in names:
                subscription.partition(0).attach(name)
            await admin.broker.write([])
            path = "P/orders-partition-1/subscription/billing/explain?offset=0"
            assert says in (await admin.ask("GET", path)).json["explanation"]

    serve(test)
