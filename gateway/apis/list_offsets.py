"""02 ListOffsets, versions 1 to 11, and 23 OffsetForLeaderEpoch, versions 2 to 4.

Special timestamps: -1 latest (the high watermark; for those who read what is committed the last stable offset, beyond
which they are told of nothing), -2 earliest, -3 the record with the largest timestamp, -4 earliest on local disk (all
of it is), -5 and -6 concern tiered storage: none. Spark asks two of these for every 500 records it reads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from gateway.apis.checks import check_topic, forbidden
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.fetching import COMMITTED
from gateway.broker.loading import TRIES, Loading, after, all_loaded
from gateway.broker.offsets_by_time import first_at_or_after, largest
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.batch import BatchError
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.api import Corrupt, StoreError
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.internal_log import InternalLog
    from gateway.broker.partition import Partition
    from gateway.broker.readable import Readable

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6

NEVER = 1 << 15
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
"""The first version in which a timestamp has its special meaning."""

Asked = messages.ListOffsetsRequest.ListOffsetsPartition
Answer = messages.ListOffsetsResponse.ListOffsetsPartitionResponse


@handles(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11)
def list_offsets(
    broker: Broker, context: Context, request: messages.ListOffsetsRequest
) -> Pending[messages.ListOffsetsResponse]:
    return _list_offsets(broker, context, request, TRIES)


def _list_offsets(
    broker: Broker, context: Context, request: messages.ListOffsetsRequest, tries: int
) -> Pending[messages.ListOffsetsResponse]:
    """So often it waits until all partitions are loaded: nothing has happened by then."""
    response = messages.ListOffsetsResponse(topics=[])
    committed = context.api_version >= 2 and request.isolation_level == COMMITTED
    searches: list[tuple[Answer, Partition, int]] = []
    loading: list[Loading] = []
    # lanes are given what there is before they say where they end
    waits: list[Awaitable[None]] = []
    times = Counter(
        (topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions
    )
    for topic in request.topics:
        runtime = broker.topic(topic.name.encode())
        answers: list[Answer] = []
        for asked in topic.partitions:
            answer = Answer(
                partition_index=asked.partition_index, error_code=0, timestamp=-1, offset=-1, leader_epoch=-1
            )
            count = times[topic.name, asked.partition_index]
            if count == 0:
                # told already
                continue
            answers.append(answer)
            try:
                if count > 1:
                    times[topic.name, asked.partition_index] = 0
                check_topic(context.peer.rights, Operation.DESCRIBE, topic.name)
                if count > 1:
                    raise KafkaError(Error.INVALID_REQUEST)
                if asked.timestamp < 0 and context.api_version < _SINCE.get(asked.timestamp, NEVER):
                    raise KafkaError(Error.UNSUPPORTED_VERSION)
                if runtime is None:
                    raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
                if runtime.topic.queue is not None:
                    index = asked.partition_index
                    lane = broker.in_use.readable(runtime, index)
                    check_epoch(lane, asked.current_leader_epoch)
                    if tries and asked.timestamp == LATEST and (given := broker.queues.ahead(runtime, index)):
                        waits.append(given)
                    _of_lane(lane, asked.timestamp, answer, broker.clock.wall_ms())
                    continue
                if broker.catalog.is_view(runtime.topic):
                    view = broker.internal_topics.readable(runtime, asked.partition_index)
                    check_epoch(view, asked.current_leader_epoch)
                    _of_view(view, asked.timestamp, answer)
                    continue
                partition = broker.partition_of(runtime, asked.partition_index)
                check_epoch(partition, asked.current_leader_epoch)
                if not _at_once(partition, asked.timestamp, answer, committed):
                    searches.append((answer, partition, asked.timestamp))
            except Loading as error:
                answer.error_code = error.code
                loading.append(error)
            except KafkaError as error:
                answer.error_code = error.code
        response.topics.append(
            messages.ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=answers)
        )
    if waits:
        return after(_all(waits), lambda: _list_offsets(broker, context, request, 0))
    if loading and tries:
        return after(all_loaded(loading), lambda: _list_offsets(broker, context, request, tries - 1))
    return _search(broker, response, searches, committed) if searches else response


async def _all(waits: Sequence[Awaitable[None]]) -> None:
    for each in waits:
        await each


def _of_lane(lane: Readable, timestamp: int, answer: Answer, now: int) -> None:
    """Deliveries are not in the order of their timestamps, so that a time says one thing only: what is that young lies
    behind the first one. Were there no answer, Kafka's tools would go to the end, and commit that.
    """
    if timestamp == LATEST:
        answer.offset, answer.leader_epoch = lane.high_watermark, lane.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset, answer.leader_epoch = lane.log_start, lane.leader_epoch
    elif 0 <= timestamp <= now and lane.log_start < lane.high_watermark:
        # clients take no negative time with an offset
        answer.offset, answer.timestamp, answer.leader_epoch = lane.log_start, timestamp, lane.leader_epoch


def _of_view(view: InternalLog, timestamp: int, answer: Answer) -> None:
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING):
        return
    answer.leader_epoch = view.leader_epoch
    if timestamp == LATEST:
        answer.offset = view.high_watermark
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = view.log_start
    else:
        found = view.newest() if timestamp == MAX_TIMESTAMP else view.first_since(timestamp)
        if found is not None:
            answer.timestamp, answer.offset = found
        else:
            answer.leader_epoch = -1


def check_epoch(partition: Readable, epoch: int) -> None:
    """A client that knows another leader epoch must renew its metadata (KIP-320). Raises KafkaError."""
    if epoch >= 0 and epoch != partition.leader_epoch:
        raise KafkaError(
            Error.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else Error.UNKNOWN_LEADER_EPOCH
        )


def _at_once(partition: Partition, timestamp: int, answer: Answer, committed: bool) -> bool:
    """Answer what needs no look into the log; False for the rest."""
    if timestamp == LATEST:
        answer.offset = partition.last_stable_offset if committed else partition.high_watermark
        answer.leader_epoch = partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = partition.log_start
        answer.leader_epoch = partition.start_epoch()
    elif timestamp not in (LATEST_TIERED, EARLIEST_PENDING):
        return False
    return True


async def _search(
    broker: Broker,
    response: messages.ListOffsetsResponse,
    searches: list[tuple[Answer, Partition, int]],
    committed: bool,
) -> messages.ListOffsetsResponse:
    for answer, partition, timestamp in searches:
        # each may unfold a batch: others get their turn between two
        await asyncio.sleep(0)
        try:
            if timestamp == MAX_TIMESTAMP:
                found = await largest(partition, broker.decompression_limit)
            else:
                found = await first_at_or_after(partition, timestamp, broker.decompression_limit)
        except Corrupt as error:
            answer.error_code = Error.CORRUPT_MESSAGE
            broker.damage.corrupt(partition, error)
        except BatchError:
            answer.error_code = Error.CORRUPT_MESSAGE
        except (StoreError, IndexError):
            # A failed read, or a log that was trimmed under the search.
            answer.error_code = Error.KAFKA_STORAGE_ERROR
        else:
            if found is not None and not (committed and found[1] >= partition.last_stable_offset):
                answer.timestamp, answer.offset, answer.leader_epoch = found
    return response


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4)
def offset_for_leader_epoch(
    broker: Broker, context: Context, request: messages.OffsetForLeaderEpochRequest
) -> Pending[messages.OffsetForLeaderEpochResponse]:
    """Where an epoch ended: how a client finds out that what it read was cut off (KIP-320)."""
    rights = context.peer.rights
    # brokers ask, too
    every = rights.cluster(Operation.CLUSTER_ACTION)

    def may(name: str) -> bool:
        return every or rights.topic(Operation.DESCRIBE, name)

    named = [
        (broker.topic(topic.topic.encode()), asked.partition)
        for topic in request.topics
        if may(topic.topic)
        for asked in topic.partitions
    ]
    return after(broker.in_use.load(named), lambda: _ends(broker, may, request))


def _ends(
    broker: Broker, may: Callable[[str], bool], request: messages.OffsetForLeaderEpochRequest
) -> messages.OffsetForLeaderEpochResponse:
    result = messages.OffsetForLeaderEpochResponse.EpochEndOffset
    response = messages.OffsetForLeaderEpochResponse(topics=[])
    for topic in request.topics:
        runtime = broker.topic(topic.topic.encode())
        answers = []
        for asked in topic.partitions:
            answer = result(error_code=0, partition=asked.partition, leader_epoch=-1, end_offset=-1)
            answers.append(answer)
            try:
                if not may(topic.topic):
                    raise forbidden(Error.TOPIC_AUTHORIZATION_FAILED)
                if runtime is None:
                    raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
                if runtime.topic.queue is not None or broker.catalog.is_view(runtime.topic):
                    lane = broker.in_use.readable(runtime, asked.partition)
                    check_epoch(lane, asked.current_leader_epoch)
                    if 0 <= asked.leader_epoch <= lane.leader_epoch:
                        # what was given is never taken back, whoever led
                        answer.leader_epoch, answer.end_offset = asked.leader_epoch, lane.high_watermark
                    continue
                partition = broker.partition_of(runtime, asked.partition)
                check_epoch(partition, asked.current_leader_epoch)
            except KafkaError as error:
                answer.error_code = error.code
                continue
            if asked.leader_epoch == partition.leader_epoch:
                answer.leader_epoch, answer.end_offset = partition.leader_epoch, partition.high_watermark
            elif 0 <= asked.leader_epoch < partition.leader_epoch:
                known, end = partition.log.epoch_end(asked.leader_epoch)
                # Nothing is left of that epoch or of an earlier one, perhaps since nothing was ever written: what is
                # there begins with a later one. A client that is told of no epoch takes its log for truncated, and
                # begins anew by auto.offset.reset, past what it has not read.
                answer.leader_epoch, answer.end_offset = (
                    (known, end) if known >= 0 else (asked.leader_epoch, partition.log_start)
                )
        response.topics.append(
            messages.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=answers
            )
        )
    return response
