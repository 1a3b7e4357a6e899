"""What makes no sense of a replay or a discard is refused before anything is done: no job, and the plan holds on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_replaying import dead, did, listed, post


async def nothing_was_done(admin: Admin, letters: int) -> None:
    assert (await admin.ask("GET", "/admin/v2/magnetar/jobs")).json["jobs"] == []
    assert len(await listed(admin)) == letters


@pytest.mark.parametrize("verb", ["replay", "discard"])
@pytest.mark.parametrize("said", [{"wait": 31}, {"wait": -1}, {"wait": None}, {"wait": "5"}, {"rate": 0}])
def test_a_number_that_makes_no_sense_begins_no_job(serve: Serve, verb: str, said: dict[str, Any]) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        answer = await post(admin, verb, filter={}, **said)
        assert (answer.status, f"{next(iter(said))} is a number from" in answer.json["reason"]) == (400, True)
        await nothing_was_done(admin, 3)

    serve(test)


@pytest.mark.parametrize(
    "said", [{"wait": 31}, {"rate": 0}, {"filter": {}}, {"filter": None}, {"to": "topic"}, {"edits": {}}]
)
def test_what_is_wrong_beside_a_plan_does_not_use_it_up(serve: Serve, said: dict[str, Any]) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        plan = (await post(admin, "discard", dryRun=True)).json["plan"]
        assert (await post(admin, "discard", plan=plan, **said)).status == 400
        await nothing_was_done(admin, 3)
        assert (await did(admin, "discard", plan=plan))["done"] == 3

    serve(test)
