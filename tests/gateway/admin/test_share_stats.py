"""What stats say of Shared and Key_Shared subscriptions, on a real broker."""

from __future__ import annotations

import asyncio

import pytest

from gateway.admin import share_stats
from gateway.wire import records
from semantics.subscriptions.states import Ending
from store.api import Trim
from tests.gateway.admin.billing import COUNTERS, EARLIEST, Serve, ack, cursor_of, made, stats, take
from tests.gateway.admin.conftest import Admin


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
