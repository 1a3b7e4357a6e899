"""What each verb needs of who calls it: a table beside `routes.VERBS`, as Pulsar's own brokers have it.

    a super-user          tenants, clusters, brokers, settings
    the tenant's admin    its namespaces, their topics, policies and permissions
    who may consume       messages, and where subscriptions stand (READ on the topic, and on the group)
    who may use a topic   its statistics, where it is served (DESCRIBE, which WRITE and READ bring along)

What a caller may not is refused before anything is looked up, so the answer does not tell whether it is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin import never_set, policies
from gateway.admin.backlogs import readers_of, subscriptions_of
from gateway.admin.exchange import RefusedError
from gateway.admin.group_ids import inward
from gateway.admin.refusals import may_not
from gateway.admin.slices import turn
from gateway.admin.topic_names import meant
from gateway.admin.topics import Found, find, named
from gateway.broker.errors import KafkaError
from gateway.broker.tenancy import TenancyError
from semantics.access.acl import Operation
from semantics.names import AUDIT, DOMAINS, Namespace, NamingError, TopicName, canonical, is_local

if TYPE_CHECKING:
    from gateway.admin.exchange import Call
    from gateway.admin.routes import Key
    from gateway.broker.broker import Broker

PAGE = 500
"""Tenants that are looked at before the loop may do something else."""

Holds = Callable[["Broker", "Call"], bool | Awaitable[bool]]


class Need(NamedTuple):
    """What it takes to call a verb."""

    # for a refusal
    says: str
    holds: Holds


# -- what a path names


class Place(NamedTuple):
    """A topic that a path names. `name` is the catalog's; None where there can be none of this name."""

    namespace: Namespace
    name: str | None


def _namespace(call: Call) -> Namespace | None:
    try:
        return Namespace.of(*call.path[1:3])
    except NamingError:
        return None


def _topic(broker: Broker, call: Call) -> Place | None:
    """A partition is its topic. A name that Kafka clients have for a topic of another namespace means that one."""
    try:
        name = named(broker, call)
    except (RefusedError, TenancyError):
        namespace = _namespace(call)
        return Place(namespace, None) if namespace is not None else None
    try:
        return Place(name.namespace, _kept(broker, name))
    except NamingError:
        return Place(name.namespace, None)


def _kept(broker: Broker, name: TopicName) -> str:
    catalog = broker.catalog
    if name.partition >= 0 and catalog.get(canonical(name)) is None:
        parent = catalog.get(canonical(name.parent))
        if parent is not None and name.partition < len(parent.partitions):
            return parent.name
    return canonical(name)


# -- what is asked


def _anyone(broker: Broker, call: Call) -> bool:
    return True


def _super(broker: Broker, call: Call) -> bool:
    return not call.asker.checked


async def _some_tenant(broker: Broker, call: Call) -> bool:
    for count, tenant in enumerate(broker.catalog.namespaces.tenants(), 1):
        if count % PAGE == 0:
            await turn()
        if call.asker.administers(tenant):
            return True
    return False


def _of_tenant(broker: Broker, call: Call) -> bool:
    return call.asker.administers(call.path[1])


def _of_tenant_of_acls(broker: Broker, call: Call) -> bool:
    return call.asker.administers(call.path[2])


def _of_topics_tenant(broker: Broker, call: Call) -> bool:
    at = _topic(broker, call)
    return at is not None and call.asker.administers(at.namespace.tenant)


def _of_asked_tenant(broker: Broker, call: Call) -> bool:
    """Of the query: without one it is about all."""
    tenant = call.query.get("property", "")
    return call.asker.administers(tenant) if tenant else not call.asker.checked


def _lists(broker: Broker, call: Call) -> bool:
    namespace = _namespace(call)
    return namespace is not None and _sees_some(call, namespace)


def _lists_asked(broker: Broker, call: Call) -> bool:
    """Of the query: without one the answer has what may be seen of all."""
    text = call.query.get("namespace", "")
    if not text:
        return True
    try:
        return _sees_some(call, Namespace.parse(text))
    except NamingError:
        return False


