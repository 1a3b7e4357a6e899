"""22 InitProducerId, versions 0 to 5: an id for an idempotent producer (KIP-98).

Transactional ids are refused with an error that clients take as final: transactions are not served yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.apis.registry import Context, handles
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker


@handles(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5)
async def init_producer_id(
    broker: Broker, context: Context, request: messages.InitProducerIdRequest
) -> messages.InitProducerIdResponse:
    if request.transactional_id is not None:
        error = (
            Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if request.transactional_id else Error.INVALID_REQUEST
        )
        return messages.InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
    if (request.producer_id < 0) is not (request.producer_epoch < 0):
        # an id goes with its epoch (KIP-360)
        return messages.InitProducerIdResponse(
            error_code=Error.INVALID_REQUEST, producer_id=-1, producer_epoch=-1
        )
    try:
        producer_id = await broker.producer_ids.allocate()
    except StoreError:
        # Retriable: the client asks again.
        return messages.InitProducerIdResponse(
            error_code=Error.COORDINATOR_LOAD_IN_PROGRESS, producer_id=-1, producer_epoch=-1
        )
    return messages.InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)
