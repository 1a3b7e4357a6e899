"""03 Metadata, versions 0 to 13, and 75 DescribeTopicPartitions, version 0 (KIP-966).

Metadata makes missing topics when the client and the topic's namespace allow it, and answers with them at once;
Kafka makes the client ask again. The placement knows who leads what. Each partition is kept by its leader alone.

A client without the right to describe a topic is not told whether there is one: by its name it hears the same in any
case, and by its id that there is none. Kafka says of an id that it is forbidden.
"""

from __future__ import annotations

import asyncio
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from gateway.apis.audited import made_by_the_way
from gateway.apis.checks import NOT_ASKED, check_create
from gateway.apis.mutations import NEVER, mutate
from gateway.apis.reach import cluster_id, listed
from gateway.apis.registry import Context, handles
from gateway.broker import policies
from gateway.broker.errors import KafkaError
from gateway.broker.new_topics import check_name
from gateway.broker.subscriptions import letter_names
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import CLUSTER_NAME, Operation, ResourceType
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.peer import Peer
    from gateway.rights import Rights

NO_ID = bytes(16)

Response = messages.MetadataResponse
Described = messages.DescribeTopicPartitionsResponse


class _Asker(NamedTuple):
    """What of an answer hangs on who asks, and for what."""

    rights: Rights
    operations: bool
    """whether it asks what it may do to each topic"""
    shows_queues: bool


def cluster_operations(rights: Rights, *, asked: bool) -> int:
    """What a client may do to the cluster, as bits; nothing, if it may not describe it."""
    if not asked:
        return NOT_ASKED
    may = rights.cluster(Operation.DESCRIBE)
    return rights.operations(ResourceType.CLUSTER, CLUSTER_NAME) if may else 0


_ADMIN = "adminclient"


def shows_queues(peer: Peer) -> bool:
    """Whether queue topics are told as any other. To others they are internal, so that patterns of consumers pass over
    them; but Java's Admin client, which this is the default client id of, is what Spark looks for topics by, and it
    leaves internal ones out without a word.
    """
    return peer.client_id.startswith(_ADMIN)


@handles(ApiKey.METADATA, "Metadata", 0, 13)
def metadata(
    broker: Broker, context: Context, request: messages.MetadataRequest
) -> Pending[messages.MetadataResponse]:
    version = context.api_version
    asked = request.topics
    rights = context.peer.rights
    asker = _Asker(rights, request.include_topic_authorized_operations, shows_queues(context.peer))
    response = Response(
        brokers=[
            Response.MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.placement.nodes(context.peer.listener)
        ],
        cluster_id=cluster_id(broker, context.peer),
        controller_id=broker.placement.controller,
        cluster_authorized_operations=cluster_operations(
            rights, asked=request.include_cluster_authorized_operations
        ),
    )
    if asked is None or (version == 0 and not asked):
        found = listed(broker, context.peer)
        response.topics = [
            _topic(broker, topic, asker)
            for topic in chain(found, _views(broker, context.peer))
            if not rights.checked or rights.topic(Operation.DESCRIBE, topic.name)
        ]
        return response
    create = version < 4 or request.allow_auto_topic_creation
    # a topic named twice is answered once; the order is that of the question
    names = list(dict.fromkeys((each.name, each.topic_id) for each in asked))
    missing: dict[str, None] = {}
    if len(names) <= SLICE:
        response.topics = [_answer(broker, version, each, asker, missing) for each in names]
        if not (create and missing):
            return response
        names = []
    return _slowly(broker, context, response, names, asker, missing, create)


def _views(broker: Broker, peer: Peer) -> list[Topic]:
    """Internal topics that lists of all topics have: a namespace of its own has none."""
    return [] if peer.prefix else broker.internal_topics.listed()


SLICE = 500
"""Topics that are answered before others get their turn: a request may name 100,000."""


