"""What a group has read: OffsetCommit.

| key | API | versions | notes |
|---|---|---|---|
| 8 | OffsetCommit | 2-10 | retention time v2-4, leader epoch from v6, instance id from v7, topic ids v10 |
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gateway.apis import lane_offsets
from gateway.apis.groups import MAX_GROUP_ID
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.group_offsets import Along
from gateway.broker.loading import after
from gateway.broker.machines import Caller
from gateway.config.schema import LONG_MAX
from gateway.coordinators import offsets
from gateway.coordinators.classic_events import Plain
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.lanes.marks import MarksError, misspelt, names_deliveries
from store.api import Delete, Family, Put, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.rights import Rights

log = logging.getLogger("magnetar.queues")

_TopicResult = tuple[str | bytes, list[tuple[int, int]]]
"""A topic's name or id, and partition index with error code."""


@handles(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10)
def offset_commit(broker: Broker, context: Context, request: messages.OffsetCommitRequest) -> Any:
    version, group_id = context.api_version, request.group_id
    rights = context.peer.rights
    if not rights.group(Operation.READ, group_id):
        return _commit_forbidden(version, request)
    queued: list[_Queued] = []
    moved: list[_Moved] = []
    rows, refused, taken = _sorted_out(broker, rights, version, request, queued, moved)
    if not taken:
        return _commit_response(version, refused, taken, 0)
    if len(group_id) > MAX_GROUP_ID:
        return _commit_response(version, refused, taken, Error.INVALID_GROUP_ID)

    def build(answer: Plain) -> messages.OffsetCommitResponse:
        error = answer.error
        if error == Error.GROUP_ID_NOT_FOUND and version < 9:
            error = Error.ILLEGAL_GENERATION
        if error == Error.INCONSISTENT_GROUP_PROTOCOL:
            # a share group: it has subscriptions, not offsets
            error = Error.GROUP_ID_NOT_FOUND
        return _commit_response(version, refused, taken, error)

    def start() -> Any:
        return broker.committing.commit_offsets(
            group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            rows,
            Caller(build),
            Along([each.row for each in queued], along) if queued or moved else None,
            old=version < 9,
        )

    def along(member: bool) -> list[Write]:
        return [*_settle(broker, group_id, queued, member), *_seek(broker, group_id, moved)]

    if not queued and not moved:
        return start()
    return after(
        broker.queues.load([*[each.topic for each in queued], *[each.topic for each in moved]]), start
    )


class _Queued(NamedTuple):
    """A commit of a queue topic's own group: it acknowledges."""

    topic: Topic
    lane: int
    offset: int
    metadata: str | None
    row: Write
    codes: list[tuple[int, int]]
    """what is answered of the topic's partitions, this one at `at`"""
    at: int


class _Moved(NamedTuple):
    """A commit, by nobody, of the place of a subscription that is served by lanes: it begins anew there."""

    topic: Topic
    """the queue topic"""
    partition: int
    """the store's id"""
    offset: int
    row: Write
    codes: list[tuple[int, int]]
    """as above"""
    at: int


def _seek(broker: Broker, group: str, moved: list[_Moved]) -> list[Write]:
    """Have subscriptions begin anew, in the open turn. What a plain group had committed there says nothing any more."""
    rows: list[Write] = []
    for topic in {each.topic.name: each.topic for each in moved}.values():
        its = [each for each in moved if each.topic is topic]
        try:
            lane_offsets.seek(broker, topic, [(each.partition, each.offset) for each in its])
        except KafkaError as error:
            log.info("group %s cannot begin anew behind %s: %s", group, topic.name, error)
            for each in its:
                each.codes[each.at] = each.codes[each.at][0], Error.COORDINATOR_LOAD_IN_PROGRESS
        else:
            log.info("subscription begins anew", extra={"group": group, "topic": topic.name})
            rows += [each.row for each in its]
    return rows


def _settle(broker: Broker, group: str, queued: list[_Queued], member: bool) -> list[Write]:
    """Do what the commits of queue topics say, in the open turn: the rows of those that were taken."""
    rows: list[Write] = []
    for each in queued:
        try:
            broker.queues.of(each.topic).commit(each.lane, each.offset, each.metadata, member=member)
        except MarksError as error:
            _refused(broker, group, each.topic, each.lane, each.offset, each.metadata, str(error))
            each.codes[each.at] = each.lane, Error.INVALID_REQUEST
        except KafkaError as error:
            log.info(
                "commit cannot be taken now",
                extra={"group": group, "topic": each.topic.name, "lane": each.lane, "reason": str(error)},
            )
            each.codes[each.at] = each.lane, Error.COORDINATOR_LOAD_IN_PROGRESS
        else:
            if (why := misspelt(each.metadata)) is not None:
                log.warning(
                    "commit with metadata that is nearly of a queue topic",
                    extra={"group": group, "topic": each.topic.name, "lane": each.lane, "reason": why},
                )
            # what was wrong before explains nothing any more
            broker.queues.refusals.forget(each.topic.partitions[each.lane])
            rows.append(each.row)
    return rows


def _refused(
    broker: Broker, group: str, topic: Topic, lane: int, offset: int, metadata: str | None, why: str
) -> None:
    """A lane's commit was refused for what it says: for the log, and for whoever asks why."""
    log.warning(
        "commit refused",
        extra={"group": group, "topic": topic.name, "lane": lane, "offset": offset, "reason": why},
    )
    # the byte that ends a string in C is some clients' own
    said = (metadata or "").removesuffix("\0")
    broker.queues.refusals.note(topic.partitions[lane], offset, said, why, broker.clock.wall_ms())


