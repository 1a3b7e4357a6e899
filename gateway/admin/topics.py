"""The verbs of `topics`: list, create, delete, partitions, stats. One function each, named in `routes.py`.

Kafka knows topics with partitions; Pulsar knows plain topics, partitioned topics, and their partitions as
topics of their own. Here a Kafka topic is a partitioned topic, unless it was made without a word of partitions, by
`topics create` or by a Kafka client, where one is the default. Then it is called without a suffix, and its row in the
catalog says so (`Topic.partitioned`), until a Kafka client gives it more partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gateway.admin import audit, cursors, groups, lane_stats, stats, topic_names
from gateway.admin.exchange import DONE, Call, RefusedError, Reply, done, json, json_of_many, previewed
from gateway.admin.slices import Pace
from gateway.broker.errors import KafkaError
from gateway.broker.loading import load
from semantics.names import (
    DEFAULT,
    DOMAINS,
    NON_PERSISTENT,
    PARTITION,
    PERSISTENT,
    Namespace,
    NamingError,
    TopicName,
    canonical,
    check_local,
    dotted,
)
from store.api import of_partition

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.topics import Follows
    from store.api import Write


@dataclass(frozen=True, slots=True)
class Found:
    """A name and the topic behind it. `index` is the Kafka partition, -1 for the whole of several."""

    name: TopicName
    topic: Topic
    index: int


def namespace_of(broker: Broker, tenant: str, name: str) -> Namespace:
    """A namespace that is there. Refuses others: 412 for a bad name, 404 for one that does not exist."""
    try:
        namespace = Namespace.of(tenant, name)
    except NamingError as error:
        raise RefusedError(412, str(error)) from None
    broker.tenancy.namespace(namespace)
    return namespace


def named(broker: Broker, call: Call) -> TopicName:
    """The topic that the path of `call` names: `domain, tenant, namespace, topic, …`. In public/default one of another
    namespace may be called as Kafka clients call it.
    """
    domain, tenant, namespace, local = call.path[:4]
    where = namespace_of(broker, tenant, namespace)
    try:
        check_local(local)
        name = TopicName(where, local, domain)
        if where == DEFAULT:
            name = replace(broker.catalog.namespaces.full(topic_names.named(broker, local)), domain=domain)
        canonical(name)
    except NamingError as error:
        raise RefusedError(412, str(error)) from None
    return name


async def find(broker: Broker, name: TopicName) -> Found:
    """What `name` stands for, loaded: its partitions can be looked at."""
    found = _find(broker, name)
    numbers = found.topic.partitions
    await loaded(broker, numbers if found.index < 0 else numbers[found.index : found.index + 1])
    return found


async def found_by(broker: Broker, call: Call) -> Found:
    """What the path of `call` names, loaded. Refuses with 409 where `topicId` of the query says another topic: the one
    that a dry run was about has been deleted since, and the name is another's.
    """
    found = await find(broker, named(broker, call))
    refuse_another(call, found, found.topic)
    return found


def refuse_another(call: Call, found: Found, topic: Topic) -> None:
    """See `found_by`."""
    seen = call.query.get("topicId")
    if seen == "":
        raise RefusedError(400, "topicId is empty: leave it out if any topic of this name is meant.")
    if seen is not None and seen != stats.topic_id(topic):
        raise RefusedError(
            409, f"{found.name} is another topic than the one that was looked at: it was made anew since."
        )


async def loaded(broker: Broker, partitions: Iterable[int]) -> None:
    """Until these can be looked at, by the store's ids of them."""
    loading = load(broker.store, map(of_partition, partitions))
    if loading is not None:
        await loading


def _find(broker: Broker, name: TopicName) -> Found:
    """A partition goes before a topic that has the very same name."""
    parent = None
    if name.partition >= 0:
        parent = _called(broker, name.parent)
        if parent is not None and parent.partitioned and name.partition < len(parent.partitions):
            return Found(name, parent, name.partition)
    topic = _called(broker, name)
    if topic is not None:
        return Found(name, topic, -1 if topic.partitioned else 0)
    if name.partition == 0 and parent is not None and not parent.partitioned:
        # the log of a plain topic, by the name that it would have as a partition
        return Found(name, parent, 0)
    other = replace(name, domain=PERSISTENT if not name.persistent else NON_PERSISTENT)
    parent = _called(broker, other.parent)
    if _called(broker, other) is not None or (parent is not None and name.partition < len(parent.partitions)):
        raise RefusedError(404, f"There is no topic {name}, but {other}: name that.")
    raise RefusedError(404, f"There is no topic {name}.")


