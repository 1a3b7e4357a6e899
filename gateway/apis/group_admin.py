"""Groups as administrators see them.

| key | API | versions | notes |
|---|---|---|---|
| 15 | DescribeGroups | 0-6 | an unknown group is Dead, from v6 on GROUP_ID_NOT_FOUND too (KIP-1043) |
| 16 | ListGroups | 0-5 | states from v4, types from v5, both as filters too, whatever their case |
| 42 | DeleteGroups | 0-2 | empty groups only; their offsets or subscriptions go with them |
| 47 | OffsetDelete | 0 | not for topics that a member subscribed to (KIP-496) |
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from gateway.apis.checks import NOT_ASKED, check_group, check_topic
from gateway.apis.registry import Context, handles
from gateway.apis.slices import answered
from gateway.broker.errors import KafkaError
from gateway.broker.loading import after
from gateway.broker.machines import Caller
from gateway.coordinators import offsets
from gateway.coordinators.classic_events import Plain
from gateway.coordinators.group_rows import State
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics import group_names
from semantics.access.acl import Operation, ResourceType
from semantics.names import Namespace
from store.api import StoreError
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.group_kinds import Listed
    from gateway.coordinators.classic_group import ClassicGroup
    from gateway.coordinators.consumer_group import ConsumerGroup
    from gateway.peer import Peer
    from gateway.rights import Rights

A_DELETION = 4
"""How much of a slice the deletion of a group is."""


def group_operations(rights: Rights, group_id: str, *, asked: bool) -> int:
    """What may be done to a group, as bits."""
    return rights.operations(ResourceType.GROUP, group_id) if asked else NOT_ASKED


def weight(described: Any) -> int:
    """How many small things a group is that is told with its members."""
    return 1 + 4 * len(described.members)


@handles(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6)
def describe_groups(
    broker: Broker, context: Context, request: messages.DescribeGroupsRequest
) -> Pending[messages.DescribeGroupsResponse]:
    version, rights = context.api_version, context.peer.rights

    def make(group_id: str) -> messages.DescribeGroupsResponse.DescribedGroup:
        try:
            check_group(rights, Operation.DESCRIBE, group_id)
        except KafkaError as error:
            return messages.DescribeGroupsResponse.DescribedGroup(
                error_code=error.code, error_message=error.text, group_id=group_id
            )
        operations = group_operations(rights, group_id, asked=request.include_authorized_operations)
        return _described(broker, version, group_id, operations)

    return after(
        broker.group_kinds.load([each for each in request.groups if rights.group(Operation.DESCRIBE, each)]),
        lambda: answered(
            # one that is named often is told once
            dict.fromkeys(request.groups),
            make,
            lambda groups: messages.DescribeGroupsResponse(groups=groups),
            weight,
        ),
    )


def _described(
    broker: Broker, version: int, group_id: str, operations: int
) -> messages.DescribeGroupsResponse.DescribedGroup:
    described = messages.DescribeGroupsResponse.DescribedGroup
    member = messages.DescribeGroupsResponse.DescribedGroupMember
    missing = f"Group {group_id} not found."
    try:
        group = broker.groups.get(group_id)
    except KafkaError as error:
        if error.code != Error.INCONSISTENT_GROUP_PROTOCOL:
            return described(error_code=error.code, error_message=error.text, group_id=group_id)
        # A group of another type is no classic group, and that is what is asked for.
        group, missing = None, f"Group {group_id} is not a classic group."
    if group is None:
        dead = State.DEAD.shown
        if version < 6:
            return described(group_id=group_id, group_state=dead, authorized_operations=operations)
        return described(
            error_code=Error.GROUP_ID_NOT_FOUND,
            error_message=missing,
            group_id=group_id,
            group_state=dead,
        )
    return described(
        group_id=group_id,
        group_state=group.state.shown,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if group.state is State.STABLE else "",
        members=[
            member(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in group.describe()
        ],
        authorized_operations=operations,
    )


@handles(ApiKey.LIST_GROUPS, "ListGroups", 0, 5)
def list_groups(
    broker: Broker, context: Context, request: messages.ListGroupsRequest
) -> Pending[messages.ListGroupsResponse]:
    peer = context.peer
    try:
        found = broker.group_kinds.listing()
    except StoreError:
        return messages.ListGroupsResponse(error_code=Error.COORDINATOR_NOT_AVAILABLE)
    return _listed(request, peer, found) if isinstance(found, list) else _listed_later(request, peer, found)


async def _listed_later(
    request: messages.ListGroupsRequest, peer: Peer, groups: Awaitable[list[Listed]]
) -> messages.ListGroupsResponse:
    try:
        answer = _listed(request, peer, await groups)
    except StoreError:
        return messages.ListGroupsResponse(error_code=Error.COORDINATOR_NOT_AVAILABLE)
    return await answer if isinstance(answer, Awaitable) else answer


def _listed(
    request: messages.ListGroupsRequest, peer: Peer, groups: list[Listed]
) -> Pending[messages.ListGroupsResponse]:
    """Those of a home, by the ids that are kept: its clients' own names are `gateway.apis.homes`' business. Who may not
    describe the cluster is told of the groups that it may describe.
    """
    home, rights = Namespace.parse(peer.namespace), peer.rights
    every = rights.cluster(Operation.DESCRIBE)
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    listed = messages.ListGroupsResponse.ListedGroup

    def make(one: Listed) -> messages.ListGroupsResponse.ListedGroup | None:
        """None of those of other homes, of those that are not asked for, and that may not be told."""
        if group_names.home_of(one.group_id) != home:
            return None
        if not every and not rights.group(Operation.DESCRIBE, one.group_id):
            return None
        if (states and one.state.lower() not in states) or (types and one.kind.shown not in types):
            return None
        return listed(
            group_id=one.group_id,
            protocol_type=one.protocol_type,
            group_state=one.state,
            group_type=one.kind.shown,
        )

    return answered(
        groups,
        make,
        lambda made: messages.ListGroupsResponse(groups=[one for one in made if one is not None]),
    )


@handles(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2)
def delete_groups(broker: Broker, context: Context, request: messages.DeleteGroupsRequest) -> Any:
    result = messages.DeleteGroupsResponse.DeletableGroupResult

    group_ids = list(dict.fromkeys(request.groups_names))

    def response(codes: list[int]) -> messages.DeleteGroupsResponse:
        results = zip(group_ids, codes, strict=True)
        return messages.DeleteGroupsResponse(
            results=[result(group_id=group_id, error_code=code) for group_id, code in results]
        )

    async def wait(deletions: list[Pending[int]]) -> messages.DeleteGroupsResponse:
        return response([code if isinstance(code, int) else await code for code in deletions])

    def begun(deletions: list[Pending[int]]) -> Any:
        done = [code for code in deletions if isinstance(code, int)]
        return response(done) if len(done) == len(deletions) else wait(deletions)

    def begin(group_id: str) -> Pending[int]:
        """All of a slice begin now, so that they share a commit."""
        if not context.peer.rights.group(Operation.DELETE, group_id):
            return Error.GROUP_AUTHORIZATION_FAILED
        return broker.group_kinds.deletion(group_id)

    return answered(group_ids, begin, begun, lambda _: A_DELETION)


@handles(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0)
def offset_delete(broker: Broker, context: Context, request: messages.OffsetDeleteRequest) -> Any:
    rights = context.peer.rights
    if not rights.group(Operation.DELETE, request.group_id):
        return messages.OffsetDeleteResponse(error_code=Error.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return messages.OffsetDeleteResponse(error_code=Error.INVALID_GROUP_ID)
    return after(
        broker.group_kinds.load((request.group_id,)), lambda: _offset_delete(broker, rights, request)
    )


def _offset_delete(broker: Broker, rights: Rights, request: messages.OffsetDeleteRequest) -> Any:
    response = messages.OffsetDeleteResponse
    group_id = request.group_id
    its = broker.committing.of(group_id)
    group: ClassicGroup | ConsumerGroup | None
    try:
        if its is broker.consumer_groups:
            group = broker.consumer_groups.get(group_id)
        else:
            group = broker.groups.get(group_id)
    except KafkaError as error:
        other = error.code == Error.INCONSISTENT_GROUP_PROTOCOL
        return response(error_code=Error.GROUP_ID_NOT_FOUND if other else error.code)
    refusal: int = Error.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
    if group is None or refusal:
        return response(error_code=refusal)
    prefix = offsets.group_prefix(group_id)
    keys: list[bytes] = []
    # Kafka names what it does not know first; clients look results up by topic and partition.
    unknown: list[messages.OffsetDeleteResponse.OffsetDeleteResponseTopic] = []
    known: list[messages.OffsetDeleteResponse.OffsetDeleteResponseTopic] = []
    for asked in request.topics:
        try:
            check_topic(rights, Operation.READ, asked.name)
        except KafkaError as error:
            unknown.append(
                _deleted(asked.name, [each.partition_index for each in asked.partitions], error.code)
            )
            continue
        topic = broker.catalog.get(asked.name)
        count = len(topic.partitions) if topic is not None else 0
        indexes = [partition.partition_index for partition in asked.partitions]
        inside = [index for index in indexes if 0 <= index < count]
        outside = [index for index in indexes if not 0 <= index < count]
        if outside:
            unknown.append(_deleted(asked.name, outside, Error.UNKNOWN_TOPIC_OR_PARTITION))
        if not inside:
            continue
        if group.subscribes_to(asked.name):
            known.append(_deleted(asked.name, inside, Error.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        known.append(_deleted(asked.name, inside, Error.NONE))
        of_topic = offsets.topic_prefix(prefix, asked.name)
        keys.extend(of_topic + offsets.key_suffix(index) for index in inside)
    topics = _merge(unknown, known)

    def build(answer: Plain) -> messages.OffsetDeleteResponse:
        return response(error_code=answer.error, topics=[] if answer.error else topics)

    return its.delete_offsets(group_id, keys, Caller(build))


def _deleted(
    name: str, indexes: list[int], error: int
) -> messages.OffsetDeleteResponse.OffsetDeleteResponseTopic:
    partition = messages.OffsetDeleteResponse.OffsetDeleteResponsePartition
    return messages.OffsetDeleteResponse.OffsetDeleteResponseTopic(
        name=name, partitions=[partition(partition_index=index, error_code=error) for index in indexes]
    )


def _merge(first: list[Any], second: list[Any]) -> list[Any]:
    """Topics of both lists, each once."""
    by_name = {topic.name: topic for topic in first}
    merged = list(first)
    for topic in second:
        if topic.name in by_name:
            by_name[topic.name].partitions.extend(topic.partitions)
        else:
            by_name[topic.name] = topic
            merged.append(topic)
    return merged
