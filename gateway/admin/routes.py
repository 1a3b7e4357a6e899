"""Which function serves which call of Pulsar's admin v2 API.

One dict: a route with a hundred patterns costs 249 µs a request in aiohttp, a look-up here 1. A key is the
method, the kind of thing that the path names, and what stands behind the name.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from gateway.admin import (
    acls,
    acts,
    audit_reading,
    backlogs,
    broker_stats,
    causes,
    cluster,
    consumers,
    creating,
    dead_letters,
    due_times,
    dynamic_config,
    hashes,
    key_watches,
    lag,
    lookup,
    namespace_kept,
    never_set,
    open_messages,
    open_transactions,
    permissions,
    policies,
    ranked,
    record_pages,
    replaying,
    resource_groups,
    series,
    strips,
    subscribing,
    subscription_rate,
    subscriptions,
    tenancy,
    topic_properties,
    topics,
    tracing,
    trimming,
    users,
)
from gateway.admin.context import Context
from gateway.admin.exchange import LOOKUP, Call, RefusedError, Reply
from gateway.admin.unserved import refused
from semantics.names import DOMAINS

Verb = Callable[[Context, Call], Awaitable[Reply]]
Key = tuple[str, str, str]
"""A method, the kind of thing that a path names, and what stands behind the name."""

_KINDS = {
    "persistent": "topics",
    "non-persistent": "topics",
    "bookies": "bookies",
    "broker-stats": "broker-stats",
    "brokers": "brokers",
    "clusters": "clusters",
    "magnetar": "magnetar",
    "namespaces": "namespaces",
    "resource-quotas": "resource-quotas",
    "resourcegroups": "resourcegroups",
    "schemas": "schemas",
    "tenants": "tenants",
    "worker": "functions-worker",
    "worker-stats": "functions-worker",
}
"""First segments of Pulsar's API, and the noun of its CLI that each belongs to."""

