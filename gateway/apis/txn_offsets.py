"""28 TxnOffsetCommit, versions 0 to 5: offsets that are in force when a transaction commits (KIP-98, KIP-447), and what
is said of single messages (`txn_acks.py`).

The group's member is known from version 3 on; from version 5 on the group becomes part of the transaction by this
(KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gateway.apis import txn_acks
from gateway.apis.groups import MAX_GROUP_ID
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.loading import after
from gateway.broker.machines import Caller
from gateway.coordinators import offsets
from gateway.coordinators.classic_events import Plain
from gateway.promise import Promise
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.transactions.codes import Api, spoken
from store.api import Family, Put, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.transacted_acks import Saying
    from gateway.rights import Rights

IMPLICIT = 5


@handles(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5)
def txn_offset_commit(broker: Broker, context: Context, request: messages.TxnOffsetCommitRequest) -> Any:
    version, group_id = context.api_version, request.group_id
    rights = context.peer.rights
    if not rights.transactional_id(Operation.WRITE, request.transactional_id):
        return _forbidden(request, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not rights.group(Operation.READ, group_id):
        return _forbidden(request, Error.GROUP_AUTHORIZATION_FAILED)
    codes, puts, acks = _sorted_out(broker, rights, version, request)
    if not request.transactional_id:
        return _response(codes, Error.INVALID_REQUEST)
    if not group_id or len(group_id) > MAX_GROUP_ID:
        return _response(codes, Error.INVALID_GROUP_ID)
    if not puts and not acks:
        return _response(codes, 0)
    producer = request.producer_id, request.producer_epoch
    member_id = request.member_id if version >= 3 else ""
    generation = request.generation_id if version >= 3 else -1
    implicit = version >= IMPLICIT

    def say(saying: Saying) -> list[Put]:
        full = spoken(Error.TRANSACTION_ABORTABLE, Api.TXN_OFFSET_COMMIT, version)
        txn_acks.say(broker, group_id, member_id, acks, saying, member=generation >= 0, full=full)
        # of a lane as well, as an OffsetCommit does: so the group is known when its members have left
        return [*puts, *(each.row for each in acks if each.of_queue and each.taken)]

    def stage() -> tuple[int, list[Write]]:
        try:
            return broker.transactions.stage(
                request.transactional_id, producer, group_id, say, implicit=implicit
            )
        except KafkaError as refused:
            return refused.code, []

    def build(answer: Plain) -> messages.TxnOffsetCommitResponse:
        error = answer.error
        if error == Error.INCONSISTENT_GROUP_PROTOCOL:
            # a share group: it has subscriptions, not offsets
            error = Error.GROUP_ID_NOT_FOUND
        elif error == Error.STALE_MEMBER_EPOCH:
            # Producers know no member epochs, and would give up for ever.
            error = Error.ILLEGAL_GENERATION
        return _response(codes, spoken(error, Api.TXN_OFFSET_COMMIT, version))

    def start() -> Any:
        if acks and not acks[0].of_queue:
            # what shares a topic is no classic group: whoever has the transaction may say it
            return _said(broker, stage(), build)
        return broker.committing.stage_offsets(
            group_id,
            member_id,
            request.group_instance_id if version >= 3 else None,
            generation,
            stage,
            Caller(build),
            [*puts, *(each.row for each in acks)],
        )

    return after(txn_acks.load(broker, group_id, acks), start) if acks else start()


def _said(broker: Broker, said: tuple[int, list[Write]], build: Callable[[Plain], Any]) -> Any:
    error, writes = said
    if error:
        return build(Plain(error))
    # without any, what it says was said before, and may be on its way
    promise: Promise[Any] = Promise()
    broker.commit(
        writes,
        lambda outcome: promise.tell(
            build(Plain(Error.NONE if outcome is None else Error.COORDINATOR_NOT_AVAILABLE))
        ),
    )
    return promise


_Codes = list[tuple[str, list[tuple[int, int]]]]
"""Topic, and partition with error code."""


def _forbidden(request: messages.TxnOffsetCommitRequest, error: Error) -> messages.TxnOffsetCommitResponse:
    """All of it: whether there are such topics is not looked at."""
    return _response(
        [
            (asked.name, [(one.partition_index, error) for one in asked.partitions])
            for asked in request.topics
        ],
        error,
    )


def _sorted_out(
    broker: Broker, rights: Rights, version: int, request: messages.TxnOffsetCommitRequest
) -> tuple[_Codes, list[Put], list[txn_acks.Acks]]:
    """What is wrong with each partition; of those with which nothing is, the rows of offsets, or what is said of
    messages.
    """
    limit = broker.settings.integer("offset.metadata.max.bytes")
    now = broker.clock.wall_ms()
    prefix = offsets.group_prefix(request.group_id)
    codes: _Codes = []
    puts: list[Put] = []
    plain: list[tuple[list[tuple[int, int]], int]] = []
    acks: list[txn_acks.Acks] = []
    for asked in request.topics:
        may = rights.topic(Operation.READ, asked.name)
        topic = broker.catalog.get(asked.name)
        its: list[tuple[int, int]] = []
        codes.append((asked.name, its))
        for one in asked.partitions:
            index = one.partition_index
            if not may:
                its.append((index, Error.TOPIC_AUTHORIZATION_FAILED))
            elif topic is None or not 0 <= index < len(topic.partitions):
                its.append((index, Error.UNKNOWN_TOPIC_OR_PARTITION))
            elif offsets.metadata_too_large(one.committed_metadata, limit):
                its.append((index, Error.OFFSET_METADATA_TOO_LARGE))
            else:
                error, ours = _of_messages(broker, request.group_id, topic, one.committed_metadata)
                its.append((index, error))
                if error:
                    continue
                value = offsets.encode(
                    one.committed_offset,
                    one.committed_leader_epoch if version >= 2 else -1,
                    now,
                    -1,
                    topic.topic_id,
                    one.committed_metadata,
                )
                key = offsets.topic_prefix(prefix, topic.name) + offsets.key_suffix(index)
                row = Put(Family.OFFSET, key, value)
                if ours:
                    said = one.committed_offset, one.committed_metadata
                    acks.append(txn_acks.Acks(topic, index, *said, row, its, len(its) - 1))
                    continue
                puts.append(row)
                plain.append((its, len(its) - 1))
    if any(not each.of_queue for each in acks):
        # the group shares topics: it has no offsets
        puts = []
        for its, at in plain:
            its[at] = its[at][0], Error.GROUP_ID_NOT_FOUND
    return codes, puts, acks


def _of_messages(broker: Broker, group_id: str, topic: Topic, metadata: str | None) -> tuple[int, bool]:
    """(an error code, whether a commit says something of messages)."""
    try:
        ours = txn_acks.acknowledges(broker, topic, group_id, metadata)
        if ours and topic.transient:
            return Error.POLICY_VIOLATION, ours
        if not ours and topic.queue is None and broker.queues.serving(topic, group_id) is not None:
            # the group is served by lanes: it acknowledges there
            return Error.INVALID_REQUEST, ours
    except KafkaError as error:
        return error.code if error.code.retriable else Error.COORDINATOR_LOAD_IN_PROGRESS, False
    return 0, ours


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
