"""Rates of deliveries and of writes: what happened within the last minute, and nothing from before it."""

from __future__ import annotations

from gateway.admin.rates import SAMPLE_EVERY, SPAN
from gateway.admin.recent import Deliveries, Recent
from semantics.subscriptions.states import Ending
from tests.gateway.admin.billing import Serve, ack, cursor_of, made, take
from tests.gateway.admin.conftest import Admin


def rates(admin: Admin, recent: Recent, now: float) -> Deliveries:
    at = cursor_of(admin)
    return recent.deliveries(at.subscription.id, at.partition.id, at.ready().totals, now)


def test_deliveries_of_the_last_minute(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        cursor_of(admin).ready()
        recent = Recent(admin.broker, 100.0)
        assert rates(admin, recent, 100.0) == (0.0, 0.0, 0.0)
        assert await take(admin, "c", 4) == [0, 1, 2, 3]
        assert rates(admin, recent, 110.0) == (0.4, 0.0, 0.0)
        # who leaves gives back what it had
        cursor_of(admin).detach("c", Ending.CRASHED)
        await admin.broker.write([])
        assert await take(admin, "d", 2) == [0, 1]
        assert rates(admin, recent, 110.0) == (0.6, 0.2, 0.0)
        now = 110.0
        while now < 100.0 + 2 * SPAN:
            now += SAMPLE_EVERY
            list(recent.sample(now))
        assert rates(admin, recent, now) == (0.0, 0.0, 0.0)

    serve(test)


def test_what_a_subscription_had_delivered_before_it_came_to_memory_is_no_rate(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c", 4) == [0, 1, 2, 3]
        await ack(admin, "c", 0, 3)
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        for _ in range(3):
            admin.broker.subscriptions.release_idle()
            admin.broker.in_use.release_idle()
        assert not list(admin.broker.subscriptions.live())
        recent = Recent(admin.broker, 0.0)
        # it comes back
        assert await take(admin, "c", 1) == [4]
        assert rates(admin, recent, 10.0) == (0.0, 0.0, 0.0)
        list(recent.sample(10.0))
        await admin.produce("orders", 0, [b"x", b"y"])
        assert await take(admin, "c", 2) == [5, 6]
        assert rates(admin, recent, 20.0) == (0.1, 0.0, 0.0)

    serve(test)


def test_batches_by_how_long_the_store_took(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        watch = admin.broker.turn.watch
        watch.produced(0.003, 1, 7, 70, 700)
        recent = Recent(admin.broker, 0.0)
        watch.produced(0.0005, 1, 2, 20, 200)
        watch.produced(0.004, 1, 3, 20, 200)
        watch.produced(7.0, 1, 1, 20, 200)
        writes = recent.writes(2.0)
        assert writes.rate == 3.0
        assert writes.by_latency == (2, 0, 3, 0, 0, 0, 0, 0, 0, 1)
        assert recent.writes(0.0).rate == 0.0

    serve(test)
