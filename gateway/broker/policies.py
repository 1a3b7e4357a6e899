"""What policies come to for a topic or a namespace that is there, and the limits that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.config import topic_configs
from gateway.wire.errors import Error
from semantics.policies import MAX_SUBSCRIPTIONS, MAX_TOPICS, Policy

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.node import Node
    from gateway.config.schema import Value
    from semantics.names import Namespace

_NOTHING: Mapping[str, str] = {}


def in_force(node: Node, catalog: Catalog, policy: Policy, topic: Topic) -> Value:
    """What counts for a topic, whoever has set it; None where nobody has."""
    said = catalog.namespaces.policies_of(topic.name)
    found = topic_configs.policy_in_force(policy, topic.configs, node.settings, said)
    return found.value if found is not None else None


def number(node: Node, catalog: Catalog, policy: Policy, topic: Topic) -> int:
    """The same of a policy that is a number and has a default."""
    value = in_force(node, catalog, policy, topic)
    assert isinstance(value, int)
    return value


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
