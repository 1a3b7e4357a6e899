"""Policies over HTTP, on a real broker: set, shown, in force, taken back, at both levels."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gateway.admin.exchange import RESULT
from gateway.broker.topic_runtime import TopicRuntime
from semantics.names import Namespace
from semantics.policies import MOST_LONG, Kind, Level
from semantics.policy_form import Form
from semantics.policy_forms import ALL, FORMS
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin

N = "/admin/v2/namespaces/shop/eu"
P = "/admin/v2/persistent/shop/eu/orders"
DAY = {"retentionTimeInMinutes": 1440, "retentionSizeInMB": 10}
FOR_EVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
WEEK = {"retentionTimeInMinutes": 10_080, "retentionSizeInMB": -1}


async def made(admin: Admin) -> TopicRuntime:
    """Topic shop.eu.orders, in use."""
    for path in ("tenants/shop", "namespaces/shop/eu"):
        assert (await admin.ask("PUT", f"/admin/v2/{path}")).status == 204
    assert (await admin.ask("PUT", P)).status == 204
    runtime = admin.broker.topic(b"shop/eu/orders")
    assert runtime is not None
    return runtime


async def ask(admin: Admin, method: str, path: str, body: object = None) -> tuple[int, Any]:
    answer = await admin.ask(method, path, None if body is None else json.dumps(body))
    return answer.status, answer.json if answer.body else None


def in_force(runtime: TopicRuntime) -> tuple[int, int, bool]:
    config = runtime.config
    return config.retention_ms, config.retention_bytes, config.retention_bytes_evict


def test_retention_of_a_namespace_and_of_its_topic(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        runtime = await made(admin)
        assert await ask(admin, "GET", f"{N}/retention") == (200, None)
        assert await ask(admin, "GET", f"{P}/retention?applied=true") == (200, WEEK)
        assert await ask(admin, "POST", f"{N}/retention", DAY) == (204, None)
        assert await ask(admin, "GET", f"{N}/retention") == (200, DAY)
        assert (await ask(admin, "GET", N))[1]["retention_policies"] == DAY
        assert await ask(admin, "GET", f"{P}/retention") == (200, None)
        assert await ask(admin, "GET", f"{P}/retention?applied=true") == (200, DAY)
        assert in_force(runtime) == (86_400_000, 10 << 20, False), "without a restart"
        assert await ask(admin, "POST", f"{P}/retention", FOR_EVER) == (204, None)
        assert await ask(admin, "GET", f"{P}/retention?applied=true") == (200, FOR_EVER)
        assert in_force(runtime) == (-1, -1, False)
        assert await ask(admin, "DELETE", f"{P}/retention") == (204, None)
        assert in_force(runtime) == (86_400_000, 10 << 20, False)
        assert await ask(admin, "DELETE", f"{N}/retention") == (204, None)
        assert await ask(admin, "GET", f"{N}/retention") == (200, None)
        assert "retention_policies" not in (await ask(admin, "GET", N))[1]
        assert in_force(runtime) == (7 * 86_400_000, -1, True)

    serve(test)


def test_another_namespace_keeps_its_own(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        runtime = await made(admin)
        assert await ask(admin, "POST", "/admin/v2/namespaces/public/default/retention", DAY) == (204, None)
        assert in_force(runtime) == (7 * 86_400_000, -1, True)

    serve(test)


def test_a_partition_has_its_topics_policies(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        parted = "/admin/v2/persistent/shop/eu/parted"
        assert await ask(admin, "PUT", f"{parted}/partitions", 2) == (204, None)
        answer = await admin.ask("POST", f"{parted}-partition-1/retention", json.dumps(DAY))
        assert (answer.status, json.loads(answer.headers[RESULT])) == (
            204,
            {"topic": "persistent://shop/eu/parted"},
        )
        assert await ask(admin, "GET", f"{parted}/retention") == (200, DAY)
        for whole in (parted, P):
            assert RESULT not in (await admin.ask("POST", f"{whole}/retention", json.dumps(DAY))).headers

    serve(test)


def test_what_kafka_clients_set_is_shown_in_pulsars_units(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for said, shown in (
            ({"retention.ms": "1"}, {"retentionTimeInMinutes": 1, "retentionSizeInMB": -1}),
            (
                {"pulsar.retention.bytes": str(1 << 62)},
                {"retentionTimeInMinutes": 10_080, "retentionSizeInMB": 2**31 - 1},
            ),
            ({"retention.bytes": "-1"}, WEEK),
        ):
            await admin.broker.topics.configure("shop/eu/orders", lambda old, new=said: new)  # type: ignore[misc]
            assert await ask(admin, "GET", f"{P}/retention?applied=true") == (200, shown)

    serve(test)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (None, 400, "The body is an object"),
        ([], 400, "The body is an object"),
        ({"retentionTimeInMinutes": 5, "retentionSizeInMB": 0}, 400, "both 0, which keeps nothing, or neither"),
        ({"retentionTimeInMinutes": 0, "retentionSizeInMB": 5}, 400, "both 0"),
        ({}, 412, "says nothing of retentionTimeInMinutes"),
        ({"retentionTimeInMin": 60, "retentionSizeInMB": 0}, 412, "says nothing of retentionTimeInMinutes"),
        ({"retentionTimeInMinutes": 0}, 412, "says nothing of retentionSizeInMB"),
        ({"retentionTimeInMinutes": -2, "retentionSizeInMB": 1}, 412, "retentionTimeInMinutes is a whole number"),
        ({"retentionTimeInMinutes": 1, "retentionSizeInMB": 2**31}, 412, "retentionSizeInMB is a whole number"),
        ({"retentionTimeInMinutes": True, "retentionSizeInMB": 1}, 412, "not 'True'"),
        ({"retentionTimeInMinutes": "1", "retentionSizeInMB": 1}, 412, "from -1 (no limit) to"),
    ],
)  # fmt: skip
def test_wrong_limits_change_nothing(serve: Serve, body: Any, status: int, words: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for path in (N, P):
            assert await ask(admin, "POST", f"{path}/retention", DAY) == (204, None)
            answer, said = await ask(admin, "POST", f"{path}/retention", body)
            assert answer == status
            assert words in said["reason"]
            assert await ask(admin, "GET", f"{path}/retention") == (200, DAY)

    serve(test)


def test_types_that_are_none_are_told_as_they_were_written(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answer, said = await ask(admin, "POST", f"{N}/subscriptionTypesEnabled", ["Shared", "foo"])
        assert answer == 412
        assert said["reason"].endswith("not 'Shared, foo'.")

    serve(test)


@pytest.mark.parametrize("path", ["/admin/v2/namespaces/shop/no", "/admin/v2/persistent/shop/eu/no"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_what_is_not_there_has_none(serve: Serve, path: str, method: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await ask(admin, method, f"{path}/retention", DAY))[0] == 404

    serve(test)


def test_a_namespace_is_made_with_its_policies(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        us = "/admin/v2/namespaces/shop/us"
        wrong = {"retention_policies": {"retentionTimeInMinutes": 0, "retentionSizeInMB": 1}}
        assert (await ask(admin, "PUT", us, wrong))[0] == 400
        assert (await ask(admin, "GET", us))[0] == 404
        # as the Java client sends it: all of Policies, most of it null
        assert await ask(admin, "PUT", us, {"retention_policies": DAY, "message_ttl_in_seconds": None}) == (
            204,
            None,
        )
        assert await ask(admin, "GET", f"{us}/retention") == (200, DAY)

    serve(test)


BARE = """{"auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
"replication_clusters": [], "allowed_clusters": [], "backlog_quota_map": {}, "clusterDispatchRate": {},
"topicDispatchRate": {}, "subscriptionDispatchRate": {}, "replicatorDispatchRate": {}, "clusterSubscribeRate": {},
"publishMaxMessageRate": {}, "latency_stats_sample_rate": {}, "deleted": false, "encryption_required": false,
"subscription_auth_mode": "None", "offload_threshold": -1, "offload_threshold_in_seconds": -1,
"schema_compatibility_strategy": "UNDEFINED", "schema_validation_enforced": false,
"subscription_types_enabled": [], "properties": {}, "migrated": false}"""
"""What pulsar-admin 4.0.8 sends with `namespaces create NAME`."""


def test_what_javas_client_says_by_default_is_not_said(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        us = "/admin/v2/namespaces/shop/us"
        assert (await admin.ask("PUT", us, BARE)).status == 204
        shown = (await ask(admin, "GET", us))[1]
        assert shown == {
            "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
            "replication_clusters": ["standalone"],
            "bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
            "properties": {},
            "deleted": False,
        }
        orders = "/admin/v2/persistent/shop/us/orders"
        assert (await ask(admin, "PUT", orders))[0] == 204
        # of any type
        assert (await ask(admin, "PUT", f"{orders}/subscription/billing"))[0] == 204

    serve(test)


def test_no_types_of_subscriptions_is_nothing_said(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for path, unset in ((f"{N}/subscriptionTypesEnabled", []), (f"{P}/subscriptionTypesEnabled", None)):
            assert await ask(admin, "POST", path, ["Shared"]) == (204, None)
            assert await ask(admin, "POST", path, []) == (204, None)
            assert await ask(admin, "GET", path) == (200, unset)

    serve(test)


# -- policies that are one value


SCALARS = [form for form in FORMS if not form.fields[0].json]


def by_verb(form: Form) -> str:
    return form.verb


@pytest.mark.parametrize("form", SCALARS, ids=by_verb)
@pytest.mark.parametrize("level", [Level.NAMESPACE, Level.TOPIC])
def test_one_value_is_set_shown_and_taken_back(serve: Serve, form: Form, level: Level) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        path = f"{N if level is Level.NAMESPACE else P}/{form.segment_at(level)}"
        if level not in form.levels:
            assert (await ask(admin, "GET", path))[0] == 501
            return
        first, second = ANOTHER[form.fields[0].policy.kind]
        key = form.key
        unset = UNSET.get((level, form.verb))
        assert await ask(admin, "GET", path) == (200, unset)
        for value in (first, second):
            assert await ask(admin, form.method_at(level), path, value) == (204, None)
            assert await ask(admin, "GET", path) == (200, value)
            policies = (await ask(admin, "GET", N))[1]
            assert policies.get(key) == (value if level is Level.NAMESPACE else None)
            if Level.TOPIC in form.levels:
                applied = f"{P}/{form.segment_at(Level.TOPIC)}?applied=true"
                assert await ask(admin, "GET", applied) == (200, value)
        assert await ask(admin, "DELETE", path) == (204, None)
        assert await ask(admin, "GET", path) == (200, unset)
        assert key not in (await ask(admin, "GET", N))[1]

    serve(test)


UNSET: dict[tuple[Level, str], Any] = {
    (Level.NAMESPACE, "max-topics-per-namespace"): 0,
    (Level.NAMESPACE, "subscription-types-enabled"): [],
}
"""What Pulsar answers where nobody has said anything, and its clients expect; of all others nothing."""

ANOTHER: dict[Kind, tuple[Any, Any]] = {
    Kind.NUMBER: (7, 0),
    Kind.FLAG: (True, False),
    Kind.NAMES: (["Shared", "Failover"], ["Key_Shared"]),
}


@pytest.mark.parametrize("form", SCALARS, ids=by_verb)
def test_wrong_values_change_nothing(serve: Serve, form: Form) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        good = ANOTHER[form.fields[0].policy.kind][0]
        for level in form.levels:
            path = f"{N if level is Level.NAMESPACE else P}/{form.segment_at(level)}"
            method = form.method_at(level)
            assert await ask(admin, method, path, good) == (204, None)
            most = min(form.fields[0].policy.most // form.fields[0].unit, MOST_LONG)
            above = most + 1 if form.fields[0].unit == 1 else 2**31
            for wrong in (None, -2, 1.5, "7", [7], ["shared"], {"value": 7}, above):
                status, said = await ask(admin, method, path, wrong)
                assert status == 412, wrong
                assert f"The {form.title} is " in said["reason"]
                assert await ask(admin, "GET", path) == (200, good)

    serve(test)


def test_a_limit_that_is_reached_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await ask(admin, "POST", f"{N}/maxTopicsPerNamespace", 1) == (204, None)
        status, said = await ask(admin, "PUT", "/admin/v2/persistent/shop/eu/more")
        assert status == 412
        assert said["reason"].startswith("Namespace shop/eu may have 1 topics")
        assert await ask(admin, "POST", f"{P}/maxSubscriptionsPerTopic", 1) == (204, None)
        assert (await ask(admin, "PUT", f"{P}/subscription/a"))[0] == 204
        status, said = await ask(admin, "PUT", f"{P}/subscription/b")
        assert status == 412
        assert said["reason"].startswith("Topic shop.eu.orders may have no more than 1 subscriptions")

    serve(test)


def test_time_to_live_of_a_topic_is_in_the_query(serve: Serve) -> None:
    """As Pulsar's clients send it."""

    async def test(admin: Admin) -> None:
        await made(admin)
        assert await ask(admin, "POST", f"{P}/messageTTL?messageTTL=3600") == (204, None)
        assert await ask(admin, "GET", f"{P}/messageTTL") == (200, 3600)
        for wrong in ("-1", "x", "1e3", str(2**31)):
            status, said = await ask(admin, "POST", f"{P}/messageTTL?messageTTL={wrong}")
            assert (status, said["reason"][:20]) == (412, "The message ttl is a")
        assert await ask(admin, "GET", f"{P}/messageTTL?applied=true") == (200, 3600)

    serve(test)


