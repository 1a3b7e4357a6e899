"""Where a group goes on: OffsetFetch.

| key | API | versions | notes |
|---|---|---|---|
| 9 | OffsetFetch | 1-10 | all topics (null) from v2, stable ones v7, many groups v8, topic ids v10; -1: nothing |
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from gateway.apis import lane_offsets
from gateway.apis.registry import Context, handles
from gateway.coordinators import offsets
from gateway.coordinators.offsets import Committed
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.rights import Rights


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
