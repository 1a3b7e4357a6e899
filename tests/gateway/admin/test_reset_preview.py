"""What a reset would do is told before it is done, and is what it does then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.admin.stats import topic_id
from gateway.wire import records
from tests.gateway.admin.billing import EARLIEST, Serve, ack, cursor_of, made, stats, take
from tests.gateway.admin.conftest import Admin

AT = "P/orders/subscription/billing"
BEGAN = 1_700_000_000_000


async def hourly(admin: Admin, kind: str, count: int = 6) -> None:
    """Topic `orders` with a message an hour, the first at BEGAN, and `billing` from the first on."""
    await admin.plain("orders")
    for number in range(count):
        await sent(admin, number)
    answer = await admin.ask("PUT", f"{AT}?type={kind}", EARLIEST)
    assert answer.status == 204, answer


async def sent(admin: Admin, hour: int) -> None:
    """One more message, which its client says to be of an hour after BEGAN."""
    topic = admin.broker.catalog.get("orders")
    assert topic is not None
    at = BEGAN + hour * 3_600_000
    batch = records.build_batch([records.Record(0, at, b"k%d" % hour, b"m%d" % hour, [])])
    admin.broker.partition(topic, 0).append(batch, records.header(batch), at)
    await admin.broker.write([])


async def looked(admin: Admin, there: str, body: str = "") -> dict[str, Any]:
    answer = await admin.ask("POST", f"{AT}/resetcursor{there}", body)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_a_dry_run_counts_what_comes_again_and_what_is_settled(serve: Serve, kind: str) -> None:
    async def test(admin: Admin) -> None:
        await hourly(admin, kind)
        while not (given := await take(admin, "c1", 4)):
            pass
        assert given == [0, 1, 2, 3]
        await ack(admin, "c1", 1, 1)
        await ack(admin, "c1", 3, 3)
        told = await looked(admin, f"/{BEGAN + 7_200_000}?dryRun=true")
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        assert told == {
            "topicId": topic_id(topic),
            "subscriptionId": cursor_of(admin).subscription.id,
            "messages": 4,
            "settledAgain": 1,
            "openBefore": 1,
            "inHand": 2,
            "members": 0,
            "byPartition": {
                "0": {"offset": 2, "end": 6, "messages": 4, "settledAgain": 1, "openBefore": 1, "inHand": 2}
            },
            "explanation": "4 messages of billing on persistent://public/default/orders would be delivered from there "
            "on, of which 1 was settled already and comes again. 1 open message before it would be settled without "
            "being delivered.",
        }
        its = cursor_of(admin).ready()
        assert (its.start, its.acquired, its.backlog(6)) == (0, 2, 4), "a look does nothing"
        assert all("resetcursor" not in each.target for each in admin.broker.audit.last(9)), (
            "and is no change"
        )
        done = await admin.ask("POST", f"{AT}/resetcursor/{BEGAN + 7_200_000}")
        assert done.status == 204
        assert (await stats(admin))["msgBacklog"] == told["messages"]
        assert sorted(await take(admin, "c1") + await take(admin, "c2")) == [2, 3, 4, 5]

    serve(test)


@pytest.mark.parametrize(
    ("place", "messages", "again", "before"),
    [(0, 5, 3, 0), (1, 4, 2, 0), (3, 2, 0, 0), (4, 1, 0, 1), (5, 0, 0, 2)],
)
def test_wherever_it_would_begin(serve: Serve, place: int, messages: int, again: int, before: int) -> None:
    """Three of five are settled, and nobody has come to the others."""

    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c1", 3) == [0, 1, 2]
        await ack(admin, "c1", 0, 2)
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        at = admin.broker.partition(topic, 0).log.position_of(0)
        body = {"ledgerId": at.ledger, "entryId": at.entry, "partitionIndex": -1, "batchIndex": place}
        told = await looked(admin, "?dryRun=true", json.dumps(body))
        assert (told["messages"], told["settledAgain"], told["openBefore"]) == (messages, again, before)
        if not before:
            assert told["explanation"].endswith("No open message lies before it.")
        assert (await admin.ask("POST", f"{AT}/resetcursor", json.dumps(body))).status == 204
        assert (await stats(admin))["msgBacklog"] == messages

    serve(test)


def test_all_partitions_are_told_one_by_one(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b"])
        await admin.produce("orders", 1, [b"c"])
        assert (await admin.ask("PUT", f"{AT}?type=shared", EARLIEST)).status == 204
        told = await looked(admin, "/9999999999999?dryRun=true")
        assert {index: each["openBefore"] for index, each in told["byPartition"].items()} == {"0": 2, "1": 1}
        assert (told["messages"], told["openBefore"]) == (0, 3), "as in Pulsar, what is open would be settled"

    serve(test)


def test_a_consumer_group_is_told_by_its_offsets(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        assert (await admin.ask("PUT", f"{AT}?type=failover", EARLIEST)).status == 204
        assert (await admin.ask("POST", f"{AT}/skip/2")).status == 204
        told = await looked(admin, "/0?dryRun=true")
        assert (told["messages"], told["settledAgain"], told["openBefore"]) == (3, 2, 0)
        told = await looked(admin, "/9999999999999?dryRun=true")
        assert (told["messages"], told["settledAgain"], told["openBefore"]) == (0, 0, 1)
        assert (await admin.ask("POST", f"{AT}/analyzeBacklog")).json["messages"] == 1, "nothing was moved"
        await admin.join("billing", "orders")
        refused = await admin.ask("POST", f"{AT}/resetcursor/0?dryRun=true")
        assert (refused.status, "members" in refused.json["reason"]) == (412, True)

    serve(test)


@pytest.mark.parametrize("kind", ["shared", "failover"])
def test_what_came_behind_the_ends_of_a_look_is_neither_counted_nor_settled(serve: Serve, kind: str) -> None:
    async def test(admin: Admin) -> None:
        await hourly(admin, kind)
        there, body = f"/{BEGAN + 2 * 3_600_000}", json.dumps({"ends": {"0": 6}})
        before = await looked(admin, f"{there}?dryRun=true")
        await sent(admin, 7)
        assert await looked(admin, f"{there}?dryRun=true", body) == before
        assert (await looked(admin, f"{there}?dryRun=true"))["messages"] == 5
        # of a client whose clock is behind: with no ends that is settled, too
        late = f"/{BEGAN + 9 * 3_600_000}"
        told = await looked(admin, f"{late}?dryRun=true", body)
        assert (told["messages"], told["openBefore"], told["byPartition"]["0"]["offset"]) == (0, 6, 6)
        assert (await admin.ask("POST", f"{AT}/resetcursor{late}", body)).status == 204
        assert (await admin.ask("POST", f"{AT}/analyzeBacklog")).json["messages"] == 1
        assert (await admin.ask("POST", f"{AT}/resetcursor{late}")).status == 204
        assert (await admin.ask("POST", f"{AT}/analyzeBacklog")).json["messages"] == 0

    serve(test)


@pytest.mark.parametrize("ends", [None, [], 6, {"1": 6}, {"x": 6}, {"0": "6"}, {"0": -1}])
def test_ends_that_make_no_sense(serve: Serve, ends: object) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answer = await admin.ask("POST", f"{AT}/resetcursor/0", json.dumps({"ends": ends}))
        assert answer.status == 400, answer
        # what else is in a body beside a time was never read
        assert (await admin.ask("POST", f"{AT}/resetcursor/0", '{"x": 1}')).status == 204

    serve(test)


def test_ends_that_say_nothing_of_a_partition_are_refused(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 1)
        await admin.produce("orders", 0, [b"a", b"b"])
        assert (await admin.ask("PUT", f"{AT}?type=shared", EARLIEST)).status == 204
        assert (await admin.ask("POST", "P/orders/partitions", "2")).status == 204
        await admin.produce("orders", 1, [b"c"])
        for ends, missing in (({"0": 2}, 1), ({}, 0)):
            for query in ("?dryRun=true", ""):
                there = f"{AT}/resetcursor/9999999999999{query}"
                refused = await admin.ask("POST", there, json.dumps({"ends": ends}))
                assert refused.status == 409
                assert f"no partition {missing}" in refused.json["reason"]
        found = (await admin.ask("GET", "P/orders/partitioned-stats")).json["subscriptions"]["billing"]
        assert found["msgBacklog"] == 3, "nothing was done"

    serve(test)


def test_dry_run_is_true_or_false(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answer = await admin.ask("POST", f"{AT}/resetcursor/0?dryRun=perhaps")
        assert answer.status == 400
        assert (await admin.ask("POST", f"{AT}/resetcursor/0?dryRun=false")).status == 204

    serve(test)
