"""Where a group's coordinator is, and what the group has read.

| key | API | versions | notes |
|---|---|---|---|
| 8 | OffsetCommit | 2-10 | retention time v2-4, leader epoch from v6, instance id from v7, topic ids v10 |
| 9 | OffsetFetch | 1-10 | all topics (null) from v2, stable ones v7, many groups v8, topic ids v10; -1: nothing |
| 10 | FindCoordinator | 0-6 | many keys from v4. Key type 1 is a transactional id, 2 is between brokers |
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gateway.apis import lane_offsets
from gateway.apis.checks import check_group, needs
from gateway.apis.groups import MAX_GROUP_ID, check_said
from gateway.apis.registry import Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.group_offsets import Along
from gateway.broker.internal_topics import OFFSETS, TRANSACTIONS
from gateway.broker.loading import after
from gateway.broker.machines import Caller
from gateway.broker.placement import Advertised
from gateway.config.schema import LONG_MAX
from gateway.coordinators import offsets
from gateway.coordinators.classic_events import Plain
from gateway.coordinators.offsets import Committed
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from semantics.lanes.marks import MarksError, misspelt, names_deliveries
from store.api import Delete, Family, Put, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.rights import Rights

log = logging.getLogger("magnetar.queues")

GROUP, TRANSACTION = 0, 1

_TopicResult = tuple[str | bytes, list[tuple[int, int]]]
"""A topic's name or id, and partition index with error code."""

# -- OffsetCommit ----------------------------------------------------------------------------------------------


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


# -- OffsetFetch -----------------------------------------------------------------------------------------------


@handles(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10)
def offset_fetch(broker: Broker, context: Context, request: messages.OffsetFetchRequest) -> Any:
    """What was stored before the question: commits under way are waited for (as require_stable wants)."""
    version, rights = context.api_version, context.peer.rights
    asked = [group.group_id for group in request.groups] if version >= 8 else [request.group_id]
    ids = [each for each in asked if rights.group(Operation.DESCRIBE, each)]
    if not ids:
        return _fetch(broker, rights, version, request)
    pending = [landed for landed in map(broker.committing.in_flight, ids) if landed is not None]
    loading = broker.group_kinds.load(ids)
    known = _queue_topics(broker, rights, version, request)
    queues = broker.queues.load(chain.from_iterable(known.values()))
    if not pending and loading is None and not known:
        return _fetch(broker, rights, version, request)

    async def wait() -> messages.OffsetFetchResponse:
        if loading is not None:
            await loading
        if queues is not None:
            await queues
        for landed in pending:
            await landed
        if not known:
            return _fetch(broker, rights, version, request)
        # what others commit while this is being stored is not stored: so it is read before
        answer = _fetch(broker, rights, version, request)
        return (
            answer if await lane_offsets.stored(broker, known) else _fetch(broker, rights, version, request)
        )

    return wait()


def _queue_topics(
    broker: Broker, rights: Rights, version: int, request: messages.OffsetFetchRequest
) -> dict[str, list[Topic]]:
    """Those that are asked where a group stands, by group."""
    groups: Sequence[Any] = request.groups if version >= 8 else [request]
    found: dict[str, list[Topic]] = {}
    for group in groups:
        if not rights.group(Operation.DESCRIBE, group.group_id):
            continue
        if group.topics is None:
            # whoever asks is told if they cannot be read
            with contextlib.suppress(StoreError):
                its = broker.queues.of_group(group.group_id)
        else:
            its = []
            for one in group.topics:
                topic = broker.catalog.by_id(one.topic_id) if version >= 10 else broker.catalog.get(one.name)
                if topic is not None and not rights.topic(Operation.DESCRIBE, topic.name):
                    continue
                known = lane_offsets.told_by(broker, topic, group.group_id) if topic is not None else None
                its += [known] if known is not None else []
        if its:
            found[group.group_id] = its
    return found


