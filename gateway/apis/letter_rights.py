"""Who may say where letters go: configs that name a dead letter topic or a retry letter topic have the gateway write
there, later and by itself, and one that names a subscription of that topic makes it. So what its client may not do
itself, a config does not do for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.apis.checks import may_create
from gateway.broker.errors import KafkaError
from gateway.config.group_table import INITIAL_SUBSCRIPTION, NAME_TOPICS
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.group_names import bare
from semantics.names import Namespace

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer


def check_letters(broker: Broker, peer: Peer, where: Namespace, configs: Mapping[str, str]) -> None:
    """Whether a client may set these for subscriptions on topics of a namespace. Nothing is asked where nobody asks for
    rights. Raises KafkaError: INVALID_CONFIG for a topic of another namespace, TOPIC_AUTHORIZATION_FAILED for one that
    the client may not write to, or not make where it is not there; GROUP_AUTHORIZATION_FAILED for a subscription of a
    group that it may not read with.
    """
    rights = peer.rights
    if not rights.checked:
        return
    for config, name in configs.items():
        if config == INITIAL_SUBSCRIPTION:
            group = broker.catalog.namespaces.group_in(where, bare(name))
            if not rights.group(Operation.READ, group):
                raise KafkaError(
                    Error.GROUP_AUTHORIZATION_FAILED,
                    f"{config} makes a subscription of the group {name}: who sets it must be allowed to read with that "
                    "group.",
                )
        if config not in NAME_TOPICS:
            continue
        full = broker.catalog.namespaces.full(name)
        if full.namespace != where:
            raise KafkaError(
                Error.INVALID_CONFIG,
                f"{config} names a topic of {full.namespace}, and letters of {where} stay in {where}.",
            )
        allowed = rights.topic(Operation.WRITE, name) and (
            broker.catalog.get(name) is not None or may_create(broker, rights, name)
        )
        if not allowed:
            raise KafkaError(
                Error.TOPIC_AUTHORIZATION_FAILED,
                f"{config} has letters written to {name}: who sets it must be allowed to make that topic and to write "
                "there.",
            )
