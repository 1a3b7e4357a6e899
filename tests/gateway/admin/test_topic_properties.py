"""What somebody keeps with a topic: at its creation, later, and after the row was read again."""

from __future__ import annotations

import json

import msgspec
import pytest

from gateway.broker.catalog import Catalog, Topic
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin


async def kept(admin: Admin, name: str = "orders") -> object:
    return (await admin.ask("GET", f"P/{name}/properties")).json


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("P/orders", {"team": "billing", "a": ""}),
        ("P/orders/partitions", {"partitions": 2, "properties": {"team": "billing", "a": ""}}),
    ],
)
def test_a_topic_is_made_with_them(serve: Serve, path: str, body: object) -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.ask("PUT", path, json.dumps(body))).status == 204
        assert await kept(admin) == {"team": "billing", "a": ""}

    serve(test)


def test_they_are_added_and_removed_one_by_one(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        assert await kept(admin) == {}
        for said in ({"team": "billing"}, {"tier": "2"}, {"team": "sales"}):
            assert (await admin.ask("PUT", "P/orders/properties", json.dumps(said))).status == 204
        assert await kept(admin) == {"team": "sales", "tier": "2"}
        # a partition shows those of its topic
        assert await kept(admin, "orders-partition-1") == {"team": "sales", "tier": "2"}
        for key in ("team", "nosuch"):
            assert (await admin.ask("DELETE", f"P/orders/properties?key={key}")).status == 204
        assert await kept(admin) == {"tier": "2"}
        # what is durable, not what is in memory
        stored = Catalog(admin.broker.store).get("orders")
        assert stored is not None
        assert stored.properties == {"tier": "2"}

    serve(test)


def test_they_are_shown_where_pulsar_shows_them(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        bare = {"partitions": 2, "deleted": False}
        assert (await admin.ask("GET", "P/orders/partitions")).json == bare
        await admin.ask("PUT", "P/orders/properties", '{"team": "billing"}')
        full = {**bare, "properties": {"team": "billing"}}
        assert (await admin.ask("GET", "P/orders/partitions")).json == full
        for of in ("partitioned-stats", "partitioned-internalStats"):
            assert (await admin.ask("GET", f"P/orders/{of}")).json["metadata"] == full

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("PUT", "P/orders/properties", '["a"]', 400, "an object with texts"),
        ("PUT", "P/orders/properties", '{"a": 1}', 400, "an object with texts"),
        ("PUT", "P/orders/properties", '{"": "x"}', 412, "has a name"),
        ("PUT", "P/orders-partition-0/properties", '{"a": "x"}', 412, "name persistent://public/default/orders."),
        ("DELETE", "P/orders-partition-0/properties?key=a", None, 412, "name persistent://public/default/orders."),
        ("DELETE", "P/orders/properties", None, 412, "Say which property"),
        ("GET", "P/nosuch/properties", None, 404, "no topic"),
        ("PUT", "P/other", '{"a": 1}', 400, "an object with texts"),
        ("PUT", "P/other/partitions", '{"partitions": 1, "properties": [1]}', 400, "an object with texts"),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(
    serve: Serve, method: str, path: str, body: str | None, status: int, words: str
) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.ask("PUT", "P/orders/properties", '{"a": "1"}')
        answer = await admin.ask(method, path, body)
        assert (answer.status, words in answer.json["reason"]) == (status, True), answer.json
        assert await kept(admin) == {"a": "1"}
        assert admin.broker.catalog.names() == ["orders"]

    serve(test)


def test_rows_of_older_gateways_are_read() -> None:
    """They have none of what topics got since."""
    row = {"name": "orders", "topic_id": bytes(16), "partitions": [1], "created_at": 5}
    topic = msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=Topic)
    assert (topic.properties, topic.permissions) == ({}, {})
    # and a row without them is what it was
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(topic)) == row


@pytest.mark.parametrize("path", ["P/orders", "/admin/v2/namespaces/public/default"])
def test_there_is_room_for_so_many_bytes(serve: Serve, path: str) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        assert (await admin.ask("PUT", f"{path}/properties", json.dumps({"a": "x" * 60_000}))).status == 204
        for more in ({"b": "x" * 6_000}, {"c": "x" * 70_000}):
            refused = await admin.ask("PUT", f"{path}/properties", json.dumps(more))
            assert (refused.status, "at most 65536 bytes" in refused.json["reason"]) == (412, True)
        assert list((await admin.ask("GET", f"{path}/properties")).json) == ["a"]
        for what, role, body in (
            ("permissions", "x" * 1_000, ["produce"]), ("permissions/subscription", "y" * 1_000, ["ada"]),
        ):  # fmt: skip
            if what == "permissions/subscription" and path.startswith("P"):
                continue
            statuses = set()
            for number in range(70):
                answer = await admin.ask("POST", f"{path}/{what}/{role}{number}", json.dumps(body))
                statuses.add(answer.status)
            assert statuses == {204, 412}
            assert 60 < len((await admin.ask("GET", f"{path}/{what}")).json) < 66

    serve(test)
