"""Key watches as the admin API begins and tells them."""

from __future__ import annotations

import json

import pytest

from tests.gateway.admin.billing import Serve, ack, made, take
from tests.gateway.admin.conftest import Admin

PATH = "P/orders/subscription/billing/magnetar/watch"


def test_a_key_is_watched_and_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=2)
        assert (await admin.ask("GET", f"{PATH}?key=k")).status == 404
        begun = await admin.ask("POST", PATH, json.dumps({"key": "k", "minutes": 5}))
        assert begun.status == 200
        assert (begun.json["key"], begun.json["watching"], begun.json["events"]) == ("k", True, [])
        await take(admin, "c")
        await ack(admin, "c", 0, 0)
        await ack(admin, "c", 1, 1, 3)
        row = admin.broker.subscriptions.row("billing", "orders")
        assert row is not None
        found = admin.broker.watching.of(row, b"k")
        assert found is not None
        await found[1].settled()
        told = (await admin.ask("GET", f"{PATH}?key=k")).json
        events = [(each["what"], each["offset"], each.get("consumer")) for each in told["events"]]
        assert events == [
            ("delivered", 0, "c"), ("delivered", 1, "c"), ("acknowledged", 0, "c"), ("rejected", 1, "c"),
            ("dead letter", 1, None),
        ]  # fmt: skip
        assert {each["topic"] for each in told["events"]} == {"orders"}

    serve(test)


@pytest.mark.parametrize(
    "body", ["{}", "[]", '{"key": 1}', '{"key": ""}', '{"key": "k", "minutes": 0}', '{"key": "k", "minutes": 61}',
             '{"key": "k", "minutes": true}', json.dumps({"key": "k" * 1025}), '{"key": "\\ud800"}'],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(serve: Serve, body: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("POST", PATH, body)).status == 400

    serve(test)


def test_there_are_so_many_at_most_and_none_of_a_consumer_group(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answers = [(await admin.ask("POST", PATH, json.dumps({"key": f"k{n}"}))).status for n in range(21)]
        assert answers == [200] * 20 + [409]
        await admin.commit("crawler", "orders", 0, 1)
        other = PATH.replace("billing", "crawler")
        assert (await admin.ask("POST", other, json.dumps({"key": "k"}))).status == 412

    serve(test)