def _fetch(
    broker: Broker, rights: Rights, version: int, request: messages.OffsetFetchRequest
) -> messages.OffsetFetchResponse:
    if version >= 8:
        return messages.OffsetFetchResponse(
            groups=[
                _fetch_group(broker, rights, version, group, request.require_stable)
                for group in request.groups
            ]
        )
    topic = messages.OffsetFetchResponse.OffsetFetchResponseTopic
    partition = messages.OffsetFetchResponse.OffsetFetchResponsePartition
    if not rights.group(Operation.DESCRIBE, request.group_id):
        code = int(Error.GROUP_AUTHORIZATION_FAILED)
        # only partitions can say so in version 1
        asked = (request.topics or ()) if version < 2 else ()
        return messages.OffsetFetchResponse(
            error_code=code,
            topics=[
                topic(
                    name=one.name,
                    partitions=[_fetched(partition, index, code, None) for index in one.partition_indexes],
                )
                for one in asked
            ],
        )
    try:
        stable = version >= 7 and request.require_stable
        found = _read(broker, rights, request.group_id, version, request.topics, stable)
    except StoreError:
        return messages.OffsetFetchResponse(error_code=Error.COORDINATOR_NOT_AVAILABLE)
    return messages.OffsetFetchResponse(
        topics=[
            topic(name=name, partitions=[_fetched(partition, *row) for row in rows])
            for name, _, rows in found
        ]
    )


def _fetch_group(
    broker: Broker,
    rights: Rights,
    version: int,
    asked: messages.OffsetFetchRequest.OffsetFetchRequestGroup,
    stable: bool,
) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
    group = messages.OffsetFetchResponse.OffsetFetchResponseGroup
    topic = messages.OffsetFetchResponse.OffsetFetchResponseTopics
    partition = messages.OffsetFetchResponse.OffsetFetchResponsePartitions
    if not rights.group(Operation.DESCRIBE, asked.group_id):
        return group(group_id=asked.group_id, error_code=Error.GROUP_AUTHORIZATION_FAILED)
    if version >= 9:
        refusal = broker.committing.check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
        if refusal:
            return group(group_id=asked.group_id, error_code=refusal)
    try:
        found = _read(broker, rights, asked.group_id, version, asked.topics, stable)
    except StoreError:
        return group(group_id=asked.group_id, error_code=Error.COORDINATOR_NOT_AVAILABLE)
    return group(
        group_id=asked.group_id,
        topics=[
            topic(name=name, topic_id=topic_id, partitions=[_fetched(partition, *row) for row in rows])
            for name, topic_id, rows in found
        ],
    )


_NO_ID = bytes(16)
_Row = tuple[int, int, Committed | None]
"""Partition index, error code, what is committed."""


def _read(
    broker: Broker,
    rights: Rights,
    group_id: str,
    version: int,
    asked: Sequence[Any] | None,
    stable: bool,
) -> list[tuple[str, bytes, list[_Row]]]:
    """Name, id and rows of each topic; None asks for everything. `stable`: not where an open transaction has staged
    another offset (KIP-447). Raises StoreError.
    """
    staged = broker.transactions.staged
    groups, catalog = broker.groups, broker.catalog
    unstable = {offsets.place(key)[1:] for key in staged.of_group(group_id)} if stable and staged else set()
    # a lane stands behind what an open transaction has of it, whatever becomes of that
    unstable = {each for each in unstable if not lane_offsets.is_lane(catalog.get(each[0]), group_id)}
    if asked is None:
        return [
            (name, topic_id, _stable(rows, name, unstable))
            for name, topic_id, rows in _read_all(broker, group_id)
            if rights.topic(Operation.DESCRIBE, name)
        ]
    found: list[tuple[str, bytes, list[_Row]]] = []
    for one in asked:
        indexes = one.partition_indexes
        if version >= 10:
            topic = catalog.by_id(one.topic_id)
            name, topic_id, error = "", one.topic_id, Error.UNKNOWN_TOPIC_ID if topic is None else 0
        else:
            topic = catalog.get(one.name)
            name, topic_id, error = one.name, _NO_ID, 0
        known = topic.name if topic is not None else one.name if version < 10 else None
        if known is not None and not rights.topic(Operation.DESCRIBE, known):
            topic, error = None, Error.TOPIC_AUTHORIZATION_FAILED
        rows = groups.committed(group_id, topic, indexes) if topic is not None else [None] * len(indexes)
        if topic is not None and (its := lane_offsets.told_by(broker, topic, group_id)) is not None:
            rows, error = lane_offsets.rows(broker, its, topic, indexes, rows)
        answered = [(index, int(error), row) for index, row in zip(indexes, rows, strict=True)]
        if unstable and topic is not None:
            answered = _stable(answered, topic.name, unstable)
        found.append((name, topic_id, answered))
    return found


