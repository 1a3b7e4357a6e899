"""Series as the admin API tells them."""

from __future__ import annotations

import pytest

from tests.gateway.admin.billing import Serve, ack, made, take
from tests.gateway.admin.conftest import Admin

PATH = "P/orders/subscription/billing/magnetar/series"


def test_a_subscriptions_series_and_that_of_all(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=5)
        assert (await admin.ask("GET", PATH)).status == 404
        await take(admin, "c", 3)
        await ack(admin, "c", 0, 1)
        await admin.broker.sampling.sample()
        found = (await admin.ask("GET", PATH)).json
        assert (found["span"], found["stepSeconds"]) == ("1h", 10)
        assert found["first"].endswith("Z")
        assert (found["in"], found["out"], found["open"]) == ([None], [None], [3.0])
        assert 0 <= found["oldestSeconds"][0] < 60
        some = (await admin.ask("GET", f"{PATH}?span=48h&of=open,in")).json
        assert set(some) == {"span", "stepSeconds", "first", "open", "in"}
        assert some["stepSeconds"] == 300
        everything = (await admin.ask("GET", "/admin/v2/magnetar/series?of=open")).json
        assert (everything["subscriptions"], everything["open"]) == (1, [3.0])

    serve(test)


@pytest.mark.parametrize("query", ["span=1y", "of=age", "of=in,,out"])
def test_what_makes_no_sense_is_refused(serve: Serve, query: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.broker.sampling.sample()
        assert (await admin.ask("GET", f"{PATH}?{query}")).status == 400

    serve(test)


def test_a_consumer_groups_series_is_how_far_it_is_behind(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"x", b"y", b"z"])
        await admin.commit("billing", "orders", 0, 1)
        answer = await admin.ask("GET", PATH)
        assert answer.status == 404
        assert "consumer group billing" in answer.json["reason"]
        sums = admin.server._context.sums
        await sums.sweep()
        slot, wall = admin.broker.sampling.slot, admin.broker.clock.wall_ms()
        sums.series.sample(slot - 2, wall)
        await admin.commit("billing", "orders", 0, 2)
        await sums.sweep()
        # once in a slot
        sums.series.sample(slot - 2, wall)
        sums.series.sample(slot - 1, wall)
        found = (await admin.ask("GET", PATH)).json
        assert (found["open"][:2], found["in"][:2]) == ([2.0, 1.0], [None, None])
        assert all(0 <= each < 60 for each in found["oldestSeconds"][:2])
        await admin.commit("billing", "orders", 0, 3)
        await sums.sweep()
        sums.series.sample(slot, wall)
        found = (await admin.ask("GET", f"{PATH}?of=open,oldest")).json
        assert (found["open"][2], found["oldestSeconds"][2]) == (0.0, 0.0)
        assert (await admin.ask("DELETE", "P/orders/subscription/billing")).status == 204
        await sums.sweep()
        sums.series.sample(slot + 1, wall)
        assert sums.series.of("orders", "billing") is None

    serve(test)
