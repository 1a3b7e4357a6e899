"""Acts on single messages, with dry runs and plans, on a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from semantics.subscriptions.states import Ending
from tests.gateway.admin.billing import EARLIEST, Serve, ack, cursor_of, explain, made, take
from tests.gateway.admin.conftest import Admin, Answer
from tests.gateway.admin.test_open_messages import keyed, offsets, page

Q = "P/orders/subscription/billing/magnetar/act"
SLOW = json.dumps({"pulsar.nack.delay.ms": "600000", "pulsar.ack.timeout.ms": "30000"})


async def asked(admin: Admin, do: str, **more: Any) -> Answer:
    return await admin.ask("POST", Q, json.dumps({"do": do, **more}))


async def done(admin: Admin, do: str, **more: Any) -> dict[str, Any]:
    answer = await asked(admin, do, **more)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


async def ids(admin: Admin, *some: int) -> list[str]:
    return [(await explain(admin, offset))["messageId"] for offset in some]


async def slow(admin: Admin, count: int = 5) -> None:
    await made(admin, count=count)
    assert (await admin.ask("PUT", "P/orders/subscription/billing/properties", SLOW)).status == 204


def test_a_message_that_backs_off_is_delivered_now(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await slow(admin)
        await take(admin, "c1", 2)
        await ack(admin, "c1", 0, 1, kind=2)
        assert await done(admin, "deliver-now", messages=await ids(admin, 0, 2)) == {
            "do": "deliver-now",
            "messages": 1,
            "leftOut": {"available": 1},
        }
        assert await take(admin, "c1", 1) == [0]
        assert (await explain(admin, 1))["state"] == "BACKOFF"

    serve(test)


def test_a_message_of_a_ledger_that_nobody_knows_is_left_out(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await slow(admin)
        assert await done(admin, "settle", messages=["99:0:0:1"]) == {
            "do": "settle",
            "messages": 0,
            "leftOut": {"gone": 1},
        }

    serve(test)


def test_a_message_that_is_taken_back_goes_to_the_next_consumer(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await slow(admin)
        assert await take(admin, "c1", 2) == [0, 1]
        await done(admin, "take-back", messages=await ids(admin, 1))
        assert await take(admin, "c2", 1) == [1]
        # as after a lock that ran out
        assert cursor_of(admin).acknowledge("c1", [(1, 1, b"\1")]) == 121
        await ack(admin, "c1", 0, 0)
        await ack(admin, "c2", 1, 1)

    serve(test)


def test_what_a_filter_finds_is_settled_after_a_look(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await keyed(
            admin, "key_shared", [(b"a", b"1", 0), (b"a", b"2", 0), (b"b", b"3", 0), (b"a", b"4", 60_000)]
        )
        # nobody is connected, and so nothing was looked at yet
        filter_ = {"key": "a"}
        assert (await asked(admin, "settle", filter=filter_)).status == 400, "not without a plan"
        plan = await done(admin, "settle", filter=filter_, dryRun=True)
        assert (plan["messages"], plan["byState"]) == (3, {"available": 2, "delayed": 1})
        assert (plan["byPartition"], plan["looked"], plan["of"], "atLeast" in plan) == ({"0": 3}, 4, 4, False)
        assert (
            "3 messages of billing on persistent://public/default/orders would be acknowledged"
            in plan["explanation"]
        )
        assert plan["first"] == await ids(admin, 0, 1, 3)
        assert (await explain(admin, 0))["state"] == "AVAILABLE", "nothing was done so far"
        assert (await done(admin, "settle", filter=filter_, plan=plan["plan"]))["messages"] == 3
        assert offsets(await page(admin)) == [2]
        assert await take(admin, "c1") == [2]
        again = await asked(admin, "settle", filter=filter_, plan=plan["plan"])
        assert (again.status, "Look again" in again.json["reason"]) == (409, True)

    serve(test)


def test_an_act_is_refused_when_what_was_shown_has_changed(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=10)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        await take(admin, "c1", 3)
        await ack(admin, "c1", 0, 2)
        refused = await asked(admin, "settle", filter={}, plan=plan["plan"])
        assert refused.status == 409
        assert "3 of 10 are not to be found any more" in refused.json["reason"]
        assert offsets(await page(admin)) == list(range(3, 10))
        # nor does a plan serve for anything else
        plan = await done(admin, "settle", filter={}, dryRun=True)
        other = await asked(admin, "dead-letter", filter={}, plan=plan["plan"])
        assert (other.status, "something else" in other.json["reason"]) == (409, True)

    serve(test)


@pytest.mark.parametrize("gone", ["P/orders?force=true", "P/orders/subscription/billing"])
def test_a_plan_is_of_what_was_looked_at_and_not_of_another_of_its_name(serve: Serve, gone: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        assert plan["messages"] == 5
        assert (await admin.ask("DELETE", gone)).status == 204
        if "subscription" not in gone:
            await made(admin)
        else:
            assert (await admin.ask("PUT", f"{gone}?type=shared", EARLIEST)).status == 204
        refused = await asked(admin, "settle", filter={}, plan=plan["plan"])
        assert (refused.status, "made anew since" in refused.json["reason"]) == (409, True)
        assert offsets(await page(admin)) == [0, 1, 2, 3, 4]
        again = await done(admin, "settle", filter={}, dryRun=True)
        assert (await done(admin, "settle", filter={}, plan=again["plan"]))["messages"] == 5

    serve(test)


def test_audit_tells_of_acts_and_not_of_looks(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        before = len((await admin.ask("GET", "/admin/v2/magnetar/audit?kind=change")).json)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        assert len((await admin.ask("GET", "/admin/v2/magnetar/audit?kind=change")).json) == before
        await done(admin, "settle", filter={}, plan=plan["plan"])
        newest = (await admin.ask("GET", "/admin/v2/magnetar/audit?kind=change")).json[0]
        assert newest["target"].endswith("subscription/billing/magnetar/act")

    serve(test)


def test_dead_letters_are_appended_and_settled(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=4)
        await take(admin, "c1", 2)
        plan = await done(admin, "dead-letter", filter={"text": "m"}, dryRun=True)
        assert plan["messages"] == 4
        assert "dead letter topic orders-billing-DLQ" in plan["explanation"]
        assert (await done(admin, "dead-letter", messages=await ids(admin, 0, 3)))["messages"] == 2
        while cursor_of(admin).ready().dying_records:
            await admin.broker.write([])
        told = (await explain(admin, 3))["deadLetter"]
        assert (told["topic"], told["offset"], told["reason"]) == ("orders-billing-DLQ", 1, "REJECTED")
        assert offsets(await page(admin)) == [1, 2]

    serve(test)


def test_what_cannot_be_done_is_refused(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        some = await ids(admin, 0)
        for body in (
            {"do": "burn", "messages": some},
            {"do": "settle"},
            {"do": "settle", "messages": some, "filter": {}},
            {"do": "settle", "messages": []},
            {"do": "settle", "messages": ["x"]},
            {"do": "settle", "messages": ["1:0:7:0"]},
            {"do": "settle", "filter": {"colour": "red"}},
            {"do": "take-back", "filter": {"state": "delayed"}, "dryRun": True},
            {"do": "settle", "messages": some, "dryRun": "yes"},
        ):
            answer = await admin.ask("POST", Q, json.dumps(body))
            assert answer.status == 400, (body, answer)
        assert (await admin.ask("POST", Q, "[]")).status == 400
        off = {"pulsar.dead.letter.enable": "false"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **off})
        answer = await asked(admin, "dead-letter", messages=some)
        assert (answer.status, "dead letters are off" in answer.json["reason"]) == (412, True)

    serve(test)


def test_members_of_lanes_keep_what_they_have(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 1)
        path = "P/orders/subscription/billing?type=shared&lanes=2"
        assert (await admin.ask("PUT", path, EARLIEST)).status == 204
        answer = await asked(admin, "take-back", filter={}, dryRun=True)
        assert (answer.status, "lanes of" in answer.json["reason"]) == (412, True)
        assert (await asked(admin, "settle", filter={}, dryRun=True)).status == 200

    serve(test)


def test_a_large_act_is_done_in_slices(serve: Serve, monkeypatch: Any) -> None:
    async def test(admin: Admin) -> None:
        monkeypatch.setattr("gateway.admin.acts.SLICE", 2)
        monkeypatch.setattr("gateway.admin.acts.MOST", 6)
        await made(admin, count=20)
        await take(admin, "c1", 20)
        # every second, so that each is a run
        for offset in range(0, 20, 2):
            await ack(admin, "c1", offset, offset)
        cursor_of(admin).detach("c1", Ending.STOPPED)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        assert (plan["messages"], plan["atLeast"], "There may be more" in plan["explanation"]) == (
            6,
            True,
            True,
        )
        assert (await done(admin, "settle", filter={}, plan=plan["plan"]))["messages"] == 6
        assert offsets(await page(admin)) == [13, 15, 17, 19]

    serve(test)
