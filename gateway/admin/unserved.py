"""The names that pulsar-admin has for calls which are not served here: a refusal says the verb that a person typed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.not_served import FIRST_API, said, sentence

_VERBS: dict[tuple[str, str], dict[str, str]] = {
    ("brokers", "POST"): {"shutdown": "shutdown"},
    ("broker-stats", "GET"): {
        "metrics": "monitoring-metrics",
        "mbeans": "mbeans",
        "load-report": "load-report",
        "allocator-stats/*": "allocator-stats",
    },
    ("clusters", "PUT"): {"*": "create"},
    ("clusters", "POST"): {
        "*": "update",
        "*/peers": "update-peer-clusters",
        "*/migrate": "update-cluster-migration",
        "*/failureDomains/*": "create-failure-domain",
    },
    ("clusters", "DELETE"): {"*": "delete", "*/failureDomains/*": "delete-failure-domain"},
    ("namespace", "GET"): {
        "persistence/bookieAffinity": "get-bookie-affinity-group",
        "topicHashPositions": "get-topic-positions",
    },
    ("namespace", "PUT"): {"split": "split-bundle", "clearOffloadDeletionLag": "clear-offload-deletion-lag"},
    ("namespace", "POST"): {
        "migration": "update-migration-state",
        "persistence/bookieAffinity": "set-bookie-affinity-group",
    },
    ("namespace", "DELETE"): {"persistence/bookieAffinity": "delete-bookie-affinity-group"},
    ("topic", "GET"): {
        "offload": "offload-status",
        "replication": "get-replication-clusters",
        "shadowSource": "get-shadow-source",
        "shadowTopics": "get-shadow-topics",
    },
    ("topic", "PUT"): {
        "compaction": "compact",
        "offload": "offload",
        "shadowTopics": "set-shadow-topics",
    },
    ("topic", "POST"): {
        "replication": "set-replication-clusters",
    },
    ("topic", "DELETE"): {
        "replication": "remove-replication-clusters",
        "shadowTopics": "remove-shadow-topics",
    },
    ("subscription", "GET"): {
        "replicatedSubscriptionStatus": "get-replicated-subscription-status",
    },
    ("subscription", "POST"): {
        "replicatedSubscriptionStatus": "set-replicated-subscription-status",
    },
}
"""By what the path names and the method: what stands behind the name, and the verb. `*` is any one part."""

_POLICIES = {
    "backlogQuotaMap": "backlog-quotas",
    "entryFilters": "entry-filters",
    "isAllowAutoUpdateSchema": "is-allow-auto-update-schema",
    "resourcegroup": "resource-group",
    "maxUnackedMessagesOnConsumer": "max-unacked-messages-per-consumer",
    "maxUnackedMessagesOnSubscription": "max-unacked-messages-per-subscription",
    "schemaValidationEnforced": "schema-validation-enforce",
}
"""Policies that the command line calls differently than the path."""

_ELSEWHERE = {
    "functions": "functions",
    "packages": "packages",
    "sink": "sinks",
    "sinks": "sinks",
    "source": "sources",
    "sources": "sources",
    "transactions": "transactions",
}
"""First segments below /admin/v3, and their nouns."""

_PREFIXES = {"GET": "get", "POST": "set", "PUT": "set", "DELETE": "remove"}


def verb_name(method: str, kind: str, rest: Sequence[str]) -> str | None:
    """What pulsar-admin calls it (`get-retention`), None for what it has no verb for.

    `kind` is what the path names (topic, namespace, brokers, …), `rest` the segments behind that name.
    """
    known = _VERBS.get((kind, method), {})
    for pattern, verb in known.items():
        parts = pattern.split("/") if pattern else []
        if len(parts) == len(rest) and all(part in ("*", own) for part, own in zip(parts, rest, strict=True)):
            return verb
    if kind not in ("topic", "namespace") or not rest or method not in _PREFIXES:
        return None
    # a policy: retention, messageTTL, maxConsumersPerSubscription
    if not re.fullmatch(r"[a-zA-Z]{2,60}", rest[0]):
        return None
    return f"{_PREFIXES[method]}-{_POLICIES.get(rest[0]) or _kebab(rest[0])}"


def refused(method: str, kind: str, noun: str, rest: Sequence[str]) -> str:
    """Why a call below /admin/v2 is refused that names something of Pulsar's."""
    if kind == "clusters" and rest[1:2] and rest[1] == "namespaceIsolationPolicies":
        noun = "ns-isolation-policy"
    verb = verb_name(method, kind, rest) or ""
    what = f"`{noun} {verb}`" if verb else f"this call of {noun}"
    return sentence(noun, verb) or f"Magnetar does not serve {what} yet."


def refused_elsewhere(path: str) -> str | None:
    """The same of a path that is not below /admin/v2; None for what Pulsar does not have there."""
    parts = path.strip("/").split("/")
    if parts[0] == "proxy-stats":
        return sentence("proxy-stats")
    if parts[0] == "lookup":
        return "Magnetar looks topics up at /lookup/v2/topic only."
    if parts[0] != "admin":
        return None
    if parts[1:2] == ["v3"]:
        noun = _ELSEWHERE.get(parts[2]) if len(parts) > 2 else None
        return sentence(noun) if noun else "Magnetar serves nothing of /admin/v3."
    return said("/".join(["", *parts[:2]])[:80], FIRST_API)


def _kebab(name: str) -> str:
    """`messageTTL` as `message-ttl`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