def _answer(
    broker: Broker, version: int, asked: tuple[str | None, bytes], asker: _Asker, missing: dict[str, None]
) -> messages.MetadataResponse.MetadataResponseTopic:
    """One topic of the answer. Legal names of topics that are not there are put into `missing`."""
    name, topic_id = asked
    if name is None or topic_id != NO_ID:
        if version < 12:
            # These versions have the field, but not the meaning, and cannot say "no name".
            return _failed(name or "", Error.INVALID_REQUEST, topic_id)
        topic = broker.catalog.by_id(topic_id)
        if topic is None or not asker.rights.topic(Operation.DESCRIBE, topic.name):
            return _failed(None, Error.UNKNOWN_TOPIC_ID, topic_id)
        return _topic(broker, topic, asker)
    if not asker.rights.topic(Operation.DESCRIBE, name):
        return _failed(name, Error.TOPIC_AUTHORIZATION_FAILED)
    topic = broker.catalog.get(name)
    if topic is not None:
        return _topic(broker, topic, asker)
    try:
        check_name(name)
        if "/" in name and not broker.catalog.namespaces.several:
            # a client's own word: nobody has translated it
            return _failed(name, Error.INVALID_TOPIC_EXCEPTION)
    except KafkaError as error:
        return _failed(name, error.code)
    if letter_names.missing_base(broker.catalog, name) is None:
        missing[name] = None
    return _failed(name, Error.UNKNOWN_TOPIC_OR_PARTITION)


async def _slowly(
    broker: Broker,
    context: Context,
    response: messages.MetadataResponse,
    names: list[tuple[str | None, bytes]],
    asker: _Asker,
    missing: dict[str, None],
    create: bool,
) -> messages.MetadataResponse:
    """The rest of an answer that is long, or for which topics must be made."""
    for start in range(0, len(names), SLICE):
        part = names[start : start + SLICE]
        response.topics += [_answer(broker, context.api_version, each, asker, missing) for each in part]
        await asyncio.sleep(0)
    if create and missing:
        await _create(broker, context, response, missing, asker)
    return response


async def _create(
    broker: Broker,
    context: Context,
    response: messages.MetadataResponse,
    missing: dict[str, None],
    asker: _Asker,
) -> None:
    errors: dict[str, Error] = {}
    created: list[str] = []

    async def create(name: str) -> None:
        try:
            # nobody said how many partitions: a single one is a plain topic to Pulsar, unless a policy says otherwise
            made = policies.new_topic(broker, broker.catalog, name)
            if made is None:
                return
            check_create(broker, asker.rights, name)
            base = letter_names.base_of(broker.catalog, name)
            count, partitioned = made if base is None else (len(base.partitions), base.partitioned)
            mutate(context, NEVER, count if count > 0 else broker.settings.integer("num.partitions"))
            await broker.topics.create(name, count, {}, partitioned=partitioned)
            created.append(name)
        except KafkaError as error:
            # Somebody else made it meanwhile, or is about to, or it may not be made yet: the client asks again.
            later = error.code in (Error.TOPIC_ALREADY_EXISTS, Error.REQUEST_TIMED_OUT)
            errors[name] = Error.LEADER_NOT_AVAILABLE if later else error.code

    # all in one commit
    await asyncio.gather(*(create(name) for name in missing))
    made_by_the_way(broker, context, created)
    for index, answer in enumerate(response.topics):
        if answer.name in missing:
            topic = broker.catalog.get(answer.name)
            if topic is not None:
                response.topics[index] = _topic(broker, topic, asker)
            else:
                answer.error_code = errors.get(answer.name, Error.UNKNOWN_TOPIC_OR_PARTITION)


def _topic(broker: Broker, topic: Topic, asker: _Asker) -> messages.MetadataResponse.MetadataResponseTopic:
    numbers = topic.partitions
    epoch_of = broker.store_of(topic).leader_epoch
    partition = Response.MetadataResponsePartition
    return Response.MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=_internal(topic, asker.shows_queues),
        partitions=[
            partition(
                error_code=0,
                partition_index=index,
                leader_id=nodes[0],
                leader_epoch=epoch_of(numbers[index]),
                replica_nodes=nodes,
                isr_nodes=nodes,
                offline_replicas=[],
            )
            for index, nodes in enumerate(broker.placement.replicas(topic))
        ],
        topic_authorized_operations=_operations(topic, asker.rights) if asker.operations else NOT_ASKED,
    )


