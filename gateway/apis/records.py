"""21 DeleteRecords (0-2) and 61 DescribeProducers (0)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.apis.checks import check_topic
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.loading import after, until_loaded
from gateway.broker.new_topics import check_name
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error, message
from semantics.access.acl import Operation
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.rights import Rights

Deleted = messages.DeleteRecordsResponse
Result = messages.DeleteRecordsResponse.DeleteRecordsPartitionResult
Producers = messages.DescribeProducersResponse


@handles(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2)
async def delete_records(
    broker: Broker, context: Context, request: messages.DeleteRecordsRequest
) -> messages.DeleteRecordsResponse:
    """Offset -1 means all that is there. The low watermark in the answer is the new log start."""
    response = Deleted(topics=[])

    async def delete(name: str, offset: int, result: Result) -> None:
        try:
            check_topic(context.peer.rights, Operation.DELETE, name)
            runtime = broker.topic(name.encode())
            if runtime is None:
                raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
            view = broker.catalog.is_view(runtime.topic)
            if not view and not runtime.config.delete:
                raise KafkaError(Error.POLICY_VIOLATION, "cleanup.policy of this topic does not have delete.")
            partition = await until_loaded(lambda: broker.partition_of(runtime, result.partition_index))
            result.low_watermark = await broker.topics.delete_records(partition, offset)
        except KafkaError as error:
            result.error_code = error.code

    work = []
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            result = Result(partition_index=asked.partition_index, low_watermark=-1, error_code=0)
            results.append(result)
            work.append(delete(topic.name, asked.offset, result))
        response.topics.append(Deleted.DeleteRecordsTopicResult(name=topic.name, partitions=results))
    # all in one commit
    await asyncio.gather(*work)
    return response


@handles(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0)
def describe_producers(
    broker: Broker, context: Context, request: messages.DescribeProducersRequest
) -> Pending[messages.DescribeProducersResponse]:
    rights = context.peer.rights
    named = [
        (broker.topic(topic.name.encode()), index)
        for topic in request.topics
        if rights.topic(Operation.READ, topic.name)
        for index in topic.partition_indexes
    ]
    return after(broker.in_use.load(named), lambda: _describe_producers(broker, rights, request))


def _describe_producers(
    broker: Broker, rights: Rights, request: messages.DescribeProducersRequest
) -> messages.DescribeProducersResponse:
    response = Producers(topics=[])
    for topic in request.topics:
        runtime = broker.topic(topic.name.encode())
        answers = []
        for index in topic.partition_indexes:
            answer = Producers.PartitionResponse(
                partition_index=index, error_code=0, error_message=None, active_producers=[]
            )
            answers.append(answer)
            try:
                if runtime is None:
                    # as Kafka: that nothing can be called so is no secret
                    check_name(topic.name)
                check_topic(rights, Operation.READ, topic.name)
                if runtime is None:
                    raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
                if not _has_records(broker, runtime.topic):
                    # kafka-transactions.sh asks all topics for hanging transactions, and these have none
                    if not 0 <= index < len(runtime.partitions):
                        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
                    continue
                answer.active_producers = _producers(broker.partition_of(runtime, index))
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.text or message(error.code)
        response.topics.append(Producers.TopicResponse(name=topic.name, partitions=answers))
    return response


def _has_records(broker: Broker, topic: Topic) -> bool:
    """Whether it has some of its own: queue topics and internal ones are made of what others have."""
    return topic.queue is None and not broker.catalog.is_view(topic)


def _producers(partition: Partition) -> list[messages.DescribeProducersResponse.ProducerState]:
    return [
        Producers.ProducerState(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.updated_at,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.open_from,
        )
        for producer_id, producer in partition.producers
    ]