def test_kafkas_limit_is_a_time_to_live_in_force(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await ask(admin, "GET", f"{P}/messageTTL?applied=true") == (200, 0)
        await admin.broker.topics.configure("shop/eu/orders", lambda old: {"retention.ms": "90001"})
        assert await ask(admin, "GET", f"{P}/messageTTL") == (200, None)
        assert await ask(admin, "GET", f"{P}/messageTTL?applied=true") == (200, 91)

    serve(test)


def test_a_policy_leaves_all_else_that_is_set(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.broker.topics.configure("shop/eu/orders", lambda old: {"durability": "fsync"})
        for path, limit in ((N, "maxSubscriptionsPerTopic"), (P, "maxConsumers")):
            assert await ask(admin, "POST", f"{path}/{limit}", 5) == (204, None)
            assert await ask(admin, "POST", f"{path}/retention", DAY) == (204, None)
            assert await ask(admin, "DELETE", f"{path}/retention") == (204, None)
            assert await ask(admin, "GET", f"{path}/{limit}") == (200, 5)
        topic = admin.broker.topics.get("shop/eu/orders")
        assert topic.configs == {"durability": "fsync", "pulsar.max.consumers": "5"}

    serve(test)


def test_all_that_is_in_force_for_a_topic_says_where_it_comes_from(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.broker.topics.configure(
            "shop/eu/orders", lambda old: {"retention.ms": "60000", "durability": "os"}
        )
        assert await ask(admin, "POST", f"{N}/maxSubscriptionsPerTopic", 4) == (204, None)
        assert await ask(admin, "POST", f"{P}/maxConsumers", 5) == (204, None)
        status, rows = await ask(admin, "GET", f"{P}/policies")
        assert status == 200
        found = {
            (row["policy"], row.get("type") or row.get("field")): (row["value"], row["from"], row["by"])
            for row in rows
            if row.get("field") != "policy"
        }
        assert {row["policy"] for row in rows} == {
            form.verb_at(Level.TOPIC) for form in ALL if Level.TOPIC in form.levels
        }
        expected = {
            ("retention", "retentionTimeInMinutes"): (1, "topic", "retention.ms"),
            ("retention", "retentionSizeInMB"): (-1, "broker", "log.retention.bytes"),
            ("message-ttl", None): (60, "topic", "retention.ms"),
            ("backlog-quota", "destination_storage"): (-1, "broker", "backlogQuotaDefaultLimitBytes"),
            ("backlog-quota", "message_age"): (-1, "broker", "backlogQuotaDefaultLimitSecond"),
            ("max-subscriptions-per-topic", None): (4, "namespace", "pulsar.max.subscriptions"),
            ("max-consumers", None): (5, "topic", "pulsar.max.consumers"),
            ("max-consumers-per-subscription", None): (0, "broker", "maxConsumersPerSubscription"),
            ("delayed-delivery", "tickTime"): (1000, "broker", "delayedDeliveryTickTimeMillis"),
        }
        assert expected.items() <= found.items()
        assert await ask(admin, "DELETE", f"{P}/policies") == (204, None)
        assert admin.broker.topics.get("shop/eu/orders").configs == {
            "retention.ms": "60000",
            "durability": "os",
        }
        assert (await ask(admin, "GET", f"{N}/policies"))[0] == 501
        assert (await ask(admin, "GET", f"{P}no/policies"))[0] == 404

    serve(test)


def test_kafkas_setting_is_named_where_it_is_the_time_to_live(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.broker.broker_configs.alter("", lambda old: {"log.retention.ms": "5000"})
        rows = (await ask(admin, "GET", f"{P}/policies"))[1]
        assert {"policy": "message-ttl", "value": 5, "from": "broker", "by": "log.retention.ms"} in rows

    serve(test)


AUTO = f"{N}/autoTopicCreation"


def test_which_topics_are_made_for_who_asks(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await ask(admin, "GET", AUTO) == (200, None)
        # Java's client says null for what it does not say, Go's nothing
        for body, shown in (
            (
                {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 4},
                {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 4},
            ),
            (
                {"allowAutoTopicCreation": False, "topicType": None, "defaultNumPartitions": None},
                {"allowAutoTopicCreation": False, "topicType": None, "defaultNumPartitions": None},
            ),
            (
                {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
                {
                    "allowAutoTopicCreation": True,
                    "topicType": "non-partitioned",
                    "defaultNumPartitions": None,
                },
            ),
        ):
            assert await ask(admin, "POST", AUTO, body) == (204, None)
            assert await ask(admin, "GET", AUTO) == (200, shown)
            assert (await ask(admin, "GET", N))[1]["autoTopicCreationOverride"] == shown
        for wrong, status in (
            ({}, 412),
            ({"allowAutoTopicCreation": None}, 412),
            ({"allowAutoTopicCreation": 1}, 412),
            ({"allowAutoTopicCreation": True, "topicType": "plain"}, 412),
            ({"allowAutoTopicCreation": True, "defaultNumPartitions": 0}, 412),
            (
                {"allowAutoTopicCreation": True, "topicType": "non-partitioned", "defaultNumPartitions": 2},
                400,
            ),
        ):
            assert (await ask(admin, "POST", AUTO, wrong))[0] == status, wrong
        assert (await ask(admin, "GET", AUTO))[1]["topicType"] == "non-partitioned"
        assert await ask(admin, "DELETE", AUTO) == (204, None)
        assert await ask(admin, "GET", AUTO) == (200, None)
        assert (await ask(admin, "GET", f"{P}/autoTopicCreation"))[0] == 501

    serve(test)


def test_whether_subscriptions_are_made_for_who_comes(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        off, on = ({"allowAutoSubscriptionCreation": value} for value in (False, True))
        path, key = "autoSubscriptionCreation", "autoSubscriptionCreationOverride"
        assert await ask(admin, "GET", f"{P}/{path}?applied=true") == (200, on)
        assert await ask(admin, "POST", f"{N}/{path}", off) == (204, None)
        assert (await ask(admin, "GET", N))[1][key] == off
        assert await ask(admin, "GET", f"{P}/{path}") == (200, None)
        assert await ask(admin, "GET", f"{P}/{path}?applied=true") == (200, off)
        assert await ask(admin, "POST", f"{P}/{path}", on) == (204, None)
        assert await ask(admin, "GET", f"{P}/{path}?applied=true") == (200, on)
        assert (await ask(admin, "POST", f"{P}/{path}", {"allowAutoSubscriptionCreation": "yes"}))[0] == 412

    serve(test)


def test_what_no_longer_parses_counts_as_not_set(serve: Serve) -> None:
    """A newer gateway may have stored it."""

    async def test(admin: Admin) -> None:
        await made(admin)
        wrong = {"pulsar.max.consumers": "many", "pulsar.retention.ms": "long"}
        await admin.broker.topics.keep(
            "shop/eu/orders", lambda topic: msgspec.structs.replace(topic, configs=wrong)
        )
        await admin.broker.tenancy.change(
            Namespace("shop", "eu"), lambda row: msgspec.structs.replace(row, policies=wrong)
        )
        for path in (f"{P}/maxConsumers", f"{N}/maxConsumersPerTopic", f"{P}/retention"):
            assert await ask(admin, "GET", path) == (200, None)
        assert await ask(admin, "GET", f"{P}/maxConsumers?applied=true") == (200, 0)
        status, policies = await ask(admin, "GET", N)
        assert (status, policies.get("max_consumers_per_topic"), policies.get("retention_policies")) == (
            200,
            None,
            None,
        )
        status, refusal = await ask(admin, "POST", f"{P}/maxProducers", 3)
        assert (status, "pulsar.max.consumers" in refusal["reason"] or "retention" in refusal["reason"]) == (
            412,
            True,
        )

    serve(test)
