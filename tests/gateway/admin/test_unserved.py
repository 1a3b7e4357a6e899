"""What pulsar-admin calls the verbs that are not served here."""

from __future__ import annotations

import pytest

from gateway.admin.unserved import verb_name


@pytest.mark.parametrize(
    ("method", "kind", "rest", "name"),
    [
        ("PUT", "topic", "compaction", "compact"),
        ("GET", "subscription", "replicatedSubscriptionStatus", "get-replicated-subscription-status"),
        ("GET", "namespace", "persistence/bookieAffinity", "get-bookie-affinity-group"),
        ("GET", "broker-stats", "allocator-stats/default", "allocator-stats"),
        ("PUT", "clusters", "mars", "create"),
        ("POST", "clusters", "mars/failureDomains/a", "create-failure-domain"),
        # policies, whose verbs follow from their paths
        ("GET", "topic", "retention", "get-retention"),
        ("POST", "topic", "messageTTL", "set-message-ttl"),
        ("PUT", "namespace", "maxConsumersPerSubscription", "set-max-consumers-per-subscription"),
        ("DELETE", "namespace", "backlogQuotaMap", "remove-backlog-quotas"),
        ("POST", "topic", "retention/and/more", "set-retention"),
    ],
)
def test_the_verb_that_a_person_typed(method: str, kind: str, rest: str, name: str) -> None:
    assert verb_name(method, kind, rest.split("/") if rest else []) == name


@pytest.mark.parametrize(
    ("method", "kind", "rest"),
    [
        ("GET", "tenants", "shop"),
        ("GET", "bookies", "racks-info"),
        ("GET", "topic", ""),
        ("PATCH", "topic", "retention"),
        ("GET", "topic", "x"),
        ("GET", "topic", "a-b"),
        ("GET", "topic", "x" * 61),
        ("GET", "topic", "permissions2/17"),
        ("GET", "clusters", "mars/peers/more"),
    ],
)
def test_what_pulsar_admin_has_no_verb_for(method: str, kind: str, rest: str) -> None:
    assert verb_name(method, kind, rest.split("/") if rest else []) is None
