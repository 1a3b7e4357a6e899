"""Backlog quotas over HTTP: as Pulsar's clients set and read them, refused beside retention, shown in stats."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire import records
from gateway.wire.batch import admit
from semantics.backlog_quota import Action, Quota
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_policies import N, P, ask, made

SIZE = {"limit": 1000, "limitSize": 1000, "limitTime": -1, "policy": "producer_exception"}
AGE = {"limit": -1, "limitSize": -1, "limitTime": 3600, "policy": "consumer_backlog_eviction"}


def test_both_quotas_of_a_namespace_and_of_its_topic(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        runtime = await made(admin)
        assert await ask(admin, "GET", f"{N}/backlogQuotaMap") == (200, {})
        assert "backlog_quota_map" not in (await ask(admin, "GET", N))[1]
        assert await ask(admin, "POST", f"{N}/backlogQuota", SIZE) == (204, None)
        assert await ask(admin, "POST", f"{N}/backlogQuota?backlogQuotaType=message_age", AGE) == (204, None)
        both = {"destination_storage": SIZE, "message_age": AGE}
        assert await ask(admin, "GET", f"{N}/backlogQuotaMap") == (200, both)
        assert (await ask(admin, "GET", N))[1]["backlog_quota_map"] == both
        assert runtime.config.quota == Quota(1000, Action.REFUSE, 3_600_000, Action.EVICT)
        assert await ask(admin, "GET", f"{P}/backlogQuotaMap") == (200, {})
        assert await ask(admin, "GET", f"{P}/backlogQuotaMap?applied=true") == (200, both)
        # Go's clients leave `limit` away, old ones say nothing else
        own = {"limit": 7, "policy": "producer_request_hold"}
        path = f"{P}/backlogQuota?backlogQuotaType=destination_storage"
        assert await ask(admin, "POST", path, own) == (204, None)
        shown = {"limit": 7, "limitSize": 7, "limitTime": -1, "policy": "producer_request_hold"}
        assert await ask(admin, "GET", f"{P}/backlogQuotaMap") == (200, {"destination_storage": shown})
        assert runtime.config.quota == Quota(7, Action.HOLD, 3_600_000, Action.EVICT)
        assert await ask(admin, "DELETE", path) == (204, None)
        assert await ask(admin, "DELETE", f"{N}/backlogQuota?backlogQuotaType=message_age") == (204, None)
        assert await ask(admin, "GET", f"{N}/backlogQuotaMap") == (200, {"destination_storage": SIZE})
        assert runtime.config.quota == Quota(1000, Action.REFUSE)

    serve(test)


@pytest.mark.parametrize(
    ("query", "body", "status", "words"),
    [
        ("", None, 400, "The body is an object"),
        ("", {"limitSize": 5}, 412, "The body says nothing of policy"),
        ("", {"policy": "producer_exception"}, 412, "The body says nothing of limitSize"),
        (
            "",
            {"limitSize": 5, "policy": "give_up"},
            412,
            "policy is one of producer_request_hold, producer_exc",
        ),
        ("", {"limitSize": -2, "policy": "producer_exception"}, 412, "limitSize is a whole number from -1"),
        ("", {"limitSize": "5", "policy": "producer_exception"}, 412, "limitSize is a whole number"),
        ("?backlogQuotaType=message_age", SIZE | {"limitTime": 2**31}, 412, "limitTime is a whole number"),
        (
            "?backlogQuotaType=bytes",
            SIZE,
            412,
            "backlogQuotaType is destination_storage or message_age, not 'b",
        ),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    serve: Serve, query: str, body: object, status: int, words: str
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for place in (N, P):
            got, said = await ask(admin, "POST", f"{place}/backlogQuota{query}", body)
            assert got == status
            assert words in said["reason"]
            assert await ask(admin, "GET", f"{place}/backlogQuotaMap") == (200, {})

    serve(test)


@pytest.mark.parametrize("place", [N, P])
def test_a_quota_and_retention_refuse_each_other_both_ways(serve: Serve, place: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        kept = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 1}
        big = SIZE | {"limitSize": 1 << 20}
        old = AGE | {"limitTime": 3600}
        assert await ask(admin, "POST", f"{place}/retention", kept) == (204, None)
        for query, quota, words in (
            ("destination_storage", big, "A backlog quota of 1048576 bytes is to be below the retention"),
            ("message_age", old, "A backlog quota of 3600000 ms is to be below the retention"),
        ):
            path = f"{place}/backlogQuota?backlogQuotaType={query}"
            status, said = await ask(admin, "POST", path, quota)
            assert (status, said["reason"][: len(words)]) == (412, words)
            assert await ask(admin, "GET", f"{place}/backlogQuotaMap") == (200, {})
        assert await ask(admin, "DELETE", f"{place}/retention") == (204, None)
        assert await ask(admin, "POST", f"{place}/backlogQuota", big) == (204, None)
        status, said = await ask(admin, "POST", f"{place}/retention", kept)
        assert (status, said["reason"][:36]) == (412, "A backlog quota of 1048576 bytes is ")
        assert await ask(admin, "GET", f"{place}/retention") == (200, None)
        # what does not concern them can be changed
        assert await ask(admin, "POST", f"{place}/maxSubscriptionsPerTopic", 3) == (204, None)

    serve(test)


def test_a_topics_quota_is_below_its_namespaces_retention(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        kept = {"retentionTimeInMinutes": -1, "retentionSizeInMB": 1}
        assert await ask(admin, "POST", f"{N}/retention", kept) == (204, None)
        assert (await ask(admin, "POST", f"{P}/backlogQuota", SIZE | {"limitSize": 2 << 20}))[0] == 412
        assert await ask(admin, "POST", f"{P}/backlogQuota", SIZE) == (204, None)

    serve(test)


def test_a_namespace_is_made_with_quotas(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.ask("PUT", "/admin/v2/tenants/shop")).status == 204
        quotas = {"destination_storage": SIZE}
        assert await ask(admin, "PUT", N, {"backlog_quota_map": quotas}) == (204, None)
        assert await ask(admin, "GET", f"{N}/backlogQuotaMap") == (200, quotas)
        kept = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}
        wrong = {"backlog_quota_map": {"message_age": AGE}, "retention_policies": kept}
        status, said = await ask(admin, "PUT", "/admin/v2/namespaces/shop/us", wrong)
        assert status == 412, said
        assert (await ask(admin, "GET", "/admin/v2/namespaces/shop/us"))[0] == 404
        maps: list[Any] = ["x", [], {"nope": SIZE}, {"message_age": 7}]
        for wrong_map in maps:
            status, said = await ask(
                admin, "PUT", "/admin/v2/namespaces/shop/us", {"backlog_quota_map": wrong_map}
            )
            assert status in (400, 412), said

    serve(test)


def test_usage_and_limits_are_in_the_stats_and_in_the_metrics(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        runtime = await made(admin)
        stats = (await ask(admin, "GET", f"{P}/stats"))[1]
        shown = (
            "backlogSize",
            "backlogQuotaLimitSize",
            "backlogQuotaLimitTime",
            "oldestBacklogMessageAgeSeconds",
        )
        assert [stats[key] for key in shown] == [0, -1, -1, -1]
        for query, quota in (("destination_storage", SIZE), ("message_age", AGE)):
            path = f"{P}/backlogQuota?backlogQuotaType={query}"
            assert await ask(admin, "POST", path, quota) == (204, None)
        await admin.broker.subscriptions.ensure("g", "shop/eu/orders", [0])
        partition = admin.broker.partition_of(runtime, 0)
        made_at = admin.broker.clock.wall_ms() - 90_000
        data = records.build_batch([records.Record(0, made_at, None, bytes(500), [])])
        assert partition.gate is not None
        unmeasured = partition.gate.look(admin.broker.clock.wall_ms())
        assert unmeasured is not None
        await unmeasured.wait()
        partition.append(data, admit(data), admin.broker.clock.wall_ms())
        await admin.broker.write(())
        stats = (await ask(admin, "GET", f"{P}/stats"))[1]
        assert [stats[key] for key in shown[:3]] == [len(data), 1000, 3600]
        assert 90 <= stats["oldestBacklogMessageAgeSeconds"] < 600
        text = (await admin.ask("GET", "/metrics")).body.decode()
        where = '{cluster="standalone",namespace="shop/eu",topic="persistent://shop/eu/orders"}'
        assert f"pulsar_storage_backlog_size{where} {len(data)}\n" in text
        assert f"pulsar_storage_backlog_quota_limit{where} 1000\n" in text
        assert f"pulsar_storage_backlog_quota_limit_time{where} 3600\n" in text
        assert f"pulsar_storage_backlog_age_seconds{where} " in text

    serve(test)