def _stable(rows: list[_Row], topic: str, unstable: set[tuple[str, int]]) -> list[_Row]:
    """Without those that may be others soon: whoever asks comes again."""
    return [
        (row[0], int(Error.UNSTABLE_OFFSET_COMMIT), None) if (topic, row[0]) in unstable else row
        for row in rows
    ]


def _read_all(broker: Broker, group_id: str) -> list[tuple[str, bytes, list[_Row]]]:
    """The same of all that it has committed, and all that lanes know of it. Raises StoreError."""
    committed = {topic.topic_id: (topic, rows) for topic, rows in broker.groups.all_committed(group_id)}
    found: list[tuple[str, bytes, list[_Row]]] = []
    for its, topic in lane_offsets.everywhere(broker, group_id):
        _, known = committed.pop(topic.topic_id, (topic, []))
        stored, indexes = dict(known), range(len(topic.partitions))
        rows, error = lane_offsets.rows(broker, its, topic, indexes, [stored.get(index) for index in indexes])
        found.append((topic.name, topic.topic_id, [(index, error, row) for index, row in enumerate(rows)]))
    found += [
        (topic.name, topic.topic_id, [(index, 0, row) for index, row in rows])
        for topic, rows in committed.values()
    ]
    return found


def _fetched(partition: type[Any], index: int, error: int, committed: Committed | None) -> Any:
    if committed is None:
        return partition(
            partition_index=index,
            committed_offset=-1,
            committed_leader_epoch=-1,
            metadata="",
            error_code=error,
        )
    return partition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


# -- FindCoordinator -------------------------------------------------------------------------------------------


@handles(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6)
def find_coordinator(
    broker: Broker, context: Context, request: messages.FindCoordinatorRequest
) -> messages.FindCoordinatorResponse:
    """The placement knows which node coordinates a group."""
    version, rights = context.api_version, context.peer.rights
    kind = request.key_type if version >= 1 else GROUP
    if kind in (GROUP, TRANSACTION):
        broker.internal_topics.looked_for(OFFSETS if kind == GROUP else TRANSACTIONS)
    error, text = Error.NONE, ""
    if kind not in (GROUP, TRANSACTION):
        error, text = Error.INVALID_REQUEST, Error.INVALID_REQUEST.sentence
    nodes = {} if error else {node.id: node for node in broker.placement.nodes(context.peer.listener)}
    coordinator = messages.FindCoordinatorResponse.Coordinator

    def find(key: str) -> messages.FindCoordinatorResponse.Coordinator:
        code, node = error, _NO_NODE
        why: str | None = text
        try:
            if kind == GROUP:
                check_group(rights, Operation.DESCRIBE, key)
                check_said(context.peer, key)
            elif kind == TRANSACTION and not rights.transactional_id(Operation.DESCRIBE, key):
                raise KafkaError(
                    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    needs(rights, Operation.DESCRIBE, "transactional-id", key),
                )
        except KafkaError as refused:
            code, why = refused.code, refused.text
        if not code:
            found = nodes.get(broker.placement.coordinator(key))
            if found is not None:
                node = found
            else:
                code, why = Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_NOT_AVAILABLE.sentence
        return coordinator(
            key=key, node_id=node.id, host=node.host, port=node.port, error_code=code, error_message=why
        )

    if version < 4:
        one = find(request.key)
        return messages.FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message or Error.NONE.name,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    return messages.FindCoordinatorResponse(coordinators=[find(key) for key in request.coordinator_keys])


_NO_NODE = Advertised(-1, "", -1, None)
