"""What policies come to for a topic or a namespace that is there, and the limits that come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.config import topic_configs
from gateway.wire.errors import Error
from semantics.backlog_quota import Action
from semantics.command_line import word
from semantics.policies import (
    AUTO_SUBSCRIPTIONS,
    AUTO_TOPIC_PARTITIONS,
    AUTO_TOPIC_TYPE,
    AUTO_TOPICS,
    INACTIVE_DELETE,
    INACTIVE_MODE,
    INACTIVE_MS,
    MAX_CONSUMERS,
    MAX_CONSUMERS_PER_SUBSCRIPTION,
    MAX_SUBSCRIPTIONS,
    MAX_TOPICS,
    MESSAGE_TTL,
    QUOTA_MS,
    QUOTA_MS_ACTION,
    SUBSCRIPTION_EXPIRATION,
    SUBSCRIPTION_TYPES,
    TYPE_NAMES,
    Found,
    Level,
    Policy,
)

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node
    from gateway.config import Settings
    from gateway.config.schema import Value
    from semantics.names import Namespace

_NOTHING: Mapping[str, str] = {}


def found(node: Node, catalog: Catalog, policy: Policy, topic: Topic) -> Found[Value] | None:
    """What counts for a topic, and who says it; None where nobody does."""
    said = catalog.namespaces.policies_of(topic.name)
    return topic_configs.policy_in_force(policy, topic.configs, node.settings, said)


def in_force(node: Node, catalog: Catalog, policy: Policy, topic: Topic) -> Value:
    """What counts for a topic, whoever has set it; None where nobody has."""
    its = found(node, catalog, policy, topic)
    return its.value if its is not None else None


def number(node: Node, catalog: Catalog, policy: Policy, topic: Topic) -> int:
    """The same of a policy that is a number and has a default."""
    said = catalog.namespaces.policies_of(topic.name)
    return topic_configs.number_in_force(policy, topic.configs, node.settings, said)


def message_ttl(node: Node, catalog: Catalog, topic: Topic) -> int:
    """How long messages of a topic wait for their acknowledgement, in ms; 0 is for ever. Kafka's limits by age that
    somebody has set are one, where they count.
    """
    return _message_ttl(node.settings, topic.configs, catalog.namespaces.policies_of(topic.name))


def _message_ttl(settings: Settings, configs: Mapping[str, str], said: Mapping[str, str]) -> int:
    its = topic_configs.policy_in_force(MESSAGE_TTL, configs, settings, said)
    ms = its.value if its is not None else 0
    kafkas = its is not None and its.name == MESSAGE_TTL.kafka
    if not ms and (its is None or its.level is Level.BROKER) and settings.retention_ms_set:
        ms, kafkas = settings.retention_ms, True
    assert isinstance(ms, int)
    if ms <= 0 or (kafkas and not topic_configs.effective(configs, settings, said).delete):
        return 0
    return ms


def longest_wait(node: Node, catalog: Catalog, topic: Topic) -> int:
    """The same, where a quota of the backlog's age that is kept by eviction is one, too."""
    return longest_wait_in(node.settings, topic.configs, catalog.namespaces.policies_of(topic.name))


def longest_wait_in(settings: Settings, configs: Mapping[str, str], said: Mapping[str, str]) -> int:
    """The same for a topic with these configs in a namespace with these policies."""
    ttl = _message_ttl(settings, configs, said)
    age = topic_configs.number_in_force(QUOTA_MS, configs, settings, said)
    action = topic_configs.policy_in_force(QUOTA_MS_ACTION, configs, settings, said)
    if age < 0 or action is None or action.value != Action.EVICT:
        return ttl
    # it is kept to the millisecond, and 0 is for ever
    return min(ttl or age, age) or 1


def unused_subscription(node: Node, catalog: Catalog, topic: Topic) -> int:
    """After how long without consumers subscriptions of a topic are deleted, in ms; 0 is never."""
    return number(node, catalog, SUBSCRIPTION_EXPIRATION, topic)


def unused_topic(node: Node, catalog: Catalog, topic: Topic) -> int:
    """After how long a topic is deleted that nobody uses, in ms; 0 is never."""
    deletes = in_force(node, catalog, INACTIVE_DELETE, topic) and not topic.internal
    return number(node, catalog, INACTIVE_MS, topic) if deletes else 0


def unused_when_caught_up(node: Node, catalog: Catalog, topic: Topic) -> bool:
    """Whether subscriptions without a backlog use no topic."""
    return in_force(node, catalog, INACTIVE_MODE, topic) == "delete_when_subscriptions_caught_up"


class NewTopic(NamedTuple):
    """How a topic is made that somebody asks for."""

    partitions: int
    """-1: num.partitions says it"""
    partitioned: bool


