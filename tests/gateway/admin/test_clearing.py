"""A backlog is cleared as far as somebody has looked; what a deletion would be refused for is told before, too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.admin.billing import EARLIEST, Serve, ack, made, stats, take
from tests.gateway.admin.conftest import Admin

AT = "P/orders/subscription/billing"


async def looked(admin: Admin) -> dict[str, Any]:
    answer = await admin.ask("POST", f"{AT}/skip_all?dryRun=true")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def bounds(told: dict[str, Any]) -> str:
    """The body of a call that does what a look told."""
    ends = {index: each["end"] for index, each in told["byPartition"].items()}
    return json.dumps({"ends": ends, "messages": told["messages"]})


@pytest.mark.parametrize("kind", ["shared", "key_shared", "failover"])
def test_what_comes_after_the_look_stays(serve: Serve, kind: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, kind)
        told = await looked(admin)
        assert (told["messages"], told["byPartition"]) == (5, {"0": {"end": 5, "messages": 5}})
        assert "5 messages of billing" in told["explanation"]
        assert (await stats(admin))["msgBacklog"] == 5, "a look does nothing"
        assert all("skip_all" not in each.target for each in admin.broker.audit.last(9))
        await admin.produce("orders", 0, [b"later"] * 3)
        done = await admin.ask("POST", f"{AT}/skip_all", bounds(told))
        assert done.status == 204, done
        assert (await stats(admin))["msgBacklog"] == 3
        assert (await admin.ask("POST", f"{AT}/skip_all")).status == 204
        assert (await stats(admin))["msgBacklog"] == 0, "without bounds all there is goes"

    serve(test)


def test_what_was_read_beyond_a_bound_is_counted_apart(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        told = await looked(admin)
        await admin.produce("orders", 0, [b"later"] * 3)
        assert await take(admin, "c1") == [0, 1, 2, 3, 4, 5, 6, 7]
        await ack(admin, "c1", 1, 2)
        seen = (await admin.ask("POST", f"{AT}/skip_all?dryRun=true", bounds(told))).json
        assert seen["messages"] == 3
        assert (await admin.ask("POST", f"{AT}/skip_all", bounds(told))).status == 204
        (entry,) = admin.broker.audit.last(1)
        assert entry.counts == {"messages": 3}, "those that were settled meanwhile are no harm"
        assert (await stats(admin))["msgBacklog"] == 3

    serve(test)


def test_who_has_read_on_does_not_go_back(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, "failover")
        told = await looked(admin)
        await admin.produce("orders", 0, [b"later"] * 3)
        await admin.commit("billing", "orders", 0, 7)
        assert (await admin.ask("POST", f"{AT}/skip_all", bounds(told))).status == 204
        assert (await stats(admin))["msgBacklog"] == 1

    serve(test)


def test_more_than_was_looked_at_is_refused(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("POST", f"{AT}/skip/3")).status == 204
        told = await looked(admin)
        assert told["messages"] == 2
        body = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
        assert (await admin.ask("POST", f"{AT}/resetcursor", json.dumps(body))).status == 204
        refused = await admin.ask("POST", f"{AT}/skip_all", bounds(told))
        assert refused.status == 409
        assert "It would settle 5 messages, where 2 were looked at." in refused.json["reason"]
        assert (await stats(admin))["msgBacklog"] == 5

    serve(test)


@pytest.mark.parametrize("body", ["", '""', "null", "{}"])
def test_without_bounds_all_there_is_goes(serve: Serve, body: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("POST", f"{AT}/skip_all", body)).status == 204
        assert (await stats(admin))["msgBacklog"] == 0

    serve(test)


@pytest.mark.parametrize(
    "body", ["[]", '{"messages": 5}', '{"ends": {"1": 5}}', '{"ends": {"0": -1}}', '{"ends": {"0": true}}',
             '{"ends": {"0": 5}, "messages": "5"}'],
)  # fmt: skip
def test_bounds_that_make_no_sense_are_refused(serve: Serve, body: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("POST", f"{AT}/skip_all", body)).status == 400
        assert (await stats(admin))["msgBacklog"] == 5

    serve(test)


def test_dry_runs_refuse_what_the_calls_would_and_do_nothing(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b"])
        assert (await admin.ask("PUT", f"{AT}?type=failover", EARLIEST)).status == 204
        calls = (("POST", f"{AT}/skip_all"), ("DELETE", AT), ("DELETE", "P/orders"))
        for method, path in calls:
            seen = await admin.ask(method, path + "?dryRun=true")
            assert (seen.status, seen.json["messages"]) == (200, 2), path
        await admin.join("billing", "orders")
        before = admin.broker.audit.last(99)
        for method, path in calls:
            told = await admin.ask(method, path + "?dryRun=true")
            assert told.status == 412
            assert admin.broker.audit.last(99) == before, "to look is no change, and none that was refused"
            refused = await admin.ask(method, path)
            assert refused.status == 412, path
            before = admin.broker.audit.last(99)
        assert (await stats(admin))["msgBacklog"] == 2

    serve(test)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", f"{AT}/skip_all"), ("POST", f"{AT}/resetcursor/0"), ("DELETE", AT), ("DELETE", "P/orders")],
)
def test_an_act_on_what_was_looked_at_is_done_to_no_other_topic(serve: Serve, method: str, path: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        seen = (await admin.ask(method, f"{path}?dryRun=true")).json["topicId"]
        for said, status in (("", 400), ("x", 409)):
            assert (await admin.ask(method, f"{path}?topicId={said}")).status == status
        assert (await admin.ask("DELETE", "P/orders?force=true")).status == 204
        await made(admin)
        refused = await admin.ask(method, f"{path}?topicId={seen}")
        assert (refused.status, "made anew since" in refused.json["reason"]) == (409, True)
        assert (await stats(admin))["msgBacklog"] == 5
        seen = (await admin.ask(method, f"{path}?dryRun=true")).json["topicId"]
        assert (await admin.ask(method, f"{path}?topicId={seen}")).status == 204

    serve(test)
