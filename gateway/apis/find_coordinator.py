"""Which node coordinates a group, or has a transactional id: FindCoordinator.

| key | API | versions | notes |
|---|---|---|---|
| 10 | FindCoordinator | 0-6 | many keys from v4. Key type 1 is a transactional id, 2 is between brokers |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.apis.checks import check_group, needs
from gateway.apis.groups import check_said
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.internal_topics import OFFSETS, TRANSACTIONS
from gateway.broker.placement import Advertised
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

GROUP, TRANSACTION = 0, 1


@handles(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6)
def find_coordinator(
    broker: Broker, context: Context, request: messages.FindCoordinatorRequest
) -> messages.FindCoordinatorResponse:
    """The placement knows which node coordinates a group."""
    version, rights = context.api_version, context.peer.rights
    kind = request.key_type if version >= 1 else GROUP
    if kind in (GROUP, TRANSACTION):
        broker.internal_topics.looked_for(OFFSETS if kind == GROUP else TRANSACTIONS)
    error, text = Error.NONE, ""
    if kind not in (GROUP, TRANSACTION):
        error, text = Error.INVALID_REQUEST, Error.INVALID_REQUEST.sentence
    nodes = {} if error else {node.id: node for node in broker.placement.nodes(context.peer.listener)}
    coordinator = messages.FindCoordinatorResponse.Coordinator

    def find(key: str) -> messages.FindCoordinatorResponse.Coordinator:
        code, node = error, _NO_NODE
        why: str | None = text
        try:
            if kind == GROUP:
                check_group(rights, Operation.DESCRIBE, key)
                check_said(context.peer, key)
            elif kind == TRANSACTION and not rights.transactional_id(Operation.DESCRIBE, key):
                raise KafkaError(
                    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    needs(rights, Operation.DESCRIBE, "transactional-id", key),
                )
        except KafkaError as refused:
            code, why = refused.code, refused.text
        if not code:
            found = nodes.get(broker.placement.coordinator(key))
            if found is not None:
                node = found
            else:
                code, why = Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_NOT_AVAILABLE.sentence
        return coordinator(
            key=key, node_id=node.id, host=node.host, port=node.port, error_code=code, error_message=why
        )

    if version < 4:
        one = find(request.key)
        return messages.FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message or Error.NONE.name,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    return messages.FindCoordinatorResponse(coordinators=[find(key) for key in request.coordinator_keys])


_NO_NODE = Advertised(-1, "", -1, None)
