"""Verbs of backlogs as wholes: what is old in one counts as acknowledged, how large one is, all of a namespace's.

What a consumer group has still to read is moved by a commit, as `kafka-consumer-groups --reset-offsets` does it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gateway.admin import audit
from gateway.admin.exchange import DONE, RefusedError, Reply, done, json
from gateway.admin.groups import load, views
from gateway.admin.places import (
    Named,
    backlog_of,
    by_time,
    commit_offsets,
    committed_offset,
    id_of,
    indexes_of,
    moved,
    named_subscription,
    number_of,
    offset_of,
    one_partition,
    whole,
)
from gateway.admin.subscriptions import clear, unsubscribe
from gateway.admin.topics import Found, found_by, namespace_of
from gateway.broker.loading import until_loaded
from gateway.broker.message_ids import id_at
from gateway.broker.namespaces import prefix_of
from gateway.wire.batch import BatchError
from semantics.message_id import MessageId
from semantics.names import DEFAULT
from semantics.subscriptions.rows import RowError
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from semantics.names import Namespace

_LONGEST_S = 2**31 - 1


# -- by age and by id


async def expire(context: Context, call: Call) -> Reply:
    """What was sent longer ago than so many seconds counts as acknowledged, or what lies up to a message id."""
    at = await named_subscription(context.broker, call)
    if len(call.path) > 7:
        return done(messages=await _expire_old(context.broker, at, _seconds(call.path[7])))
    return done(messages=await _expire_up_to(context.broker, at, call))


async def expire_all(context: Context, call: Call) -> Reply:
    """The same by age for all subscriptions of a topic. Groups with members stay as they are."""
    broker = context.broker
    found = keeping(await found_by(broker, call), "expire-messages-all-subscriptions")
    seconds = _seconds(call.path[-1])
    total = 0
    async for at in subscriptions_of(broker, found, await readers_of(broker)):
        try:
            total += await _expire_old(broker, at, seconds)
        except RefusedError as refused:
            if refused.status != 412:
                raise
    return done(messages=total)


def _seconds(text: str) -> int:
    seconds = number_of(text, "how old messages are, in seconds")
    if not 0 < seconds <= _LONGEST_S:
        raise RefusedError(412, f"Messages expire at 1 to {_LONGEST_S} seconds, not {seconds}.")
    return seconds


async def _expire_old(broker: Broker, at: Named, seconds: int) -> int:
    keeping(at.found, "expire-messages")
    if not at.shared:
        targets: dict[int, int] = {}
        total = 0
        for index in indexes_of(at.found):
            partition = broker.partition(at.found.topic, index)
            begin = committed_offset(broker, at, partition)
            end = await by_time(broker, partition, broker.clock.wall_ms() - seconds * 1000)
            if end > begin:
                targets[index] = end
                total += end - begin
        if targets:
            await commit_offsets(broker, at.found, at.name, targets)
        return total
    one = at.found.index if at.found.index >= 0 else None
    try:
        return await broker.message_ttl_job.expire(at.found.topic, seconds * 1000, index=one, group=at.name)
    except (StoreError, BatchError, RowError, KeyError, IndexError) as error:
        raise RefusedError(503, f"The messages cannot be looked through at present: {error}") from None


async def _expire_up_to(broker: Broker, at: Named, call: Call) -> int:
    partition = one_partition(broker, at.found, "expire-messages up to a message id")
    body = call.json()
    if not isinstance(body, dict):
        raise RefusedError(
            400, "Messages expire by the seconds in the path, or by the message id in the body."
        )
    wanted = id_of(call)
    excluded = body.get("isExcluded", body.get("excluded")) is True
    end = offset_of(partition, wanted)
    if 0 <= wanted.ledger < 2**63 - 1 and not excluded:
        end += 1
    end = min(end, partition.high_watermark)
    before = backlog_of(broker, at, partition.index, partition.high_watermark)
    if not at.shared:
        if end > committed_offset(broker, at, partition):
            await commit_offsets(broker, at.found, at.name, {partition.index: end})
    else:
        await moved(broker, at, {partition.index: end}, lambda cursor, offset: cursor.expire(offset), call)
    return before - backlog_of(broker, at, partition.index, partition.high_watermark)


def keeping(found: Found, verb: str) -> Found:
    """Refuses a queue topic."""
    if found.topic.queue is not None:
        raise RefusedError(412, f"{found.name} is a queue topic: use {verb} on the topic that it reads.")
    return found


# -- where


async def last_id(context: Context, call: Call) -> Reply:
    """The id of the last message of one partition; -1 where there is none."""
    partition = _of_one(context.broker, await found_by(context.broker, call), "last-message-id")
    return json(_id_before(partition, partition.high_watermark).to_json())


async def id_by_time(context: Context, call: Call) -> Reply:
    """The id of the first message that was sent at a time (ms since 1970) or later; the last one where none was."""
    broker = context.broker
    partition = _of_one(broker, await found_by(broker, call), "get-message-id")
    offset = await by_time(broker, partition, number_of(call.path[5], "the time, in ms since 1970"))
    if offset >= partition.high_watermark:
        return json(_id_before(partition, offset).to_json())
    return json(id_at(partition, offset).to_json())


# -- ended


async def terminate(context: Context, call: Call) -> Reply:
    """A plain topic, or one partition, takes no more messages; the id of its last one."""
    found = keeping(await found_by(context.broker, call), "terminate")
    if found.index < 0 and found.topic.partitioned:
        raise RefusedError(
            405,
            f"Topic {found.name} is partitioned: end all of it with partitioned-terminate, or one of its partitions.",
        )
    ids = await _terminated(context.broker, found.topic, [max(found.index, 0)])
    return json(next(iter(ids.values())))


async def terminate_all(context: Context, call: Call) -> Reply:
    """All partitions of a topic take no more messages; by partition, the id of its last one."""
    found = keeping(await found_by(context.broker, call), "partitioned-terminate")
    whole(found)
    if not found.topic.partitioned:
        raise RefusedError(405, f"Topic {found.name} has no partitions: use terminate.")
    return json(await _terminated(context.broker, found.topic, range(len(found.topic.partitions))))


async def _terminated(broker: Broker, topic: Topic, indexes: Iterable[int]) -> dict[str, object]:
    wanted = list(indexes)
    await broker.topics.terminate(topic.name, wanted)
    found: dict[str, object] = {}
    for index in wanted:
        partition = await until_loaded(partial(broker.partition, topic, index))
        found[str(index)] = _id_before(partition, partition.high_watermark).to_json()
    return found


def _of_one(broker: Broker, found: Found, verb: str) -> Partition:
    return one_partition(broker, keeping(found, verb), verb)


def _id_before(partition: Partition, end: int) -> MessageId:
    if end <= partition.log_start:
        return MessageId(-1, -1, partition.index if partition.topic.topic.partitioned else -1)
    return id_at(partition, end - 1)


async def size_from(context: Context, call: Call) -> Reply:
    """The bytes of a partition from a message id on."""
    partition = _of_one(context.broker, await found_by(context.broker, call), "get-backlog-size")
    wanted = id_of(call)
    offset = offset_of(partition, wanted)
    return json(partition.log.size_from(offset) if offset < partition.high_watermark else 0)


# -- of a namespace


async def clear_namespace(context: Context, call: Call) -> Reply:
    """Acknowledge all that there is of all topics of a namespace, for one subscription or for all."""
    broker = context.broker
    namespace = namespace_of(broker, *call.path[1:3])
    wanted = call.path[-1] if call.path[-2] == "clearBacklog" else None
    total = 0
    await audit.begun(broker, call)
    readers = await readers_of(broker)
    async for topic in _topics(broker, namespace):
        async for at in subscriptions_of(broker, _whole(broker, topic), readers):
            if wanted in (None, at.name):
                total += await clear(broker, at)
    return done(messages=total)


async def unsubscribe_namespace(context: Context, call: Call) -> Reply:
    """Delete a subscription of all topics of a namespace that have it. Refused while it has consumers. How many had it
    is told.
    """
    broker = context.broker
    namespace = namespace_of(broker, *call.path[1:3])
    await audit.begun(broker, call)
    readers = await readers_of(broker)
    had = 0
    async for topic in _topics(broker, namespace):
        async for at in subscriptions_of(broker, _whole(broker, topic), readers):
            if at.name == call.path[-1]:
                await unsubscribe(broker, at, force=False)
                had += 1
    return done(topics=had)


async def _topics(broker: Broker, namespace: Namespace) -> AsyncIterator[Topic]:
    """The topics of a namespace that keep messages."""
    async for topic in broker.catalog.every(prefix_of(namespace) if namespace != DEFAULT else ""):
        if topic.queue is None and broker.catalog.namespaces.full(topic.name).namespace == namespace:
            yield topic


def _whole(broker: Broker, topic: Topic) -> Found:
    return whole(Found(broker.catalog.full_of(topic), topic, -1))


async def readers_of(broker: Broker) -> dict[str, list[str]]:
    """Topic -> consumer groups that have committed an offset of it."""
    found: dict[str, list[str]] = {}
    async for view in views(broker):
        for topic in view.offsets:
            found.setdefault(topic, []).append(view.group_id)
    return found


async def subscriptions_of(
    broker: Broker, found: Found, readers: Mapping[str, list[str]]
) -> AsyncIterator[Named]:
    """All of a topic: those with cursors, and its `readers`."""
    rows = [row.group async for row in broker.subscriptions.each_of_topic(found.topic.topic_id)]
    for group in rows:
        await load(broker, group)
        yield Named(found, group, True)
    for group in readers.get(found.topic.name, ()):
        if group not in rows and broker.catalog.namespaces.shows(group, found.topic.name):
            yield Named(found, group, False)


# -- what there is nothing to do for


async def unload(context: Context, call: Call) -> Reply:
    """Topics are served by one node, and leave memory by themselves: nothing is to be done."""
    broker = context.broker
    if call.path[0] == "namespaces":
        namespace_of(broker, *call.path[1:3])
    else:
        await found_by(broker, call)
    return DONE
