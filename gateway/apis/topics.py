"""19 CreateTopics (2-7), 20 DeleteTopics (1-6), 37 CreatePartitions (0-3)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from gateway.apis.checks import check_cluster_of, check_create, check_group, check_home, check_topic, needs
from gateway.apis.letter_rights import check_letters
from gateway.apis.mutations import mutate
from gateway.apis.registry import SMALL_REQUEST, Context, handles
from gateway.broker.errors import KafkaError
from gateway.broker.new_topics import check_name
from gateway.broker.queues.patterned import CONFIG as OVER_PATTERN
from gateway.broker.subscriptions import letter_names
from gateway.config import topic_configs
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics import group_names
from semantics.access.acl import Operation
from semantics.names import Namespace, dotted

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer

log = logging.getLogger("magnetar.topics")

NO_ID = bytes(16)
STRICT_CREATE, STRICT_DELETE, STRICT_GROW = 6, 5, 3
"""Versions from which on a client is refused whose controller_mutation_rate is used up (KIP-599)."""

Creatable = messages.CreateTopicsRequest.CreatableTopic
Created = messages.CreateTopicsResponse.CreatableTopicResult
CreatedConfig = messages.CreateTopicsResponse.CreatableTopicConfigs
Deleted = messages.DeleteTopicsResponse.DeletableTopicResult
Grown = messages.CreatePartitionsResponse.CreatePartitionsTopicResult


# 10,000 topics
@handles(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, largest=2 * SMALL_REQUEST)
async def create_topics(
    broker: Broker, context: Context, request: messages.CreateTopicsRequest
) -> messages.CreateTopicsResponse:
    """All topics of a request go into one commit; each succeeds or fails on its own.

    A queue topic hands out what others have: who makes one must be allowed to read the topic that it is over in the
    group that it is of, and for one over a pattern, which new topics join, to alter the cluster that it is in.
    """
    rights = context.peer.rights
    names = Counter(topic.name for topic in request.topics)
    shown: dict[tuple[tuple[str, str], ...], list[CreatedConfig]] = {}

    async def create(asked: Creatable) -> Created:
        try:
            if names[asked.name] > 1:
                raise KafkaError(Error.INVALID_REQUEST, "The topic appears more than once in the request.")
            check_create(broker, rights, asked.name)
            partitions = _partitions(broker, asked)
            configs = _configs(asked)
            where = broker.catalog.namespaces.full(asked.name).namespace
            check_letters(broker, context.peer, where, configs)
            if not request.validate_only and broker.catalog.get(asked.name) is None:
                coming = partitions if partitions != -1 else broker.settings.integer("num.partitions")
                mutate(context, STRICT_CREATE, coming)
            if (pattern := configs.pop(OVER_PATTERN, None)) is not None:
                partitions, topic_id = await _over_pattern(
                    broker,
                    context.peer,
                    asked.name,
                    pattern,
                    partitions,
                    configs,
                    validate_only=request.validate_only,
                )
                configs = {}
            elif (whose := broker.queues.named(asked.name)) is not None:
                base, subscription = whose
                check_topic(rights, Operation.READ, base)
                check_group(rights, Operation.READ, subscription)
                check_home(context.peer, asked.name)
                lanes = partitions if partitions != -1 else broker.settings.integer("num.partitions")
                if request.validate_only:
                    broker.queues.check(*whose, lanes, configs)
                    topic_id = NO_ID
                else:
                    topic_id = (await broker.queues.make(*whose, lanes, configs)).topic_id
                partitions, configs = lanes, {}
            elif request.validate_only:
                partitions = broker.topics.new.check(asked.name, partitions, configs)
                topic_id = NO_ID
            else:
                topic = await broker.topics.create(
                    asked.name, partitions, configs, partitioned=partitions != -1
                )
                if asked.name.endswith(letter_names.QUEUE):
                    log.warning(
                        "plain topic with the name of a queue topic",
                        extra={
                            "topic": asked.name,
                            "reason": letter_names.missing_base(broker.catalog, asked.name),
                        },
                    )
                partitions, topic_id = len(topic.partitions), topic.topic_id
        except KafkaError as error:
            return _not_created(asked.name, error)
        if not rights.topic(Operation.DESCRIBE_CONFIGS, asked.name):
            # it is made, and nothing is told of what it is like
            return Created(
                name=asked.name,
                topic_id=topic_id,
                error_code=0,
                error_message=None,
                topic_config_error_code=Error.TOPIC_AUTHORIZATION_FAILED,
                num_partitions=-1,
                replication_factor=-1,
                configs=[],
            )
        key = tuple(sorted(configs.items()))
        if key not in shown:
            shown[key] = [
                CreatedConfig(
                    name=row.name,
                    value=row.value,
                    read_only=row.read_only,
                    config_source=int(row.source),
                    is_sensitive=row.sensitive,
                )
                for row in topic_configs.describe(configs, broker.settings)
            ]
        return Created(
            name=asked.name,
            topic_id=topic_id,
            error_code=0,
            error_message=None,
            num_partitions=partitions,
            replication_factor=1,
            configs=shown[key],
        )

    # those that may be the queue topics of others in this request come when these are there
    later = [topic for topic in request.topics if topic.name.endswith(letter_names.QUEUE)]
    first = [topic for topic in request.topics if not topic.name.endswith(letter_names.QUEUE)]
    results = await asyncio.gather(*(create(topic) for topic in first))
    results += await asyncio.gather(*(create(topic) for topic in later))
    return messages.CreateTopicsResponse(topics=list({result.name: result for result in results}.values()))


async def _over_pattern(
    broker: Broker,
    peer: Peer,
    name: str,
    text: str,
    partitions: int,
    configs: dict[str, str],
    *,
    validate_only: bool,
) -> tuple[int, bytes]:
    """A queue topic over a pattern: how many lanes it has, and its id. Raises KafkaError."""
    check_cluster_of(peer.rights, Operation.ALTER, name)
    check_name(name)
    full = broker.catalog.namespaces.full(name)
    subscription = full.local.removesuffix(letter_names.QUEUE)
    check_group(peer.rights, Operation.READ, group_names.scoped(full.namespace, subscription))
    if subscription in ("", full.local):
        raise KafkaError(
            Error.INVALID_REQUEST,
            f"A queue topic over a pattern is called <subscription>{letter_names.QUEUE}; not '{name}'.",
        )
    pattern = broker.queues.patterned.pattern_of(text, Namespace.parse(peer.namespace))
    if pattern.namespace != full.namespace:
        raise KafkaError(Error.INVALID_CONFIG, _astray(peer, name, full.namespace, pattern.namespace))
    check_home(peer, name)
    lanes = partitions if partitions != -1 else broker.settings.integer("num.partitions")
    if validate_only:
        broker.queues.patterned.check(subscription, pattern, lanes, configs)
        return lanes, NO_ID
    made = await broker.queues.make_over(subscription, pattern, lanes, configs)
    return lanes, made.topic_id


def _astray(peer: Peer, name: str, lies: Namespace, over: Namespace) -> str:
    """Why a queue topic that lies in one namespace cannot be over topics of another."""
    if peer.prefix:
        return (
            f"This listener is for {peer.namespace}: a pattern is over its topics, not over those of {over}."
        )
    other = dotted(letter_names.queue_over(over, "<subscription>"))
    return (
        f"'{name}' would be a topic of {lies}, and the pattern is over topics of {over}: a queue topic lies where those"
        f" are. Call it '{other}', or write persistent://{lies}/ before the pattern."
    )


def _partitions(broker: Broker, asked: Creatable) -> int:
    """The number of partitions asked for, -1 for the default. Raises KafkaError."""
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise KafkaError(
                Error.INVALID_REQUEST,
                "With a replica assignment, the counts of partitions and replicas must be -1.",
            )
        indexes = sorted(assignment.partition_index for assignment in asked.assignments)
        if indexes != list(range(len(indexes))):
            raise KafkaError(
                Error.INVALID_REPLICA_ASSIGNMENT, "The partitions must be numbered from 0 without a gap."
            )
        for assignment in asked.assignments:
            check_replicas(broker, assignment.broker_ids)
        return len(indexes)
    if asked.replication_factor not in (-1, 1):
        raise KafkaError(
            Error.INVALID_REPLICATION_FACTOR,
            f"Replication factor {asked.replication_factor}: a partition is kept by one node, so it can only be 1.",
        )
    if asked.num_partitions == 0:
        raise KafkaError(Error.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    return asked.num_partitions


def check_replicas(broker: Broker, nodes: list[int]) -> None:
    """Raises KafkaError unless the only node there is is named: who gets a partition is not a client's to say."""
    ids = list(broker.placement.ids)
    if len(ids) > 1:
        raise KafkaError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"Replicas {nodes}: partitions are placed by the cluster, and cannot be assigned to nodes.",
        )
    if nodes != ids:
        raise KafkaError(
            Error.INVALID_REPLICA_ASSIGNMENT, f"Replicas {nodes}: the only node of this cluster is {ids[0]}."
        )


