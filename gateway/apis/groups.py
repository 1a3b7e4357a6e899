"""Membership of classic groups: the way in and out.

| key | API | versions | notes |
|---|---|---|---|
| 11 | JoinGroup | 0-9 | v0: the session timeout is the rebalance timeout too; v4 KIP-394, v5 KIP-345, v9 KIP-814 |
| 12 | Heartbeat | 0-4 | |
| 13 | LeaveGroup | 0-5 | one member and one error up to v2, a batch with an error each from v3 |
| 14 | SyncGroup | 0-5 | protocol type and name are checked from v5 (KIP-559) |

What they mean is in `gateway.coordinators.classic_group`. JoinGroup and SyncGroup park, and are asked for the right to
read with the group when they are answered, too.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.apis.registry import SMALL_REQUEST, Context, handles
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.machines import Caller
from gateway.broker.policies import check_consumers
from gateway.coordinators.classic_events import (
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaver,
    Left,
    Plain,
    Sync,
    SyncAnswer,
)
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics import group_names
from semantics.access.acl import Operation
from semantics.names import Namespace
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer

log = logging.getLogger("magnetar.groups")

MAX_GROUP_ID = 32_767
"""Bytes of a group id: what a string of the older versions can hold."""


def legal_group_id(group_id: str) -> bool:
    """Whether a group of this name may have members."""
    return 0 < len(group_id) <= MAX_GROUP_ID and len(group_id.encode()) <= MAX_GROUP_ID


def check_said(peer: Peer, group_id: str) -> None:
    """Refuse the id of a group of another home, where a field may name more than groups. What names groups only is
    refused before it comes to a handler. Raises KafkaError.
    """
    if not group_names.may_be_said(Namespace.parse(peer.namespace), group_id):
        raise KafkaError(Error.INVALID_GROUP_ID, "A group's id may not have the control character U+001F.")


@handles(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, parks=True)
def join_group(broker: Broker, context: Context, request: messages.JoinGroupRequest) -> Any:
    version = context.api_version
    settings = broker.settings
    session = request.session_timeout_ms
    refusal = Error.NONE
    if not context.peer.rights.group(Operation.READ, request.group_id):
        refusal = Error.GROUP_AUTHORIZATION_FAILED
    elif not legal_group_id(request.group_id):
        refusal = Error.INVALID_GROUP_ID
    elif not (
        settings.integer("group.min.session.timeout.ms")
        <= session
        <= settings.integer("group.max.session.timeout.ms")
    ):
        refusal = Error.INVALID_SESSION_TIMEOUT
    if not refusal:
        refusal, _ = refusal_of_lanes(broker, request.group_id, request.member_id, request.group_instance_id)
    if refusal:
        # as Kafka, which names no member to who may not be one
        member_id = "" if refusal == Error.GROUP_AUTHORIZATION_FAILED else request.member_id
        return _join_response(version, JoinAnswer(refusal, member_id))
    instance_id = request.group_instance_id
    client_id = context.client_id or ""
    return broker.classic_requests.run(
        request.group_id,
        Join(
            Caller(_while_read(context.peer, request, partial(_join_response, version), JoinAnswer)),
            request.member_id,
            f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}",
            instance_id,
            client_id,
            context.peer.host,
            session,
            session if version == 0 else request.rebalance_timeout_ms,
            request.protocol_type,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
            version >= 4,
            version >= 9,
            request.reason,
        ),
    )


def _while_read(
    peer: Peer, request: Any, build: Callable[[Any], Any], refused: Callable[[Error], Any]
) -> Callable[[Any], Any]:
    """`build`, for an answer that may come late: who may not read with the group any more is told nothing of it. The
    member stays until its next request, or its session ends.
    """
    group_id = request.group_id

    def built(answer: Any) -> Any:
        if not peer.rights.group(Operation.READ, group_id):
            answer = refused(Error.GROUP_AUTHORIZATION_FAILED)
        return build(answer)

    return built


def refusal_of_lanes(
    broker: Broker, group: str, member_id: str, instance_id: str | None
) -> tuple[Error, str | None]:
    """Whether a group that lanes serve may have this consumer: Pulsar's limits of consumers. An error, and why."""
    try:
        bases = broker.queues.bases_of(group)
        if not bases or broker.lane_members.has_member(group, member_id, instance_id):
            return Error.NONE, None
        members = broker.lane_members.members(group)
        for topic in bases:
            of_topic = partial(broker.subscriptions.consumers, topic)
            check_consumers(broker, broker.catalog, topic, group, members, of_topic)
    except StoreError as error:
        refused = from_store(error)
        return refused.code, refused.text
    except KafkaError as error:
        if error.code == Error.GROUP_MAX_SIZE_REACHED:
            # JoinGroup's answer has no room for it, and librdkafka does not show it
            log.warning("a member of group %s is refused: %s", group, error)
        return error.code, error.text
    return Error.NONE, None