VERBS: dict[Key, Verb] = {
    ("GET", "clusters", ""): cluster.clusters,
    ("GET", "clusters", "*"): cluster.cluster,
    ("GET", "clusters", "*/peers"): cluster.peers,
    ("GET", "clusters", "*/migrate"): cluster.migration,
    ("GET", "clusters", "*/failureDomains"): cluster.failure_domains,
    ("GET", "clusters", "*/failureDomains/*"): cluster.failure_domain,
    ("GET", "broker-stats", "topics"): broker_stats.topics,
    ("GET", "broker-stats", "destinations"): broker_stats.topics,
    ("GET", "brokers", ""): cluster.brokers,
    ("GET", "brokers", "leaderBroker"): cluster.leader_broker,
    ("GET", "brokers", "version"): cluster.version,
    ("GET", "brokers", "health"): cluster.health,
    ("GET", "brokers", "configuration/runtime"): cluster.runtime_configuration,
    ("GET", "brokers", "ready"): cluster.ready,
    ("GET", "brokers", "configuration"): dynamic_config.names,
    ("GET", "brokers", "configuration/values"): dynamic_config.values,
    ("POST", "brokers", "configuration/*/*"): dynamic_config.update,
    ("DELETE", "brokers", "configuration/*"): dynamic_config.delete,
    ("GET", "brokers", "internal-configuration"): cluster.internal_configuration,
    ("GET", "brokers", "backlog-quota-check"): cluster.backlog_quota_check,
    ("GET", "brokers", "*/*/ownedNamespaces"): cluster.owned_namespaces,
    ("GET", "brokers", "*"): cluster.brokers,
    ("GET", "tenants", ""): tenancy.tenants,
    ("GET", "tenants", "*"): tenancy.tenant,
    ("PUT", "tenants", ""): tenancy.create_tenant,
    ("PUT", "tenants", "*"): tenancy.create_tenant,
    ("POST", "tenants", "*"): tenancy.update_tenant,
    ("DELETE", "tenants", "*"): tenancy.delete_tenant,
    ("GET", "tenant", ""): tenancy.namespaces,
    ("GET", "namespace", ""): tenancy.policies,
    ("PUT", "namespace", ""): tenancy.create,
    ("DELETE", "namespace", ""): tenancy.delete,
    ("GET", "namespace", "topics"): tenancy.topics,
    ("GET", "namespace", "bundles"): tenancy.bundles,
    ("GET", "namespace", "replication"): tenancy.clusters,
    ("POST", "namespace", "replication"): tenancy.set_clusters,
    ("GET", "namespace", "properties"): tenancy.properties,
    ("PUT", "namespace", "properties"): tenancy.set_properties,
    ("DELETE", "namespace", "properties"): tenancy.clear_properties,
    ("GET", "namespace", "property/*"): tenancy.property_of,
    ("PUT", "namespace", "property/*/*"): tenancy.set_property,
    ("DELETE", "namespace", "property/*"): tenancy.remove_property,
    ("GET", "namespace", "permissions"): permissions.namespace,
    ("POST", "namespace", "permissions/*"): permissions.grant_namespace,
    ("DELETE", "namespace", "permissions/*"): permissions.revoke_namespace,
    ("GET", "namespace", "permissions/subscription"): permissions.subscriptions,
    ("POST", "namespace", "permissions/subscription/*"): permissions.grant_subscription,
    ("DELETE", "namespace", "permissions/*/*"): permissions.revoke_subscription,
    ("GET", "namespace", "allowedClusters"): namespace_kept.allowed_clusters,
    ("POST", "namespace", "allowedClusters"): namespace_kept.set_allowed_clusters,
    ("GET", "namespace", "subscriptionAuthMode"): namespace_kept.subscription_auth_mode,
    ("POST", "namespace", "subscriptionAuthMode"): namespace_kept.set_subscription_auth_mode,
    ("GET", "namespace", "antiAffinity"): namespace_kept.anti_affinity,
    ("POST", "namespace", "antiAffinity"): namespace_kept.set_anti_affinity,
    ("DELETE", "namespace", "antiAffinity"): namespace_kept.delete_anti_affinity,
    ("GET", "anti-affinity", ""): namespace_kept.anti_affinity_namespaces,
    ("GET", "resourcegroups", ""): resource_groups.groups,
    ("GET", "resourcegroups", "*"): resource_groups.group,
    ("PUT", "resourcegroups", "*"): resource_groups.put,
    ("DELETE", "resourcegroups", "*"): resource_groups.delete,
    ("GET", "namespace", "resourcegroup"): resource_groups.of_namespace,
    ("POST", "namespace", "resourcegroup/*"): resource_groups.set_of_namespace,
    ("DELETE", "namespace", "resourcegroup"): resource_groups.remove_of_namespace,
    **policies.VERBS,
    **never_set.VERBS,
    ("GET", "domain", ""): topics.list_topics,
    ("GET", "domain", "partitioned"): topics.list_partitioned,
    ("PUT", "topic", ""): creating.create,
    ("DELETE", "topic", ""): topics.delete,
    ("GET", "topic", "partitions"): topics.partitions_of,
    ("PUT", "topic", "partitions"): creating.create_partitioned,
    ("POST", "topic", "partitions"): topics.grow,
    ("DELETE", "topic", "partitions"): topics.delete_partitioned,
    ("POST", "topic", "createMissedPartitions"): topics.create_missed,
    ("GET", "topic", "properties"): topic_properties.properties,
    ("PUT", "topic", "properties"): topic_properties.update,
    ("DELETE", "topic", "properties"): topic_properties.remove,
    ("GET", "topic", "permissions"): permissions.topic,
    ("POST", "topic", "permissions/*"): permissions.grant_topic,
    ("DELETE", "topic", "permissions/*"): permissions.revoke_topic,
    ("GET", "topic", "stats"): topics.topic_stats,
    ("GET", "topic", "partitioned-stats"): topics.partitioned_stats,
    ("GET", "topic", "internalStats"): topics.internal_stats,
    ("GET", "topic", "partitioned-internalStats"): topics.partitioned_internal_stats,
    ("GET", "topic", "internal-info"): topics.internal_info,
    ("GET", "topic", "compaction"): topics.compaction,
    ("PUT", "topic", "compaction"): topics.compact,
    ("GET", "topic", "lastMessageId"): backlogs.last_id,
    ("GET", "topic", "messageid/*"): backlogs.id_by_time,
    ("PUT", "topic", "backlogSize"): backlogs.size_from,
    ("POST", "topic", "all_subscription/expireMessages/*"): backlogs.expire_all,
    ("POST", "topic", "trim"): trimming.trim,
    ("DELETE", "topic", "truncate"): trimming.truncate,
    ("GET", "topic", "*/dispatchRate"): subscription_rate.rate,
    ("POST", "topic", "*/dispatchRate"): subscription_rate.change_rate,
    ("DELETE", "topic", "*/dispatchRate"): subscription_rate.change_rate,
    ("POST", "topic", "terminate"): backlogs.terminate,
    ("POST", "topic", "terminate/partitions"): backlogs.terminate_all,
    ("PUT", "topic", "unload"): backlogs.unload,
    ("PUT", "namespace", "unload"): backlogs.unload,
    ("POST", "namespace", "clearBacklog"): backlogs.clear_namespace,
    ("POST", "namespace", "clearBacklog/*"): backlogs.clear_namespace,
    ("POST", "namespace", "unsubscribe/*"): backlogs.unsubscribe_namespace,
    ("GET", "topic", "subscriptions"): subscribing.names,
    ("GET", "topic", "examinemessage"): subscriptions.examine,
    ("GET", "entry", ""): subscriptions.by_id,
    ("PUT", "subscription", ""): subscribing.create,
    ("DELETE", "subscription", ""): subscriptions.delete,
    ("GET", "subscription", "properties"): subscribing.properties_of,
    ("PUT", "subscription", "properties"): subscribing.update_properties,
    ("POST", "subscription", "skip/*"): subscriptions.skip,
    ("POST", "subscription", "skip_all"): subscriptions.skip_all,
    ("POST", "subscription", "resetcursor"): subscriptions.reset,
    ("POST", "subscription", "resetcursor/*"): subscriptions.reset,
    ("GET", "subscription", "position/*"): subscriptions.peek,
    ("POST", "subscription", "analyzeBacklog"): subscriptions.analyze,
    ("POST", "subscription", "expireMessages"): backlogs.expire,
    ("POST", "subscription", "expireMessages/*"): backlogs.expire,
    ("GET", "lookup", ""): lookup.topic,
    ("GET", "lookup", "bundle"): lookup.bundle,
    # Magnetar's own
    ("GET", "magnetar", "kafka"): cluster.kafka,
    ("GET", "magnetar", "acls/*/*"): acls.of_namespace,
    ("GET", "magnetar", "lag"): lag.of_topics,
    ("GET", "topic", "lag"): lag.of_one_topic,
    ("GET", "magnetar", "subscriptions"): ranked.subscriptions,
    ("GET", "magnetar", "attention"): ranked.attention,
    ("GET", "subscription", "magnetar/consumers"): consumers.of_subscription,
    ("GET", "subscription", "explain"): subscriptions.explain,
    ("GET", "magnetar", "hash"): hashes.of_key,
    ("GET", "magnetar", "resourcegroups/*/stats"): resource_groups.stats,
    ("GET", "topic", "hash"): hashes.on_topic,
    ("GET", "subscription", "hash"): hashes.on_subscription,
    ("PUT", "magnetar", "queues/*"): subscribing.create_over,
    ("GET", "magnetar", "users"): users.users,
    ("GET", "magnetar", "users/*"): users.user,
    ("PUT", "magnetar", "users/*"): users.create,
    ("DELETE", "magnetar", "users/*"): users.delete,
    ("POST", "magnetar", "users/*/password"): users.set_password,
    ("POST", "magnetar", "users/*/home"): users.set_home,
    ("GET", "magnetar", "audit"): audit_reading.told,
    ("GET", "magnetar", "transactions"): open_transactions.transactions,
    ("GET", "subscription", "magnetar/causes"): causes.causes,
    ("GET", "subscription", "magnetar/due"): due_times.histogram,
    ("GET", "subscription", "magnetar/strip"): strips.strips,
    ("GET", "subscription", "magnetar/open"): open_messages.page,
    ("POST", "subscription", "magnetar/act"): acts.act,
    ("GET", "subscription", "magnetar/deadletters"): dead_letters.listed,
    ("GET", "subscription", "magnetar/deadletters/groups"): dead_letters.grouped,
    ("POST", "subscription", "magnetar/replay"): replaying.replay,
    ("POST", "subscription", "magnetar/discard"): replaying.discard,
    ("GET", "magnetar", "jobs"): replaying.jobs,
    ("GET", "magnetar", "jobs/*"): replaying.job,
    ("POST", "magnetar", "jobs/*/stop"): replaying.stop,
    ("GET", "topic", "magnetar/records"): record_pages.records,
    ("GET", "topic", "magnetar/trace"): tracing.trace,
    ("GET", "subscription", "magnetar/series"): series.of_subscription,
    ("GET", "magnetar", "series"): series.of_gateway,
    ("POST", "subscription", "magnetar/watch"): key_watches.begin,
    ("GET", "subscription", "magnetar/watch"): key_watches.told,
}


