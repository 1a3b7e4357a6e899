"""What handlers ask before they do or tell anything: whether who asks may have it, and what is said where not.

Which API asks for what stands in `rights_table.py`. Names are the catalog's, and ids those that are kept. Where a right
refuses nothing, and what is told or done is less without it, handlers ask `Rights` themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.access.acl import Operation

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer
    from gateway.rights import Rights

NOT_ASKED = -(2**31)
"""In place of authorized operations when nobody asked."""


def forbidden(code: Error) -> KafkaError:
    """An error with Kafka's sentence on it."""
    return KafkaError(code, code.sentence)


def check_topic(rights: Rights, operation: Operation, name: str) -> None:
    """Raises KafkaError TOPIC_AUTHORIZATION_FAILED. To be asked before it is looked whether there is such a topic, so
    that the answer does not tell it.
    """
    if not rights.topic(operation, name):
        raise forbidden(Error.TOPIC_AUTHORIZATION_FAILED)


def may_create(broker: Broker, rights: Rights, name: str) -> bool:
    """Whether a client may make a topic. One whose name reads as that of a topic of another namespace is made there, or
    not at all: in its place clients would find this one.
    """
    catalog = broker.catalog
    if rights.checked and catalog.namespaces.reads_as_elsewhere(name) and catalog.get(name) is None:
        return False
    return rights.cluster_of(Operation.CREATE, name) or rights.topic(Operation.CREATE, name)


def check_create(broker: Broker, rights: Rights, name: str) -> None:
    """Raises KafkaError TOPIC_AUTHORIZATION_FAILED."""
    if not may_create(broker, rights, name):
        raise forbidden(Error.TOPIC_AUTHORIZATION_FAILED)


def check_topics(rights: Rights, operation: Operation, names: Iterable[str]) -> None:
    """All of them. Raises KafkaError TOPIC_AUTHORIZATION_FAILED."""
    if rights.checked:
        for name in names:
            check_topic(rights, operation, name)


def check_home(peer: Peer, name: str) -> None:
    """Whether a client may make or change what serves a subscription on topics of the namespace that a topic is in:
    where rights are asked for, who is at home there. Raises KafkaError POLICY_VIOLATION.
    """
    if peer.rights.checked and not peer.at_home(name):
        raise KafkaError(
            Error.POLICY_VIOLATION,
            f"'{name}' serves a group of clients at home in another namespace than {peer.namespace}: it is for them to "
            "make and to change.",
        )


def check_group(rights: Rights, operation: Operation, group_id: str) -> None:
    """Raises KafkaError GROUP_AUTHORIZATION_FAILED."""
    if not rights.group(operation, group_id):
        raise forbidden(Error.GROUP_AUTHORIZATION_FAILED)


def check_cluster(rights: Rights, operation: Operation) -> None:
    """Raises KafkaError CLUSTER_AUTHORIZATION_FAILED."""
    if not rights.cluster(operation):
        raise forbidden(Error.CLUSTER_AUTHORIZATION_FAILED)


def check_over_users(peer: Peer, operation: Operation, says: str) -> None:
    """Whether a client may do this to users and quotas: of its tenant, where it is at home in a namespace of its own.
    At home in public/default they are those of all tenants, which takes the right on the whole gateway. Raises
    KafkaError CLUSTER_AUTHORIZATION_FAILED, which `says` what it takes.
    """
    if not (peer.rights.cluster(operation) if peer.prefix else peer.rights.node(operation)):
        raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED, says)


def check_cluster_of(rights: Rights, operation: Operation, topic: str) -> None:
    """Of the namespace that a topic is in. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED."""
    if not rights.cluster_of(operation, topic):
        raise forbidden(Error.CLUSTER_AUTHORIZATION_FAILED)


def check_node(rights: Rights, operation: Operation) -> None:
    """Raises KafkaError CLUSTER_AUTHORIZATION_FAILED for what concerns more than one namespace."""
    if not rights.node(operation):
        raise forbidden(Error.CLUSTER_AUTHORIZATION_FAILED)
