"""Where the copies of partitions are, and who leads: what tools ask that move them among brokers and disks.

| key | API | versions | notes |
|---|---|---|---|
| 34 | AlterReplicaLogDirs | 1-2 | there is one data folder: what is to go there is there |
| 43 | ElectLeaders | 0-2 | a partition has one replica, which leads it |
| 45 | AlterPartitionReassignments | 0-1 | to where a partition is it may always go; all else is refused |
| 46 | ListPartitionReassignments | 0 | none is ever under way |

The placement says where partitions are. Nobody waits for an answer of these, whatever time the client has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from gateway.apis.checks import check_cluster
from gateway.apis.registry import Context, handles
from gateway.apis.slices import answered
from gateway.broker.errors import KafkaError
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.rights import Rights

PREFERRED, UNCLEAN = 0, 1
"""Types of elections (KIP-460)."""

Moved = messages.AlterReplicaLogDirsResponse
Elected = messages.ElectLeadersResponse
Reassigned = messages.AlterPartitionReassignmentsResponse
_Reassigned: TypeAlias = messages.AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


def check_partition(broker: Broker, name: str, index: int) -> None:
    """Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION where there is none."""
    topic = broker.catalog.get(name)
    if topic is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            f"Topic {name} has no partition {index}: it has {len(topic.partitions)}.",
        )


def _refusal(rights: Rights) -> KafkaError | None:
    """What is answered to who may not move partitions, for each of them."""
    try:
        check_cluster(rights, Operation.ALTER)
    except KafkaError as error:
        return error
    return None


# -- 34 ----------------------------------------------------------------------------------------------------------------


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2)
def alter_replica_log_dirs(
    broker: Broker, context: Context, request: messages.AlterReplicaLogDirsRequest
) -> messages.AlterReplicaLogDirsResponse:
    """Of a partition that is to go to two folders, the last one counts, as in Kafka."""
    folder, _, _ = broker.disk()
    refusal = _refusal(context.peer.rights)
    codes: dict[str, dict[int, int]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            found = codes.setdefault(topic.name, {})
            for index in topic.partitions:
                found[index] = (
                    _moved(broker, folder, directory.path, topic.name, index)
                    if refusal is None
                    else refusal.code
                )
    return Moved(
        results=[
            Moved.AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    Moved.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in found.items()
                ],
            )
            for name, found in codes.items()
            if found
        ]
    )


def _moved(broker: Broker, folder: str, path: str, name: str, index: int) -> int:
    if path != folder:
        return Error.LOG_DIR_NOT_FOUND
    try:
        check_partition(broker, name, index)
    except KafkaError as error:
        return error.code
    return Error.NONE


# -- 43 ----------------------------------------------------------------------------------------------------------------


@handles(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2)
async def elect_leaders(
    broker: Broker, context: Context, request: messages.ElectLeadersRequest
) -> messages.ElectLeadersResponse:
    """Version 0 has elections of preferred leaders only."""
    kind = request.election_type if context.api_version else PREFERRED
    asked = request.topic_partitions
    refusal = forbidden = _refusal(context.peer.rights)
    if refusal is None and kind not in (PREFERRED, UNCLEAN):
        refusal = KafkaError(Error.INVALID_REQUEST, f"There is no type of election {kind}.")
    if asked is None:
        # all: those are told that had an election, which is none
        every = (
            [topic.name async for topic in broker.catalog.every(context.peer.prefix)]
            if refusal is None
            else []
        )
        return Elected(
            error_code=refusal.code if refusal is not None else Error.NONE,
            replica_election_results=[
                Elected.ReplicaElectionResult(topic=name, partition_result=[]) for name in every
            ],
        )

    def answer(made: list[messages.ElectLeadersResponse.PartitionResult]) -> messages.ElectLeadersResponse:
        rest = iter(made)
        return Elected(
            error_code=refusal.code
            if refusal is not None and (asked or forbidden is not None)
            else Error.NONE,
            replica_election_results=[
                Elected.ReplicaElectionResult(
                    topic=topic.topic, partition_result=list(islice(rest, len(topic.partitions)))
                )
                for topic in asked
            ],
        )

    found = answered(
        ((topic.topic, index) for topic in asked for index in topic.partitions),
        lambda each: _election(broker, refusal, *each),
        answer,
    )
    return await found if isinstance(found, Awaitable) else found


def _election(
    broker: Broker, refusal: KafkaError | None, name: str, index: int
) -> messages.ElectLeadersResponse.PartitionResult:
    why = refusal
    if why is None:
        try:
            check_partition(broker, name, index)
            why = KafkaError(
                Error.ELECTION_NOT_NEEDED,
                "The partition has one replica, which leads it: there is nothing to elect.",
            )
        except KafkaError as error:
            why = error
    return Elected.PartitionResult(partition_id=index, error_code=why.code, error_message=why.text)


# -- 45 ----------------------------------------------------------------------------------------------------------------


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1)
def alter_partition_reassignments(
    broker: Broker, context: Context, request: messages.AlterPartitionReassignmentsRequest
) -> Pending[messages.AlterPartitionReassignmentsResponse]:
    refusal = _refusal(context.peer.rights)

    def answer(made: list[_Reassigned]) -> messages.AlterPartitionReassignmentsResponse:
        rest = iter(made)
        return Reassigned(
            # as Kafka, when nothing is asked
            allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
            error_code=refusal.code if refusal is not None else 0,
            error_message=refusal.text if refusal is not None else None if request.topics else "",
            responses=[
                Reassigned.ReassignableTopicResponse(
                    name=topic.name, partitions=list(islice(rest, len(topic.partitions)))
                )
                for topic in request.topics
            ],
        )

    return answered(
        ((topic.name, each) for topic in request.topics for each in topic.partitions),
        lambda asked: _reassigned(broker, refusal, asked[0], asked[1].partition_index, asked[1].replicas),
        answer,
    )


def _reassigned(
    broker: Broker, refusal: KafkaError | None, name: str, index: int, nodes: Sequence[int] | None
) -> _Reassigned:
    why = refusal
    if why is None:
        try:
            check_partition(broker, name, index)
            _check_nodes(broker, name, index, nodes)
        except KafkaError as error:
            why = error
    return Reassigned.ReassignablePartitionResponse(
        partition_index=index,
        error_code=why.code if why is not None else 0,
        error_message=why.text if why is not None else None,
    )


def _check_nodes(broker: Broker, name: str, index: int, nodes: Sequence[int] | None) -> None:
    """Raises KafkaError unless a partition, which is there, is on these nodes; None ends its reassignment."""
    if nodes is None:
        raise KafkaError(Error.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned.")
    topic = broker.catalog.get(name)
    if topic is not None and list(nodes) == broker.placement.replicas(topic)[index]:
        return
    known = broker.placement.ids
    if not nodes:
        reason = "A partition has one replica at least; none was named."
    elif unknown := [node for node in nodes if node not in known]:
        reason = f"There is no broker {unknown[0]} here; there are {', '.join(map(str, known))}."
    elif twice := [node for node, count in Counter(nodes).items() if count > 1]:
        reason = f"Broker {twice[0]} is named twice."
    else:
        reason = "Partitions are placed by the cluster, and a partition has one replica."
    raise KafkaError(Error.INVALID_REPLICA_ASSIGNMENT, reason)


# -- 46 ----------------------------------------------------------------------------------------------------------------


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0)
def list_partition_reassignments(
    broker: Broker, context: Context, request: messages.ListPartitionReassignmentsRequest
) -> messages.ListPartitionReassignmentsResponse:
    try:
        check_cluster(context.peer.rights, Operation.DESCRIBE)
    except KafkaError as error:
        return messages.ListPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.text, topics=[]
        )
    return messages.ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=[])