AT_ONCE: frozenset[Verb] = frozenset(
    {
        *(verb for (method, _, _), verb in policies.VERBS.items() if method == "GET"),
        tenancy.policies,
        topics.partitions_of,
        topics.topic_stats,
    }
)
"""Reads that clients repeat, and that are answered from what is in memory: they seldom have to wait, and may be begun
anew when they have."""

OLD = re.compile(r"/admin/namespaces/[^/]+/antiAffinity/[^/]+")
"""The one call of Pulsar's first API that its Java client still makes, where others have moved to the second."""

BUNDLE = re.compile(r"0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}")
"""A range of hashes, of which a namespace has one here."""


def _patterns() -> dict[tuple[str, str, int], list[tuple[list[str], Key]]]:
    """The keys that have stars, by method, kind and number of parts; those with fewer stars first."""
    found: dict[tuple[str, str, int], list[tuple[list[str], Key]]] = {}
    for key in sorted(VERBS, key=lambda each: each[2].count("*")):
        method, kind, tail = key
        if "*" in tail:
            parts = tail.split("/")
            found.setdefault((method, kind, len(parts)), []).append((parts, key))
    return found


_PATTERNS = _patterns()


def verb_of(call: Call) -> Verb:
    """The function that serves a call. Refuses with 501 what Pulsar has and we do not, else with 404."""
    return VERBS[key_of(call)]


