"""Where share groups stand, as administrators see and move it.

| key | API | versions | notes |
|---|---|---|---|
| 90 | DescribeShareGroupOffsets | 0-1 | start offset = mark-delete + 1; the lag from v1 on (KIP-1226) |
| 91 | AlterShareGroupOffsets | 0 | empty groups only; makes group and subscription if there is none |
| 92 | DeleteShareGroupOffsets | 0 | empty groups only; drops the subscription on the topic |

`kafka-share-groups.sh` is what uses them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from gateway.apis.groups import legal_group_id
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.loading import until_loaded
from gateway.broker.subscriptions import positions
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Durability, StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.topic_runtime import TopicRuntime

Describe = messages.DescribeShareGroupOffsetsResponse
Alter = messages.AlterShareGroupOffsetsResponse
Drop = messages.DeleteShareGroupOffsetsResponse

NOTHING = -1
"""The offset and the lag where there is no subscription."""

NO_TOPIC = bytes(16)
MISSING = "This server does not host this topic-partition."
"""Kafka's words for UNKNOWN_TOPIC_OR_PARTITION."""


# -- DescribeShareGroupOffsets ----------------------------------------------------------------------------------------
@handles(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1)
async def describe_share_group_offsets(
    broker: Broker, context: Context, request: messages.DescribeShareGroupOffsetsRequest
) -> messages.DescribeShareGroupOffsetsResponse:
    """A group, a topic or a partition that has no subscription is no error: there is nothing to tell.

    What is told is stored: no start comes back lower after a crash, and dead letters below it can be read.
    """
    await _load(broker, request)
    groups = [_described(broker, asked) for asked in request.groups]
    if any(broker.subscriptions.unsaved(asked.group_id) for asked in request.groups):
        with contextlib.suppress(StoreError):
            await broker.write((), Durability.OS)
            return Describe(groups=groups)
        # What they said is not stored and never will be: what is stored is read again.
        groups = [_described(broker, asked) for asked in request.groups]
    return Describe(groups=groups)


async def _load(broker: Broker, request: messages.DescribeShareGroupOffsetsRequest) -> None:
    """Wait until all partitions that are asked about are loaded."""
    named: list[tuple[TopicRuntime | None, int]] = []
    for group in request.groups:
        if group.topics is not None:
            for one in group.topics:
                runtime = broker.topic(one.topic_name.encode())
                named += [(runtime, index) for index in one.partitions]
        else:
            with contextlib.suppress(StoreError):
                for row in broker.subscriptions.of_group(group.group_id):
                    runtime = broker.topic_by_id(row.topic_id)
                    count = len(runtime.partitions) if runtime is not None else 0
                    named += [(runtime, index) for index in range(count)]
    loading = broker.in_use.load(named)
    if loading is not None:
        await loading


def _described(
    broker: Broker, asked: messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
) -> messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    result = Describe.DescribeShareGroupOffsetsResponseGroup
    topics: list[messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = []
    try:
        if asked.topics is None:
            for row in broker.subscriptions.of_group(group_id):
                topic = broker.catalog.by_id(row.topic_id)
                if topic is not None:
                    topics.append(_topic(broker, group_id, topic.name, topic, range(len(topic.partitions))))
        else:
            for one in asked.topics:
                topic = broker.catalog.get(one.topic_name)
                topics.append(_topic(broker, group_id, one.topic_name, topic, one.partitions))
    except KafkaError as error:
        return result(group_id=group_id, error_code=error.code, error_message=error.text)
    except StoreError as error:
        return result(group_id=group_id, error_code=Error.COORDINATOR_NOT_AVAILABLE, error_message=str(error))
    return result(group_id=group_id, topics=topics, error_code=Error.NONE, error_message=None)


def _topic(
    broker: Broker, group_id: str, name: str, topic: Topic | None, indexes: range | list[int]
) -> messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic:
    found = []
    for index in indexes:
        inside = topic is not None and 0 <= index < len(topic.partitions)
        start, lag, epoch = NOTHING, NOTHING, 0
        if topic is not None and inside:
            epoch = broker.store_of(topic).leader_epoch(topic.partitions[index])
            start, lag = _position(broker, group_id, topic, index)
        found.append(
            Describe.DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=start,
                leader_epoch=epoch,
                lag=lag,
                error_code=Error.NONE,
                error_message=None,
            )
        )
    return Describe.DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic.topic_id if topic is not None else NO_TOPIC, partitions=found
    )


def _position(broker: Broker, group_id: str, topic: Topic, index: int) -> tuple[int, int]:
    """Start offset and lag: how many records are not settled. Raises KafkaError."""
    subscription = broker.subscriptions.by_id(group_id, topic.topic_id)
    if subscription is None:
        return NOTHING, NOTHING
    return positions.position(subscription, index)