def _join_response(version: int, answer: JoinAnswer) -> messages.JoinGroupResponse:
    member = messages.JoinGroupResponse.JoinGroupResponseMember
    name = answer.protocol_name
    return messages.JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=name if name is not None or version >= 7 else "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            member(member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata)
            for one in answer.members
        ],
    )


# the assignments of a large group
@handles(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, parks=True, largest=8 * SMALL_REQUEST)
def sync_group(broker: Broker, context: Context, request: messages.SyncGroupRequest) -> Any:
    if not context.peer.rights.group(Operation.READ, request.group_id):
        return _sync_response(SyncAnswer(Error.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return _sync_response(SyncAnswer(Error.INVALID_GROUP_ID))
    if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return _sync_response(SyncAnswer(Error.INCONSISTENT_GROUP_PROTOCOL))
    return broker.classic_requests.run(
        request.group_id,
        Sync(
            Caller(_while_read(context.peer, request, _sync_response, SyncAnswer)),
            request.member_id,
            request.generation_id,
            request.group_instance_id,
            request.protocol_type,
            request.protocol_name,
            {one.member_id: bytes(one.assignment) for one in request.assignments},
        ),
    )


def _sync_response(answer: SyncAnswer) -> messages.SyncGroupResponse:
    return messages.SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


@handles(ApiKey.HEARTBEAT, "Heartbeat", 0, 4)
def heartbeat(broker: Broker, context: Context, request: messages.HeartbeatRequest) -> Any:
    if not context.peer.rights.group(Operation.READ, request.group_id):
        return _heartbeat_response(Plain(Error.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return _heartbeat_response(Plain(Error.INVALID_GROUP_ID))
    return broker.classic_requests.run(
        request.group_id,
        Heartbeat(
            Caller(_heartbeat_response),
            request.member_id,
            request.generation_id,
            request.group_instance_id,
        ),
    )


def _heartbeat_response(answer: Plain) -> messages.HeartbeatResponse:
    return messages.HeartbeatResponse(error_code=answer.error)


@handles(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5)
def leave_group(broker: Broker, context: Context, request: messages.LeaveGroupRequest) -> Any:
    version = context.api_version
    if version < 3:
        leavers: tuple[Leaver, ...] = (Leaver(request.member_id),)
    else:
        leavers = tuple(Leaver(one.member_id, one.group_instance_id, one.reason) for one in request.members)
    build = partial(_leave_response, version, leavers)
    if not context.peer.rights.group(Operation.READ, request.group_id):
        return build(LeaveAnswer(Error.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return build(LeaveAnswer(Error.INVALID_GROUP_ID))
    return broker.classic_requests.run(request.group_id, Leave(Caller(build), leavers))


def _leave_response(
    version: int, leavers: tuple[Leaver, ...], answer: LeaveAnswer
) -> messages.LeaveGroupResponse:
    error, members = answer.error, answer.members
    if error == Error.UNKNOWN_MEMBER_ID:
        # There is no such group: nobody of them is in it.
        error, members = Error.NONE, tuple(Left(one.member_id, one.instance_id, error) for one in leavers)
    if version < 3:
        if not error and members:
            error = members[0].error
        return messages.LeaveGroupResponse(error_code=error)
    member = messages.LeaveGroupResponse.MemberResponse
    return messages.LeaveGroupResponse(
        error_code=error,
        members=[
            member(member_id=one.member_id, group_instance_id=one.instance_id, error_code=one.error)
            for one in members
        ],
    )
