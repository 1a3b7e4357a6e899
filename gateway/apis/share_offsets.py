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
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.apis.checks import check_group, check_topic
from gateway.apis.groups import legal_group_id
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.loading import until_loaded
from gateway.broker.subscriptions import positions
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.api import Durability, StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.topic_runtime import TopicRuntime
    from gateway.rights import Rights

    _Asked = messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic

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
    rights = context.peer.rights
    await _load(broker, rights, request)
    groups = [_described(broker, rights, asked) for asked in request.groups]
    told = [each.group_id for each in request.groups if rights.group(Operation.DESCRIBE, each.group_id)]
    if any(map(broker.subscriptions.unsaved, told)):
        with contextlib.suppress(StoreError):
            await broker.write((), Durability.OS)
            return Describe(groups=groups)
        # What they said is not stored and never will be: what is stored is read again.
        groups = [_described(broker, rights, asked) for asked in request.groups]
    return Describe(groups=groups)


async def _load(broker: Broker, rights: Rights, request: messages.DescribeShareGroupOffsetsRequest) -> None:
    """Wait until all partitions that are asked about are loaded."""
    named: list[tuple[TopicRuntime | None, int]] = []
    for group in request.groups:
        if not rights.group(Operation.DESCRIBE, group.group_id):
            continue
        if group.topics is not None:
            for one in group.topics:
                if not rights.topic(Operation.DESCRIBE, one.topic_name):
                    continue
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
    broker: Broker,
    rights: Rights,
    asked: messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup,
) -> messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    result = Describe.DescribeShareGroupOffsetsResponseGroup
    topics: list[messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = []
    try:
        check_group(rights, Operation.DESCRIBE, group_id)
        if asked.topics is None:
            for row in broker.subscriptions.of_group(group_id):
                topic = broker.catalog.by_id(row.topic_id)
                if topic is not None and rights.topic(Operation.DESCRIBE, topic.name):
                    topics.append(_topic(broker, group_id, topic.name, topic, range(len(topic.partitions))))
        else:
            for one in asked.topics:
                if not rights.topic(Operation.DESCRIBE, one.topic_name):
                    topics.append(_undescribed(one.topic_name, one.partitions))
                    continue
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


def _undescribed(
    name: str, indexes: list[int]
) -> messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic:
    code = Error.TOPIC_AUTHORIZATION_FAILED
    return Describe.DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=NO_TOPIC,
        partitions=[
            Describe.DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=NOTHING,
                leader_epoch=0,
                lag=NOTHING,
                error_code=code,
                error_message=code.sentence,
            )
            for index in indexes
        ],
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
    group_id, rights = request.group_id, context.peer.rights
    try:
        check_group(rights, Operation.READ, group_id)
    except KafkaError as error:
        return Alter(error_code=error.code, error_message=error.text, responses=[])
    may = [asked for asked in request.topics if rights.topic(Operation.READ, asked.topic_name)]
    if not legal_group_id(group_id):
        return Alter(
            error_code=Error.INVALID_GROUP_ID, error_message="The group id is invalid.", responses=[]
        )
    if request.topics and not may:
        return Alter(error_code=Error.NONE, error_message=None, responses=list(map(_barred, request.topics)))
    try:
        _check_no_lanes(broker, group_id, may)
        if await until_loaded(lambda: broker.share_groups.get(group_id)) is None:
            if (topics := _all_refused(broker, group_id, may)) is not None:
                # a group that is there keeps its id from consumer groups
                return Alter(
                    error_code=Error.NONE, error_message=None, responses=_with_barred(request, topics)
                )
            await broker.share_groups.make(group_id)
        async with broker.share_groups.kept_empty(group_id):
            topics = [await _altered(broker, group_id, topic) for topic in may]
    except KafkaError as error:
        return Alter(error_code=error.code, error_message=error.text, responses=[])
    return Alter(error_code=Error.NONE, error_message=None, responses=_with_barred(request, topics))


def _with_barred(
    request: messages.AlterShareGroupOffsetsRequest,
    answered: list[messages.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic],
) -> list[messages.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic]:
    """What is answered of all topics, with those that the client may not read."""
    known = {each.topic_name for each in answered}
    return [*answered, *(_barred(each) for each in request.topics if each.topic_name not in known)]


def _barred(
    asked: messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic,
) -> messages.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic:
    """Of a topic that the client may not read: nothing tells whether there is one."""
    code = Error.TOPIC_AUTHORIZATION_FAILED
    return Alter.AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=NO_TOPIC,
        partitions=[
            Alter.AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index, error_code=code, error_message=code.sentence
            )
            for one in asked.partitions
        ],
    )


def _check_no_lanes(broker: Broker, group_id: str, topics: Sequence[_Asked]) -> None:
    """A share group would be made in the place of the consumer group that lanes serve. Raises KafkaError."""
    for asked in topics:
        topic = broker.catalog.get(asked.topic_name)
        lanes = broker.queues.serving(topic, group_id) if topic is not None else None
        if lanes is not None:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"Subscription {group_id} of {asked.topic_name} is served by the lanes of {lanes.name}: reset the "
                f"offsets of consumer group {group_id}.",
            )


def _all_refused(
    broker: Broker, group_id: str, topics: Sequence[_Asked]
) -> list[messages.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] | None:
    """The answers where policies forbid a new group each subscription that is asked for; None where it may have one, or
    none of the topics is there.
    """
    refused: dict[str, KafkaError] = {}
    for asked in topics:
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
        for asked in topics
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
    group_id, rights = request.group_id, context.peer.rights
    try:
        check_group(rights, Operation.DELETE, group_id)
    except KafkaError as error:
        return Drop(error_code=error.code, error_message=error.text, responses=[])
    if not legal_group_id(group_id):
        return Drop(error_code=Error.INVALID_GROUP_ID, error_message="The group id is invalid.", responses=[])
    results, may = [], []
    for name in dict.fromkeys(one.topic_name for one in request.topics):
        try:
            check_topic(rights, Operation.READ, name)
            may.append(name)
        except KafkaError as error:
            results.append(
                Drop.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name, topic_id=NO_TOPIC, error_code=error.code, error_message=error.text
                )
            )
    try:
        # also where nothing is left to do, as Kafka: whether there is such a group is told to who may delete it
        async with broker.share_groups.kept_empty(group_id):
            for name in may:
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
