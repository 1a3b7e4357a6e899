"""Transactions: what is in them, and how they end. Batches come with Produce, offsets with `txn_offsets.py`.

| key | API | versions | notes |
|---|---|---|---|
| 24 | AddPartitionsToTxn | 0-5 | several transactional ids from v4 on, which brokers use among themselves |
| 25 | AddOffsetsToTxn | 0-4 | |
| 26 | EndTxn | 0-5 | another epoch with each end from v5 on (KIP-890) |
| 27 | WriteTxnMarkers | 1-2 | of `kafka-transactions.sh abort`: the whole transaction is aborted; a commit is refused |
| 65 | DescribeTransactions | 0 | |
| 66 | ListTransactions | 0-2 | ids that match an expression from v2 on, as a client calls them (KIP-1152) |
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics import group_names
from semantics.access.acl import Operation
from semantics.names import Namespace
from semantics.patterns import LETTERS, Expression, PatternError
from semantics.transactions import views
from semantics.transactions.codes import Api, spoken
from semantics.transactions.events import Abort, AddOffsets, AddPartitions, EndTxn, ProducerAnswer
from semantics.transactions.states import Partition, Producer
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer
    from gateway.rights import Rights

EMPTY_ID = Error.INVALID_REQUEST
"""For a transactional id of no characters."""


# -- 24 ----------------------------------------------------------------------------------------------------------------


@handles(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5)
async def add_partitions(
    broker: Broker, context: Context, request: messages.AddPartitionsToTxnRequest
) -> messages.AddPartitionsToTxnResponse:
    """From version 4 on it is what brokers say to each other: of clients it is taken from those that may act as one,
    and whether the producer may write to the topics was asked when it wrote. Who may act as one at home
    only is asked for topics of other namespaces.
    """
    version, rights = context.api_version, context.peer.rights
    response = messages.AddPartitionsToTxnResponse
    if version < 4:
        name = request.v3_and_below_transactional_id
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        found = await _add(broker, rights, version, name, producer, request.v3_and_below_topics, verify=False)
        return response(results_by_topic_v3_and_below=_topic_results(found))
    if not rights.cluster(Operation.CLUSTER_ACTION):
        return response(error_code=Error.CLUSTER_AUTHORIZATION_FAILED)
    results: list[Any] = []
    for each in request.transactions:
        producer = Producer(each.producer_id, each.producer_epoch)
        found = await _add(
            broker, rights, version, each.transactional_id, producer, each.topics, verify=each.verify_only
        )
        results.append(
            response.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=_topic_results(found)
            )
        )
    return response(results_by_transaction=results)


_Codes = list[tuple[str, list[tuple[int, int]]]]
"""Topic, and partition with error code."""


def _topic_results(found: _Codes) -> list[messages.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    response = messages.AddPartitionsToTxnResponse
    return [
        response.AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                response.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index, code in codes
            ],
        )
        for topic, codes in found
    ]


def _may_add(rights: Rights, version: int, topic: str) -> bool:
    """From version 4 on who may act as a broker is not asked for WRITE, where the topic is."""
    acts = version >= 4 and rights.cluster_of(Operation.CLUSTER_ACTION, topic)
    return acts or rights.topic(Operation.WRITE, topic)


async def _add(
    broker: Broker,
    rights: Rights,
    version: int,
    name: str,
    producer: Producer,
    topics: Sequence[Any],
    *,
    verify: bool,
) -> _Codes:
    """All of them are added, or none is."""
    # from version 4 on it comes from who may act as a broker
    if version < 4 and not rights.transactional_id(Operation.WRITE, name):
        refusal = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return [(asked.name, [(index, refusal) for index in asked.partitions]) for asked in topics]
    known: list[Partition] = []
    codes: list[tuple[str, int, int]] = []
    for asked in topics:
        may = _may_add(rights, version, asked.name)
        topic = broker.catalog.get(asked.name)
        for index in asked.partitions:
            code = Error.NONE
            if not may:
                code = Error.TOPIC_AUTHORIZATION_FAILED
            elif topic is None or not 0 <= index < len(topic.partitions):
                code = Error.UNKNOWN_TOPIC_OR_PARTITION
            elif broker.catalog.is_view(topic):
                code = Error.TOPIC_AUTHORIZATION_FAILED
            elif topic.queue is not None:
                code = Error.INVALID_TOPIC_EXCEPTION
            elif topic.transient:
                code = Error.POLICY_VIOLATION
            else:
                known.append(Partition(topic.topic_id, index))
            codes.append((asked.name, index, code))
    if not name:
        codes = [(topic, index, EMPTY_ID) for topic, index, _ in codes]
    elif any(code for _, _, code in codes):
        codes = [(topic, index, code or Error.OPERATION_NOT_ATTEMPTED) for topic, index, code in codes]
    elif verify:
        try:
            described = broker.transactions.describe(name)
            error = 0 if described is not None and described.producer == producer else None
            inside = described.partitions if described is not None else ()
            missing = Error.INVALID_PRODUCER_ID_MAPPING if error is None else Error.TRANSACTION_ABORTABLE
            codes = [
                (topic, index, 0 if error == 0 and each in inside else missing)
                for (topic, index, _), each in zip(codes, known, strict=True)
            ]
        except KafkaError as refused:
            codes = [(topic, index, refused.code) for topic, index, _ in codes]
    else:
        answer = await broker.transactions.run(name, AddPartitions(None, producer, known))
        error = spoken(answer.error, Api.ADD_PARTITIONS_TO_TXN, version)
        codes = [(topic, index, error) for topic, index, _ in codes]
    found: dict[str, list[tuple[int, int]]] = {}
    for named, index, answered in codes:
        found.setdefault(named, []).append((index, int(answered)))
    return list(found.items())


# -- 25, 26 ------------------------------------------------------------------------------------------------------------


@handles(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4)
async def add_offsets(
    broker: Broker, context: Context, request: messages.AddOffsetsToTxnRequest
) -> messages.AddOffsetsToTxnResponse:
    rights = context.peer.rights
    if not rights.transactional_id(Operation.WRITE, request.transactional_id):
        return messages.AddOffsetsToTxnResponse(error_code=Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not rights.group(Operation.READ, request.group_id):
        return messages.AddOffsetsToTxnResponse(error_code=Error.GROUP_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        return messages.AddOffsetsToTxnResponse(error_code=EMPTY_ID)
    if not request.group_id:
        return messages.AddOffsetsToTxnResponse(error_code=Error.INVALID_GROUP_ID)
    producer = Producer(request.producer_id, request.producer_epoch)
    answer = await broker.transactions.run(
        request.transactional_id, AddOffsets(None, producer, request.group_id)
    )
    return messages.AddOffsetsToTxnResponse(
        error_code=spoken(answer.error, Api.ADD_OFFSETS_TO_TXN, context.api_version)
    )


@handles(ApiKey.END_TXN, "EndTxn", 0, 5)
async def end_txn(
    broker: Broker, context: Context, request: messages.EndTxnRequest
) -> messages.EndTxnResponse:
    version = context.api_version
    if not context.peer.rights.transactional_id(Operation.WRITE, request.transactional_id):
        code = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return messages.EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    if not request.transactional_id:
        return messages.EndTxnResponse(error_code=EMPTY_ID, producer_id=-1, producer_epoch=-1)
    producer = Producer(request.producer_id, request.producer_epoch)
    bumps = version >= 5
    connection = context.peer.connection
    if not bumps and broker.transactions.late(request.transactional_id, producer, ApiKey.END_TXN, connection):
        # nobody reads this answer
        return messages.EndTxnResponse(error_code=Error.INVALID_TXN_STATE, producer_id=-1, producer_epoch=-1)
    answer = await broker.transactions.run(
        request.transactional_id, EndTxn(None, producer, request.committed, bumps)
    )
    assert isinstance(answer, ProducerAnswer)
    return messages.EndTxnResponse(
        error_code=spoken(answer.error, Api.END_TXN, version),
        producer_id=answer.producer.id,
        producer_epoch=answer.producer.epoch,
    )


# -- 27 ----------------------------------------------------------------------------------------------------------------


@handles(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2)
async def write_markers(
    broker: Broker, context: Context, request: messages.WriteTxnMarkersRequest
) -> messages.WriteTxnMarkersResponse:
    """A marker on some partitions of an open transaction would tear it: so all of it ends."""
    response = messages.WriteTxnMarkersResponse
    results: list[Any] = []
    for marker in request.markers:
        error = await _abort(broker, context.peer, context.api_version, marker)
        results.append(
            response.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    response.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
        )
    return response(markers=results)


async def _abort(
    broker: Broker, peer: Peer, version: int, marker: messages.WriteTxnMarkersRequest.WritableTxnMarker
) -> int:
    if not (peer.rights.cluster(Operation.ALTER) or peer.rights.cluster(Operation.CLUSTER_ACTION)):
        return Error.CLUSTER_AUTHORIZATION_FAILED
    if marker.transaction_result:
        return Error.INVALID_TXN_STATE
    name = broker.transactions.name_of(marker.producer_id)
    if name is None:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if not group_names.may_be_said(Namespace.parse(peer.namespace), name):
        # it is another home's
        return Error.INVALID_PRODUCER_ID_MAPPING
    answer = await broker.transactions.run(
        name, Abort(None, Producer(marker.producer_id, marker.producer_epoch))
    )
    return spoken(answer.error, Api.WRITE_TXN_MARKERS, version)


# -- 65, 66 ------------------------------------------------------------------------------------------------------------


@handles(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0)
def describe_transactions(
    broker: Broker, context: Context, request: messages.DescribeTransactionsRequest
) -> messages.DescribeTransactionsResponse:
    """Of topics that the client may not describe it is not told that they are part of it."""
    rights = context.peer.rights
    state = messages.DescribeTransactionsResponse.TransactionState
    found: list[Any] = []
    for name in request.transactional_ids:
        if not rights.transactional_id(Operation.DESCRIBE, name):
            found.append(state(error_code=Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id=name))
            continue
        try:
            described = broker.transactions.describe(name) if name else None
        except KafkaError as error:
            found.append(state(error_code=error.code, transactional_id=name))
            continue
        if described is None:
            code = Error.TRANSACTIONAL_ID_NOT_FOUND if name else EMPTY_ID
            found.append(state(error_code=code, transactional_id=name))
            continue
        topics: dict[str, list[int]] = {}
        for topic_id, index in described.partitions:
            # one that was deleted is part of nothing any more
            topic = broker.catalog.by_id(topic_id)
            if topic is not None and rights.topic(Operation.DESCRIBE, topic.name):
                topics.setdefault(topic.name, []).append(index)
        data = messages.DescribeTransactionsResponse.TopicData
        found.append(
            state(
                transactional_id=name,
                transaction_state=described.state,
                transaction_timeout_ms=described.timeout_ms,
                transaction_start_time_ms=described.start,
                producer_id=described.producer.id,
                producer_epoch=described.producer.epoch,
                topics=[data(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
            )
        )
    return messages.DescribeTransactionsResponse(transaction_states=found)


class _Named:
    """Ids that match an expression. Others have their turn after a number of letters, also within an id."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._left = LETTERS

    async def matches(self, name: str) -> bool:
        expression, state, at = self._expression, 0, 0
        while at < len(name) and state >= 0:
            piece = name[at : at + self._left]
            state = expression.through(piece, state)
            at += len(piece)
            self._left -= len(piece)
            if not self._left:
                self._left = LETTERS
                await asyncio.sleep(0)
        return expression.ends(state)


