""" "" in what an act is on is not "all": it is the empty key, or is refused. In queries, as forms send them, it is what
nobody has typed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.wire import letters, records
from tests.gateway.admin.billing import Serve, made
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_acts import asked, done
from tests.gateway.admin.test_open_messages import keyed, offsets, page
from tests.gateway.admin.test_refused_first import nothing_was_done
from tests.gateway.admin.test_replaying import DLQ, Q, dead, did, listed, post


async def bury(admin: Admin, key: bytes | None, reason: bytes = b"REJECTED") -> None:
    """A letter more, as a client may write one."""
    topic = admin.broker.catalog.get(DLQ)
    assert topic is not None
    now = admin.broker.clock.wall_ms()
    batch = records.build_batch([records.Record(0, now, key, b"x", [(letters.REASON, reason)])])
    admin.broker.partition(topic, 0).append(batch, records.header(batch), now)
    await admin.broker.write([])


@pytest.mark.parametrize("name", ["state", "text", "slot", "consumer"])
@pytest.mark.parametrize("beside", [{}, {"key": "k"}])
def test_what_is_empty_is_not_all_messages(serve: Serve, name: str, beside: dict[str, str]) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        answer = await asked(admin, "settle", filter={**beside, name: ""}, dryRun=True)
        assert (answer.status, f"{name} of the filter is empty: leave it out" in answer.json["reason"]) == (
            400, True,
        )  # fmt: skip

    serve(test)


def test_the_empty_key_is_a_key(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await keyed(admin, "shared", [(b"a", b"1", 0), (b"", b"2", 0), (b"b", b"3", 0)])
        plan = await done(admin, "settle", filter={"key": ""}, dryRun=True)
        assert plan["messages"] == 1
        assert (await done(admin, "settle", filter={"key": ""}, plan=plan["plan"]))["messages"] == 1
        assert offsets(await page(admin)) == [0, 2]

    serve(test)


def test_a_list_that_a_form_asks_for_has_what_nobody_typed_left_out(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        assert offsets(await page(admin, state="", key="", text="", slot="", consumer="")) == [0, 1, 2]

    serve(test)


def test_an_act_is_on_all_partitions_only_where_none_is_said(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        body = json.dumps({"do": "settle", "filter": {}, "dryRun": True})
        refused = await admin.ask("POST", f"{Q}/act?partition=", body)
        assert (refused.status, "partition is empty: leave it out" in refused.json["reason"]) == (400, True)
        assert (await admin.ask("POST", f"{Q}/act?partition=0", body)).json["messages"] == 3

    serve(test)


@pytest.mark.parametrize("verb", ["replay", "discard"])
@pytest.mark.parametrize("filter_", [{"text": ""}, {"header": {}}, {"key": "k", "text": ""}])
def test_what_is_empty_is_not_all_letters(serve: Serve, verb: str, filter_: dict[str, Any]) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        answer = await post(admin, verb, filter=filter_)
        assert (answer.status, "of the filter is empty: leave it out" in answer.json["reason"]) == (400, True)
        await nothing_was_done(admin, 3)

    serve(test)


@pytest.mark.parametrize("filter_", [{"key": ""}, {"reason": ""}])
def test_letters_have_an_empty_key_or_reason_where_these_are_empty(
    serve: Serve, filter_: dict[str, str]
) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await bury(admin, None)
        await bury(admin, b"", b"")
        assert (await did(admin, "discard", filter=filter_))["done"] == 1
        assert [each["id"] for each in await listed(admin)] == ["0:0", "0:1", "0:2", "0:3"]
        assert len(await listed(admin, "?key=&reason=&text=&header=")) == 4

    serve(test)


@pytest.mark.parametrize(
    "said", [{"dryRun": ""}, {"dryRun": None}, {"dryRun": 0}, {"dryRun": "true"}, {"plan": ""}, {"plan": 0}]
)
@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_a_look_and_a_plan_that_make_no_sense_are_no_act(
    serve: Serve, verb: str, said: dict[str, Any]
) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        answer = await post(admin, verb, **{"filter": {}, **said})
        assert (answer.status, "dryRun is true or false, and plan" in answer.json["reason"]) == (400, True)
        await nothing_was_done(admin, 3)

    serve(test)
