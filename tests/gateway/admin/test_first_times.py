"""Since when messages could have been delivered, read from a log."""

from __future__ import annotations

from gateway.broker import first_times
from gateway.broker.first_times import NEVER, FirstTimes
from gateway.wire import records
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin

HOUR = 3_600_000


async def store(admin: Admin, *delays: int | None, age: int = HOUR) -> None:
    """One batch, published so long ago: of each message in how many ms from now it is due."""
    now = admin.broker.clock.wall_ms()
    made = [
        records.Record(
            at, now - age, None, b"x", [] if due is None else [("pulsar-deliver-at", b"%d" % (BASE + due))]
        )
        for at, due in enumerate(delays)
    ]
    batch = records.build_batch(made)
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
    await admin.broker.write([])


BASE = 4_000_000_000_000
"""ms since 1970: long after any test"""


def test_of_one_and_of_all(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await store(admin, 500, 400)
        await store(admin, 300, None)
        await store(admin, None, age=0)
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        (number,) = topic.partitions
        times = FirstTimes(admin.broker, admin.broker.undelayed)
        published = await times.published(number, 0)
        assert admin.broker.clock.wall_ms() - published >= HOUR
        assert [await times.of_one(number, offset) - BASE for offset in range(3)] == [500, 400, 300]
        second = await times.published(number, 2)
        assert await times.of_one(number, 3) == second >= published
        # the fourth message is delayed by nothing
        assert [await times.of_all(number, offset) for offset in range(4)] == [second] * 4
        assert await times.of_all(number, 4) > second
        assert await times.of_all(number, 5) == NEVER == await times.of_one(number, 5)
        assert await times.of_one(number + 1, 0) == NEVER

    serve(test)


def test_what_comes_behind_delayed_messages_may_be_delivered_first(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        (number,) = topic.partitions
        times = FirstTimes(admin.broker, admin.broker.undelayed)
        assert await times.of_all(number, 0) == await times.of_one(number, 0) == NEVER
        await store(admin, 500)
        assert await times.of_all(number, 0) == await times.of_one(number, 0) == BASE + 500
        await store(admin, None)
        assert await times.of_all(number, 0) < BASE
        assert await times.of_one(number, 0) == BASE + 500

    serve(test)


def test_behind_some_batches_of_delayed_ones_nobody_looks(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        for number in range(first_times.BATCHES + 1):
            await store(admin, 900 - number)
        await store(admin, None)
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        times = FirstTimes(admin.broker, admin.broker.undelayed)
        assert await times.of_all(topic.partitions[0], 0) == BASE + 900 - first_times.BATCHES + 1
        assert await times.of_all(topic.partitions[0], 2) < BASE

    serve(test)
