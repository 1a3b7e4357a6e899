"""The verbs of topics over HTTP: what each answers, to the byte where a client depends on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.broker.catalog import Topic

Admin = Any
Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]

FULL = "persistent://public/default/"


def test_a_write_answers_204_with_nothing_in_it(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for method, path, body in (
            ("PUT", "P/plain", "{}"),
            ("PUT", "P/orders/partitions", "4"),
            ("POST", "P/orders/partitions", "6"),
            ("POST", "P/orders/createMissedPartitions", None),
            ("DELETE", "P/plain?force=false", None),
            ("DELETE", "P/orders/partitions?force=true&authoritative=false", None),
        ):
            answer = await admin.ask(method, path, body)
            assert (answer.status, answer.body) == (204, b""), path

    serve(test)


def test_bodies_of_every_stock_client_are_taken(serve: Serve) -> None:
    """Java sends `{}` or an empty JSON body, Go `null` or nothing; with properties it is an object."""

    async def test(admin: Admin) -> None:
        for number, body in enumerate(("{}", "", "null", " \n", None)):
            assert (await admin.ask("PUT", f"P/plain-{number}", body)).status == 204
        kind = "application/vnd.partitioned-topic-metadata+json"
        body = '{"partitions":3,"properties":{}}'
        assert (await admin.ask("PUT", "P/parts/partitions", body, **{"Content-Type": kind})).status == 204
        assert (await admin.ask("GET", "P/parts/partitions")).json == {"partitions": 3, "deleted": False}

    serve(test)


def test_lists_name_each_partition_and_both_domains_answer(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("zebra")
        await admin.partitioned("orders", 2)
        await admin.broker.create_topic("made-by-kafka", 1, {})
        everything = [
            FULL + "made-by-kafka-partition-0", FULL + "orders-partition-0", FULL + "orders-partition-1",
            FULL + "zebra",
        ]  # fmt: skip

        assert (await admin.ask("GET", "P?includeSystemTopic=false&bundle=x")).json == everything
        assert (
            await admin.ask("GET", "/admin/v2/namespaces/public/default/topics?mode=ALL")
        ).json == everything
        assert (await admin.ask("GET", "P/partitioned")).json == [FULL + "made-by-kafka", FULL + "orders"]
        for path in ("", "/partitioned"):
            answer = await admin.ask("GET", "/admin/v2/non-persistent/public/default" + path)
            assert (answer.status, answer.body, answer.content_type) == (200, b"[]", "application/json")
        mode = "/admin/v2/namespaces/public/default/topics?mode=NON_PERSISTENT"
        assert (await admin.ask("GET", mode)).json == []

    serve(test)


def test_a_long_list_is_complete(serve: Serve) -> None:
    """The catalog is read in pages: none is left out or listed twice where two pages meet."""

    async def test(admin: Admin) -> None:
        names = [f"t{number:04}" for number in range(1101)]
        for name in names:
            await admin.broker.create_topic(name, 1, {}, partitioned=False)
        assert (await admin.ask("GET", "P")).json == [FULL + name for name in names]

    serve(test)


def test_the_gateways_own_topics_are_listed_when_asked_for(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.create_topic("system", 1, {}, internal=True)
        assert (await admin.ask("GET", "P")).json == []
        assert (await admin.ask("GET", "P/partitioned")).json == []
        assert (await admin.ask("GET", "P?includeSystemTopic=true")).json == [FULL + "system-partition-0"]

    serve(test)


def test_metadata_tells_plain_from_partitioned(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        await admin.partitioned("orders", 3)
        for name, count in (("plain", 0), ("orders", 3), ("orders-partition-1", 0)):
            answer = await admin.ask("GET", f"P/{name}/partitions?checkAllowAutoCreation=true")
            assert answer.json == {"partitions": count, "deleted": False}
        assert (await admin.ask("GET", "P/absent/partitions")).status == 404
        assert (await admin.ask("GET", "P/orders-partition-3/partitions")).status == 404

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "word"),
    [
        ("PUT", "P/plain", "{}", 409, "already exists"),
        ("PUT", "P/orders", "{}", 409, "already exists"),
        ("PUT", "P/orders/partitions", "4", 409, "already exists"),
        ("PUT", "P/new/partitions", "0", 412, "at least 1"),
        ("PUT", "P/new/partitions", "-3", 412, "at least 1"),
        ("PUT", "P/new/partitions", "1000000000", 412, "Number of partitions"),
        ("PUT", "P/new/partitions", '"4"', 400, "number of partitions"),
        ("PUT", "P/new/partitions", "4.5", 400, "number of partitions"),
        ("PUT", "P/new/partitions", "true", 400, "number of partitions"),
        ("PUT", "P/new/partitions", "", 400, "number of partitions"),
        ("PUT", "P/new/partitions", "{}", 400, "number of partitions"),
        ("PUT", "P/new/partitions", "nonsense", 400, "not JSON"),
        ("PUT", "P/new/partitions", "[" * 100_000, 400, "not JSON"),
        ("PUT", "P/new/partitions", b'"\xff"', 400, "not JSON"),
        ("PUT", "P/new", "nonsense", 400, "not JSON"),
        ("PUT", "P/orders-partition-9", "{}", 412, "partition's name"),
        ("PUT", "P/new-partition-0/partitions", "2", 412, "partition's name"),
        ("PUT", "P/" + "x" * 250, "{}", 412, "249"),
        ("PUT", "P/a%20b", "{}", 412, "letters"),
        ("PUT", "P/a%2Fb", "{}", 412, "letters"),
        ("PUT", "P/%C3%BC", "{}", 412, "letters"),
        ("PUT", "P/%FF", "{}", 400, "UTF-8"),
        ("PUT", "P/..%00", "{}", 412, "letters"),
        ("PUT", "/admin/v2/persistent/public/other/new", "{}", 404, "no namespace public/other"),
        ("PUT", "/admin/v2/persistent/a.b/c/new", "{}", 412, "tenant"),
        (
            "PUT",
            "/admin/v2/non-persistent/public/default/plain",
            "{}",
            409,
            "persistent://public/default/plain already",
        ),
        ("GET", "/admin/v2/persistent/public/other", None, 404, "no namespace"),
        ("GET", "P?includeSystemTopic=perhaps", None, 400, "true or false"),
        ("POST", "P/orders/partitions", "2", 422, "cannot be cut down"),
        ("POST", "P/plain/partitions", "2", 409, "not a partitioned topic"),
        ("POST", "P/absent/partitions", "2", 404, "no topic"),
        ("DELETE", "P/orders", None, 409, "delete-partitioned-topic"),
        ("DELETE", "P/orders-partition-0", None, 409, "without the others"),
        ("DELETE", "P/plain/partitions", None, 409, "use delete"),
        ("DELETE", "P/absent", None, 404, "no topic"),
        ("DELETE", "P/absent/partitions", None, 404, "no topic"),
        ("DELETE", "P/plain?force=maybe", None, 400, "true or false"),
        ("GET", "P/absent/stats", None, 404, "no topic"),
        ("GET", "P/orders/stats", None, 404, "partitioned-stats"),
        ("GET", "P/orders/internalStats", None, 404, "partitioned-stats-internal"),
        ("GET", "P/plain/partitioned-stats", None, 404, "not a partitioned topic"),
        ("GET", "P/orders-partition-0/partitioned-internalStats", None, 404, "not a partitioned topic"),
        (
            "GET",
            "/admin/v2/non-persistent/public/default/plain/stats",
            None,
            404,
            "no topic non-persistent://",
        ),
    ],
)
def test_refusals(
    serve: Serve, method: str, path: str, body: str | bytes | None, status: int, word: str
) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        await admin.partitioned("orders", 3)
        before = admin.broker.catalog.names()

        answer = await admin.ask(method, path, body)

        assert answer.status == status, answer.body
        assert answer.content_type == "application/json"
        assert list(answer.json) == ["reason"]
        assert word in answer.json["reason"]
        assert admin.broker.catalog.names() == before

    serve(test)


def test_as_many_partitions_as_there_are_is_done_already(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        assert (await admin.ask("POST", "P/orders/partitions", "3")).status == 204
        assert (await admin.ask("POST", "P/orders/partitions", "5")).status == 204
        assert len(admin.broker.catalog.get("orders").partitions) == 5

    serve(test)


def test_a_topic_with_connected_consumers_is_deleted_by_force_only(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 1)
        await admin.plain("other")
        await admin.join("billing", "orders")

        refused = await admin.ask("DELETE", "P/orders/partitions")
        assert refused.status == 412
        assert "billing" in refused.json["reason"]
        assert (await admin.ask("DELETE", "P/other")).status == 204
        assert (await admin.ask("DELETE", "P/orders/partitions?force=true")).status == 204
        assert admin.broker.catalog.names() == []

    serve(test)


def test_the_consumers_of_its_queue_topics_are_its_own(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.ask("PUT", "P/orders/subscription/billing?lanes=2", "{}")
        await admin.join("billing", "orders-billing-QUEUE")
        refused = await admin.ask("DELETE", "P/orders")
        assert refused.status == 412
        assert "billing (of orders-billing-QUEUE)" in refused.json["reason"]
        assert (await admin.ask("DELETE", "P/orders?force=true")).status == 204
        assert admin.broker.catalog.names() == []

    serve(test)


def test_so_are_those_of_a_queue_topic_over_a_pattern(serve: Serve) -> None:
    """They hold messages of it, though their topic goes on with the others."""

    async def test(admin: Admin) -> None:
        await admin.plain("orders-eu")
        body = '{"pattern": "orders-.*", "position": "earliest"}'
        assert (await admin.ask("PUT", "/admin/v2/magnetar/queues/billing?lanes=2", body)).status == 204
        await admin.join("billing", "billing-QUEUE")
        refused = await admin.ask("DELETE", "P/orders-eu")
        assert refused.status == 412
        assert "billing (of billing-QUEUE)" in refused.json["reason"]
        assert (await admin.ask("DELETE", "P/orders-eu?force=true")).status == 204
        assert admin.broker.catalog.names() == ["billing-QUEUE"]

    serve(test)


def test_a_partition_goes_before_a_topic_of_the_same_name(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        # as a store of an older version may have them
        for number in (1, 7):
            name = f"orders-partition-{number}"
            row = Topic(name, bytes([number]) * 16, admin.broker.catalog.allocate(1), 0, partitioned=False)
            await admin.broker.write(admin.broker.catalog.writes_create(row))

        first = (await admin.ask("GET", "P/orders-partition-1/stats")).json["magnetar"]
        assert (first["kafkaTopic"], first["kafkaPartition"]) == ("orders", 1)
        seventh = (await admin.ask("GET", "P/orders-partition-7/stats")).json["magnetar"]
        assert (seventh["kafkaTopic"], seventh["kafkaPartition"]) == ("orders-partition-7", 0)
        grown = await admin.ask("POST", "P/orders/partitions", "8")
        assert (grown.status, "orders-partition-1" in grown.json["reason"]) == (412, True)

    serve(test)


def test_a_plain_topic_is_found_by_the_name_of_its_only_partition(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        found = (await admin.ask("GET", "P/orders-partition-0/stats")).json["magnetar"]
        assert (found["kafkaTopic"], found["kafkaPartition"]) == ("orders", 0)
        assert (await admin.ask("GET", "P/orders-partition-1/stats")).status == 404

    serve(test)


def test_no_topic_is_made_beside_one_that_is_called_like_its_partition(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.create_topic("orders-partition-7", 1, {})
        for path, body in (("P/orders", "{}"), ("P/orders/partitions", "2")):
            refused = await admin.ask("PUT", path, body)
            assert (refused.status, "orders-partition-7" in refused.json["reason"]) == (412, True)

    serve(test)


def test_writes_say_in_a_header_what_they_did(serve: Serve) -> None:
    """Not in the body: Pulsar's Java client would wait for its time-out."""

    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b"])
        await admin.produce("orders", 1, [b"c"])
        await admin.commit("billing", "orders", 0, 1)
        await admin.commit("billing", "orders", 1, 0)
        assert (await admin.ask("PUT", "P/orders/subscription/packing", EARLIEST)).status == 204
        for method, path, expected in (
            ("POST", "P/orders-partition-0/subscription/packing/skip/9", {"messages": 2}),
            ("POST", "P/orders/subscription/packing/skip_all", {"messages": 1}),
            ("POST", "P/orders/subscription/packing/resetcursor/0", {"messages": 3}),
            ("POST", "P/orders-partition-0/subscription/billing/skip/9", {"messages": 1}),
            ("POST", "P/orders/subscription/billing/skip_all", {"messages": 1}),
            ("POST", "P/orders/subscription/billing/resetcursor/0", {"messages": 3}),
            ("DELETE", "P/orders/partitions", {"messages": 3}),
        ):
            answer = await admin.ask(method, path)
            assert (answer.status, answer.body) == (204, b"")
            assert json.loads(answer.headers["X-Magnetar-Result"]) == expected, path
        await admin.partitioned("orders", 2)
        grown = await admin.ask("POST", "P/orders/partitions", "5")
        assert json.loads(grown.headers["X-Magnetar-Result"]) == {"before": 2, "partitions": 5}

    serve(test)


EARLIEST = '{"ledgerId": -1, "entryId": -1}'


def test_who_names_the_wrong_domain_is_told_what_is_there(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        volatile = "/admin/v2/non-persistent/public/default"
        assert (await admin.ask("PUT", f"{volatile}/ticks")).status == 204
        assert (await admin.ask("PUT", f"{volatile}/parts/partitions", "2")).status == 204
        await admin.plain("orders")
        for asked, there in (
            ("P/ticks", "non-persistent://public/default/ticks"),
            ("P/parts-partition-1", "non-persistent://public/default/parts-partition-1"),
            (f"{volatile}/orders", "persistent://public/default/orders"),
        ):
            answer = await admin.ask("GET", f"{asked}/stats")
            assert (answer.status, answer.json["reason"].partition(", but ")[2]) == (
                404,
                f"{there}: name that.",
            )
        for missing in ("P/none", "P/parts-partition-2"):
            assert ", but " not in (await admin.ask("GET", f"{missing}/stats")).json["reason"]

    serve(test)