def _called(broker: Broker, name: TopicName) -> Topic | None:
    """The topic of exactly this name: one of the other domain is another."""
    topic = broker.catalog.get(canonical(name))
    return topic if topic is not None and topic.transient != name.persistent else None


def whole_topic(found: Found, what: str) -> Found:
    """A topic, not one partition of it: `what` belongs to all of them together. Refuses with 412."""
    if found.index >= 0 and found.topic.partitioned:
        raise RefusedError(
            412, f"{what} belong to a topic with all of its partitions: name {found.name.parent}."
        )
    return found


# -- lists


async def list_topics(context: Context, call: Call) -> Reply:
    """See `names_in`."""
    return json(await names_in(context, call))


async def names_in(context: Context, call: Call) -> list[str]:
    """Full names of the topics of a domain: plain topics, and each partition of the others."""
    broker = context.broker
    namespace, transient = namespace_of(broker, *call.path[1:3]), call.path[0] == NON_PERSISTENT
    hidden = call.flag("includeSystemTopic")
    names: list[str] = []
    pace = Pace()
    async for topic in broker.tenancy.topics_of(namespace):
        if topic.transient != transient or (topic.internal and not hidden) or not call.asker.sees(topic.name):
            continue
        name = str(broker.catalog.full_of(topic))
        if topic.partitioned:
            names.extend([f"{name}{PARTITION}{index}" for index in range(len(topic.partitions))])
        else:
            names.append(name)
        await pace.rest()
    return names


async def list_partitioned(context: Context, call: Call) -> Reply:
    """Full names of the partitioned topics of a domain."""
    broker = context.broker
    namespace, transient = namespace_of(broker, *call.path[1:3]), call.path[0] == NON_PERSISTENT
    hidden = call.flag("includeSystemTopic")
    names = [
        str(broker.catalog.full_of(topic))
        async for topic in broker.tenancy.topics_of(namespace)
        if topic.partitioned
        and topic.transient == transient
        and (hidden or not topic.internal)
        and call.asker.sees(topic.name)
    ]
    return json(names)


# -- grow, delete (`creating.py` makes them)


async def partitions_of(context: Context, call: Call) -> Reply:
    """0 partitions is Pulsar's way to say plain."""
    found = await found_by(context.broker, call)
    if found.index >= 0:
        return json({"partitions": 0, "deleted": False})
    return json(stats.metadata(found.topic))


async def grow(context: Context, call: Call) -> Reply:
    """More partitions. As many as there are is done already; fewer is refused with 422."""
    found = await found_by(context.broker, call)
    if found.index >= 0:
        raise RefusedError(409, f"{found.name} is not a partitioned topic: it cannot have more partitions.")
    have, count = len(found.topic.partitions), count_of(call)
    if count < have:
        raise RefusedError(422, f"{found.name} has {have} partitions; it cannot be cut down to {count}.")
    if count > have:
        await context.broker.create_partitions(found.topic.name, count)
    return done(before=have, partitions=count)


async def create_missed(context: Context, call: Call) -> Reply:
    """Nothing to do: a topic and its partitions are made in one commit."""
    await found_by(context.broker, call)
    return DONE


async def delete(context: Context, call: Call) -> Reply:
    """A plain topic. With `dryRun` it stays: it is refused in the same way, or says how many `messages` would go, and
    the `topicId`. A deletion that names this and finds another, made under the name since, is refused with 409.
    """
    found = await found_by(context.broker, call)
    if found.index < 0:
        raise RefusedError(
            409,
            f"{found.name} is a partitioned topic: use delete-partitioned-topic instead of delete.",
        )
    if found.topic.partitioned:
        raise RefusedError(
            409,
            f"{found.name} is a partition of {found.name.parent} and cannot be deleted without the others.",
        )
    return await _delete(context, call, found)


