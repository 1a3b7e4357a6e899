"""Where producers send a key, as the gateway tells it."""

from __future__ import annotations

import pytest

from tests.gateway.admin.billing import EARLIEST, Serve
from tests.gateway.admin.conftest import Admin

KEY = {
    "key": "abc", "murmur2": 479470107, "murmur3": 3017643002, "javaStringHash": 96354, "slot": 3017643002 % 65_536,
}  # fmt: skip
"""By Java."""
OF_SEVEN = {
    "partitions": 7, "partitionByMurmur2": 4, "partitionByMurmur3": 1, "partitionByJavaStringHash": 6,
}  # fmt: skip


def test_the_hashes_of_a_key(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.ask("GET", "/admin/v2/magnetar/hash?key=abc")).json == KEY

    serve(test)


def test_the_partition_of_a_topic(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 7)
        await admin.plain("plain")
        for path in ("P/orders", "P/orders-partition-2"):
            assert (await admin.ask("GET", f"{path}/hash?key=abc")).json == {**KEY, **OF_SEVEN}
        plain = (await admin.ask("GET", "P/plain/hash?key=abc")).json
        assert {name: value for name, value in plain.items() if name.startswith("partition")} == {
            "partitions": 1, "partitionByMurmur2": 0, "partitionByMurmur3": 0, "partitionByJavaStringHash": 0,
        }  # fmt: skip
        await admin.ask("PUT", "P/orders/subscription/billing?type=key_shared", EARLIEST)
        found = (await admin.ask("GET", "P/orders/subscription/billing/hash?key=abc")).json
        assert found == {**KEY, **OF_SEVEN, "owner": None, "holders": {}}

    serve(test)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("P/orders/hash", 400, "key is missing"),
        ("P/nosuch/hash?key=a", 404, "no topic"),
        ("P/orders-billing-QUEUE/hash?key=a", 412, "name the topic that it reads"),
    ],
)
def test_what_cannot_be_told(serve: Serve, path: str, status: int, words: str) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.ask("PUT", "P/orders/subscription/billing?type=key_shared&lanes=1", EARLIEST)
        answer = await admin.ask("GET", path)
        assert (answer.status, words in answer.json["reason"]) == (status, True), answer.json

    serve(test)
