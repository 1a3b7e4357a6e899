"""A plan is used up by an act that has begun, or may have: one that is refused before leaves it good, and no two acts
get it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.broker.redrive import jobs
from semantics.access.acl import Operation, ResourceType
from store.api import Outcome, Refused, StoreError, Unknown, Write
from tests.gateway.admin.billing import Serve, made
from tests.gateway.admin.conftest import Admin, Answer
from tests.gateway.admin.secured import Granted, Secured, serve_secured
from tests.gateway.admin.test_acts import asked, done
from tests.gateway.admin.test_acts_audited import failing, of_cursor, of_job
from tests.gateway.admin.test_open_messages import offsets, page
from tests.gateway.admin.test_replaying import RETRY, dead, did, listed, post, stored
from tests.gateway.admin.test_replaying_rights import Q as RIGHTS
from tests.gateway.admin.test_replaying_rights import dead as one_dead
from tests.gateway.admin.test_replaying_rights import replay as replay_as


async def settled_by(admin: Admin, plan: str) -> Answer:
    return await asked(admin, "settle", filter={}, plan=plan)


async def plan_of(admin: Admin) -> str:
    return str((await done(admin, "settle", filter={}, dryRun=True))["plan"])


async def open_offsets(admin: Admin) -> list[int]:
    return offsets(await page(admin))


class Door:
    """Who wants to tell the audit of an act waits here, before anything of it is done."""

    def __init__(self, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
        self.came, self.opened = asyncio.Event(), asyncio.Event()
        self.refuses: StoreError | None = None
        ready = admin.broker.audit_log.ready

        async def waiting() -> None:
            self.came.set()
            await self.opened.wait()
            if self.refuses is not None:
                raise self.refuses
            await ready()

        monkeypatch.setattr(admin.broker.audit_log, "ready", waiting)


def test_too_many_jobs_do_not_use_a_plan_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        plan = (await post(admin, "discard", dryRun=True)).json["plan"]
        with monkeypatch.context() as busy:
            busy.setattr(jobs, "MOST_OF_TENANT", 0)
            assert (await post(admin, "discard", plan=plan)).status == 503
        assert len(await listed(admin)) == 3
        assert (await did(admin, "discard", plan=plan))["done"] == 3
        assert (await post(admin, "discard", plan=plan)).status == 409

    serve(test)


def test_a_target_that_is_gone_does_not_use_a_plan_up(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await admin.plain("elsewhere")
        plan = (await post(admin, "replay", to="elsewhere", dryRun=True)).json["plan"]
        assert (await admin.ask("DELETE", "P/elsewhere")).status == 204
        for _ in range(2):
            assert (await post(admin, "replay", plan=plan)).status == 404

    serve(test)


def test_a_right_that_is_missing_does_not_use_a_plan_up() -> None:
    async def test(at: Secured) -> None:
        await one_dead(at)
        reads = at.rows.rows
        at.rows.rows = [*reads, Granted("User:cora", ResourceType.TOPIC, Operation.WRITE, "orders")]
        writes = at.rows.rows
        plan = (await replay_as(at, "cora", to="topic", dryRun=True)).json["plan"]
        body = json.dumps({"plan": plan, "wait": 10})
        at.rows.rows = reads
        refused = await at.ask("cora", "POST", f"{RIGHTS}/magnetar/replay", body)
        assert (refused.status, "produce" in refused.json["reason"]) == (403, True)
        at.rows.rows = writes
        sent = await at.ask("cora", "POST", f"{RIGHTS}/magnetar/replay", body)
        assert (sent.status, sent.json.get("done")) == (200, 1), sent

    serve_secured(test)


def test_a_dry_run_of_a_plan_does_not_use_it_up(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        plan = (await post(admin, "discard", dryRun=True)).json["plan"]
        assert (await post(admin, "discard", plan=plan, dryRun=True)).json["letters"] == 3
        assert (await did(admin, "discard", plan=plan))["done"] == 3

    serve(test)


def test_what_has_changed_does_not_use_a_plan_up(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        plan = await plan_of(admin)
        await admin.produce("orders", 0, [b"later"])
        for _ in range(2):
            refused = await settled_by(admin, plan)
            assert (refused.status, "1 have come" in refused.json["reason"]) == (409, True), refused
        assert await open_offsets(admin) == [0, 1, 2, 3]

    serve(test)


@pytest.mark.parametrize("of", [of_cursor, of_job])
def test_what_the_store_refuses_does_not_use_a_plan_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, of: Callable[[Write], bool]
) -> None:
    async def test(admin: Admin) -> None:
        if of is of_job:
            await dead(admin, 3)
            plan = (await post(admin, "discard", dryRun=True)).json["plan"]
            failing(admin, monkeypatch, of)
            assert (await post(admin, "discard", plan=plan)).status == 503
            assert (await did(admin, "discard", plan=plan))["done"] == 3
            return
        await made(admin, count=3)
        plan = await plan_of(admin)
        failing(admin, monkeypatch, of)
        assert (await settled_by(admin, plan)).status == 503
        assert await open_offsets(admin) == [0, 1, 2]
        assert (await settled_by(admin, plan)).json["messages"] == 3

    serve(test)


def test_an_act_that_was_done_in_part_has_used_its_plan_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.admin.acts.SLICE", 2)

    async def test(admin: Admin) -> None:
        await made(admin, count=5)
        plan = await plan_of(admin)
        failing(admin, monkeypatch, of_cursor, first=1)
        assert (await settled_by(admin, plan)).status == 503
        assert await open_offsets(admin) == [2, 3, 4]
        refused = await settled_by(admin, plan)
        assert (refused.status, "There is no plan" in refused.json["reason"]) == (409, True)

    serve(test)


def test_an_act_of_which_nobody_knows_whether_it_was_done_has_used_its_plan_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        plan = await plan_of(admin)
        store = admin.broker.durable
        commit = store.commit

        def unknown(
            writes: Sequence[Write], durability: Any, tell: Callable[[Outcome], None], *more: Any
        ) -> None:
            if not any(of_cursor(each) for each in writes):
                return commit(writes, durability, tell, *more)
            admin.broker.loop.call_soon(tell, Unknown("the power went"))
            return None

        with monkeypatch.context() as odd:
            odd.setattr(store, "commit", unknown)
            assert (await settled_by(admin, plan)).status == 503
        refused = await settled_by(admin, plan)
        assert (refused.status, "There is no plan" in refused.json["reason"]) == (409, True)

    serve(test)


def test_of_two_acts_at_once_one_has_the_plan(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        plan = await plan_of(admin)
        door = Door(admin, monkeypatch)
        first = asyncio.ensure_future(settled_by(admin, plan))
        await door.came.wait()
        async with asyncio.timeout(30):
            second = await settled_by(admin, plan)
        assert (second.status, "Another call" in second.json["reason"]) == (409, True)
        door.opened.set()
        assert (await first).json["messages"] == 3
        assert (await settled_by(admin, plan)).status == 409

    serve(test)


def test_of_two_jobs_at_once_one_has_the_plan(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        plan = (await post(admin, "replay", dryRun=True)).json["plan"]
        door = Door(admin, monkeypatch)
        first = asyncio.ensure_future(post(admin, "replay", plan=plan, wait=20))
        await door.came.wait()
        async with asyncio.timeout(30):
            second = await post(admin, "replay", plan=plan)
        assert (second.status, "Another call" in second.json["reason"]) == (409, True)
        door.opened.set()
        assert (await first).json["done"] == 3
        assert len((await admin.ask("GET", "/admin/v2/magnetar/jobs")).json["jobs"]) == 1

    serve(test)


def test_where_the_first_of_two_acts_is_refused_the_plan_is_good_still(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        plan = await plan_of(admin)
        door = Door(admin, monkeypatch)
        door.refuses = Refused("the disk is tired")
        first = asyncio.ensure_future(settled_by(admin, plan))
        await door.came.wait()
        async with asyncio.timeout(30):
            assert (await settled_by(admin, plan)).status == 409
        door.opened.set()
        assert (await first).status == 503
        assert await open_offsets(admin) == [0, 1, 2]
        door.refuses = None
        assert (await settled_by(admin, plan)).json["messages"] == 3

    serve(test)


def test_a_target_that_was_made_anew_since_the_look_is_another(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await admin.plain("elsewhere")
        plan = (await post(admin, "replay", to="elsewhere", dryRun=True)).json["plan"]
        assert (await admin.ask("DELETE", "P/elsewhere")).status == 204
        await admin.plain("elsewhere")
        for _ in range(2):
            refused = await post(admin, "replay", plan=plan)
            assert (refused.status, "made anew since" in refused.json["reason"]) == (409, True), refused
        assert await stored(admin, "elsewhere") == []
        assert len(await listed(admin)) == 3
        plan = (await post(admin, "replay", to="elsewhere", dryRun=True)).json["plan"]
        assert (await did(admin, "replay", plan=plan))["done"] == 3
        assert len(await stored(admin, "elsewhere")) == 3

    serve(test)


def test_a_retry_topic_that_was_chosen_since_the_look_is_another(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await admin.plain("elsewhere")
        seen = (await post(admin, "replay", dryRun=True)).json
        assert seen["to"] == RETRY
        chosen = {"pulsar.retry.letter.topic": "elsewhere"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **chosen})
        refused = await post(admin, "replay", plan=seen["plan"])
        says = f"They would go to elsewhere now, and {RETRY} was shown."
        assert (refused.status, says in refused.json["reason"]) == (409, True), refused
        assert await stored(admin, "elsewhere") == []

    serve(test)


@pytest.mark.parametrize("to", ["elsewhere", "topic"])
def test_a_job_ends_where_its_target_is_made_anew(serve: Serve, to: str) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 5)
        await admin.plain("elsewhere")
        name = "elsewhere" if to == "elsewhere" else "orders"
        number = (await post(admin, "replay", to=to, rate=2)).json["id"]
        async with asyncio.timeout(30):
            while (row := admin.broker.redrive.row(number)) is None or not row.done:
                await asyncio.sleep(0)
        assert (await admin.ask("DELETE", f"P/{name}?force=true")).status == 204
        await admin.plain(name)
        await admin.broker.redrive.wait(number, 20)
        job = (await admin.ask("GET", f"/admin/v2/magnetar/jobs/{number}")).json
        assert (job["state"], "another has its name" in job["why"]) == ("failed", True), job
        assert await stored(admin, name) == []

    serve(test)
