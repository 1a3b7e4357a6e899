"""Policies of a namespace and of a topic, properties, permissions, and namespaces that are made with policies: set,
changed and taken back. All values of a policy follow from one number, so that half of one would be seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.proofs.soak.admin import Admin, Said
from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.policy_oracle import Entry, Sayings
from tests.proofs.soak.wire import Wire

TENANT, NAMESPACE, TOPIC = "soak", "soak/desk", "soak.desk.forms"
PATH = "persistent/soak/desk/forms"
NAMES = 4
"""Namespaces that come and go."""
ACTIONS = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")
TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")


class Policy(NamedTuple):
    verb: str
    """as the list of a topic's policies calls it, at topics"""
    key: str
    """in Policies of a namespace"""
    segment: str
    topic_segment: str
    """nothing: topics do not have it"""
    value: Callable[[int], Any]
    by_cluster: bool = False


def _rate(k: int) -> dict[str, Any]:
    return {
        "dispatchThrottlingRateInMsg": k,
        "dispatchThrottlingRateInByte": 1000 * k,
        "ratePeriodInSecond": k,
        "relativeToPublishRate": k % 2 == 0,
    }


POLICIES = (
    # limits that quotas stay below
    Policy(
        "retention", "retention_policies", "retention", "retention",
        lambda k: {"retentionTimeInMinutes": 1000 + k, "retentionSizeInMB": 1000 + k},
    ),
    Policy("message-ttl", "message_ttl_in_seconds", "messageTTL", "messageTTL", lambda k: k),
    Policy(
        "max-producers", "max_producers_per_topic", "maxProducersPerTopic", "maxProducers", lambda k: k
    ),
    Policy("deduplication", "deduplicationEnabled", "deduplication", "deduplicationEnabled", lambda k: k % 2 == 0),
    Policy(
        "delayed-delivery", "delayed_delivery_policies", "delayedDelivery", "delayedDelivery",
        lambda k: {"active": k % 2 == 0, "tickTime": k, "maxDeliveryDelayInMillis": k},
    ),
    Policy("dispatch-rate", "topicDispatchRate", "dispatchRate", "dispatchRate", _rate, by_cluster=True),
    Policy(
        "subscription-dispatch-rate", "subscriptionDispatchRate", "subscriptionDispatchRate",
        "subscriptionDispatchRate", _rate, by_cluster=True,
    ),
    Policy(
        "publish-rate", "publishMaxMessageRate", "publishRate", "publishRate",
        lambda k: {"publishThrottlingRateInMsg": k, "publishThrottlingRateInByte": 1000 * k}, by_cluster=True,
    ),
    Policy(
        "subscription-types-enabled", "subscription_types_enabled", "subscriptionTypesEnabled",
        "subscriptionTypesEnabled", lambda k: list(TYPES[: k % 4 + 1]),
    ),
    Policy(
        "inactive-topic-policies", "inactive_topic_policies", "inactiveTopicPolicies", "inactiveTopicPolicies",
        lambda k: {
            "deleteWhileInactive": False,
            "maxInactiveDurationSeconds": k,
            "inactiveTopicDeleteMode": (
                "delete_when_no_subscriptions" if k % 2 else "delete_when_subscriptions_caught_up"
            ),
        },
    ),
    Policy(
        "auto-topic-creation", "autoTopicCreationOverride", "autoTopicCreation", "",
        lambda k: {
            "allowAutoTopicCreation": k % 2 == 0, "topicType": "partitioned", "defaultNumPartitions": k,
        },
    ),
    Policy(
        "backlog-quota destination_storage", "destination_storage",
        "backlogQuota?backlogQuotaType=destination_storage", "backlogQuota?backlogQuotaType=destination_storage",
        lambda k: {"limitSize": 1000 * k, "policy": ACTIONS[k % 3]},
    ),
    Policy(
        "backlog-quota message_age", "message_age",
        "backlogQuota?backlogQuotaType=message_age", "backlogQuota?backlogQuotaType=message_age",
        lambda k: {"limitTime": k, "policy": ACTIONS[k % 3]},
    ),
)  # fmt: skip
BY_VERB = {policy.verb: policy for policy in POLICIES}
AT_TOPIC = tuple(policy for policy in POLICIES if policy.topic_segment)


