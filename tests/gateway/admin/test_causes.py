"""What holds messages up, and when delayed ones are due, on a real broker."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from semantics.subscriptions import due
from tests.gateway.admin.billing import EARLIEST, Serve, ack, cursor_of, explain, made, take
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_lanes import join, queue
from tests.gateway.admin.test_open_messages import keyed

Q = "P/orders/subscription/billing/magnetar"
SLOW = json.dumps({"pulsar.nack.delay.ms": "600000", "pulsar.ack.timeout.ms": "30000"})


async def causes(admin: Admin, query: str = "") -> dict[str, Any]:
    answer = await admin.ask("GET", f"{Q}/causes{query}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def timeless(said: str) -> str:
    """Two clocks may be a millisecond apart from one call to the next."""
    return re.sub(r"\d{4}-\S+Z", "then", said)


def shown(found: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(each["cause"], each["holdsUp"], each["record"]["offset"]) for each in found["causes"]]


def test_keys_that_hold_up_are_rows_and_not_their_messages(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        some = [(b"a", b"x", 0)] * 5 + [(b"b", b"x", 0)] * 3 + [(b"c", b"x", 60_000)]
        await keyed(admin, "key_shared", some)
        assert (await admin.ask("PUT", "P/orders/subscription/billing/properties", SLOW)).status == 204
        assert await take(admin, "c1") == [0, 5]
        await ack(admin, "c1", 5, 5, kind=2)
        found = await causes(admin)
        assert shown(found) == [
            ("key", 4, 0), ("key", 2, 5), ("backoff", 1, 5), ("delay", 1, 8), ("in-hand", 0, 0)
        ]  # fmt: skip
        assert (found["count"], "more" in found) == (5, False)
        first, second, *_ = found["causes"]
        assert timeless(first["explanation"]) == timeless((await explain(admin, 0))["explanation"])
        assert (first["key"], first["consumer"], first["oldest"]["offset"]) == ("a", "c1", 1)
        assert first["since"] < first["next"]
        assert first["acts"] == ["take-back", "settle", "dead-letter"]
        assert first["filter"] == {"slot": first["slot"], "state": "blocked"}
        assert second["explanation"] == (await explain(admin, 5))["explanation"]
        assert second["acts"] == ["deliver-now", "settle", "dead-letter"]
        assert second["next"] == second["record"]["due"]
        # the filter chooses those that wait
        looked = await admin.ask("GET", f"{Q}/open?slot={first['slot']}&state=blocked")
        assert [each["offset"] for each in looked.json["messages"]] == [1, 2, 3, 4]
        few = await causes(admin, "?limit=1")
        assert (shown(few), few["count"], few["more"]) == ([("key", 4, 0)], 5, 4)

    serve(test)


def test_what_waits_for_no_key_is_one_row_for_each_reason(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=6)
        assert shown(await causes(admin)) == [("no-consumer", 6, 0)]
        assert "no consumer is connected" in (await causes(admin))["causes"][0]["explanation"]
        assert (await causes(admin))["causes"][0]["acts"] == [], "what nobody has looked at no filter chooses"
        few = {"share.partition.max.record.locks": "100"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **few})
        await take(admin, "c1", 2)
        found = await causes(admin)
        assert shown(found) == [("in-hand", 0, 0), ("next-consumer", 4, 2)]
        assert (found["causes"][0]["messages"], found["causes"][0]["filter"]) == (2, {"consumer": "c1"})
        rate = {"pulsar.dispatch.rate.messages": "1", "pulsar.dispatch.rate.seconds": "3600"}
        await admin.broker.topics.configure("orders", lambda old: {**old, **rate})
        await take(admin, "c1", 1)
        found = await causes(admin)
        assert shown(found)[0] == ("dispatch-rate", 3, 3)
        assert "within the dispatch rate" in found["causes"][0]["explanation"]

    serve(test)


def test_what_waits_for_a_consumer_to_ask_is_behind_what_is_in_the_way(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        some = [(b"a", b"x", 0)] * 3 + [(b"%d" % number, b"x", 0) for number in range(20)]
        await keyed(admin, "key_shared", some)
        assert await take(admin, "c1", 1) == [0]
        found = await causes(admin)
        assert [(each["cause"], each["holdsUp"]) for each in found["causes"]] == [
            ("key", 2), ("in-hand", 0), ("next-consumer", 20)
        ]  # fmt: skip
        assert [each["cause"] for each in (await causes(admin, "?limit=1"))["causes"]] == ["key"]

    serve(test)


def test_the_bound_of_unacknowledged_messages_is_a_cause(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=250)
        few = {"share.partition.max.record.locks": "100"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **few})
        assert len(await take(admin, "c1", 250)) == 100
        found = await causes(admin)
        assert shown(found) == [("unacknowledged", 150, 100), ("in-hand", 0, 0)]
        assert "which is the most" in found["causes"][0]["explanation"]

    serve(test)


def test_a_transaction_that_holds_messages_is_told_and_left_alone(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        await take(admin, "c1", 1)
        cursor_of(admin).ready().entrust("c1", "\0t", [(0, 0)], 0)
        (row,) = [each for each in (await causes(admin))["causes"] if each["cause"] == "transaction"]
        assert (row["messages"], row["acts"]) == (1, [])

    serve(test)


async def due_of(admin: Admin, query: str = "") -> dict[str, Any]:
    answer = await admin.ask("GET", f"{Q}/due{query}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def test_when_delayed_messages_are_due(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        # of most of them only the rows know
        monkeypatch.setattr(due, "MOST", 4)
        monkeypatch.setattr(due, "FEW", 1)
        hour = 3_600_000
        dues = [hour * number // 4 for number in range(1, 13)]
        await keyed(admin, "shared", [(b"k", b"v", each + 60_000) for each in dues])
        assert (await admin.ask("PUT", "P/orders/subscription/billing/properties", SLOW)).status == 204
        await take(admin, "c1")
        await admin.broker.write([])
        assert cursor_of(admin).ready().due_beyond is not None
        now = admin.broker.clock.wall_ms()
        found = await due_of(admin, f"?buckets=2&until={now + 2 * hour}")
        assert [each["delayed"] for each in found["buckets"]] == [3, 4]
        assert (found["later"]["delayed"], found["counted"]["delayed"], found["of"]["delayed"]) == (5, 12, 12)
        assert "atLeast" not in found
        assert found["next"] == (await explain(admin, 0))["due"]
        # a row that was not looked at may have more
        monkeypatch.setattr("gateway.admin.due_times.MOST_ROWS", 1)
        found = await due_of(admin)
        assert found["atLeast"]
        assert found["counted"]["delayed"] < 12
        # what is delivered now is due no more
        monkeypatch.undo()
        settled = {"do": "deliver-now", "messages": [(await explain(admin, n))["messageId"] for n in (0, 11)]}
        assert (await admin.ask("POST", f"{Q}/act", json.dumps(settled))).json["messages"] == 2
        assert (await due_of(admin))["counted"]["delayed"] == 10

    serve(test)


def test_what_backs_off_is_due_too_and_times_make_sense(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        assert (await admin.ask("PUT", "P/orders/subscription/billing/properties", SLOW)).status == 204
        await take(admin, "c1", 2)
        await ack(admin, "c1", 0, 1, kind=2)
        found = await due_of(admin, "?buckets=24&until=2999-01-01T00:00:00Z")
        assert (found["buckets"][0]["backoff"], found["of"], found["unread"]) == (
            2,
            {"delayed": 0, "backoff": 2},
            0,
        )
        for query in ("until=yesterday", "until=1000", "until=2001-01-01", "buckets=0"):
            assert (await admin.ask("GET", f"{Q}/due?{query}")).status == 400, query

    serve(test)


def test_lanes_are_named(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 1)
        path = "P/orders/subscription/billing?type=shared&lanes=2"
        assert (await admin.ask("PUT", path, EARLIEST)).status == 204
        await admin.produce("orders", 0, [b"1", b"2"])
        (row,) = (await causes(admin))["causes"]
        assert (row["cause"], row["holdsUp"]) == ("no-consumer", 2)
        assert "lane" in row["explanation"]

    serve(test)


def test_where_nobody_has_a_lane_there_is_no_consumer(serve: Serve) -> None:
    """Though the lanes are at work, which are consumers of the subscription."""

    async def test(admin: Admin) -> None:
        await queue(admin, count=300)
        found = (await causes(admin))["causes"]
        waits = next(each for each in found if each["record"]["state"] in ("AVAILABLE", "UNREAD"))
        assert "No consumer has" in waits["explanation"]
        assert waits["cause"] == "no-consumer"
        await join(admin, 0, 1)
        found = (await causes(admin))["causes"]
        assert "no-consumer" not in {each["cause"] for each in found}

    serve(test)