@handles(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2)
async def list_transactions(
    broker: Broker, context: Context, request: messages.ListTransactionsRequest
) -> messages.ListTransactionsResponse:
    response = messages.ListTransactionsResponse
    asked = frozenset(request.state_filters)
    wanted = views.Filter(
        asked,
        frozenset(request.producer_id_filters),
        request.duration_filter if context.api_version >= 1 else -1,
    )
    unknown = views.unknown_states(asked)
    pattern = request.transactional_id_pattern if context.api_version >= 2 else None
    try:
        named = _Named(Expression(pattern)) if pattern else None
    except PatternError:
        return response(error_code=Error.INVALID_REGULAR_EXPRESSION, unknown_state_filters=sorted(unknown))
    home = Namespace.parse(context.peer.namespace)
    found: list[Any] = []
    try:
        async for name, head in broker.transactions.every():
            if group_names.home_of(name) != home:
                continue
            if not context.peer.rights.transactional_id(Operation.DESCRIBE, name):
                continue
            if named is not None and not await named.matches(group_names.bare(name)):
                continue
            if views.selects(wanted, head, broker.clock.wall_ms()):
                one = views.listed(name, head)
                found.append(
                    response.TransactionState(
                        transactional_id=one.transactional_id,
                        producer_id=one.producer_id,
                        transaction_state=one.state,
                    )
                )
    except StoreError:
        return response(error_code=Error.COORDINATOR_NOT_AVAILABLE)
    return response(unknown_state_filters=sorted(unknown), transaction_states=found)
