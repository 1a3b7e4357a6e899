"""Null in a filter, which programs write for what is not set, is refused: it would mean everything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.admin.billing import Serve, made
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_refused_first import nothing_was_done
from tests.gateway.admin.test_replaying import Q, dead, post


@pytest.mark.parametrize("verb", ["replay", "discard"])
@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize(
    "filter_",
    [
        None,
        {"ids": None},
        {"reason": None, "text": "m1"},
        {"header": None},
        {"since": None},
        {"failedBelow": None},
    ],
)
def test_null_is_not_all_letters(serve: Serve, verb: str, dry: bool, filter_: Any) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        answer = await post(admin, verb, filter=filter_, dryRun=dry)
        assert answer.status == 400, answer
        expected = "A filter is an object" if filter_ is None else "is null: leave it out"
        assert expected in answer.json["reason"]
        await nothing_was_done(admin, 3)

    serve(test)


@pytest.mark.parametrize("filter_", [None, {"state": None}, {"key": "k", "text": None}, {"slot": None}])
def test_null_is_not_all_messages(serve: Serve, filter_: Any) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        for more in ({}, {"messages": None}):
            body = {"do": "settle", "filter": filter_, "dryRun": True, **more}
            answer = await admin.ask("POST", f"{Q}/act", json.dumps(body))
            assert answer.status == 400, (body, answer)
            if filter_ is not None:
                assert "of the filter is null: leave it out" in answer.json["reason"]

    serve(test)