def key_of(call: Call) -> Key:
    """The row of VERBS that a call is. Refuses the same."""
    kind, rest = _place(call)
    plain = call.method, kind, "/".join(rest)
    if plain in VERBS:
        return plain
    for parts, key in _PATTERNS.get((call.method, kind, len(rest)), ()):
        if all(part in ("*", own) for part, own in zip(parts, rest, strict=True)):
            return key
    noun = _KINDS.get(call.path[0]) if kind else None
    shown = "/".join([call.root, *call.path])[:200]
    if noun is None:
        raise RefusedError(404, f"There is nothing at {shown}.")
    raise RefusedError(501, f"{refused(call.method, call.path, noun)} ({call.method} {shown})")


def _place(call: Call) -> tuple[str, tuple[str, ...]]:
    """What the path names (a topic, a namespace, …) and the segments behind that."""
    path = call.path
    if call.root == LOOKUP:
        return lookup.kind_of(path)
    # the kinds below have names of their own, which are no first segments
    if not path or path[0] not in _KINDS:
        return "", ()
    first = path[0]
    if first in DOMAINS:
        # a topic may be called "partitioned": only a GET of that name is the list
        if len(path) == 3 or (len(path) == 4 and path[3] == "partitioned" and call.method == "GET"):
            return "domain", path[3:]
        if len(path) > 5 and path[4] == "subscription":
            return "subscription", path[6:]
        if len(path) == 8 and path[4] == "ledger" and path[6] == "entry":
            return "entry", ()
        return ("topic", path[4:]) if len(path) > 3 else ("", ())
    if first == "namespaces" and len(path) > 1:
        rest = path[3:]
        if len(path) == 4 and path[2] == "antiAffinity" and ("GET", "namespace", path[3]) not in VERBS:
            # namespaces/{cluster}/antiAffinity/{group}
            return "anti-affinity", ()
        if rest and BUNDLE.fullmatch(rest[0]):
            # there is one, and what is asked of it is asked of the namespace
            rest = rest[1:]
        return ("tenant", ()) if len(path) == 2 else ("namespace", rest)
    return first, path[1:]
