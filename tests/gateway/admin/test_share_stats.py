"""What stats and explain say of Shared and Key_Shared subscriptions, on a real broker."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime

import pytest

from gateway.admin import share_stats
from gateway.wire import records
from semantics.subscriptions import due
from semantics.subscriptions.states import Ending
from store.api import StoreError, Trim
from tests.gateway.admin.billing import EARLIEST, ONE, Serve, ack, cursor_of, explain, made, stats, take
from tests.gateway.admin.conftest import Admin

COUNTERS = (
    "delivered", "redelivered", "acknowledged", "nacked", "rejected", "timedOut", "crashed", "buried", "dropped",
)  # fmt: skip


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
        cursor_of(admin).withhold("c1", [(0, 0)])
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
        at = cursor_of(admin)
        at.subscription.reserved["c1"] = admin.broker.clock.monotonic_ms() + 30_000
        at.detach("c1", Ending.STOPPED)
        await admin.broker.write([])
        waits = await explain(admin, held)
        assert (waits["state"], waits["owner"]) == ("AVAILABLE", "c1")
        assert waits["explanation"].startswith(f"It waits for c1, which owned slot {waits['slot']} before")
        assert waits["ownerAwaitedUntil"] in waits["explanation"]

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
        # Key_Shared would read again from its start
        for told in (loaded, resting):
            told["magnetar"].pop("readOffset")
            told["magnetar"].pop("unread")
            states = told["magnetar"]["states"]
            told["magnetar"]["states"] = {
                key: states[key] for key in ("start", "open", "delayed", "backoff", *COUNTERS)
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


async def counters(admin: Admin) -> dict[str, int]:
    """What stats say was counted, those that are not 0."""
    states = (await stats(admin))["magnetar"]["states"]
    return {name: states[name] for name in COUNTERS if states[name]}


def let_go(admin: Admin) -> None:
    """What nobody uses leaves memory."""
    for _ in range(3):
        admin.broker.subscriptions.release_idle()
        admin.broker.in_use.release_idle()
    assert not list(admin.broker.subscriptions.live())


async def shared_metrics(admin: Admin) -> dict[str, int]:
    lines = (await admin.ask("GET", "/metrics")).body.decode().splitlines()
    found = [line.rsplit(" ", 1) for line in lines if line.startswith("magnetar_share_")]
    return {name: int(float(value)) for name, value in found}


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_counters_stay_when_an_idle_subscription_is_let_go(serve: Serve, kind: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, kind, 8)
        for number, verdict in enumerate((1, 1, 3, 1)):
            # one by one: under Key_Shared they are of one key
            assert await take(admin, "c", 1) == [number]
            await ack(admin, "c", number, number, verdict)
        while cursor_of(admin).burying or (await counters(admin)).get("buried") != 1:
            await asyncio.sleep(0.01)
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        first = {"delivered": 4, "acknowledged": 3, "rejected": 1, "buried": 1}
        assert await counters(admin) == first
        metrics = await shared_metrics(admin)
        let_go(admin)
        assert await counters(admin) == first
        assert not list(admin.broker.subscriptions.live()), "asking does not bring it to life"
        assert await shared_metrics(admin) == metrics

        assert await take(admin, "c", 1) == [4]
        await ack(admin, "c", 4, 4)
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        again = {**first, "delivered": 5, "acknowledged": 4}
        assert await counters(admin) == again
        backlog = (await admin.ask("POST", "P/orders/subscription/billing/analyzeBacklog")).json
        assert {name: backlog["magnetar"]["states"][name] for name in again} == again
        for _ in range(2):
            let_go(admin)
            assert await counters(admin) == again
            # loaded, and let go without anything to count
            cursor_of(admin).ready()
            assert await counters(admin) == again

    serve(test)


def test_partitions_count_for_themselves(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        await admin.produce("orders", 0, [b"x", b"y"])
        await admin.produce("orders", 2, [b"x", b"y"])
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        for index, limit in ((0, 1), (2, 2)):
            found = admin.broker.subscriptions.get("billing", "orders")
            assert found is not None
            at = found.partition(index)
            at.attach("c")
            await admin.broker.write([])
            assert isinstance(at.fetch("c", limit, 1 << 20, limit), tuple)
            at.detach("c", Ending.STOPPED)
            await admin.broker.write([])
        let_go(admin)
        each = [
            (await admin.ask("GET", f"P/orders-partition-{index}/stats")).json["subscriptions"]["billing"]
            for index in range(3)
        ]
        assert [one["magnetar"]["states"]["delivered"] for one in each] == [1, 0, 2]
        whole = (await admin.ask("GET", "P/orders/partitioned-stats")).json["subscriptions"]["billing"]
        assert whole["magnetar"]["states"]["delivered"] == 3
        assert len(admin.broker.subscriptions.counted) == 2, "nothing is kept of what counted nothing"

    serve(test)


def test_counters_stay_when_a_subscription_gets_another_type(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c", 2) == [0, 1]
        await ack(admin, "c", 0, 1)
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        before = await counters(admin)
        assert before == {"delivered": 2, "acknowledged": 2}
        path = "P/orders/subscription/billing/properties"
        answer = await admin.ask("PUT", path, json.dumps({"pulsar.subscription.type": "key_shared"}))
        assert answer.status == 204, answer
        found = await stats(admin)
        assert found["type"] == "Key_Shared"
        assert await counters(admin) == before
        assert await take(admin, "c", 1) == [2]
        assert await counters(admin) == {"delivered": 3, "acknowledged": 2}

    serve(test)


def test_counters_stay_when_a_commit_fails(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    async def test(admin: Admin) -> None:
        own = {"pulsar.ack.timeout.ms": "1000"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **own})
        await made(admin)
        assert await take(admin, "c", 3) == [0, 1, 2]
        await ack(admin, "c", 0, 0)
        before = await counters(admin)
        assert before == {"delivered": 3, "acknowledged": 1}
        at = cursor_of(admin)
        with monkeypatch.context() as patched:
            patched.setattr(type(at.ready()), "writes", broken)
            at.acknowledge("c", [(1, 1, ONE)])
            # of the turn that is lost
            at.ready().tick(admin.broker.clock.monotonic_ms() + 5_000, admin.broker.clock.wall_ms())
            at.touch()
            seen = await counters(admin)
            await asyncio.sleep(0.05)
        assert at.cursor is None
        assert await counters(admin) == seen == {"delivered": 3, "acknowledged": 2, "timedOut": 1}
        assert (await shared_metrics(admin))["magnetar_share_timeouts_total"] == 1
        assert await take(admin, "c", 1) == [1]
        assert await counters(admin) == {**seen, "delivered": 4}
        assert (await shared_metrics(admin))["magnetar_share_timeouts_total"] == 1

    serve(test)


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("what", ["P/orders/subscription/billing", "P/orders"])
def test_a_subscription_that_is_made_again_counts_from_0(serve: Serve, what: str, idle: bool) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c", 2) == [0, 1]
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        if idle:
            let_go(admin)
            assert len(admin.broker.subscriptions.counted) == 1
        assert (await admin.ask("DELETE", what)).status == 204
        assert len(admin.broker.subscriptions.counted) == 0
        if what == "P/orders":
            await made(admin)
        else:
            answer = await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)
            assert answer.status == 204, answer
        assert await counters(admin) == {}
        assert await take(admin, "c", 1) == [0]
        assert await counters(admin) == {"delivered": 1}

    serve(test)


def test_a_deletion_that_fails_leaves_the_counters(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object) -> None:
        raise StoreError("no")

    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c", 2) == [0, 1]
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        with monkeypatch.context() as patched:
            patched.setattr(admin.broker, "write", failing)
            assert (await admin.ask("DELETE", "P/orders/subscription/billing")).status >= 400
        assert await counters(admin) == {"delivered": 2}

    serve(test)