async def delete_partitioned(context: Context, call: Call) -> Reply:
    """A partitioned topic with all of its partitions; `dryRun` as for a plain one."""
    found = await found_by(context.broker, call)
    if found.index >= 0:
        raise RefusedError(
            409,
            f"{found.name} is not a partitioned topic: use delete instead of delete-partitioned-topic.",
        )
    return await _delete(context, call, found)


async def _delete(context: Context, call: Call, found: Found) -> Reply:
    await _check_unused(context, call, found)
    broker, messages = context.broker, _kept(context, found.topic)
    if call.flag("dryRun"):
        return previewed({"messages": messages, "topicId": stats.topic_id(found.topic)})

    def is_seen(topic: Topic) -> bool:
        """It is asked when nobody else can change the topic any more."""
        refuse_another(call, found, topic)
        return True

    await broker.audit_log.ready()
    await broker.topics.delete(found.topic.name, _followed(broker, call, messages), only_if=is_seen)
    return done(messages=messages)


def _followed(broker: Broker, call: Call, messages: int) -> Follows:
    """The audit tells of a deletion by the commit that does it."""
    tell = audit.with_act(broker, call, {"messages": messages})

    def follow(_: Topic) -> tuple[list[Write], Callable[[], None]]:
        tell()
        return [], lambda: None

    return follow


def _kept(context: Context, topic: Topic) -> int:
    """Messages that a topic holds, over its partitions."""
    logs = [context.broker.log_of(topic, index) for index in range(len(topic.partitions))]
    return sum(log.end_offset - log.start_offset for log in logs)


async def _check_unused(context: Context, call: Call, found: Found) -> None:
    """Without force, a topic with connected consumers stays. Of producers nobody knows: Kafka's have no session."""
    if call.flag("force"):
        return
    broker = context.broker
    busy = await groups.connected(broker, found.topic)
    # its queue topics go with it, or lose what it has
    queues = {row.queue async for row in broker.subscriptions.each_of_topic(found.topic.topic_id)}
    for name in sorted(queues):
        lanes = broker.catalog.get(name)
        if lanes is not None:
            busy += [f"{group} (of {dotted(name)})" for group in await groups.connected(broker, lanes)]
    if busy:
        shown = ", ".join(busy[:5]) + (" and others" if len(busy) > 5 else "")
        raise RefusedError(
            412,
            f"{found.name} has connected consumers, in {shown}. Stop them first, or delete it with --force.",
        )


def count_of(call: Call) -> int:
    """The number of partitions in the body."""
    value = call.json()
    if isinstance(value, dict):
        value = value.get("partitions")
    if isinstance(value, bool) or not isinstance(value, int):
        raise RefusedError(400, "The body is the number of partitions, for example 4.")
    if value < 1:
        raise RefusedError(412, f"A partitioned topic has at least 1 partition, not {value}.")
    return value


# -- stats


async def topic_stats(context: Context, call: Call) -> Reply:
    """One plain topic or one partition; 404 on a topic with several partitions, as in Pulsar."""
    found = _one(await found_by(context.broker, call), "partitioned-stats", "stats")
    spans = {found.index: stats.span(context, found.topic, found.index)}
    subscriptions = await groups.subscriptions(context.broker, found.topic, spans)
    answer = await stats.of_partition(context, found.topic, found.index, subscriptions[found.index])
    return json(await _with_lanes(context.broker, found, answer))


async def partitioned_stats(context: Context, call: Call) -> Reply:
    """The sums over a partitioned topic, and with `perPartition` those of each partition."""
    found = _whole(await found_by(context.broker, call), "stats")
    pace = Pace()
    spans = await stats.spans(context, found.topic, range(len(found.topic.partitions)), pace)
    subscriptions = await groups.subscriptions(context.broker, found.topic, spans)
    each: dict[str, stats.Stats] = {}
    extras = stats.extras_of(context, found.topic)
    for index in spans:
        name = str(found.name.with_partition(index))
        each[name] = await stats.of_partition(context, found.topic, index, subscriptions[index], extras)
        await pace.rest()
    answer = await stats.of_partitioned(context, found.topic, each, call.flag("perPartition", True))
    return await json_of_many(await _with_lanes(context.broker, found, answer), "partitions")


