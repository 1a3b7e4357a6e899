"""What handlers ask before they do or tell anything: whether who asks may have it, and what is said where not.

Which API asks for what stands in `rights_table.py`. Names are the catalog's, and ids those that are kept. Where a right
refuses nothing, and what is told or done is less without it, handlers ask `Rights` themselves.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.group_names import bare
from semantics.names import DEFAULT, MAX_KAFKA_NAME, dotted

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer
    from gateway.rights import Rights

NOT_ASKED = -(2**31)
"""In place of authorized operations when nobody asked."""


def forbidden(code: Error) -> KafkaError:
    """An error with a sentence on it that names nothing."""
    return KafkaError(code, code.sentence)


def needs(
    rights: Rights, operation: Operation, kind: str, name: str | None = None, *, or_cluster: bool = False
) -> str:
    """What is missing, for the person who reads it, and the command that an administrator allows it by. It is the same
    whether or not there is what it names: that is to be what the client has named itself.

    `kind` as flags of kafka-acls have it; without a `name` it is the cluster.
    """
    how = "".join(part.capitalize() for part in operation.name.split("_"))
    on, flag, whose = "the cluster", "--cluster", f", by who is at home in {rights.home}"
    if name is not None:
        called = name
        if kind == "topic":
            called = name[:MAX_KAFKA_NAME]
            if rights.home != DEFAULT and "/" not in called:
                called = f"{DEFAULT}/{called}"
            # its whole name, which means it wherever the administrator is at home
            said, whose = dotted(called), ""
        else:
            # without what stands before an id that is kept
            called = said = bare(name)[:MAX_KAFKA_NAME]
        on, flag = f"{kind.replace('-', ' ')} {called}", f"--{kind} {shlex.quote(said)}"
    if or_cluster:
        on += ", or on the cluster"
    return (
        f"{rights.principal} needs {operation.name} on {on} (kafka-acls --add --allow-principal "
        f"{shlex.quote(rights.principal)} --operation {how} {flag}{whose if rights.home != DEFAULT else ''})."
    )


def check_topic(rights: Rights, operation: Operation, name: str) -> None:
    """Raises KafkaError TOPIC_AUTHORIZATION_FAILED. To be asked before it is looked whether there is such a topic, so
    that the answer does not tell it.
    """
    if not rights.topic(operation, name):
        raise KafkaError(Error.TOPIC_AUTHORIZATION_FAILED, needs(rights, operation, "topic", name))


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
        raise KafkaError(
            Error.TOPIC_AUTHORIZATION_FAILED, needs(rights, Operation.CREATE, "topic", name, or_cluster=True)
        )


def check_topics(rights: Rights, operation: Operation, names: Iterable[str]) -> None:
    """All of them, which the client has named. Raises KafkaError TOPIC_AUTHORIZATION_FAILED."""
    if rights.checked:
        for name in names:
            check_topic(rights, operation, name)


def check_topics_of_others(rights: Rights, operation: Operation, names: Iterable[str]) -> None:
    """The same of topics that others have named: which these are is not told. Raises KafkaError
    TOPIC_AUTHORIZATION_FAILED."""
    if rights.checked and not all(rights.topic(operation, name) for name in names):
        raise forbidden(Error.TOPIC_AUTHORIZATION_FAILED)


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
        raise KafkaError(Error.GROUP_AUTHORIZATION_FAILED, needs(rights, operation, "group", group_id))


def check_cluster(rights: Rights, operation: Operation) -> None:
    """Raises KafkaError CLUSTER_AUTHORIZATION_FAILED."""
    if not rights.cluster(operation):
        raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED, needs(rights, operation, "cluster"))


def needs_node(rights: Rights, operation: Operation) -> str:
    """As `needs`, of the whole gateway."""
    if rights.home == DEFAULT:
        return f"This is of the whole gateway: {needs(rights, operation, 'cluster')}"
    return (
        f"This is of the whole gateway: {rights.principal} needs {operation.name} on the cluster of those at home in "
        f"{DEFAULT}."
    )


def check_over_users(peer: Peer, operation: Operation) -> None:
    """Whether a client may do this to users and quotas: of its tenant, where it is at home in a namespace of its own.
    At home in public/default they are those of all tenants, which takes the right on the whole gateway. Raises
    KafkaError CLUSTER_AUTHORIZATION_FAILED.
    """
    if peer.prefix:
        check_cluster(peer.rights, operation)
    else:
        check_node(peer.rights, operation)


def check_cluster_of(rights: Rights, operation: Operation, topic: str) -> None:
    """Of the namespace that a topic is in. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED."""
    if not rights.cluster_of(operation, topic):
        raise forbidden(Error.CLUSTER_AUTHORIZATION_FAILED)


def check_node(rights: Rights, operation: Operation) -> None:
    """Raises KafkaError CLUSTER_AUTHORIZATION_FAILED for what concerns more than one namespace."""
    if not rights.node(operation):
        raise KafkaError(Error.CLUSTER_AUTHORIZATION_FAILED, needs_node(rights, operation))
