"""22 InitProducerId, versions 0 to 5: an id for an idempotent producer (KIP-98), or whose transactional id this is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.apis.registry import Context, handles
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation, ResourceType
from semantics.transactions.codes import Api, spoken
from semantics.transactions.events import Init, ProducerAnswer
from semantics.transactions.states import Producer
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.rights import Rights

LONGEST = 1024
"""Bytes of a transactional id: it is part of a row for each partition of its transactions."""


@handles(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5)
async def init_producer_id(
    broker: Broker, context: Context, request: messages.InitProducerIdRequest
) -> messages.InitProducerIdResponse:
    version = context.api_version
    refusal = _forbidden(context.peer.rights, request.transactional_id)
    if refusal is not None:
        return _refused(refusal)
    claimed = Producer(request.producer_id, request.producer_epoch) if version >= 3 else Producer(-1, -1)
    if (claimed.id < 0) is not (claimed.epoch < 0) or not _legal(request.transactional_id):
        # an id goes with its epoch (KIP-360)
        return _refused(Error.INVALID_REQUEST)
    if request.transactional_id is None:
        try:
            return messages.InitProducerIdResponse(
                producer_id=await broker.producer_ids.allocate(), producer_epoch=0
            )
        except StoreError:
            # Retriable: the client asks again.
            return _refused(Error.COORDINATOR_LOAD_IN_PROGRESS)
    event = Init(None, request.transaction_timeout_ms, claimed if claimed.id >= 0 else None)
    answer = await broker.transactions.run(request.transactional_id, event)
    assert isinstance(answer, ProducerAnswer)
    return messages.InitProducerIdResponse(
        error_code=spoken(answer.error, Api.INIT_PRODUCER_ID, version),
        producer_id=answer.producer.id,
        producer_epoch=answer.producer.epoch,
    )


def _forbidden(rights: Rights, transactional_id: str | None) -> Error | None:
    """Why a client may not have an id. Whoever may write to some topic may do it without gaps (KIP-679)."""
    if transactional_id is not None:
        may = rights.transactional_id(Operation.WRITE, transactional_id)
        return None if may else Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    may = rights.cluster(Operation.IDEMPOTENT_WRITE) or rights.any(ResourceType.TOPIC, Operation.WRITE)
    return None if may else Error.CLUSTER_AUTHORIZATION_FAILED


def _legal(transactional_id: str | None) -> bool:
    return transactional_id is None or 0 < len(transactional_id.encode()) <= LONGEST


def _refused(error: Error) -> messages.InitProducerIdResponse:
    return messages.InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