async def _with_lanes(broker: Broker, found: Found, answer: stats.Stats) -> stats.Stats:
    """What a queue topic's stats are about; of any other topic they stay as they are."""
    of = found.topic.queue
    if of is not None:
        await groups.load(broker, of.subscription)
        base = broker.catalog.by_id(of.topic_id)
        lanes = lane_stats.of_queue(broker, found.topic)["lanes"]
        over = {"pattern": of.pattern, "baseTopics": _base_names(broker, found.topic)} if of.pattern else {}
        answer["magnetar"]["queue"] = {
            "baseTopic": dotted(base.name) if base is not None else None,
            **over,
            "subscription": of.subscription,
            "lanes": lanes if found.index < 0 else lanes[found.index : found.index + 1],
        }
    return answer


def _base_names(broker: Broker, queue: Topic) -> list[str]:
    """The topics that match a queue topic's pattern."""
    found = [broker.catalog.by_id(topic_id) for topic_id in broker.queues.patterned.bases(queue)]
    return sorted(dotted(topic.name) for topic in found if topic is not None)


async def internal_stats(context: Context, call: Call) -> Reply:
    """Ledgers and cursors of one plain topic or one partition."""
    found = _one(await found_by(context.broker, call), "partitioned-stats-internal", "stats-internal")
    there = await cursors.of_partitions(context, found.topic, [found.index])
    return json(stats.internal(context, found.topic, found.index, there[found.index]))


async def internal_info(context: Context, call: Call) -> Reply:
    """What is kept of one plain topic or one partition: its ledgers, and how far subscriptions are."""
    found = _one(await found_by(context.broker, call), "partitioned-stats-internal", "info-internal")
    there = await cursors.of_partitions(context, found.topic, [found.index])
    kept = {name: cursors.kept(each) for name, each in there[found.index].items()}
    return json(stats.info(context, found.topic, found.index, kept))


async def compaction(context: Context, call: Call) -> Reply:
    """How the last compaction of a partition went, or those of all partitions of a topic together."""
    found = await found_by(context.broker, call)
    compaction, indexes = context.broker.compaction, _indexes(found)
    why = await compaction.held_back(found.topic, indexes)
    status = compaction.status(found.topic, indexes)
    held = {"heldBack": why} if why else {}
    return json({"status": status.state, "lastError": status.error, **held})


async def compact(context: Context, call: Call) -> Reply:
    """Compact a partition now, or all of a topic."""
    found = await found_by(context.broker, call)
    try:
        begun = context.broker.compaction.ask(found.topic, _indexes(found))
    except KafkaError as error:
        raise RefusedError(412, str(error)) from error
    if not begun:
        raise RefusedError(409, f"{found.name} is being compacted already.")
    return DONE


def _indexes(found: Found) -> list[int]:
    return [found.index] if found.index >= 0 else list(range(len(found.topic.partitions)))


async def partitioned_internal_stats(context: Context, call: Call) -> Reply:
    """Ledgers and cursors of each partition."""
    found = _whole(await found_by(context.broker, call), "stats-internal")
    there = await cursors.of_partitions(context, found.topic, range(len(found.topic.partitions)))
    each: dict[str, stats.Stats] = {}
    pace = Pace()
    for index in range(len(found.topic.partitions)):
        name = str(found.name.with_partition(index))
        each[name] = stats.internal(context, found.topic, index, there[index])
        await pace.rest()
    return await json_of_many({"metadata": stats.metadata(found.topic), "partitions": each}, "partitions")


def _one(found: Found, other: str, verb: str) -> Found:
    """One partition. A topic with a single one, as Kafka clients make it, is that partition."""
    if found.index < 0 and len(found.topic.partitions) == 1:
        return replace(found, index=0)
    if found.index < 0:
        raise RefusedError(
            404,
            f"{found.name} is a partitioned topic with {len(found.topic.partitions)} partitions."
            f" Use {other} for the whole of it, or {verb} for one partition such as {found.name.with_partition(0)}.",
        )
    return found


def _whole(found: Found, other: str) -> Found:
    if found.index >= 0:
        raise RefusedError(404, f"{found.name} is not a partitioned topic. Use {other} for it.")
    return found


__all__ = ["DOMAINS", "Found", "find", "named", "namespace_of"]