def _configs(asked: Creatable) -> dict[str, str]:
    configs = {}
    for config in asked.configs:
        if config.value is None:
            raise KafkaError(Error.INVALID_CONFIG, f"The value of {config.name} is missing.")
        configs[config.name] = config.value
    return configs


def _not_created(name: str, error: KafkaError) -> Created:
    return Created(
        name=name,
        topic_id=NO_ID,
        error_code=error.code,
        error_message=error.text,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


@handles(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6)
async def delete_topics(
    broker: Broker, context: Context, request: messages.DeleteTopicsRequest
) -> messages.DeleteTopicsResponse:
    by_id = context.api_version >= 6
    rights = context.peer.rights

    def refused(name: str | None, topic_id: bytes, code: Error, text: str) -> Deleted:
        return Deleted(name=name, topic_id=topic_id, error_code=code, error_message=text)

    def may_delete(name: str) -> bool:
        return rights.cluster_of(Operation.DELETE, name) or rights.topic(Operation.DELETE, name)

    def forbidden(name: str | None, topic_id: bytes) -> Deleted:
        code = Error.TOPIC_AUTHORIZATION_FAILED
        if name is None:
            return refused(name, topic_id, code, code.sentence)
        return refused(name, topic_id, code, needs(rights, Operation.DELETE, "topic", name, or_cluster=True))

    async def delete(name: str | None, topic_id: bytes) -> Deleted:
        if times[name, topic_id] > 1:
            return refused(
                name, topic_id, Error.INVALID_REQUEST, "The topic appears more than once in the request."
            )
        if (name is None) == (topic_id == NO_ID):
            return refused(
                name, topic_id, Error.INVALID_REQUEST, "Give a topic's name or its id, one of the two."
            )
        if name is None:
            topic = broker.catalog.by_id(topic_id)
            if topic is None:
                return refused(None, topic_id, Error.UNKNOWN_TOPIC_ID, "There is no topic with this id.")
            name = topic.name
            if not may_delete(name):
                shown = name if rights.topic(Operation.DESCRIBE, name) else None
                return forbidden(shown, topic_id)
        elif not may_delete(name):
            return forbidden(name, NO_ID)
        known = broker.catalog.get(name)
        answer = Deleted(
            name=name, topic_id=known.topic_id if known else NO_ID, error_code=0, error_message=None
        )
        try:
            if known is not None:
                mutate(context, STRICT_DELETE, len(known.partitions))
            await broker.topics.delete(name)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.text
        return answer

    asked = (
        [(topic.name, topic.topic_id) for topic in request.topics]
        if by_id
        else [(name, NO_ID) for name in request.topic_names]
    )
    times = Counter(asked)
    responses = await asyncio.gather(*(delete(name, topic_id) for name, topic_id in times))
    return messages.DeleteTopicsResponse(responses=list(responses))


@handles(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3)
async def create_partitions(
    broker: Broker, context: Context, request: messages.CreatePartitionsRequest
) -> messages.CreatePartitionsResponse:
    names = Counter(topic.name for topic in request.topics)
    results = []
    for asked in request.topics:
        answer = Grown(name=asked.name, error_code=0, error_message=None)
        results.append(answer)
        try:
            if names[asked.name] > 1:
                raise KafkaError(Error.INVALID_REQUEST, "The topic appears more than once in the request.")
            check_topic(context.peer.rights, Operation.ALTER, asked.name)
            topic = broker.topics.get(asked.name)
            if topic.queue is not None:
                check_home(context.peer, asked.name)
            have = len(topic.partitions)
            if asked.assignments is not None:
                if len(asked.assignments) != asked.count - have:
                    raise KafkaError(
                        Error.INVALID_REPLICA_ASSIGNMENT,
                        f"{asked.count - have} partition(s) would be added, and {len(asked.assignments)} assignment(s) "
                        "are given.",
                    )
                for assignment in asked.assignments:
                    check_replicas(broker, assignment.broker_ids)
            if not request.validate_only:
                mutate(context, STRICT_GROW, asked.count - have)
            await broker.topics.grow(asked.name, asked.count, validate_only=request.validate_only)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.text
    return messages.CreatePartitionsResponse(results=list({each.name: each for each in results}.values()))