def _commit_forbidden(version: int, request: messages.OffsetCommitRequest) -> messages.OffsetCommitResponse:
    """A request of a client that may not read in the group: whether there are such topics is not looked at."""
    code = int(Error.GROUP_AUTHORIZATION_FAILED)
    forbidden: list[_TopicResult] = [
        (
            asked.topic_id if version >= 10 else asked.name,
            [(one.partition_index, code) for one in asked.partitions],
        )
        for asked in request.topics
    ]
    return _commit_response(version, forbidden, [], 0)


def _sorted_out(
    broker: Broker,
    rights: Rights,
    version: int,
    request: messages.OffsetCommitRequest,
    queued: list[_Queued],
    moved: list[_Moved],
) -> tuple[list[Write], list[_TopicResult], list[_TopicResult]]:
    """(what is to be stored, topics in the order of Kafka's answer: first what it does not know, then the rest). What
    acknowledges goes into `queued`, what begins anew into `moved`.
    """
    catalog = broker.catalog
    limit = broker.settings.integer("offset.metadata.max.bytes")
    now = broker.clock.wall_ms()
    retention = request.retention_time_ms if version <= 4 else -1
    # a time that does not fit into its field is as good as none
    expires_at = min(now + retention, LONG_MAX) if retention >= 0 else -1
    prefix = offsets.group_prefix(request.group_id)
    by_nobody = request.generation_id_or_member_epoch < 0 and not request.member_id
    rows: list[Write] = []
    refused: list[_TopicResult] = []
    taken: list[_TopicResult] = []
    for asked in request.topics:
        if version >= 10:
            topic = catalog.by_id(asked.topic_id)
            missing = Error.UNKNOWN_TOPIC_ID
            identity: str | bytes = asked.topic_id
        else:
            topic = catalog.get(asked.name)
            missing = Error.UNKNOWN_TOPIC_OR_PARTITION
            identity = asked.name
        name = topic.name if topic is not None else asked.name if version < 10 else None
        if name is not None and not rights.topic(Operation.READ, name):
            missing, topic = Error.TOPIC_AUTHORIZATION_FAILED, None
        if topic is None:
            refused.append((identity, [(one.partition_index, missing) for one in asked.partitions]))
            continue
        count = len(topic.partitions)
        of_topic = offsets.topic_prefix(prefix, topic.name)
        lanes = broker.queues.serving(topic, request.group_id) if by_nobody else None
        outside: list[tuple[int, int]] = []
        inside: list[tuple[int, int]] = []
        for one in asked.partitions:
            index = one.partition_index
            if not 0 <= index < count:
                outside.append((index, Error.UNKNOWN_TOPIC_OR_PARTITION))
            elif offsets.metadata_too_large(one.committed_metadata, limit):
                inside.append((index, Error.OFFSET_METADATA_TOO_LARGE))
                if lane_offsets.is_lane(topic, request.group_id):
                    said = (one.committed_metadata or "").removesuffix("\0")
                    why = (
                        f"The metadata has {len(said)} characters, and offset.metadata.max.bytes is {limit}: name "
                        "spans (17-20) or gaps (+3*2), or commit a lower offset."
                    )
                    _refused(broker, request.group_id, topic, index, one.committed_offset, said, why)
            else:
                inside.append((index, Error.NONE))
                value = offsets.encode(
                    one.committed_offset,
                    one.committed_leader_epoch,
                    now,
                    expires_at,
                    topic.topic_id,
                    one.committed_metadata,
                )
                key = of_topic + offsets.key_suffix(index)
                row = Put(Family.OFFSET, key, value)
                if lane_offsets.is_lane(topic, request.group_id):
                    offset, metadata = one.committed_offset, one.committed_metadata
                    queued.append(_Queued(topic, index, offset, metadata, row, inside, len(inside) - 1))
                elif topic.queue is not None and names_deliveries(one.committed_metadata):
                    broker.queues.strangers.note(request.group_id, topic.name, topic.queue.subscription)
                    rows.append(row)
                elif lanes is not None:
                    number, gone = topic.partitions[index], Delete(Family.OFFSET, key)
                    moved.append(_Moved(lanes, number, one.committed_offset, gone, inside, len(inside) - 1))
                else:
                    rows.append(row)
        if outside:
            refused.append((identity, outside))
        if inside:
            taken.append((identity, inside))
    return rows, refused, taken


def _commit_response(
    version: int, refused: list[_TopicResult], taken: list[_TopicResult], error: int
) -> messages.OffsetCommitResponse:
    """`error` is the group's and stands for every partition that was not refused before."""
    topic = messages.OffsetCommitResponse.OffsetCommitResponseTopic
    partition = messages.OffsetCommitResponse.OffsetCommitResponsePartition
    results: dict[str | bytes, list[messages.OffsetCommitResponse.OffsetCommitResponsePartition]] = {}
    for identity, partitions in refused:
        results.setdefault(identity, []).extend(
            [partition(partition_index=index, error_code=code) for index, code in partitions]
        )
    for identity, partitions in taken:
        results.setdefault(identity, []).extend(
            [partition(partition_index=index, error_code=error or code) for index, code in partitions]
        )
    if version >= 10:
        return messages.OffsetCommitResponse(
            topics=[
                topic(topic_id=cast(bytes, identity), partitions=found) for identity, found in results.items()
            ]
        )
    return messages.OffsetCommitResponse(
        topics=[topic(name=cast(str, identity), partitions=found) for identity, found in results.items()]
    )
