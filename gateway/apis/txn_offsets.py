"""28 TxnOffsetCommit, versions 0 to 5: offsets that are in force when a transaction commits (KIP-98, KIP-447).

The group's member is known from version 3 on; from version 5 on the group becomes part of the transaction by this
(KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.apis.groups import MAX_GROUP_ID
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.machines import Caller
from gateway.coordinators import offsets
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.transactions.codes import Api, spoken
from store.api import Family, Put, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.coordinators.classic_events import Plain

IMPLICIT = 5


@handles(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5)
def txn_offset_commit(broker: Broker, context: Context, request: messages.TxnOffsetCommitRequest) -> Any:
    version, group_id = context.api_version, request.group_id
    codes, puts = _sorted_out(broker, version, request)
    if not request.transactional_id:
        return _response(codes, Error.INVALID_REQUEST)
    if not group_id or len(group_id) > MAX_GROUP_ID:
        return _response(codes, Error.INVALID_GROUP_ID)
    if not puts:
        return _response(codes, 0)
    producer = request.producer_id, request.producer_epoch

    def stage() -> tuple[int, list[Write]]:
        try:
            return broker.transactions.stage_offsets(
                request.transactional_id, producer, group_id, puts, implicit=version >= IMPLICIT
            )
        except KafkaError as error:
            return error.code, []

    def build(answer: Plain) -> messages.TxnOffsetCommitResponse:
        error = answer.error
        if error == Error.INCONSISTENT_GROUP_PROTOCOL:
            # a share group: it has subscriptions, not offsets
            error = Error.GROUP_ID_NOT_FOUND
        return _response(codes, spoken(error, Api.TXN_OFFSET_COMMIT, version))

    member = version >= 3
    return broker.groups.stage_offsets(
        group_id,
        request.member_id if member else "",
        request.group_instance_id if member else None,
        request.generation_id if member else -1,
        stage,
        Caller(build),
    )


_Codes = list[tuple[str, list[tuple[int, int]]]]
"""Topic, and partition with error code."""


def _sorted_out(
    broker: Broker, version: int, request: messages.TxnOffsetCommitRequest
) -> tuple[_Codes, list[Put]]:
    """What is wrong with each partition, and rows for those with which nothing is."""
    limit = broker.settings.integer("offset.metadata.max.bytes")
    now = broker.clock.wall_ms()
    prefix = offsets.group_prefix(request.group_id)
    codes: _Codes = []
    puts: list[Put] = []
    for asked in request.topics:
        topic = broker.catalog.get(asked.name)
        its: list[tuple[int, int]] = []
        codes.append((asked.name, its))
        for one in asked.partitions:
            index = one.partition_index
            if topic is None or not 0 <= index < len(topic.partitions):
                its.append((index, Error.UNKNOWN_TOPIC_OR_PARTITION))
            elif offsets.metadata_too_large(one.committed_metadata, limit):
                its.append((index, Error.OFFSET_METADATA_TOO_LARGE))
            elif topic.queue is not None or broker.queues.serving(topic, request.group_id) is not None:
                # what it would acknowledge is not part of transactions yet
                its.append((index, Error.INVALID_REQUEST))
            else:
                its.append((index, 0))
                value = offsets.encode(
                    one.committed_offset,
                    one.committed_leader_epoch if version >= 2 else -1,
                    now,
                    -1,
                    topic.topic_id,
                    one.committed_metadata,
                )
                key = offsets.topic_prefix(prefix, topic.name) + offsets.key_suffix(index)
                puts.append(Put(Family.OFFSET, key, value))
    return codes, puts


def _response(codes: _Codes, error: int) -> messages.TxnOffsetCommitResponse:
    """`error` is the group's or the transaction's, and stands for every partition with which nothing else is wrong."""
    response = messages.TxnOffsetCommitResponse
    return response(
        topics=[
            response.TxnOffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    response.TxnOffsetCommitResponsePartition(partition_index=index, error_code=code or error)
                    for index, code in its
                ],
            )
            for topic, its in codes
        ]
    )