class Desk(Load):
    """One client of the admin API."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        # held from a request to its answer, so that a check sees nothing half asked for
        self.lock = threading.Lock()
        self.wrong: list[str] = []
        self.sayings = Sayings(self.wrong.append)

    def prepare(self) -> None:
        with self.world.admin().wait() as admin:
            make_namespace(admin, NAMESPACE)
        with Wire(self.world.port) as wire:
            wire.create(TOPIC, 2, {})

    def run(self) -> None:
        stop = self.world.stop
        while not stop.is_set():
            try:
                with self.world.admin() as admin:
                    while not stop.is_set():
                        with self.lock:
                            self._step(admin)
                        stop.wait(self.chance.random() * 0.1)
            except OSError:
                stop.wait(0.02)

    def _step(self, admin: Admin) -> None:
        if self.sayings.asked is not None:
            self.sayings.found(_found(admin, self.sayings.said))
        try:
            self._change(admin)
        except Said as error:
            self.fail(f"was refused: {error}")
            raise OSError("the state is not known") from error
        self.sayings.answered()
        self.moved += 1

    def _change(self, admin: Admin) -> None:
        chance, asks = self.chance, self.sayings.ask
        k = chance.randrange(1, 500)
        way = chance.random()
        if way < 0.35:
            policy = chance.choice(POLICIES)
            removed = chance.random() < 0.3
            asks({(NAMESPACE, policy.verb): None if removed else policy.value(k)})
            _say(admin, f"namespaces/{NAMESPACE}/{policy.segment}", None if removed else policy.value(k))
        elif way < 0.7:
            policy = chance.choice(AT_TOPIC)
            removed = chance.random() < 0.3
            value = None if removed else policy.value(k)
            asks({(TOPIC, policy.verb): value})
            if policy.verb == "message-ttl" and not removed:
                admin.ask("POST", f"{PATH}/messageTTL?messageTTL={value}")
            else:
                _say(admin, f"{PATH}/{policy.topic_segment}", value)
        elif way < 0.75:
            # what a topic says goes at once
            asks({(TOPIC, policy.verb): None for policy in AT_TOPIC})
            admin.ask("DELETE", f"{PATH}/policies")
        elif way < 0.82:
            said = {"left": str(k), "right": str(k)}
            where, path = chance.choice(
                ((NAMESPACE, f"namespaces/{NAMESPACE}/properties"), (TOPIC, f"{PATH}/properties"))
            )
            asks({(where, "properties"): said})
            admin.ask("PUT", path, said)
        elif way < 0.9:
            where, path = chance.choice(
                ((NAMESPACE, f"namespaces/{NAMESPACE}/permissions/ada"), (TOPIC, f"{PATH}/permissions/bob"))
            )
            granted = self.sayings.said.get((where, "permissions"))
            if granted and chance.random() < 0.4:
                asks({(where, "permissions"): None})
                admin.ask("DELETE", path)
            else:
                actions = ["produce", "consume", "functions"][: k % 3 + 1]
                asks({(where, "permissions"): sorted(actions)})
                admin.ask("POST", path, actions)
        else:
            self._come_or_go(admin, f"soak/come-{chance.randrange(NAMES)}", k)

    def _come_or_go(self, admin: Admin, name: str, k: int) -> None:
        """A namespace that is made with all its policies, or deleted."""
        if self.sayings.said.get((name, "made")) is not None:
            self.sayings.ask({(name, "made"): None})
            admin.ask("DELETE", f"namespaces/{name}")
            return
        whole = {policy.verb: policy.value(k) for policy in POLICIES}
        self.sayings.ask({(name, "made"): whole})
        admin.ask("PUT", f"namespaces/{name}", _policies(whole))

    # the check

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        with self.lock:
            with self.world.admin().wait() as admin:
                found = _found(admin, self.sayings.said)
            self.sayings.found(found)
            oracle.seen["policies compared"] += len(found)
            wrong, self.wrong[:] = list(self.wrong), []
        for text in wrong:
            oracle.wrong(text)


def make_namespace(admin: Admin, namespace: str) -> None:
    """With its tenant, if that is not there."""
    tenant = namespace.split("/")[0]
    if tenant not in admin.ask("GET", "tenants"):
        admin.ask("PUT", f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": ["standalone"]})
    admin.ask("PUT", f"namespaces/{namespace}")


def _say(admin: Admin, path: str, value: Any) -> None:
    if value is None:
        admin.ask("DELETE", path)
    else:
        admin.ask("POST", path, value)


def _policies(whole: Mapping[str, Any]) -> dict[str, Any]:
    """As a namespace is made with them."""
    found: dict[str, Any] = {}
    for verb, value in whole.items():
        policy = BY_VERB[verb]
        if verb.startswith("backlog-quota"):
            found.setdefault("backlog_quota_map", {})[policy.key] = value
        else:
            found[policy.key] = {"standalone": value} if policy.by_cluster else value
    return found


def _of_namespace(doc: Mapping[str, Any]) -> dict[str, Any]:
    """By verb, of those policies that are set."""
    found: dict[str, Any] = {}
    for policy in POLICIES:
        if policy.verb.startswith("backlog-quota"):
            value = (doc.get("backlog_quota_map") or {}).get(policy.key)
            value = value and {key: value[key] for key in policy.value(1)}
        else:
            value = doc.get(policy.key)
            if policy.by_cluster and value is not None:
                value = value.get("standalone")
        if value is not None:
            found[policy.verb] = value
    return found


def _found(admin: Admin, said: Mapping[Entry, Any]) -> dict[Entry, Any]:
    """All that is said, as the gateway tells it."""
    found: dict[Entry, Any] = {}
    doc = admin.ask("GET", f"namespaces/{NAMESPACE}")
    found |= {(NAMESPACE, verb): value for verb, value in _of_namespace(doc).items()}
    rows: dict[str, Any] = {}
    for row in admin.ask("GET", f"{PATH}/policies"):
        if row["from"] != "topic":
            continue
        verb = f"{row['policy']} {row['type']}" if "type" in row else row["policy"]
        if "field" in row:
            rows.setdefault(verb, {})[row["field"]] = row["value"]
        else:
            rows[verb] = row["value"]
    found |= {(TOPIC, verb): value for verb, value in rows.items()}
    # a topic tells those of its namespace as well
    for where, path, role in ((NAMESPACE, f"namespaces/{NAMESPACE}", "ada"), (TOPIC, PATH, "bob")):
        if properties := admin.ask("GET", f"{path}/properties"):
            found[where, "properties"] = properties
        if granted := admin.ask("GET", f"{path}/permissions").get(role):
            found[where, "permissions"] = sorted(granted)
    for name in admin.ask("GET", f"namespaces/{TENANT}"):
        if name.startswith("soak/come-"):
            found[name, "made"] = _of_namespace(admin.ask("GET", f"namespaces/{name}"))
    return found


def loads(world: World) -> list[Load]:
    return [Desk(world, "policy-desk")]
