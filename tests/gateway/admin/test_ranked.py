"""Subscriptions in an order, and what needs attention, on a real broker."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any
from urllib.parse import quote

import pytest

from gateway.admin.slices import Pace
from gateway.admin.sums import Sums
from gateway.wire import records
from semantics.subscriptions.states import Ending
from tests.gateway.admin.billing import EARLIEST, Serve, ack, cursor_of, made, take
from tests.gateway.admin.conftest import Admin

LIST = "/admin/v2/magnetar/subscriptions"
ATTENTION = "/admin/v2/magnetar/attention"


async def listed(admin: Admin, query: str = "") -> list[dict[str, Any]]:
    answer = await admin.ask("GET", f"{LIST}?{query}")
    assert answer.status == 200, answer
    found: list[dict[str, Any]] = answer.json["subscriptions"]
    return found


async def one(admin: Admin) -> dict[str, Any]:
    (found,) = await listed(admin)
    return found


def states(found: dict[str, Any]) -> dict[str, int]:
    """Those that there are."""
    return {name: count for name, count in found["states"].items() if count}


async def late(admin: Admin, due: int, name: str = "orders") -> None:
    """One message that is delayed up to a time in ms since 1970."""
    now = admin.broker.clock.wall_ms()
    batch = records.build_batch([records.Record(0, now, b"k", b"late", [("pulsar-deliver-at", b"%d" % due)])])
    topic = admin.broker.catalog.get(name)
    assert topic is not None
    admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
    await admin.broker.write([])


def test_open_messages_by_state_as_the_cursor_changes(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        began = admin.broker.clock.wall_ms()
        await made(admin, count=6)
        found = await one(admin)
        assert (found["topic"], found["subscription"], found["type"], found["partitions"]) == (
            "persistent://public/default/orders", "billing", "Shared", 1,
        )  # fmt: skip
        assert (found["open"], states(found), found["consumers"]) == (6, {"unread": 6}, 0)
        assert 0 <= found["oldestAgeSeconds"] <= (admin.broker.clock.wall_ms() - began) // 1000
        await late(admin, admin.broker.clock.wall_ms() + 10**7)
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.nack.delay.ms": "600000"}
        )
        # the first fetch ends with the batch, the second looks at the delayed one
        assert len(await take(admin, "c1", 6)) == 6
        await take(admin, "c1", 6)
        await ack(admin, "c1", 0, 1)
        await ack(admin, "c1", 2, 3, kind=2)
        await ack(admin, "c1", 4, 4, kind=3)
        for _ in range(5):
            await admin.broker.write([])
            await asyncio.sleep(0)
        found = await one(admin)
        assert (found["open"], states(found)) == (4, {"inHand": 1, "backoff": 2, "delayed": 1})
        assert found["deadLetters"] == 1
        assert found["nextDue"] > found["oldest"]
        assert (await admin.ask("GET", LIST)).json["of"] == 1

    serve(test)


def test_blocked_by_a_key(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        # all have one key
        await made(admin, "key_shared", count=9)
        await take(admin, "c1", 1)
        found = await one(admin)
        assert (found["type"], states(found)) == ("Key_Shared", {"inHand": 1, "blocked": 8})

    serve(test)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_what_nobody_uses_stands_as_it_stood(serve: Serve, kind: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, kind, count=4)
        await late(admin, admin.broker.clock.wall_ms() + 10**7)
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.nack.delay.ms": "600000"}
        )
        while await take(admin, "c1", 1):
            last = cursor_of(admin).ready().stats()
            await ack(admin, "c1", last["start"], last["start"], kind=2 if last["start"] == 1 else 1)
            if last["start"] == 1:
                break
        cursor_of(admin).detach("c1", Ending.LEFT)
        await admin.broker.write([])
        before = await one(admin)
        for _ in range(4):
            admin.broker.subscriptions.release_idle()
            await admin.broker.write([])
            admin.broker.in_use.release_idle()
        assert admin.broker.subscriptions.in_use("billing", cursor_of_topic(admin)) is None
        after = await one(admin)
        assert admin.broker.subscriptions.in_use("billing", cursor_of_topic(admin)) is None
        assert (after["open"], after["oldest"]) == (before["open"], before["oldest"])

    serve(test)


def cursor_of_topic(admin: Admin) -> bytes:
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    return topic.topic_id


def test_a_delayed_message_has_not_waited(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await late(admin, admin.broker.clock.wall_ms() + 10**7)
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        found = await one(admin)
        assert (found["open"], found["oldestAgeSeconds"]) == (1, -1)
        await admin.produce("orders", 0, [b"now"])
        await take(admin, "c1")
        found = await one(admin)
        assert (states(found), found["oldestAgeSeconds"] >= 0) == ({"inHand": 1, "delayed": 1}, True)

    serve(test)


def test_consumer_groups_stand_beside_shared_ones(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        await admin.produce("orders", 1, [b"d"])
        assert (await admin.ask("PUT", "P/orders/subscription/packing", EARLIEST)).status == 204
        await admin.commit("billing", "orders", 0, 1)
        await admin.commit("billing", "orders", 1, 1)
        assert [(each["subscription"], each["type"], each["open"]) for each in await listed(admin, "sort=name")] == [
            ("billing", "Failover", 2), ("packing", "Shared", 4),
        ]  # fmt: skip
        await admin.commit("billing", "orders", 0, 3)
        assert [each["open"] for each in await listed(admin, "sort=name")] == [0, 4]
        await admin.produce("orders", 1, [b"e", b"f"])
        assert [each["open"] for each in await listed(admin, "sort=name")] == [2, 6]
        assert (await admin.ask("DELETE", "P/orders/subscription/packing")).status == 204
        assert [each["subscription"] for each in await listed(admin)] == ["billing"]
        assert (await admin.ask("DELETE", "P/orders/partitions")).status == 204
        assert await listed(admin) == []

    serve(test)


def test_pages_and_filters(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for number in range(5):
            await admin.plain(f"t-{number}")
            await admin.produce(f"t-{number}", 0, [b"x"] * (number + 1))
            assert (
                await admin.ask("PUT", f"P/t-{number}/subscription/s{number % 2}", EARLIEST)
            ).status == 204
        seen: list[list[str]] = []
        after = ""
        while True:
            answer = (await admin.ask("GET", f"{LIST}?sort=open&limit=2&after={after}")).json
            seen.append([each["topic"][-3:] for each in answer["subscriptions"]])
            if "next" not in answer:
                break
            after = answer["next"]
        assert seen == [["t-4", "t-3"], ["t-2", "t-1"], ["t-0"]]
        assert [each["topic"][-3:] for each in await listed(admin, "q=S1&sort=name")] == ["t-1", "t-3"]
        assert [each["topic"][-3:] for each in await listed(admin, "topic=t-2")] == ["t-2"]
        assert [each["topic"][-3:] for each in await listed(admin, "q=T-3&namespace=public/default")] == [
            "t-3"
        ]
        for wrong in ("sort=age", "limit=0", "limit=1001", "after=x", "sort=name&after=" + after):
            assert (await admin.ask("GET", f"{LIST}?{wrong}")).status == 400
        assert (await admin.ask("GET", f"{LIST}?namespace=no/such")).status == 404

    serve(test)


def test_all_are_found_again_after_a_start(serve: Serve) -> None:
    """What is at rest is read from rows once."""

    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        await admin.commit("readers", "orders", 0, 1)
        anew = Sums(admin.broker)
        await anew.look_at_all()
        assert sorted((each.group, each.open) for each in anew.ranking) == [("billing", 3), ("readers", 2)]

    serve(test)


def test_a_group_is_called_as_it_is_and_its_line_runs_nothing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        name = "a/b $(id)"
        path = f"P/orders/subscription/{quote(name, safe='')}"
        assert (await admin.ask("PUT", f"{path}?type=shared", EARLIEST)).status == 204
        await admin.produce("orders", 0, [b"m"])
        began = admin.broker.clock.wall_ms()
        monkeypatch.setattr(type(admin.broker.clock), "wall_ms", lambda self: began + 3_600_000)
        (found,) = (await admin.ask("GET", ATTENTION)).json["findings"]
        assert f"waits for {name} on orders" in found["sentence"]
        assert shlex.split(found["cli"]) == [
            "magnetar-admin", "subscriptions", "consumers", "orders", "-s", name
        ]  # fmt: skip
        assert (await admin.ask("GET", found["path"])).json == {"consumers": []}

    serve(test)


def test_what_needs_attention_says_where_and_how_to_look(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        assert (await admin.ask("GET", ATTENTION)).json["findings"] == []
        broker = admin.broker
        began = broker.clock.wall_ms()
        monkeypatch.setattr(type(broker.clock), "wall_ms", lambda self: began + 3 * 3_600_000)
        answer = (await admin.ask("GET", ATTENTION)).json
        (found,) = answer["findings"]
        assert found["sentence"].startswith(
            "3 messages wait for billing on orders and no consumer is connected"
        )
        assert (found["rule"], found["number"]) == ("nobody", 3)
        assert found["where"] == {"topic": "persistent://public/default/orders", "subscription": "billing"}
        assert found["cli"] == "magnetar-admin subscriptions consumers orders -s billing"
        assert (await admin.ask("GET", found["path"])).json == {"consumers": []}
        assert (await admin.ask("GET", f"{ATTENTION}?topic=other")).json["findings"] == []
        assert (await admin.ask("GET", f"{ATTENTION}?after=x")).status == 400

    serve(test)


def test_a_page_looks_at_what_it_shows_and_no_more(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        for number in range(8):
            await admin.plain(f"t-{number}")
            assert (await admin.ask("PUT", f"P/t-{number}/subscription/s", EARLIEST)).status == 204
        await listed(admin)
        # as if that had been a while ago
        monkeypatch.setattr(admin.server._context.sums._lately, "_seconds", 0.0)
        looked: list[tuple[str, str]] = []
        old = Sums._look

        async def look(self: Sums, name: tuple[str, str], pace: Pace) -> None:
            looked.append(name)
            await old(self, name, pace)

        monkeypatch.setattr(Sums, "_look", look)
        assert len(await listed(admin, "limit=3&sort=name")) == 3
        assert looked == [(f"t-{number}", "s") for number in range(3)]
        looked.clear()
        await admin.produce("t-7", 0, [b"x"])
        assert (await listed(admin, "limit=1&sort=open"))[0]["topic"][-3:] == "t-7"
        assert set(looked) == {("t-7", "s")}

    serve(test)


def test_several_of_one_rule_about_one_topic_are_told_together(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        for number in range(4):
            assert (await admin.ask("PUT", f"P/orders/subscription/s{number}", EARLIEST)).status == 204
        await admin.produce("orders", 0, [b"m", b"n"])
        began = admin.broker.clock.wall_ms()
        monkeypatch.setattr(type(admin.broker.clock), "wall_ms", lambda self: began + 3_600_000)
        answer = (await admin.ask("GET", f"{ATTENTION}?together=true")).json
        (found,) = answer["findings"]
        assert (answer["of"], found["findings"], found["number"], found["rule"]) == (1, 4, 8, "nobody")
        assert found["where"] == {"topic": "persistent://public/default/orders"}
        assert shlex.split(found["cli"]) == [
            "magnetar-admin", "attention", "-t", "orders", "--rule", "nobody",
        ]  # fmt: skip
        each = (await admin.ask("GET", found["path"])).json
        assert [one["where"]["subscription"] for one in each["findings"]] == ["s0", "s1", "s2", "s3"]
        assert len((await admin.ask("GET", ATTENTION)).json["findings"]) == 4
        assert (await admin.ask("GET", f"{ATTENTION}?rule=full")).json["findings"] == []
        assert (await admin.ask("GET", f"{ATTENTION}?rule=x")).status == 400

    serve(test)
