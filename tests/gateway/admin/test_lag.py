"""Backlogs of many topics in one call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.admin import lag
from gateway.wire import records
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.secured import Secured, furnish, serve_secured

Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]
EARLIEST = '{"ledgerId": -1, "entryId": -1}'
LAG = "/admin/v2/magnetar/lag"


def test_backlog_age_and_consumers_of_groups_and_share_groups(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        began = admin.broker.clock.wall_ms()
        await admin.partitioned("orders", 2)
        await admin.plain("quiet")
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        await admin.produce("orders", 1, [b"d"])
        await admin.commit("billing", "orders", 0, 1)
        await admin.commit("billing", "orders", 1, 1)
        await admin.commit("done", "orders", 0, 3)
        assert (await admin.ask("PUT", "P/orders/subscription/packing", EARLIEST)).status == 204
        assert (await admin.ask("POST", "P/orders-partition-0/subscription/packing/skip/1")).status == 204

        answer = (await admin.ask("GET", LAG)).json
        assert answer["next"] is None
        orders, quiet = answer["topics"]
        assert quiet == {
            "topic": "persistent://public/default/quiet", "partitions": 0, "messages": 0, "storageSize": 0,
            "subscriptions": [],
        }  # fmt: skip
        assert (orders["partitions"], orders["messages"]) == (2, 4)
        assert orders["storageSize"] > 0
        billing, done, packing = orders["subscriptions"]
        keys = ("name", "type", "msgBacklog", "msgDelayed", "consumersCount")
        assert [[one[key] for key in keys] for one in orders["subscriptions"]] == [
            ["billing", "Failover", 2, 0, 0], ["done", "Failover", 0, 0, 0], ["packing", "Shared", 3, 0, 0],
        ]  # fmt: skip
        for one in (billing, packing):
            assert began <= one["earliestMsgPublishTimeInBacklog"] <= admin.broker.clock.wall_ms()
        assert done["earliestMsgPublishTimeInBacklog"] == -1

        assert (await admin.ask("GET", "P/orders/lag")).json == orders
        only = (await admin.ask("GET", f"{LAG}?subscription=packing")).json["topics"]
        assert [(one["topic"], one["subscriptions"]) for one in only] == [(orders["topic"], [packing])]
        assert (await admin.ask("GET", "P/quiet/lag?subscription=packing")).status == 404

    serve(test)


def test_the_age_of_a_delayed_message_begins_when_it_is_due(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        assert (await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)).status == 204
        now = admin.broker.clock.wall_ms()
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        for due in (now + 3_600_000, now - 60_000):
            headers: list[tuple[str, bytes | None]] = [("pulsar-deliver-at", b"%d" % due)]
            batch = records.build_batch([records.Record(0, now - 7_200_000, b"k", b"x", headers)])
            admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
            await admin.broker.write([])
            (one,) = (await admin.ask("GET", "P/orders/lag")).json["subscriptions"]
            assert one["earliestMsgPublishTimeInBacklog"] == now - 7_200_000
            if due > now:
                assert (one["oldestAgeSeconds"], "oldest" in one) == (-1, False)
            else:
                assert 60 <= one["oldestAgeSeconds"] < 3_600
        (row,) = (await admin.ask("GET", "/admin/v2/magnetar/subscriptions")).json["subscriptions"]
        assert row["oldest"] == one["oldest"]

    serve(test)


def test_pages_by_name_and_what_nobody_uses_stays_on_the_disk(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for number in range(5):
            await admin.plain(f"t-{number}")
        for _ in range(2):
            admin.broker.in_use.release_idle()
        seen: list[list[str]] = []
        after: str | None = ""
        while after is not None:
            answer = (await admin.ask("GET", f"{LAG}?limit=2&after={after}")).json
            seen.append([one["topic"][-3:] for one in answer["topics"]])
            after = answer["next"]
        assert seen == [["t-0", "t-1"], ["t-2", "t-3"], ["t-4"]]
        assert admin.broker.runtimes() == []

    serve(test)


@pytest.mark.parametrize("limit", ["0", "10001", "many", "-1", "9" * 5_000, "0" * 19 + "20000"])
def test_a_page_has_a_limit(serve: Serve, limit: str) -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.ask("GET", f"{LAG}?limit={limit}")).status == 400

    serve(test)


def test_the_age_is_that_of_the_oldest_batch_and_moves_with_the_backlog(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b"])
        before = admin.broker.clock.wall_ms()
        while admin.broker.clock.wall_ms() == before:
            pass
        await admin.produce("orders", 0, [b"c"])
        ages: list[int] = []
        for offset in (0, 1, 2, 3):
            await admin.commit("billing", "orders", 0, offset)
            (one,) = (await admin.ask("GET", "P/orders/lag")).json["subscriptions"]
            ages.append(one["earliestMsgPublishTimeInBacklog"])
        assert ages[0] == ages[1] <= before < ages[2]
        assert ages[3] == -1

    serve(test)


async def beside(admin: Admin, *names: str) -> None:
    """Topics of acme/eu and of zoo/eu, each of them so called, and of public/default."""
    for tenant in ("acme", "zoo"):
        assert (await admin.ask("PUT", f"/admin/v2/tenants/{tenant}", "{}")).status == 204
        assert (await admin.ask("PUT", f"/admin/v2/namespaces/{tenant}/eu", "{}")).status == 204
        for name in names:
            assert (await admin.ask("PUT", f"/admin/v2/persistent/{tenant}/eu/{name}", "{}")).status == 204
    for name in names:
        await admin.plain(name)


async def paged(admin: Admin, query: str) -> list[list[str]]:
    """Names of topics, a list for each page."""
    pages: list[list[str]] = []
    after: str | None = ""
    while after is not None:
        answer = (await admin.ask("GET", f"{LAG}?{query}&after={after}")).json
        pages.append([one["topic"].partition("://")[2] for one in answer["topics"]])
        after = answer["next"]
    return pages


@pytest.mark.parametrize("checked", [1, 2, 200])
def test_a_page_is_full_whatever_stands_between_the_topics_of_its_namespace(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, checked: int
) -> None:
    monkeypatch.setattr(lag, "CHECKED", checked)

    async def test(admin: Admin) -> None:
        # acme's stand between a and b in the catalog, zoo's behind all
        await beside(admin, "a", "b", "c", "d")
        for namespace in ("public/default", "acme/eu", "zoo/eu"):
            pages = await paged(admin, f"limit=3&namespace={namespace}")
            assert pages == [[f"{namespace}/{each}" for each in "abc"], [f"{namespace}/d"]]
        assert [len(each) for each in await paged(admin, "limit=5")] == [5, 5, 2]

    serve(test)


def test_the_gateways_own_topics_make_no_page_shorter(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.create_topic("aa-own", 1, {}, internal=True)
        for name in ("a", "b", "c"):
            await admin.plain(name)
        for query in ("limit=3", "limit=3&namespace=public/default"):
            assert [each[-1] for each in (await paged(admin, query))[0]] == ["a", "b", "c"]
        assert len((await paged(admin, "limit=9&includeSystemTopic=true"))[0]) == 4

    serve(test)


def test_a_page_for_which_very_many_were_looked_at_says_where_to_go_on(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "MOST_LOOKED", 2)

    async def test(admin: Admin) -> None:
        await beside(admin, "b", "c")
        # of acme/eu two were looked at
        assert await paged(admin, "limit=3&namespace=public/default") == [
            [], ["public/default/b", "public/default/c"], [], [],
        ]  # fmt: skip

    serve(test)


def test_others_namespaces_are_passed_over_as_a_whole(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "CHECKED", 2)
    monkeypatch.setattr(lag, "MOST_LOOKED", 6)

    async def test(admin: Admin) -> None:
        await beside(admin, *"bcdefgh")
        assert (await paged(admin, "limit=2&namespace=public/default"))[0] == [
            "public/default/b",
            "public/default/c",
        ]

    serve(test)


def test_what_the_caller_may_not_see_is_neither_counted_nor_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "MOST_LOOKED", 1)

    async def test(at: Secured) -> None:
        await furnish(at)
        for name in ("a", "b"):
            made = await at.ask("root", "PUT", f"/admin/v2/persistent/other/eu/{name}", "{}")
            assert made.status == 204
        first = (await at.ask("ada", "GET", LAG)).json
        assert [each["topic"] for each in first["topics"]] == ["persistent://shop/eu/orders"]
        assert first["next"] == "shop/eu/orders"
        assert (await at.ask("ada", "GET", f"{LAG}?after=shop/eu/orders")).json == {
            "topics": [],
            "next": None,
        }

    serve_secured(test)