# -- AlterShareGroupOffsets -------------------------------------------------------------------------------------------
@handles(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0)
async def alter_share_group_offsets(
    broker: Broker, context: Context, request: messages.AlterShareGroupOffsetsRequest
) -> messages.AlterShareGroupOffsetsResponse:
    group_id = request.group_id
    if not legal_group_id(group_id):
        return Alter(
            error_code=Error.INVALID_GROUP_ID, error_message="The group id is invalid.", responses=[]
        )
    try:
        _check_no_lanes(broker, group_id, request)
        if await until_loaded(lambda: broker.share_groups.get(group_id)) is None:
            if (refused := _all_refused(broker, group_id, request)) is not None:
                # a group that is there keeps its id from consumer groups
                return Alter(error_code=Error.NONE, error_message=None, responses=refused)
            await broker.share_groups.make(group_id)
        async with broker.share_groups.kept_empty(group_id):
            topics = [await _altered(broker, group_id, topic) for topic in request.topics]
    except KafkaError as error:
        return Alter(error_code=error.code, error_message=error.text, responses=[])
    return Alter(error_code=Error.NONE, error_message=None, responses=topics)


def _check_no_lanes(broker: Broker, group_id: str, request: messages.AlterShareGroupOffsetsRequest) -> None:
    """A share group would be made in the place of the consumer group that lanes serve. Raises KafkaError."""
    for asked in request.topics:
        topic = broker.catalog.get(asked.topic_name)
        lanes = broker.queues.serving(topic, group_id) if topic is not None else None
        if lanes is not None:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"Subscription {group_id} of {asked.topic_name} is served by the lanes of {lanes.name}: reset the "
                f"offsets of consumer group {group_id}.",
            )


def _all_refused(
    broker: Broker, group_id: str, request: messages.AlterShareGroupOffsetsRequest
) -> list[messages.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] | None:
    """The answers where policies forbid a new group each subscription that is asked for; None where it may have one, or
    none of the topics is there.
    """
    refused: dict[str, KafkaError] = {}
    for asked in request.topics:
        try:
            broker.subscriptions.check_ensure(group_id, asked.topic_name)
        except KafkaError as error:
            refused[asked.topic_name] = error
        else:
            if broker.catalog.get(asked.topic_name) is not None:
                return None
    if not refused:
        return None
    return [
        _answered(broker.catalog.get(asked.topic_name), asked, refused.get(asked.topic_name))
        for asked in request.topics
    ]


async def _altered(
    broker: Broker,
    group_id: str,
    asked: messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic,
) -> messages.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic:
    topic = broker.catalog.get(asked.topic_name)
    wanted = _wanted(topic, asked)
    failed: KafkaError | None = None
    if topic is not None and wanted:
        try:
            subscription = await broker.subscriptions.ensure(group_id, topic.name)
            await positions.seek(subscription, wanted)
        except KafkaError as error:
            failed = error
        except StoreError as error:
            failed = from_store(error)
    return _answered(topic, asked, failed)


def _wanted(
    topic: Topic | None, asked: messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
) -> dict[int, int]:
    """Where to begin, by partitions that are there."""
    count = len(topic.partitions) if topic is not None else 0
    return {
        one.partition_index: one.start_offset for one in asked.partitions if 0 <= one.partition_index < count
    }


def _answered(
    topic: Topic | None,
    asked: messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic,
    failed: KafkaError | None,
) -> messages.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic:
    wanted = _wanted(topic, asked)
    partition = Alter.AlterShareGroupOffsetsResponsePartition
    results = []
    for one in asked.partitions:
        index = one.partition_index
        if index not in wanted:
            code, text = Error.UNKNOWN_TOPIC_OR_PARTITION, MISSING
            results.append(partition(partition_index=index, error_code=code, error_message=text))
        elif failed is not None:
            results.append(
                partition(partition_index=index, error_code=failed.code, error_message=failed.text)
            )
        else:
            results.append(partition(partition_index=index, error_code=Error.NONE, error_message=None))
    return Alter.AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=topic.topic_id if topic is not None else NO_TOPIC,
        partitions=results,
    )


# -- DeleteShareGroupOffsets ------------------------------------------------------------------------------------------
@handles(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0)
async def delete_share_group_offsets(
    broker: Broker, context: Context, request: messages.DeleteShareGroupOffsetsRequest
) -> messages.DeleteShareGroupOffsetsResponse:
    group_id = request.group_id
    if not legal_group_id(group_id):
        return Drop(error_code=Error.INVALID_GROUP_ID, error_message="The group id is invalid.", responses=[])
    results = []
    try:
        async with broker.share_groups.kept_empty(group_id):
            for name in dict.fromkeys(one.topic_name for one in request.topics):
                results.append(await _dropped(broker, group_id, name))
    except KafkaError as error:
        return Drop(error_code=error.code, error_message=error.text, responses=[])
    return Drop(error_code=Error.NONE, error_message=None, responses=results)


async def _dropped(
    broker: Broker, group_id: str, name: str
) -> messages.DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic:
    topic = broker.catalog.get(name)
    result = Drop.DeleteShareGroupOffsetsResponseTopic
    if topic is None:
        return result(
            topic_name=name,
            topic_id=NO_TOPIC,
            error_code=Error.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=MISSING,
        )
    try:
        await broker.share_groups.delete_subscriptions(group_id, topic)
    except KafkaError as error:
        return result(
            topic_name=name, topic_id=topic.topic_id, error_code=error.code, error_message=error.text
        )
    return result(topic_name=name, topic_id=topic.topic_id, error_code=Error.NONE, error_message=None)
