"""Strips and open messages of Shared and Key_Shared subscriptions, on a real broker."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from gateway.admin import slices
from gateway.wire import records
from tests.gateway.admin.billing import EARLIEST, Serve, ack, made, take
from tests.gateway.admin.conftest import Admin

Q = "P/orders/subscription/billing/magnetar"


async def keyed(admin: Admin, kind: str, records_: list[tuple[bytes, bytes, int]]) -> None:
    """Topic `orders` with (key, value, due in ms from now or 0), and `billing` from the first on."""
    await admin.plain("orders")
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    now = admin.broker.clock.wall_ms()
    batch = records.build_batch(
        [
            records.Record(
                number, now, key, value, [("pulsar-deliver-after", str(due).encode())] if due else []
            )
            for number, (key, value, due) in enumerate(records_)
        ]
    )
    admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
    await admin.broker.write([])
    answer = await admin.ask("PUT", f"P/orders/subscription/billing?type={kind}", EARLIEST)
    assert answer.status == 204, answer


async def page(admin: Admin, **query: str | int) -> dict[str, Any]:
    said = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await admin.ask("GET", f"{Q}/open?{said}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def offsets(found: dict[str, Any]) -> list[int]:
    return [each["offset"] for each in found["messages"]]


def test_each_open_message_says_why_it_does_not_arrive(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await keyed(
            admin,
            "key_shared",
            [(b"a", b"1", 0), (b"a", b"2", 0), (b"b", b"3", 0), (b"c", b"4", 60_000), (b"d", b"5", 0)],
        )
        slow = {"pulsar.nack.delay.ms": "60000", "pulsar.ack.timeout.ms": "30000"}
        assert (
            await admin.ask("PUT", "P/orders/subscription/billing/properties", json.dumps(slow))
        ).status == 204
        assert await take(admin, "c1") == [0, 2, 4]
        await ack(admin, "c1", 2, 2, kind=2)
        await ack(admin, "c1", 4, 4)
        found = await page(admin)
        shown = [(each["offset"], each["state"], each["key"]) for each in found["messages"]]
        assert shown == [(0, "ACQUIRED", "a"), (1, "BLOCKED", "a"), (2, "BACKOFF", "b"), (3, "DELAYED", "c")]
        held, blocked, waits, delayed = found["messages"]
        assert "c1 has it" in held["why"]
        assert held["next"] == held["lockedUntil"]
        assert "c1 has a record of its slot" in blocked["why"]
        assert (waits["failedDeliveries"], waits["next"]) == (1, waits["due"])
        assert delayed["due"] in delayed["why"]
        # not since it was published
        assert delayed["ageSeconds"] == 0
        assert (found["looked"], found["of"], "next" in found) == (4, 4, False)

    serve(test)


def test_open_messages_are_chosen_by_what_is_asked(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await keyed(
            admin,
            "key_shared",
            [(b"a", b"one", 0), (b"a", b"two", 0), (b"b", b"three", 0), (b"c", b"four", 60_000)],
        )
        await take(admin, "c1", 1)
        for query, expected in (
            ("state=blocked", [1]),
            ("state=available", [2]),
            ("state=acquired,delayed", [0, 3]),
            ("key=a", [0, 1]),
            ("text=t", [1, 2]),
            ("text=t&key=b", [2]),
            ("consumer=c1", [0]),
            ("consumer=c2", []),
            ("state=unread", []),
        ):
            answer = await admin.ask("GET", f"{Q}/open?{query}")
            assert offsets(answer.json) == expected, query
        slot = (await admin.ask("GET", "P/orders/subscription/billing/hash?key=a")).json["slot"]
        assert offsets(await page(admin, slot=slot)) == [0, 1]
        assert offsets(await page(admin, slot=slot, state="blocked")) == [1]

    serve(test)


def test_pages_follow_each_other(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=25)
        await take(admin, "c1", 10)
        await ack(admin, "c1", 3, 5)
        seen: list[int] = []
        after, pages = "", 0
        while True:
            found = await page(admin, limit=7, after=after)
            seen += offsets(found)
            pages += 1
            if "next" not in found:
                break
            after = found["next"]
        assert seen == [0, 1, 2, *range(6, 25)]
        assert pages == 4
        # of what nobody has come to as well
        await admin.produce("orders", 0, [f"n{number}".encode() for number in range(5)])
        assert offsets(await page(admin, state="unread")) == list(range(25, 30))
        assert offsets(await page(admin, state="unread", text="n3")) == [28]
        assert offsets(await page(admin, text="3")) == [13, 23, 28]

    serve(test)


def test_a_page_ends_when_it_has_worked_long_enough(serve: Serve, monkeypatch: Any) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=5)
        monkeypatch.setattr("gateway.admin.open_messages.SECONDS", 0.0)
        found = await page(admin, text="m4")
        assert (found["messages"], found["looked"], found["of"]) == ([], 0, 5)
        assert found["next"] == "0.0"

    serve(test)


def test_who_asks_may_say_how_long_a_page_works(serve: Serve, monkeypatch: Any) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=5)
        ticks = count(0.0, 0.004)
        monkeypatch.setattr(slices, "perf_counter", lambda: next(ticks))
        short = await page(admin, text="m4", work="1")
        assert (short["messages"], short["looked"], short["next"]) == ([], 0, "0.0")
        assert offsets(await page(admin, text="m4")) == [4]
        for wrong in ("0", "201", "x"):
            assert (await admin.ask("GET", f"{Q}/open?work={wrong}")).status == 400

    serve(test)


def test_what_makes_no_sense_is_refused(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for query in ("state=lost", "after=x", "slot=70000", "slot=" + "70000".zfill(12), "limit=0"):
            assert (await admin.ask("GET", f"{Q}/open?{query}")).status == 400, query
        await admin.commit("readers", "orders", 0, 2)
        answer = await admin.ask("GET", "P/orders/subscription/readers/magnetar/open")
        assert (answer.status, "consumer group" in answer.json["reason"]) == (412, True)

    serve(test)


def test_a_strip_has_all_states(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await keyed(admin, "key_shared", [(b"a", b"1", 0), (b"a", b"2", 0), (b"b", b"3", 60_000)])
        await take(admin, "c1")
        await admin.produce("orders", 0, [b"m"])
        (strip,) = (await admin.ask("GET", f"{Q}/strip?columns=2")).json["partitions"]
        assert strip == {
            "partition": 0,
            "start": 0,
            "end": 4,
            "columns": 2,
            "states": {"acquired": [1, 0], "blocked": [1, 0], "delayed": [0, 1], "unread": [0, 1]},
        }
        # for two seconds it is the same, and with other columns another
        await ack(admin, "c1", 0, 0)
        assert (await admin.ask("GET", f"{Q}/strip?columns=2")).json["partitions"] == [strip]
        (other,) = (await admin.ask("GET", f"{Q}/strip")).json["partitions"]
        assert other["start"] == 1

    serve(test)


def test_strips_of_many_partitions_come_in_pages(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        assert (await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)).status == 204
        first = (await admin.ask("GET", f"{Q}/strip?limit=2")).json
        assert ([each["partition"] for each in first["partitions"]], first["next"]) == ([0, 1], "2")
        rest = (await admin.ask("GET", f"{Q}/strip?limit=2&after=2")).json
        assert ([each["partition"] for each in rest["partitions"]], "next" in rest) == ([2], False)
        one = (await admin.ask("GET", f"{Q}/strip?partition=1")).json
        assert [each["partition"] for each in one["partitions"]] == [1]

    serve(test)
