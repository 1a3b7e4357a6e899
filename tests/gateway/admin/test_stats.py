"""Stats of topics over HTTP, and the ledgers that are behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.wire import records
from tests.gateway.admin.billing import EARLIEST
from tests.gateway.admin.raw_http import RawClient, request

Admin = Any


Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]


FULL = "persistent://public/default/"


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


def test_stats_say_why_a_topic_was_not_compacted(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        topic = await admin.broker.create_topic("state", 2, {"cleanup.policy": "compact"})
        for path in ("P/state/partitioned-stats", "P/state-partition-0/stats"):
            extras = (await admin.ask("GET", path)).json["magnetar"]
            assert extras["configs"] == {"cleanup.policy": "compact"}
            assert "notices" not in extras
        admin.broker.compaction._fail(topic, 1, "a wrong CRC")
        for path in ("P/state/partitioned-stats", "P/state-partition-0/stats"):
            (notice,) = (await admin.ask("GET", path)).json["magnetar"]["notices"]
            assert notice.endswith(": a wrong CRC")

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


def test_limits_show_as_they_are_in_force_whoever_has_set_them(serve: Serve) -> None:
    """Asked again and again over one connection, while the topic is in use."""

    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"x"])
        client = await RawClient.to(admin.server.address)

        async def limit() -> object:
            found = await client.ask(request("GET", "/admin/v2/persistent/public/default/orders/stats"))
            stats = json.loads(found.body)
            return stats["backlogQuotaLimitSize"], stats["deduplicationStatus"]

        namespace, topic = "/admin/v2/namespaces/public/default", "P/orders"
        size = "backlogQuota?backlogQuotaType=destination_storage"
        assert [await limit() for _ in range(3)] == [(-1, "Disabled")] * 3
        for method, path, body, shown in (
            ("POST", f"{namespace}/{size}", _quota(5000), (5000, "Disabled")),
            ("POST", f"{namespace}/deduplication", "true", (5000, "Enabled")),
            ("POST", f"{topic}/{size}", _quota(3000), (3000, "Enabled")),
            ("POST", f"{topic}/deduplicationEnabled", "false", (3000, "Disabled")),
            ("DELETE", f"{topic}/{size}", None, (5000, "Disabled")),
            ("DELETE", f"{topic}/deduplicationEnabled", None, (5000, "Enabled")),
            ("DELETE", f"{namespace}/deduplication", None, (5000, "Disabled")),
            ("DELETE", f"{namespace}/{size}", None, (-1, "Disabled")),
        ):
            assert (await admin.ask(method, path, body)).status == 204
            assert await limit() == shown
        client.close()

    serve(test)


def test_the_age_of_a_backlog_is_that_of_the_subscription_which_is_furthest_behind(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"x"])

        async def age() -> object:
            return (await admin.ask("GET", "P/orders/stats")).json["oldestBacklogMessageAgeSeconds"]

        for name, start, shown in (("ahead", 2**63 - 1, -1), ("behind", -1, 0), ("also-ahead", 2**63 - 1, 0)):
            body = json.dumps({"ledgerId": start, "entryId": start})
            path = f"P/orders/subscription/{name}?type=shared"
            assert (await admin.ask("PUT", path, body)).status == 204
            assert (shown < 0) == (await age() == -1)

    serve(test)


def _quota(size: int) -> str:
    return json.dumps({"limitSize": size, "policy": "producer_exception"})


def test_the_oldest_message_of_each_subscription(serve: Serve) -> None:
    """Of consumer groups as well, which no quota counts and no delay holds up. To a share group a delayed one has not
    waited.
    """

    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)

        async def ages() -> tuple[int, dict[str, int]]:
            found = (await admin.ask("GET", "P/orders/partitioned-stats")).json
            return found["oldestBacklogMessageAgeSeconds"], {
                name: one["magnetar"]["oldestAgeSeconds"] for name, one in found["subscriptions"].items()
            }

        await admin.commit("readers", "orders", 0, 0)
        assert await ages() == (-1, {"readers": -1})
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        partition = admin.broker.partition(topic, 0)
        now = admin.broker.clock.wall_ms()
        due: records.Headers = [("pulsar-deliver-at", b"%d" % (now + 10**7))]
        for age, headers in ((90_000, due), (60_000, [])):
            batch = records.build_batch([records.Record(0, now - age, None, b"x", headers)])
            partition.append(batch, records.header(batch), now)
            await admin.broker.write([])
        oldest, each = await ages()
        assert 90 <= oldest == each["readers"] < 600
        await admin.commit("readers", "orders", 0, 1)
        oldest, each = await ages()
        assert 60 <= oldest == each["readers"] < 90
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        oldest, each = await ages()
        assert oldest >= 90 > each["billing"] >= 60

    serve(test)