def new_topic(node: Node, catalog: Catalog, name: str) -> NewTopic | None:
    """What becomes of a name that no topic has when a client asks for it; None where none is made."""
    said = catalog.namespaces.policies_of(name)

    def value(policy: Policy) -> Value:
        its = topic_configs.policy_in_force(policy, _NOTHING, node.settings, said)
        return its.value if its is not None else None

    allowed = value(AUTO_TOPICS)
    if not (node.settings.flag("auto.create.topics.enable") if allowed is None else allowed):
        return None
    kind, partitions = value(AUTO_TOPIC_TYPE), value(AUTO_TOPIC_PARTITIONS)
    assert partitions is None or isinstance(partitions, int)
    if kind == "non-partitioned":
        return NewTopic(1, False)
    return NewTopic(-1 if partitions is None else partitions, kind == "partitioned")


def makes_subscriptions(node: Node, catalog: Catalog, name: str) -> bool:
    """Whether a topic of a name that none has yet would get subscriptions that nobody asks for."""
    said = catalog.namespaces.policies_of(name)
    its = topic_configs.policy_in_force(AUTO_SUBSCRIPTIONS, _NOTHING, node.settings, said)
    return bool(its is not None and its.value)


def check_auto_subscription(node: Node, catalog: Catalog, topic: Topic, group: str) -> None:
    """Whether a group that comes to a topic gets its subscription there. Raises KafkaError POLICY_VIOLATION."""
    if not in_force(node, catalog, AUTO_SUBSCRIPTIONS, topic):
        raise KafkaError(
            Error.POLICY_VIOLATION,
            f"Topic {topic.name} has no subscription {group}, and none is made for who comes. Make it with: "
            f"magnetar-admin topics create-subscription {topic.name} -s {word(group)}",
        )


def check_topics(node: Node, catalog: Catalog, namespace: Namespace, coming: int, more: int) -> None:
    """Whether a namespace may have `more` partitions, besides `coming` that are on their way to the disk. Raises
    KafkaError POLICY_VIOLATION.
    """
    row = catalog.namespaces.get(namespace)
    said = row.policies if row is not None else _NOTHING
    most = topic_configs.number_in_force(MAX_TOPICS, _NOTHING, node.settings, said)
    if not most:
        return
    have = catalog.partitions_in(namespace, most) + coming
    if have + more > most:
        raise KafkaError(
            Error.POLICY_VIOLATION,
            f"Namespace {namespace} may have {most} topics, each partition counted as one: it has "
            f"{_counted(have, most)}, and {more} more would be too many. The limit is set with: magnetar-admin "
            f"namespaces set-max-topics-per-namespace {namespace} -t N",
        )


def _counted(have: int, most: int) -> str:
    return str(have) if have <= most else f"more than {most}"


def check_type(node: Node, catalog: Catalog, topic: Topic, kind: str) -> None:
    """Whether subscriptions of a type may be made on a topic. Raises KafkaError POLICY_VIOLATION."""
    allowed = in_force(node, catalog, SUBSCRIPTION_TYPES, topic)
    assert isinstance(allowed, tuple)
    its = TYPE_NAMES[kind]
    if its not in allowed:
        raise KafkaError(
            Error.POLICY_VIOLATION,
            f"Topic {topic.name} takes no {its} subscriptions, only: {', '.join(allowed) or 'none'}. That "
            f"is set with: magnetar-admin topicPolicies set-subscription-types-enabled {topic.name} -t TYPES",
        )


def check_consumers(
    node: Node, catalog: Catalog, topic: Topic, group: str, of_group: int, of_topic: Callable[[], int]
) -> None:
    """Whether a subscription that has so many consumers may have one more, and its topic, too. Raises KafkaError
    GROUP_MAX_SIZE_REACHED, and what `of_topic` raises.
    """
    most = number(node, catalog, MAX_CONSUMERS_PER_SUBSCRIPTION, topic)
    if most and of_group >= most:
        raise KafkaError(
            Error.GROUP_MAX_SIZE_REACHED,
            f"Subscription {group} of topic {topic.name} may have no more than {most} consumers. The limit is set "
            f"with: magnetar-admin topicPolicies set-max-consumers-per-subscription {topic.name} -c N",
        )
    most = number(node, catalog, MAX_CONSUMERS, topic)
    if most and of_topic() >= most:
        raise KafkaError(
            Error.GROUP_MAX_SIZE_REACHED,
            f"The subscriptions of topic {topic.name} may have no more than {most} consumers together. The limit is "
            f"set with: magnetar-admin topicPolicies set-max-consumers {topic.name} -c N",
        )


def check_subscriptions(node: Node, catalog: Catalog, topic: Topic, have: Iterable[object]) -> None:
    """Whether a topic that has these subscriptions may have one more. Raises KafkaError POLICY_VIOLATION,
    StoreError.
    """
    most = number(node, catalog, MAX_SUBSCRIPTIONS, topic)
    if most and len(list(islice(have, most))) == most:
        raise KafkaError(
            Error.POLICY_VIOLATION,
            f"Topic {topic.name} may have no more than {most} subscriptions: delete one, or set the limit with: "
            f"magnetar-admin topicPolicies set-max-subscriptions-per-topic {topic.name} -s N",
        )