def _sees_some(call: Call, namespace: Namespace) -> bool:
    operations = (Operation.DESCRIBE, Operation.READ, Operation.WRITE)
    return any(call.asker.any_topic(each, namespace) for each in operations)


def _sees_asked(broker: Broker, call: Call) -> bool:
    """A topic of the query, as Kafka clients call it: without one the answer names none."""
    name = call.query.get("topic", "")
    return not is_local(name) or call.asker.sees(meant(call, broker, name))


def _looks(broker: Broker, call: Call) -> bool:
    return _may(broker, call, Operation.DESCRIBE)


def _reads(broker: Broker, call: Call) -> bool:
    return _may(broker, call, Operation.READ)


def _may(broker: Broker, call: Call, operation: Operation) -> bool:
    at = _topic(broker, call)
    if at is None or at.name is None:
        return at is not None and call.asker.administers(at.namespace.tenant)
    return call.asker.topic(operation, at.name, at.namespace)


def _consumes(broker: Broker, call: Call) -> bool:
    """From the topic, by the subscription that the path names."""
    at = _topic(broker, call)
    if at is None:
        return False
    if call.asker.administers(at.namespace.tenant):
        return True
    if at.name is None or not call.asker.topic(Operation.READ, at.name, at.namespace):
        return False
    try:
        return call.asker.group(Operation.READ, inward(broker, call).path[5], at.namespace)
    except RefusedError:
        return False


def _subscribes(broker: Broker, call: Call) -> bool:
    """What makes other topics beside the subscription, or says how a group is served, is for the tenant's admin."""
    more = [
        each
        for each in ("lanes", "type", "enableRetry")
        if call.query.get(each, "").lower() not in ("", "false")
    ]
    return _of_topics_tenant(broker, call) if more else _consumes(broker, call)


async def _consumes_by_all(broker: Broker, call: Call) -> bool:
    """From the topic, by each subscription that it has."""
    if not _reads(broker, call):
        return False
    at = _topic(broker, call)
    if at is None or call.asker.administers(at.namespace.tenant):
        return at is not None
    try:
        found = await find(broker, named(broker, call))
    except RefusedError:
        return True
    return await _has_groups(broker, call, at.namespace, [found])


async def _consumes_all(broker: Broker, call: Call) -> bool:
    """From each topic of the namespace, by the subscription that the path names, or by each that there is."""
    namespace = _namespace(call)
    if namespace is None:
        return False
    asker = call.asker
    if asker.administers(namespace.tenant):
        return True
    if not asker.any_topic(Operation.READ, namespace):
        return False
    topics = []
    async for topic in broker.tenancy.topics_of(namespace):
        if not asker.topic(Operation.READ, topic.name, namespace):
            return False
        if topic.queue is None:
            topics.append(Found(broker.catalog.full_of(topic), topic, -1))
    if call.path[-2] not in ("clearBacklog", "unsubscribe"):
        return await _has_groups(broker, call, namespace, topics)
    try:
        return asker.group(Operation.READ, inward(broker, call).path[-1], namespace)
    except RefusedError:
        return False


async def _has_groups(broker: Broker, call: Call, namespace: Namespace, topics: list[Found]) -> bool:
    readers = await readers_of(broker)
    for found in topics:
        try:
            async for at in subscriptions_of(broker, found, readers):
                if not call.asker.group(Operation.READ, at.name, namespace):
                    return False
        except KafkaError:
            return False
    return True


ANYONE = Need("say who you are", _anyone)
SUPER = Need("it takes a super-user (super.users)", _super)
SOME_TENANT = Need("it takes an admin of a tenant", _some_tenant)
TENANT = Need("it takes an admin of the tenant", _of_tenant)
TENANT_OF_ACLS = Need(TENANT.says, _of_tenant_of_acls)
TOPICS_TENANT = Need("it takes an admin of the topic's tenant", _of_topics_tenant)
ASKED_TENANT = Need(
    "it takes an admin of the tenant that is asked for, or of all a super-user", _of_asked_tenant
)
LIST = Need("it takes the right to use a topic of the namespace", _lists)
LIST_ASKED = Need(LIST.says, _lists_asked)
LOOK_ASKED = Need("it takes the right to use the topic", _sees_asked)
LOOK = Need(LOOK_ASKED.says, _looks)
READ = Need("it takes the right to consume from the topic", _reads)
CONSUME = Need("it takes the right to consume from the topic by the subscription", _consumes)
SUBSCRIBE = Need(
    f"{CONSUME.says}, and with lanes, a type or a RETRY topic an admin of the tenant", _subscribes
)
CONSUME_BY_ALL = Need(
    "it takes the right to consume from the topic by all of its subscriptions", _consumes_by_all
)
CONSUME_ALL = Need("it takes the right to consume from all topics of the namespace", _consumes_all)