def _operations(topic: Topic, rights: Rights) -> int:
    return rights.operations(ResourceType.TOPIC, topic.name)


def _internal(topic: Topic, shows_queues: bool) -> bool:
    return topic.internal and not (shows_queues and topic.queue is not None)


def _failed(
    name: str | None, error: Error, topic_id: bytes = NO_ID
) -> messages.MetadataResponse.MetadataResponseTopic:
    return Response.MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, partitions=[], topic_authorized_operations=NOT_ASKED
    )


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0)
def describe_topic_partitions(
    broker: Broker, context: Context, request: messages.DescribeTopicPartitionsRequest
) -> messages.DescribeTopicPartitionsResponse:
    """Topics in the order of their names; a cursor goes on where the limit on partitions ended the last answer."""
    limit = min(request.response_partition_limit, broker.settings.integer("max.request.partition.size.limit"))
    limit = max(limit, 1)
    cursor = request.cursor
    first = cursor.topic_name if cursor is not None else ""
    response = Described(next_cursor=None)
    rights = context.peer.rights
    if request.topics:
        names = sorted({topic.name for topic in request.topics if topic.name >= first})
    else:
        few = None if rights.checked else limit + 1
        found = listed(broker, context.peer, first, few)
        views = [topic for topic in _views(broker, context.peer) if topic.name >= first]
        names = sorted(
            [
                *islice((topic.name for topic in found if _may_describe(rights, topic)), limit + 1),
                *(topic.name for topic in views if _may_describe(rights, topic)),
            ]
        )
    left = limit
    for name in names:
        start = cursor.partition_index if cursor is not None and name == first else 0
        if left == 0:
            response.next_cursor = Described.Cursor(topic_name=name, partition_index=0)
            break
        if not rights.topic(Operation.DESCRIBE, name):
            response.topics.append(_undescribed(name, Error.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic = broker.catalog.get(name)
        if topic is None:
            response.topics.append(_undescribed(name, _missing(name)))
            continue
        stop = min(len(topic.partitions), max(0, start) + left)
        response.topics.append(_described(broker, topic, max(0, start), stop, context.peer))
        left -= max(0, stop - max(0, start))
        if stop < len(topic.partitions):
            response.next_cursor = Described.Cursor(topic_name=name, partition_index=stop)
            break
    return response


def _may_describe(rights: Rights, topic: Topic) -> bool:
    return not rights.checked or rights.topic(Operation.DESCRIBE, topic.name)


def _missing(name: str) -> Error:
    """What is said of a topic that is not there."""
    try:
        check_name(name)
    except KafkaError as refused:
        return refused.code
    return Error.UNKNOWN_TOPIC_OR_PARTITION


def _undescribed(
    name: str, error: Error
) -> messages.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    return Described.DescribeTopicPartitionsResponseTopic(
        error_code=error, name=name, topic_id=NO_ID, partitions=[], topic_authorized_operations=NOT_ASKED
    )


def _described(
    broker: Broker, topic: Topic, start: int, stop: int, peer: Peer
) -> messages.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    replicas = broker.placement.replicas(topic)
    epoch_of = broker.store_of(topic).leader_epoch
    return Described.DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=_internal(topic, shows_queues(peer)),
        partitions=[
            Described.DescribeTopicPartitionsResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=replicas[index][0],
                leader_epoch=epoch_of(topic.partitions[index]),
                replica_nodes=replicas[index],
                isr_nodes=replicas[index],
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[],
            )
            for index in range(start, stop)
        ],
        topic_authorized_operations=_operations(topic, peer.rights),
    )
