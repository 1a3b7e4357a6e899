"""Membership of share groups (KIP-932).

| key | API | versions | notes |
|---|---|---|---|
| 76 | ShareGroupHeartbeat | 1 | epoch 0 joins, -1 leaves; v0 was early access |
| 77 | ShareGroupDescribe | 1 | |

What they mean is in `gateway.coordinators.share_group`. Each member is assigned every partition of its topics with
the answer that lets it in; Kafka's first answer is an empty assignment, and the next heartbeat is 5 s away.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gateway.apis.checks import check_group, check_topics, check_topics_of_others, may_create
from gateway.apis.group_admin import group_operations, weight
from gateway.apis.groups import legal_group_id
from gateway.apis.registry import Context, handles
from gateway.apis.slices import answered
from gateway.broker.errors import KafkaError
from gateway.broker.loading import after
from gateway.broker.machines import Caller
from gateway.broker.share_admission import Beating
from gateway.coordinators.share_events import Beat
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.group_names import bare
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.rights import Rights

JOIN, LEAVE = 0, -1
"""Member epochs with a meaning of their own."""

ASSIGNOR = "simple"
"""The name of Kafka's only assignor. Its rule is another, its name is what tools show."""

Described = messages.ShareGroupDescribeResponse.DescribedGroup


@handles(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1)
def share_group_heartbeat(
    broker: Broker, context: Context, request: messages.ShareGroupHeartbeatRequest
) -> Any:
    rights = context.peer.rights
    try:
        check_group(rights, Operation.READ, request.group_id)
        # a subscription comes of it, which keeps what is not read
        check_topics(rights, Operation.READ, request.subscribed_topic_names or ())
    except KafkaError as error:
        return _beat(Beat(error.code, error.text))
    refusal = _wrong(request)
    if refusal is not None:
        return _beat(Beat(Error.INVALID_REQUEST, refusal))
    if not legal_group_id(request.group_id):
        return _beat(Beat(Error.INVALID_GROUP_ID))
    names = request.subscribed_topic_names
    beating = Beating(
        request.group_id,
        request.member_id,
        request.member_epoch,
        tuple(names) if names is not None else None,
        request.rack_id,
        (context.peer.host, context.client_id or ""),
        context.peer.connection,
        Caller(_beat),
    )
    groups = broker.share_groups
    if beating.epoch == LEAVE:
        return groups.leave(beating)
    # who may only read waits for its RETRY topic as for any that is not there yet
    return groups.heartbeat(beating, lambda name: may_create(broker, rights, name))


def _wrong(request: messages.ShareGroupHeartbeatRequest) -> str | None:
    """What is wrong with a request by itself, in Kafka's words."""
    if not request.member_id.strip():
        return "MemberId can't be empty."
    if not bare(request.group_id).strip():
        return "GroupId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    if request.member_epoch < LEAVE:
        return "MemberEpoch is invalid."
    return None


def _beat(answer: Beat) -> messages.ShareGroupHeartbeatResponse:
    response = messages.ShareGroupHeartbeatResponse
    assignment = None
    if answer.assignment is not None:
        assignment = response.Assignment(
            topic_partitions=[
                response.TopicPartitions(topic_id=view.topic_id, partitions=_all(view.partitions))
                for view in answer.assignment
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


@lru_cache(maxsize=64)
def _all(partitions: int) -> list[int]:
    """Every partition of a topic. Shared between answers: not to be changed."""
    return list(range(partitions))


@handles(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1)
def share_group_describe(
    broker: Broker, context: Context, request: messages.ShareGroupDescribeRequest
) -> Pending[messages.ShareGroupDescribeResponse]:
    rights = context.peer.rights
    return after(
        broker.group_kinds.load(
            [each for each in request.group_ids if rights.group(Operation.DESCRIBE, each)]
        ),
        lambda: answered(
            # one that is named often is told once
            dict.fromkeys(request.group_ids),
            lambda group_id: _described(broker, rights, group_id, request.include_authorized_operations),
            lambda groups: messages.ShareGroupDescribeResponse(groups=groups),
            weight,
        ),
    )


def _described(broker: Broker, rights: Rights, group_id: str, asked: bool) -> Described:
    """`asked`: for what may be done to it. Who may not describe a topic is told of no group that reads it."""
    try:
        check_group(rights, Operation.DESCRIBE, group_id)
        if not group_id:
            raise KafkaError(Error.INVALID_GROUP_ID)
        group = broker.share_groups.get(group_id)
        if group is None:
            raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        names = {name for one in group.describe() for name in one.names}
        check_topics_of_others(rights, Operation.DESCRIBE, names)
    except KafkaError as error:
        return Described(error_code=error.code, error_message=error.text, group_id=group_id)
    response = messages.ShareGroupDescribeResponse
    return Described(
        error_code=Error.NONE,
        error_message=None,
        group_id=group_id,
        group_state=group.state.shown,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[
            response.Member(
                member_id=one.member_id,
                rack_id=one.rack,
                member_epoch=one.epoch,
                client_id=one.client_id,
                client_host=one.client_host,
                subscribed_topic_names=list(one.names),
                assignment=response.Assignment(
                    topic_partitions=[
                        response.TopicPartitions(
                            topic_id=view.topic_id, topic_name=name, partitions=_all(view.partitions)
                        )
                        for name, view in one.assignment
                    ]
                ),
            )
            for one in group.describe()
        ],
        authorized_operations=group_operations(rights, group_id, asked=asked),
    )
