"""The verbs of topics over HTTP: what each answers, to the byte where a client depends on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.broker.catalog import Topic
from store.api import Trim

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
        ("PUT", "P/new", '{"owner":"me"}', 501, "not kept yet"),
        ("PUT", "P/new/partitions", '{"partitions":1,"properties":{"a":"b"}}', 501, "not kept yet"),
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
        ("PUT", "/admin/v2/non-persistent/public/default/new", "{}", 501, "Non-persistent"),
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


def test_stats_count_what_came_in_and_what_is_kept(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        await admin.produce("plain", 0, [b"one", b"two", b"three"])

        stats = (await admin.ask("GET", "P/plain/stats?getPreciseBacklog=true&x=y")).json
        assert stats["msgInCounter"] == 3
        assert stats["bytesInCounter"] == stats["storageSize"] > 0
        assert stats["bytesOutCounter"] == 0
        # a Fetch sends bytes without counting records: better no number than one that is always 0
        assert not {"msgOutCounter", "msgRateOut"} & stats.keys()
        assert stats["msgRateIn"] > 0
        assert stats["averageMsgSize"] == pytest.approx(stats["storageSize"] / 3)
        assert stats["magnetar"]["logStartOffset"] == 0
        assert stats["magnetar"]["highWatermark"] == 3
        assert "notices" not in stats["magnetar"]

    serve(test)


def test_stats_of_an_idle_topic_do_not_bring_it_to_life(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        stats = (await admin.ask("GET", "P/plain/stats")).json
        assert stats["magnetar"]["inUse"] is False
        assert [p for runtime in admin.broker.runtimes() for p in runtime.partitions] in ([], [None])

    serve(test)


def test_counters_stay_when_an_idle_topic_is_let_go(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        await admin.produce("plain", 0, [b"a", b"b"])
        first = (await admin.ask("GET", "P/plain/stats")).json
        for _ in range(2):
            admin.broker.in_use.release_idle()
        idle = (await admin.ask("GET", "P/plain/stats")).json
        assert idle["magnetar"]["inUse"] is False
        assert (idle["msgInCounter"], idle["bytesInCounter"]) == (2, first["bytesInCounter"])

        await admin.produce("plain", 0, [b"c", b"d"])
        again = (await admin.ask("GET", "P/plain/stats")).json
        assert again["msgInCounter"] == 4
        assert again["bytesInCounter"] == again["storageSize"] == 2 * first["bytesInCounter"]
        # what came in long ago is no traffic of the last minute
        assert again["msgRateIn"] <= first["msgRateIn"]
        metrics = (await admin.ask("GET", "/metrics")).body.decode()
        assert 'topic="persistent://public/default/plain"} 4' in metrics

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


def test_a_topic_with_one_partition_answers_for_it(serve: Serve) -> None:
    """Kafka clients make topics like that, and their users ask for them by the name that they know."""

    async def test(admin: Admin) -> None:
        await admin.partitioned("single", 1)
        await admin.produce("single", 0, [b"a", b"b"])
        for verb in ("stats", "internalStats"):
            whole = (await admin.ask("GET", f"P/single/{verb}")).json
            one = (await admin.ask("GET", f"P/single-partition-0/{verb}")).json
            assert whole.keys() == one.keys()
            assert whole["magnetar"] == one["magnetar"]
            assert whole["magnetar"]["highWatermark"] == 2

    serve(test)


def test_a_group_is_a_failover_subscription_with_its_backlog(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b", b"c", b"d"])
        await admin.produce("orders", 1, [b"e", b"f"])
        await admin.commit("billing", "orders", 0, 1)
        await admin.commit("billing", "orders", 1, 0)
        await admin.commit("audit", "orders", 1, 2)

        one = (await admin.ask("GET", "P/orders-partition-0/stats")).json
        assert list(one["subscriptions"]) == ["billing"]
        billing = one["subscriptions"]["billing"]
        assert (billing["type"], billing["msgBacklog"], billing["isDurable"]) == ("Failover", 3, True)
        assert billing["backlogSize"] == one["backlogSize"] == one["storageSize"] * 3 // 4
        assert billing["magnetar"] == {"committedOffset": 1, "groupState": "Empty", "groupMembers": 0}

        whole = (await admin.ask("GET", "P/orders/partitioned-stats?perPartition=false")).json
        assert whole["subscriptions"]["billing"]["msgBacklog"] == 5
        assert whole["subscriptions"]["audit"]["msgBacklog"] == 0
        assert whole["partitions"] == {}
        # an offset means something in one partition only
        for subscription in whole["subscriptions"].values():
            assert sorted(subscription["magnetar"]) == ["groupMembers", "groupState"]

    serve(test)


def test_what_is_trimmed_is_no_backlog(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("plain")
        await admin.produce("plain", 0, [b"a", b"b"])
        await admin.produce("plain", 0, [b"c"])
        await admin.commit("billing", "plain", 0, 1)
        await admin.broker.write([Trim(admin.broker.catalog.get("plain").partitions[0], 2)])

        stats = (await admin.ask("GET", "P/plain/stats")).json
        assert stats["magnetar"]["logStartOffset"] == 2
        assert stats["subscriptions"]["billing"]["msgBacklog"] == 1

    serve(test)


def test_partitioned_stats_are_the_sums_over_the_partitions(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        await admin.produce("orders", 0, [b"a"])
        await admin.produce("orders", 2, [b"b", b"c"])

        stats = (await admin.ask("GET", "P/orders/partitioned-stats")).json
        assert stats["metadata"] == {"partitions": 3, "deleted": False}
        assert list(stats["partitions"]) == [f"{FULL}orders-partition-{index}" for index in range(3)]
        assert [one["msgInCounter"] for one in stats["partitions"].values()] == [1, 0, 2]
        assert stats["msgInCounter"] == 3
        assert stats["storageSize"] == sum(one["storageSize"] for one in stats["partitions"].values())

    serve(test)


@pytest.mark.parametrize(
    ("policy", "words"), [("compact", "grows"), ("compact,delete", None), ("delete", None)]
)
def test_stats_say_that_nothing_is_compacted_yet(serve: Serve, policy: str, words: str | None) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.create_topic("state", 1, {"cleanup.policy": policy})
        whole = (await admin.ask("GET", "P/state/partitioned-stats")).json["magnetar"]
        one = (await admin.ask("GET", "P/state-partition-0/stats")).json["magnetar"]
        for extras in (whole, one):
            assert extras["configs"] == {"cleanup.policy": policy}
            if words is None:
                assert "notices" not in extras
            else:
                assert "kept without compaction" in extras["notices"][0]
                assert words in extras["notices"][0]

    serve(test)


def test_internal_stats_show_ledgers_and_segments(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b"])
        await admin.produce("orders", 0, [b"c"])

        one = (await admin.ask("GET", "P/orders-partition-0/internalStats?metadata=false")).json
        ledger = one["ledgers"][-1]
        assert one["numberOfEntries"] == one["currentLedgerEntries"] == ledger["entries"] == 2
        assert one["totalSize"] == one["currentLedgerSize"] == ledger["size"] > 0
        assert one["lastConfirmedEntry"] == f"{ledger['ledgerId']}:1"
        assert one["state"] == "LedgerOpened"
        assert one["cursors"] == {}
        assert one["magnetar"]["segments"][0]["nextOffset"] == 3

        whole = (await admin.ask("GET", "P/orders/partitioned-internalStats")).json
        assert whole["metadata"]["partitions"] == 2
        assert whole["partitions"][FULL + "orders-partition-0"] == one
        assert whole["partitions"][FULL + "orders-partition-1"]["lastConfirmedEntry"].endswith(":-1")

    serve(test)


def test_stats_and_metrics_say_what_is_kept_beyond_retention_and_for_whom(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        broker = admin.broker
        await broker.create_topic("kept", 2, {"retention.bytes": "0"})
        found = await broker.subscriptions.ensure("g", "kept", [0, 0])
        at = found.partition(1)
        at.attach("c")
        for index in (0, 1):
            await admin.produce("kept", index, [b"a", b"b", b"c"])
        delivery = at.fetch("c", 1, 1 << 20, 1)
        assert [each[:2] for each in delivery.acquired] == [(0, 0)]
        await broker.retention.apply()
        hold = {"subscription": "g", "offset": 0, "state": "ACQUIRED"}
        one = (await admin.ask("GET", "P/kept-partition-1/stats")).json
        size = one["storageSize"]
        kept = one["magnetar"]["keptBeyondRetention"]
        assert kept.pop("asOf") == pytest.approx(broker.clock.wall_ms(), abs=60_000)
        assert kept == {"bytes": size, "messages": 3, "subscriptions": 1, "holds": [hold]}
        assert one["subscriptions"]["g"]["totalMsgExpired"] == 0
        whole = (await admin.ask("GET", "P/kept/partitioned-stats")).json
        kept = whole["magnetar"]["keptBeyondRetention"]
        del kept["asOf"]
        assert kept == {"bytes": size, "messages": 3, "holds": [{"partition": 1, **hold}]}
        assert whole["subscriptions"]["g"]["totalMsgExpired"] == 3
        other = (await admin.ask("GET", "P/kept-partition-0/stats")).json
        assert "keptBeyondRetention" not in other["magnetar"]
        assert other["subscriptions"]["g"]["totalMsgExpired"] == 3
        lines = (await admin.ask("GET", "/metrics")).body.decode().splitlines()
        where = 'cluster="standalone",namespace="public/default",topic="persistent://public/default/kept-partition-'
        for line in (
            f'magnetar_retention_kept_bytes{{{where}1"}} {size}',
            f'magnetar_retention_kept_messages{{{where}1"}} 3',
            f'magnetar_retention_hold_offset{{{where}1",subscription="g",state="ACQUIRED"}} 0',
            f'pulsar_subscription_total_msg_expired{{{where}0",subscription="g"}} 3',
            f'pulsar_subscription_total_msg_expired{{{where}1",subscription="g"}} 0',
            "magnetar_share_expired_total 3",
        ):
            assert line in lines
        assert not any(line.startswith(f"magnetar_retention_kept_bytes{{{where}0") for line in lines)

    serve(test)
