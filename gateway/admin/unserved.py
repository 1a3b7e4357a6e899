"""The names that pulsar-admin has for calls which are not served here: a refusal says the verb that a person typed."""

from __future__ import annotations

import re
from collections.abc import Sequence

_VERBS: dict[tuple[str, str], dict[str, str]] = {
    ("brokers", "GET"): {
        "internal-configuration": "get-internal-config",
        "backlog-quota-check": "backlog-quota-check",
        "*/*/ownedNamespaces": "namespaces",
    },
    ("brokers", "POST"): {"configuration/*/*": "update-dynamic-config", "shutdown": "shutdown"},
    ("brokers", "DELETE"): {"configuration/*": "delete-dynamic-config"},
    ("clusters", "GET"): {
        "*/peers": "get-peer-clusters",
        "*/migrate": "get-cluster-migration",
        "*/failureDomains": "list-failure-domains",
        "*/failureDomains/*": "get-failure-domain",
    },
    ("clusters", "PUT"): {"*": "create"},
    ("clusters", "POST"): {
        "*": "update",
        "*/peers": "update-peer-clusters",
        "*/migrate": "update-cluster-migration",
        "*/failureDomains/*": "create-failure-domain",
    },
    ("clusters", "DELETE"): {"*": "delete", "*/failureDomains/*": "delete-failure-domain"},
    ("namespace", "GET"): {"permissions": "permissions"},
    ("namespace", "PUT"): {"split": "split-bundle"},
    ("namespace", "POST"): {
        "permissions/*": "grant-permission",
        "permissions/subscription/*": "grant-subscription-permission",
    },
    ("namespace", "DELETE"): {
        "permissions/*": "revoke-permission",
        "permissions/*/*": "revoke-subscription-permission",
    },
    ("topic", "GET"): {
        "offload": "offload-status",
        "permissions": "permissions",
        "replication": "get-replication-clusters",
    },
    ("topic", "PUT"): {
        "compaction": "compact",
        "offload": "offload",
        "properties": "update-properties",
        "shadowTopics": "set-shadow-topics",
    },
    ("topic", "POST"): {
        "permissions/*": "grant-permission",
        "replication": "set-replication-clusters",
        "terminate": "terminate",
        "terminate/partitions": "partitioned-terminate",
        "trim": "trim-topic",
    },
    ("topic", "DELETE"): {
        "permissions/*": "revoke-permission",
        "replication": "remove-replication-clusters",
        "truncate": "truncate",
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
    "maxUnackedMessagesOnConsumer": "max-unacked-messages-per-consumer",
    "maxUnackedMessagesOnSubscription": "max-unacked-messages-per-subscription",
    "schemaValidationEnforced": "schema-validation-enforce",
}
"""Policies that the command line calls differently than the path."""

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


def _kebab(name: str) -> str:
    """`messageTTL` as `message-ttl`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
