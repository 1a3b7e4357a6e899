"""What cannot be set here is answered as Pulsar answers it where nobody has set it, on a real broker."""

from __future__ import annotations

import json

import pytest

from gateway.admin.never_set import AT_CREATION, ROWS
from gateway.not_served import POLICIES, sentence
from tests.gateway.admin.billing import Serve, made
from tests.gateway.admin.conftest import Admin

N = "/admin/v2/namespaces/public/default"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (f"{N}/encryptionRequired", False),
        (f"{N}/isAllowAutoUpdateSchema", True),
        (f"{N}/offloadThreshold", -1),
        (f"{N}/schemaCompatibilityStrategy", "UNDEFINED"),
        (f"{N}/schemaAutoUpdateCompatibilityStrategy", "AlwaysCompatible"),
        ("P/orders/shadowTopics", []),
        ("P/orders/persistence", None),
        ("P/orders/dispatcherPauseOnAckStatePersistent", False),
        ("P/orders/replication", None),
        ("P/orders/replication?applied=true", ["standalone"]),
        (
            "P/orders/subscription/billing/replicatedSubscriptionStatus",
            {"persistent://public/default/orders": False},
        ),
    ],
)
def test_it_is_as_nobody_has_set_it(serve: Serve, path: str, answer: object) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        found = await admin.ask("GET", path)
        assert (found.status, found.json) == (200, answer)

    serve(test)


def test_all_of_it_can_be_taken_away_and_nothing_be_set(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for kind, whose in (("namespace", N), ("topic", "P/orders")):
            for row in ROWS[kind]:
                path = f"{whose}/{(row.removes or row.segment).replace('*', 'billing')}"
                answer = await admin.ask("DELETE", path)
                assert answer.status == (501 if row.removes is None else 204), path
                for method in ("POST", "PUT"):
                    assert (await admin.ask(method, f"{whose}/{row.segment}", "1")).status == 501, path

    serve(test)


def test_what_is_not_there_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for method in ("GET", "DELETE"):
            for path in ("/admin/v2/namespaces/public/none/persistence", "P/none/persistence"):
                assert (await admin.ask(method, path)).status == 404
        await admin.plain("orders")
        path = "P/orders/subscription/none/replicatedSubscriptionStatus"
        assert (await admin.ask("GET", path)).status == 404

    serve(test)


def test_the_snapshot_interval_of_a_namespace_is_taken_away_by_saying_nothing(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        path = f"{N}/deduplicationSnapshotInterval"
        assert (await admin.ask("POST", path)).status == 204
        assert (await admin.ask("POST", path, "null")).status == 204
        refused = await admin.ask("POST", path, "500")
        assert refused.status == 501
        assert refused.json["reason"] == sentence("namespaces", "set-deduplication-snapshot-interval")

    serve(test)


def test_what_needs_another_cluster_or_another_log_is_refused_and_not_made(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        replicated = await admin.ask("PUT", "P/orders/subscription/billing?replicated=true")
        assert (replicated.status, "one cluster" in replicated.json["reason"]) == (501, True)
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []
        shadow = await admin.ask(
            "PUT", "P/shadow", '{"PULSAR.SHADOW_SOURCE": "persistent://public/default/orders"}'
        )
        assert (shadow.status, "`topics create-shadow-topic`" in shadow.json["reason"]) == (501, True)
        assert (await admin.ask("GET", "P/shadow/partitions")).status == 404

    serve(test)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("encryption_required", True, "Encrypt in the client"),
        ("persistence", {"bookkeeperEnsemble": 3}, "There are no bookies"),
        (
            "clusterSubscribeRate",
            {"standalone": {"subscribeThrottlingRatePerConsumer": 5}},
            "how often a consumer",
        ),
        ("offload_threshold", 0.5, "Offloading is not served yet."),
        ("schema_validation_enforced", True, "Magnetar keeps no schemas"),
    ],
)
def test_no_namespace_is_made_with_it(serve: Serve, key: str, value: object, words: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        policies = json.dumps({"message_ttl_in_seconds": 60, key: value})
        answer = await admin.ask("PUT", "/admin/v2/namespaces/public/us", policies)
        assert answer.status == 501
        assert answer.json["reason"].startswith(f"`{key} of a new namespace` is not served: it would ")
        assert words in answer.json["reason"]
        assert (await admin.ask("GET", "/admin/v2/namespaces/public/us")).status == 404

    serve(test)


def test_every_key_of_a_new_namespace_has_a_reason() -> None:
    assert set(AT_CREATION.values()) <= set(POLICIES)
