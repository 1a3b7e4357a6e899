"""Membership of consumer groups of the new protocol (KIP-848).

| key | API | versions | notes |
|---|---|---|---|
| 68 | ConsumerGroupHeartbeat | 0-1 | epoch 0 joins, -1 leaves, -2 leaves and comes back; its id is its own from v1 |
| 69 | ConsumerGroupDescribe | 0-1 | the member's type from v1 |

What they mean is in `gateway.coordinators.consumer_group`. Regular expressions (v1) are those of
`semantics.patterns`.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from gateway.apis.checks import check_group, check_topics, check_topics_of_others
from gateway.apis.group_admin import group_operations, weight
from gateway.apis.groups import legal_group_id, refusal_of_lanes
from gateway.apis.registry import Context, handles
from gateway.apis.slices import answered
from gateway.broker.consumer_groups import Beating
from gateway.broker.errors import KafkaError
from gateway.broker.loading import after
from gateway.broker.machines import Caller
from gateway.coordinators.consumer_events import Beat, Partition
from gateway.coordinators.consumer_rows import by_topic
from gateway.coordinators.consumer_state import ConsumerState
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.group_names import bare
from store.pending import Pending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.broker.broker import Broker
    from gateway.rights import Rights

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
"""Member epochs with a meaning of their own."""

CLASSIC, CONSUMER = 0, 1
"""The types of members, by the protocols that they speak."""

Described = messages.ConsumerGroupDescribeResponse.DescribedGroup


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1)
def consumer_group_heartbeat(
    broker: Broker, context: Context, request: messages.ConsumerGroupHeartbeatRequest
) -> Any:
    version = context.api_version
    rights = context.peer.rights
    try:
        check_group(rights, Operation.READ, request.group_id)
        check_topics(rights, Operation.DESCRIBE, request.subscribed_topic_names or ())
    except KafkaError as error:
        return _beat(Beat(error.code, error.text))
    refusal = _wrong(version, request)
    if refusal is not None:
        return _beat(Beat(Error.INVALID_REQUEST, refusal))
    if not legal_group_id(request.group_id):
        return _beat(Beat(Error.INVALID_GROUP_ID))
    if request.member_epoch == JOIN:
        code, why = refusal_of_lanes(broker, request.group_id, request.member_id, request.instance_id)
        if code:
            return _beat(Beat(code, why))
    names, owned = request.subscribed_topic_names, request.topic_partitions
    beating = Beating(
        request.group_id,
        request.member_id or str(uuid.uuid4()),
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        tuple(names) if names is not None else None,
        request.subscribed_topic_regex if version >= 1 else None,
        request.server_assignor,
        frozenset([(topic.topic_id, index) for topic in owned for index in topic.partitions])
        if owned is not None
        else None,
        (context.peer.host, context.client_id or ""),
        Caller(_beat),
        rights,
    )
    groups = broker.consumer_groups
    return groups.leave(beating) if beating.epoch < JOIN else groups.heartbeat(beating)


def _wrong(version: int, request: messages.ConsumerGroupHeartbeatRequest) -> str | None:
    """What is wrong with a request by itself, in Kafka's words."""
    epoch = request.member_epoch
    if (version >= 1 or epoch != JOIN) and not request.member_id.strip():
        return "MemberId can't be empty."
    if not bare(request.group_id).strip():
        return "GroupId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip():
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if epoch == JOIN:
        return _wrong_joining(version, request)
    if epoch == LEAVE_STATIC and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < LEAVE_STATIC else None


def _wrong_joining(version: int, request: messages.ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    # none of them is a subscription, too: to nothing yet
    if request.subscribed_topic_names is None and (version < 1 or request.subscribed_topic_regex is None):
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _beat(answer: Beat) -> messages.ConsumerGroupHeartbeatResponse:
    response = messages.ConsumerGroupHeartbeatResponse
    assignment = None
    if answer.assignment is not None:
        assignment = response.Assignment(
            topic_partitions=[
                response.TopicPartitions(topic_id=topic, partitions=indexes)
                for topic, indexes in by_topic(answer.assignment)
            ]
        )
    return response(
        error_code=answer.error,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval,
        assignment=assignment,
    )


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1)
def consumer_group_describe(
    broker: Broker, context: Context, request: messages.ConsumerGroupDescribeRequest
) -> Pending[messages.ConsumerGroupDescribeResponse]:
    rights = context.peer.rights
    return after(
        broker.group_kinds.load(
            [each for each in request.group_ids if rights.group(Operation.DESCRIBE, each)]
        ),
        lambda: answered(
            # one that is named often is told once
            dict.fromkeys(request.group_ids),
            lambda group_id: _described(broker, rights, group_id, request.include_authorized_operations),
            lambda groups: messages.ConsumerGroupDescribeResponse(groups=groups),
            weight,
        ),
    )


def _described(broker: Broker, rights: Rights, group_id: str, asked: bool) -> Described:
    """`asked`: for what may be done to it. Who may not describe a topic is told of no group that reads it."""
    try:
        check_group(rights, Operation.DESCRIBE, group_id)
        if not group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        group = broker.consumer_groups.get(group_id)
        if group is None:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        check_topics_of_others(rights, Operation.DESCRIBE, group.subscribed())
    except KafkaError as error:
        return Described(error_code=error.code, error_message=error.text, group_id=group_id)
    names = {view.topic_id: name for name, view in group.topics.items()}
    return Described(
        error_code=Error.NONE,
        error_message=None,
        group_id=group_id,
        group_state=group.state.shown,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor or broker.settings.strings("group.consumer.assignors")[0],
        members=list(_members(group, names)),
        authorized_operations=group_operations(rights, group_id, asked=asked),
    )


def _members(
    group: ConsumerState, names: dict[bytes, str]
) -> Iterable[messages.ConsumerGroupDescribeResponse.Member]:
    response = messages.ConsumerGroupDescribeResponse

    def assignment(places: Iterable[Partition]) -> messages.ConsumerGroupDescribeResponse.Assignment:
        """Of topics that there still are."""
        return response.Assignment(
            topic_partitions=[
                response.TopicPartitions(topic_id=topic, topic_name=names[topic], partitions=indexes)
                for topic, indexes in by_topic(places)
                if topic in names
            ]
        )

    for one in group.describe():
        yield response.Member(
            member_id=one.member_id,
            instance_id=one.instance_id,
            rack_id=one.rack,
            member_epoch=one.epoch,
            client_id=one.client_id,
            client_host=one.client_host,
            subscribed_topic_names=list(one.names),
            subscribed_topic_regex=one.pattern,
            assignment=assignment(one.assigned),
            target_assignment=assignment(one.target),
            member_type=CLASSIC if one.classic else CONSUMER,
        )
