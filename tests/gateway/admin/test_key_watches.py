"""Key watches as the admin API begins and tells them."""

from __future__ import annotations

import json

import pytest

from tests.gateway.admin.billing import EARLIEST, Serve, ack, made, take
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.secured import Secured, furnish, serve_secured

PATH = "P/orders/subscription/billing/magnetar/watch"


def test_a_key_is_watched_and_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=2)
        assert (await admin.ask("GET", f"{PATH}?key=k")).status == 404
        begun = await admin.ask("POST", PATH, json.dumps({"key": "k", "minutes": 5}))
        assert begun.status == 200
        assert (begun.json["key"], begun.json["watching"], begun.json["events"]) == ("k", True, [])
        await take(admin, "c")
        await ack(admin, "c", 0, 0)
        await ack(admin, "c", 1, 1, 3)
        row = admin.broker.subscriptions.row("billing", "orders")
        assert row is not None
        found = admin.broker.watching.of(row, b"k")
        assert found is not None
        await found[1].settled()
        told = (await admin.ask("GET", f"{PATH}?key=k")).json
        events = [(each["what"], each["offset"], each.get("consumer")) for each in told["events"]]
        assert events == [
            ("delivered", 0, "c"), ("delivered", 1, "c"), ("acknowledged", 0, "c"), ("rejected", 1, "c"),
            ("dead letter", 1, None),
        ]  # fmt: skip
        assert {each["topic"] for each in told["events"]} == {"orders"}

    serve(test)


@pytest.mark.parametrize(
    "body", ["{}", "[]", '{"key": 1}', '{"key": ""}', '{"key": "k", "minutes": 0}', '{"key": "k", "minutes": 61}',
             '{"key": "k", "minutes": true}', json.dumps({"key": "k" * 1025}), '{"key": "\\ud800"}'],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(serve: Serve, body: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("POST", PATH, body)).status == 400

    serve(test)


def test_there_are_so_many_at_most_and_none_of_a_consumer_group(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answers = [(await admin.ask("POST", PATH, json.dumps({"key": f"k{n}"}))).status for n in range(21)]
        assert answers == [200] * 20 + [409]
        await admin.commit("crawler", "orders", 0, 1)
        other = PATH.replace("billing", "crawler")
        assert (await admin.ask("POST", other, json.dumps({"key": "k"}))).status == 412

    serve(test)


def test_a_tenant_that_watches_all_it_may_keeps_nobody_out() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        paths = {}
        for who, tenant in (("ada", "shop"), ("eve", "other")):
            topic = f"/admin/v2/persistent/{tenant}/eu/parcels"
            assert (await at.ask(who, "PUT", topic, "{}")).status == 204
            subscription = f"{topic}/subscription/packing"
            assert (await at.ask(who, "PUT", f"{subscription}?type=shared", EARLIEST)).status == 204
            paths[who] = f"{subscription}/magnetar/watch"

        async def begins(who: str, key: str) -> int:
            answer = await at.ask(who, "POST", paths[who], json.dumps({"key": key, "minutes": 60}))
            return int(answer.status)

        assert [await begins("ada", f"k{n}") for n in range(21)] == [200] * 20 + [409]
        assert [await begins("eve", f"k{n}") for n in range(11)] == [200] * 10 + [409]
        assert await begins("ada", "more") == 409
        told = [(await at.ask("ada", "GET", f"{paths['ada']}?key=k{n}")).status for n in range(20)]
        assert sorted(told) == [200] * 10 + [404] * 10

    serve_secured(test)


def test_a_subscription_whose_only_watch_has_given_way_tells_nothing_any_more() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        watched = []
        for who, tenant, count in (("ada", "shop", 20), ("eve", "other", 10)):
            for number in range(count):
                topic = f"/admin/v2/persistent/{tenant}/eu/parcels-{number:02}"
                assert (await at.ask(who, "PUT", topic, "{}")).status == 204
                path = f"{topic}/subscription/packing"
                assert (await at.ask(who, "PUT", f"{path}?type=shared", EARLIEST)).status == 204
                body = json.dumps({"key": "k", "minutes": 60 - number})
                assert (await at.ask(who, "POST", f"{path}/magnetar/watch", body)).status == 200
        broker = at.admin.broker
        for number in range(20):
            name = f"shop/eu/parcels-{number:02}"
            found = broker.subscriptions.get(broker.catalog.namespaces.group_of(name, "packing"), name)
            assert found is not None
            watched.append(found.partition(0).watching is not None)
        # those that would have ended first
        assert watched == [True] * 10 + [False] * 10

    serve_secured(test)