VERBS_OF_USERS: tuple[Key, ...] = (
    ("GET", "magnetar", "users"),
    ("GET", "magnetar", "users/*"),
    ("PUT", "magnetar", "users/*"),
    ("DELETE", "magnetar", "users/*"),
    ("POST", "magnetar", "users/*/password"),
    ("POST", "magnetar", "users/*/home"),
)

NEEDS: dict[Key, Need] = {
    ("GET", "clusters", ""): ANYONE,
    ("GET", "clusters", "*"): SUPER,
    ("GET", "clusters", "*/peers"): SUPER,
    ("GET", "clusters", "*/migrate"): SUPER,
    ("GET", "clusters", "*/failureDomains"): SUPER,
    ("GET", "clusters", "*/failureDomains/*"): SUPER,
    ("GET", "broker-stats", "topics"): SUPER,
    ("GET", "broker-stats", "destinations"): SUPER,
    ("GET", "brokers", ""): SUPER,
    ("GET", "brokers", "leaderBroker"): SUPER,
    ("GET", "brokers", "version"): ANYONE,
    ("GET", "brokers", "health"): SUPER,
    ("GET", "brokers", "configuration/runtime"): SUPER,
    ("GET", "brokers", "ready"): ANYONE,
    ("GET", "brokers", "configuration"): SUPER,
    ("GET", "brokers", "configuration/values"): SUPER,
    ("POST", "brokers", "configuration/*/*"): SUPER,
    ("DELETE", "brokers", "configuration/*"): SUPER,
    ("GET", "brokers", "internal-configuration"): SUPER,
    ("GET", "brokers", "backlog-quota-check"): SUPER,
    ("GET", "brokers", "*/*/ownedNamespaces"): SUPER,
    ("GET", "brokers", "*"): SUPER,
    ("GET", "tenants", ""): ANYONE,
    ("GET", "tenants", "*"): TENANT,
    ("PUT", "tenants", ""): SUPER,
    ("PUT", "tenants", "*"): SUPER,
    ("POST", "tenants", "*"): SUPER,
    ("DELETE", "tenants", "*"): SUPER,
    ("GET", "tenant", ""): TENANT,
    ("GET", "namespace", ""): TENANT,
    ("PUT", "namespace", ""): TENANT,
    ("DELETE", "namespace", ""): TENANT,
    ("GET", "namespace", "topics"): LIST,
    ("GET", "namespace", "bundles"): LIST,
    ("GET", "namespace", "replication"): TENANT,
    ("POST", "namespace", "replication"): TENANT,
    ("GET", "namespace", "properties"): TENANT,
    ("PUT", "namespace", "properties"): TENANT,
    ("DELETE", "namespace", "properties"): TENANT,
    ("GET", "namespace", "property/*"): TENANT,
    ("PUT", "namespace", "property/*/*"): TENANT,
    ("DELETE", "namespace", "property/*"): TENANT,
    ("GET", "namespace", "permissions"): TENANT,
    ("POST", "namespace", "permissions/*"): TENANT,
    ("DELETE", "namespace", "permissions/*"): TENANT,
    ("GET", "namespace", "permissions/subscription"): TENANT,
    ("POST", "namespace", "permissions/subscription/*"): TENANT,
    ("DELETE", "namespace", "permissions/*/*"): TENANT,
    ("GET", "namespace", "allowedClusters"): TENANT,
    ("POST", "namespace", "allowedClusters"): TENANT,
    ("GET", "namespace", "subscriptionAuthMode"): TENANT,
    ("POST", "namespace", "subscriptionAuthMode"): TENANT,
    ("GET", "namespace", "antiAffinity"): TENANT,
    ("POST", "namespace", "antiAffinity"): TENANT,
    ("DELETE", "namespace", "antiAffinity"): TENANT,
    ("GET", "anti-affinity", ""): ASKED_TENANT,
    # a policy is the tenant's affair, whatever it is of
    **{
        key: {"namespace": TENANT, "topic": TOPICS_TENANT, "subscription": CONSUME}[key[1]]
        for key in (*policies.VERBS, *never_set.VERBS)
    },
    ("GET", "domain", ""): LIST,
    ("GET", "domain", "partitioned"): LIST,
    ("PUT", "topic", ""): TOPICS_TENANT,
    ("DELETE", "topic", ""): TOPICS_TENANT,
    ("GET", "topic", "partitions"): LOOK,
    ("PUT", "topic", "partitions"): TOPICS_TENANT,
    ("POST", "topic", "partitions"): TOPICS_TENANT,
    ("DELETE", "topic", "partitions"): TOPICS_TENANT,
    ("POST", "topic", "createMissedPartitions"): TOPICS_TENANT,
    ("GET", "topic", "properties"): LOOK,
    ("PUT", "topic", "properties"): TOPICS_TENANT,
    ("DELETE", "topic", "properties"): TOPICS_TENANT,
    ("GET", "topic", "permissions"): TOPICS_TENANT,
    ("POST", "topic", "permissions/*"): TOPICS_TENANT,
    ("DELETE", "topic", "permissions/*"): TOPICS_TENANT,
    ("GET", "topic", "stats"): LOOK,
    ("GET", "topic", "partitioned-stats"): LOOK,
    ("GET", "topic", "internalStats"): LOOK,
    ("GET", "topic", "partitioned-internalStats"): LOOK,
    ("GET", "topic", "internal-info"): LOOK,
    ("GET", "topic", "compaction"): TOPICS_TENANT,
    ("PUT", "topic", "compaction"): TOPICS_TENANT,
    ("GET", "topic", "lastMessageId"): READ,
    ("GET", "topic", "messageid/*"): READ,
    ("PUT", "topic", "backlogSize"): READ,
    ("POST", "topic", "all_subscription/expireMessages/*"): CONSUME_BY_ALL,
    ("POST", "topic", "trim"): TOPICS_TENANT,
    ("DELETE", "topic", "truncate"): TOPICS_TENANT,
    ("GET", "topic", "*/dispatchRate"): TOPICS_TENANT,
    ("POST", "topic", "*/dispatchRate"): TOPICS_TENANT,
    ("DELETE", "topic", "*/dispatchRate"): TOPICS_TENANT,
    ("POST", "topic", "terminate"): TOPICS_TENANT,
    ("POST", "topic", "terminate/partitions"): TOPICS_TENANT,
    ("PUT", "topic", "unload"): TOPICS_TENANT,
    ("PUT", "namespace", "unload"): TENANT,
    ("POST", "namespace", "clearBacklog"): CONSUME_ALL,
    ("POST", "namespace", "clearBacklog/*"): CONSUME_ALL,
    ("POST", "namespace", "unsubscribe/*"): CONSUME_ALL,
    ("GET", "topic", "subscriptions"): READ,
    ("GET", "topic", "examinemessage"): READ,
    ("GET", "entry", ""): READ,
    ("PUT", "subscription", ""): SUBSCRIBE,
    ("DELETE", "subscription", ""): CONSUME,
    ("GET", "subscription", "properties"): CONSUME,
    ("PUT", "subscription", "properties"): CONSUME,
    ("POST", "subscription", "skip/*"): CONSUME,
    ("POST", "subscription", "skip_all"): CONSUME,
    ("POST", "subscription", "resetcursor"): CONSUME,
    ("POST", "subscription", "resetcursor/*"): CONSUME,
    ("GET", "subscription", "position/*"): CONSUME,
    ("POST", "subscription", "analyzeBacklog"): CONSUME,
    ("POST", "subscription", "expireMessages"): CONSUME,
    ("POST", "subscription", "expireMessages/*"): CONSUME,
    ("GET", "lookup", ""): LOOK,
    ("GET", "lookup", "bundle"): TOPICS_TENANT,
    # Magnetar's own
    ("GET", "magnetar", "kafka"): LOOK_ASKED,
    ("GET", "magnetar", "lag"): LIST_ASKED,
    ("GET", "topic", "lag"): LOOK,
    ("GET", "magnetar", "subscriptions"): LIST_ASKED,
    ("GET", "magnetar", "attention"): LIST_ASKED,
    ("GET", "subscription", "magnetar/consumers"): CONSUME,
    ("GET", "subscription", "explain"): CONSUME,
    ("GET", "magnetar", "hash"): ANYONE,
    ("GET", "topic", "hash"): LOOK,
    ("GET", "subscription", "hash"): CONSUME,
    # whose it is says the body: the verb asks again
    ("PUT", "magnetar", "queues/*"): SOME_TENANT,
    ("GET", "magnetar", "audit"): SUPER,
    ("GET", "subscription", "magnetar/causes"): CONSUME,
    ("GET", "subscription", "magnetar/due"): CONSUME,
    ("GET", "subscription", "magnetar/strip"): CONSUME,
    ("GET", "subscription", "magnetar/open"): CONSUME,
    ("POST", "subscription", "magnetar/act"): CONSUME,
    # who may not read where the letters are, or write where they go, is refused by the verbs
    ("GET", "subscription", "magnetar/deadletters"): CONSUME,
    ("GET", "subscription", "magnetar/deadletters/groups"): CONSUME,
    ("POST", "subscription", "magnetar/replay"): CONSUME,
    ("POST", "subscription", "magnetar/discard"): CONSUME,
    # they show those that the caller may see, by the transactional id or by the topic
    ("GET", "magnetar", "transactions"): ANYONE,
    ("GET", "magnetar", "jobs"): ANYONE,
    ("GET", "magnetar", "jobs/*"): ANYONE,
    ("POST", "magnetar", "jobs/*/stop"): ANYONE,
    ("GET", "topic", "magnetar/records"): READ,
    ("GET", "topic", "magnetar/trace"): READ,
    ("GET", "subscription", "magnetar/series"): CONSUME,
    ("GET", "magnetar", "series"): SUPER,
    ("POST", "subscription", "magnetar/watch"): CONSUME,
    ("GET", "subscription", "magnetar/watch"): CONSUME,
    ("GET", "magnetar", "acls/*/*"): TENANT_OF_ACLS,
    **dict.fromkeys(VERBS_OF_USERS, SUPER),
    ("GET", "resourcegroups", ""): SUPER,
    ("GET", "resourcegroups", "*"): SUPER,
    ("PUT", "resourcegroups", "*"): SUPER,
    ("DELETE", "resourcegroups", "*"): SUPER,
    ("GET", "magnetar", "resourcegroups/*/stats"): SUPER,
    # who is bound by a rate does not choose it
    ("GET", "namespace", "resourcegroup"): TENANT,
    ("POST", "namespace", "resourcegroup/*"): SUPER,
    ("DELETE", "namespace", "resourcegroup"): SUPER,
}


async def check(broker: Broker, key: Key, call: Call) -> None:
    """Refuse with 403 what the caller may not. A verb that is not in the table takes a super-user."""
    missing = await missed(broker, key, call)
    if missing:
        raise may_not(call, missing)


async def missed(broker: Broker, key: Key, call: Call) -> str:
    """What it takes, of a call that the caller may not make; "" of one that it may."""
    if not call.asker.checked:
        return ""
    need = NEEDS.get(key, SUPER)
    if call.path and call.path[0] in DOMAINS and len(call.path) > 3:
        at = _topic(broker, call)
        if at is not None and at.name == AUDIT:
            # it tells of all tenants
            need = SUPER
    holds = need.holds(broker, call)
    return "" if (holds if isinstance(holds, bool) else await holds) else need.says
