"""The verbs of subscriptions that are there: delete, skip, clear, reset, peek, explain. Named in `routes.py`; see
`subscribing.py` for those that list, make and configure them.

A group id is a subscription's name. A share group's subscription is Shared or Key_Shared; a consumer group's is
Failover, and is there once the group has committed an offset of the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin import groups, lane_explain, lane_stats, messages, share_stats
from gateway.admin.exchange import DONE, Call, RefusedError, Reply, done, json
from gateway.admin.topics import Found, found_by
from gateway.broker import offsets_by_time
from gateway.broker.errors import from_code
from gateway.broker.machines import Caller
from gateway.broker.message_ids import id_at
from gateway.broker.queues.lane import name_of as lane_name
from gateway.broker.subscriptions import positions
from gateway.coordinators import offsets
from gateway.coordinators.classic_events import Plain
from gateway.wire.batch import BatchError
from gateway.wire.errors import Error
from semantics.message_id import MessageId, MessageIdError
from semantics.subscriptions import hashing
from store.api import Family, Put, StoreError

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.queues.queue import Queue
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.cursor import Cursor

FARTHEST = 10_000
"""The farthest message that can be peeked at: each one before it is looked at first."""


class Named(NamedTuple):
    """A subscription that a path names, and where it is. `shared` is False for a consumer group's."""

    found: Found
    name: str
    shared: bool


async def named_subscription(broker: Broker, call: Call) -> Named:
    """The subscription that the path names. Refuses with 404 what is not there."""
    found, name = await found_by(broker, call), call.path[5]
    await groups.load(broker, name)
    if broker.subscriptions.by_id(name, found.topic.topic_id) is not None:
        return Named(found, name, True)
    indexes = range(len(found.topic.partitions))
    if any(row is not None for row in broker.groups.committed(name, found.topic, indexes)):
        return Named(found, name, False)
    of, hint = found.topic.queue, ""
    if of is not None and of.subscription == name and (base := broker.catalog.by_id(of.topic_id)) is not None:
        hint = f" It is a queue topic and serves the one of {base.name}: name that topic."
    raise RefusedError(404, f"{found.name} has no subscription {name}.{hint}")


async def has_committed(broker: Broker, topic: Topic, group: str) -> bool:
    """Whether a group has committed an offset of the topic."""
    await groups.load(broker, group)
    rows = broker.groups.committed(group, topic, range(len(topic.partitions)))
    return any(row is not None for row in rows)


async def delete(context: Context, call: Call) -> Reply:
    """Unsubscribe: the cursor and all it remembers go. Refused while consumers are connected, unless forced."""
    broker = context.broker
    at = await named_subscription(broker, call)
    whole(at.found)
    topic = at.found.topic
    if at.shared:
        if broker.share_groups.members(at.name) and not call.flag("force"):
            raise RefusedError(
                412, f"{at.name} has connected consumers. Stop them first, or unsubscribe with --force."
            )
        row = broker.subscriptions.row(at.name, topic.name)
        lanes = broker.catalog.get(row.queue) if row is not None and row.queue else None
        if lanes is not None and lanes.queue is not None and lanes.queue.pattern:
            raise RefusedError(
                412,
                f"{at.name} on {at.found.name} is one of those that {lanes.name} serves, over {lanes.queue.pattern}: "
                f"delete '{lanes.name}' first, which keeps the subscriptions.",
            )
        if row is not None and lanes is not None:
            await groups.load(broker, at.name)
            readers = broker.groups.get(at.name)
            if readers is not None and len(readers.roster) and not call.flag("force"):
                raise RefusedError(
                    412,
                    f"{at.name} has {len(readers.roster)} consumers of {row.queue}. Stop them first, or unsubscribe "
                    "with --force.",
                )
            await broker.queues.unsubscribe(lanes)
            broker.share_groups.unsubscribed(at.name, topic)
            return DONE
        await broker.share_groups.delete_subscriptions(at.name, topic)
        return DONE
    group = broker.groups.get(at.name)
    if group is not None and len(group.roster):
        raise RefusedError(
            412, f"{at.name} is a consumer group with {len(group.roster)} members: stop them first."
        )
    keys = [offsets.key(at.name, topic.name, index) for index in range(len(topic.partitions))]
    await _answered(broker.groups.delete_offsets(at.name, keys, _caller()))
    return DONE


# -- moved


async def skip(context: Context, call: Call) -> Reply:
    """Acknowledge the next n messages on the consumers' behalf."""
    broker = context.broker
    at = await named_subscription(broker, call)
    partition = _partition(broker, at.found, "skip")
    count = _number(call.path[7], "how many messages to skip")
    if at.shared:
        end = partition.high_watermark
        did: list[int] = []
        await _moved(
            broker, at, {partition.index: count}, lambda cursor, number: did.append(cursor.skip(number, end))
        )
        skipped = sum(did)
    else:
        begin = _committed_offset(broker, at, partition)
        target = min(begin + count, partition.high_watermark)
        skipped = target - begin
        await commit_offsets(broker, at.found, at.name, {partition.index: target})
    return done(messages=skipped)


async def skip_all(context: Context, call: Call) -> Reply:
    """Acknowledge everything there is: clear-backlog."""
    broker = context.broker
    at = await named_subscription(broker, call)
    ends = {index: broker.partition(at.found.topic, index).high_watermark for index in _indexes(at.found)}
    backlog = sum(_backlog(broker, at, index, end) for index, end in ends.items())
    if not at.shared:
        await commit_offsets(broker, at.found, at.name, ends)
    else:
        await _moved(broker, at, ends, lambda cursor, end: cursor.clear(end))
    return done(messages=backlog)


async def reset(context: Context, call: Call) -> Reply:
    """Begin again: at a time (ms since 1970, in the path), or at the message id in the body."""
    broker = context.broker
    at = await named_subscription(broker, call)
    targets: dict[int, int] = {}
    if len(call.path) > 7:
        since = _number(call.path[7], "the time to go back to, in ms since 1970")
        for index in _indexes(at.found):
            targets[index] = await _by_time(broker, broker.partition(at.found.topic, index), since)
    else:
        if call.json() is None:
            raise RefusedError(
                400, "A cursor is reset to a time in the path, or to the message id in the body."
            )
        wanted = _id(call)
        if wanted.ledger in (-1, _LATEST_LEDGER):
            indexes = _indexes(at.found)
        else:
            indexes = [_partition(broker, at.found, "reset-cursor to a message id").index]
        exclusive = (
            isinstance(body := call.json(), dict) and body.get("isExcluded", body.get("excluded")) is True
        )
        for index in indexes:
            partition = broker.partition(at.found.topic, index)
            targets[index] = _offset(partition, wanted) + (1 if exclusive and wanted.ledger >= 0 else 0)
    if not at.shared:
        await commit_offsets(broker, at.found, at.name, targets)
    else:
        await _moved(broker, at, targets, lambda cursor, offset: cursor.seek(offset))
    ends = {index: broker.partition(at.found.topic, index).high_watermark for index in targets}
    return done(messages=sum(_backlog(broker, at, index, end) for index, end in ends.items()))


async def _moved(
    broker: Broker, at: Named, targets: dict[int, int], move: Callable[[Cursor, int], object]
) -> None:
    """Move the cursors of a shared subscription, by partition, all in one commit."""
    positions.move([(_cursor(broker, at, index), number) for index, number in targets.items()], move)
    await broker.write([])


def _backlog(broker: Broker, at: Named, index: int, end: int) -> int:
    """Messages before `end` that a subscription has still to acknowledge on a partition."""
    if at.shared:
        return _cursor(broker, at, index).ready().backlog(end)
    return max(0, end - _committed_offset(broker, at, broker.partition(at.found.topic, index)))


def _committed_offset(broker: Broker, at: Named, partition: Partition) -> int:
    """Where a consumer group reads on."""
    row = broker.groups.committed(at.name, at.found.topic, [partition.index])[0]
    return max(row.offset if row is not None else 0, partition.log_start)


# -- looked at


async def peek(context: Context, call: Call) -> Reply:
    """The n-th message that the subscription has still to acknowledge, from 1; 404 when there is none. Of a lane the
    n-th that is open there.
    """
    broker = context.broker
    place = await _lane(broker, call, "peek-messages")
    at = await named_subscription(broker, call) if place is None else None
    number = _number(call.path[7], "which message")
    if not 1 <= number <= FARTHEST:
        raise RefusedError(412, f"Messages 1 to {FARTHEST} of a backlog can be peeked at, not {number}.")
    if place is not None:
        source, offset = lane_explain.nth_open(*place, number)
        stored = await messages.record_at(broker, source.partition, offset)
        if stored is None or stored.offset != offset:
            raise RefusedError(404, f"Message {number} of the lane is not there any more.")
        return messages.reply(source.partition, stored, _java(call))
    assert at is not None
    partition = _partition(broker, at.found, "peek-messages")
    if at.shared:
        offset = _cursor(broker, at, partition.index).ready().nth_open(number)
    else:
        row = broker.groups.committed(at.name, at.found.topic, [partition.index])[0]
        offset = max(row.offset if row is not None else 0, partition.log_start) + number - 1
    stored = await messages.record_at(broker, partition, offset)
    if stored is None:
        raise RefusedError(404, f"The backlog of {at.name} has no message {number}.")
    return messages.reply(partition, stored, _java(call))


async def examine(context: Context, call: Call) -> Reply:
    """The n-th message of the topic, from its first or (initialPosition=latest) its last."""
    partition = _partition(context.broker, await found_by(context.broker, call), "examine-messages")
    where = call.query.get("initialPosition", "latest").lower()
    number = _number(call.query.get("messagePosition", "1"), "messagePosition")
    if where not in ("earliest", "latest") or number < 1:
        raise RefusedError(412, "initialPosition is earliest or latest, and messagePosition is 1 or more.")
    if where == "earliest":
        offset = partition.log_start + number - 1
    else:
        offset = partition.high_watermark - number
    stored = None
    if offset >= partition.log_start:
        stored = await messages.record_at(context.broker, partition, offset)
    if stored is None:
        raise RefusedError(404, f"There is no message {number} from the {where}.")
    return messages.reply(partition, stored, _java(call))


async def by_id(context: Context, call: Call) -> Reply:
    """The entry of a message id: a Kafka batch, all of its records."""
    partition = _partition(context.broker, await found_by(context.broker, call), "get-message-by-id")
    ledger, entry = _number(call.path[5], "the ledger"), _number(call.path[7], "the entry")
    try:
        offset = partition.log.offset_of(ledger, entry)
    except KeyError:
        raise RefusedError(404, f"There is no entry {ledger}:{entry} (any more).") from None
    found, _ = await messages.entry_at(context.broker, partition, offset)
    if not found:
        raise RefusedError(404, f"The entry {ledger}:{entry} has no messages.")
    return messages.batch_reply(partition, found)


async def analyze(context: Context, call: Call) -> Reply:
    """What the backlog consists of, by state; exact, from the cursor and not from a scan."""
    broker = context.broker
    at = await named_subscription(broker, call)
    partition = _partition(broker, at.found, "analyze-backlog")
    end = partition.high_watermark
    if at.shared:
        cursor = _cursor(broker, at, partition.index).ready()
        start, states = cursor.start, dict(cursor.stats())
        # Key_Shared reads again after a load what is among the open ones already
        states["unread"] = max(0, end - cursor.known)
        count = cursor.backlog(end)
    else:
        row = broker.groups.committed(at.name, at.found.topic, [partition.index])[0]
        start = max(row.offset if row is not None else 0, partition.log_start)
        count = max(0, end - start)
        states = {"unread": count}
    answer: dict[str, Any] = {
        "entries": _entries(partition, start, end),
        "messages": count,
        "aborted": False,
    }
    if start < end:
        for key, offset in (("firstMessageId", start), ("lastMessageId", end - 1)):
            answer[key] = str(id_at(partition, offset))
    answer["magnetar"] = {"firstOffset": start, "endOffset": end, "states": share_stats.in_json(states)}
    queue_topic = broker.queues.serving(at.found.topic, at.name)
    if queue_topic is not None:
        answer["magnetar"]["lanes"] = lane_stats.backlog(broker, queue_topic, partition.id)
    return json(answer)


def _entries(partition: Partition, start: int, end: int) -> int:
    """Batches from the one that holds `start` on."""
    if start >= end:
        return 0
    first = partition.log.position_of(start)
    total = 0
    for ledger in partition.log.ledgers():
        if ledger.ledger >= first.ledger:
            total += ledger.entries - (first.entry if ledger.ledger == first.ledger else 0)
    return total


async def explain(context: Context, call: Call) -> Reply:
    """Why a message does not arrive: its state, who holds it, until when, how often it failed, when it is due."""
    broker = context.broker
    if (place := await _lane(broker, call, "explain")) is not None:
        return json(
            await lane_explain.of_delivery(broker, *place, _number(call.query.get("offset", ""), "offset"))
        )
    at = await named_subscription(broker, call)
    partition = _partition(broker, at.found, "explain")
    if "messageId" in call.query:
        try:
            offset = _offset(partition, MessageId.parse(call.query["messageId"]))
        except MessageIdError as error:
            raise RefusedError(400, str(error)) from None
    else:
        offset = _number(call.query.get("offset", ""), "offset")
    end = partition.high_watermark
    if offset >= end:
        raise RefusedError(404, f"There is no record {offset} yet: the partition ends at offset {end}.")
    if not at.shared:
        row = broker.groups.committed(at.name, at.found.topic, [partition.index])[0]
        committed = row.offset if row is not None else 0
        state = "DONE" if offset < committed else "UNREAD"
        said = f"{at.name} is a consumer group; it has committed offset {committed} of this partition."
        return json({"offset": offset, "state": state, "explanation": said})
    cursor_of = _cursor(broker, at, partition.index)
    queue_topic = broker.queues.serving(at.found.topic, at.name)
    # lanes say what they hold when they are loaded
    queue = await lane_stats.at_work(broker, queue_topic) if queue_topic is not None else None
    if queue is not None:
        return json(await lane_explain.of_record(broker, queue, cursor_of, offset))
    return json(await share_stats.explained(cursor_of, offset))


async def hash_of(context: Context, call: Call) -> Reply:
    """A key's hashes and slot; on a Key_Shared subscription also who owns the slot and who holds it."""
    key = call.query.get("key")
    if key is None:
        raise RefusedError(400, "The parameter key is missing.")
    raw = key.encode("utf-8", "surrogatepass")
    slot = hashing.slot_of(raw, None, 0)
    answer: dict[str, Any] = {
        "key": key,
        "murmur3": hashing.murmur3_32(raw),
        "javaStringHash": hashing.java_string_hash(key),
        "slot": slot,
    }
    if len(call.path) > 5:
        at = await named_subscription(context.broker, call)
        subscription = (
            context.broker.subscriptions.by_id(at.name, at.found.topic.topic_id) if at.shared else None
        )
        if at.found.topic.queue is not None:
            raise RefusedError(412, f"{at.found.name} is a queue topic: name the topic that it reads.")
        if subscription is None or subscription.selector is None:
            raise RefusedError(412, f"{at.name} is not a Key_Shared subscription: no slot is anybody's.")
        answer["owner"] = subscription.selector.owner(slot)
        holders = {
            str(index): _cursor(context.broker, at, index).ready().holder_of(slot)
            for index in _indexes(at.found)
        }
        # by partition, where somebody has
        answer["holders"] = {index: holder for index, holder in holders.items() if holder is not None}
        queue_topic = context.broker.queues.serving(at.found.topic, at.name)
        if queue_topic is not None:
            lanes = lane_stats.of_queue(context.broker, queue_topic)["lanes"]
            names = {answer["owner"], *answer["holders"].values()}
            answer["lanes"] = [lane for lane in lanes if lane_name(lane["lane"]) in names]
    return json(answer)


# -- what paths and bodies say

_LATEST_LEDGER = 2**63 - 1


def whole(found: Found) -> Found:
    """A topic, not one partition of it: a group's subscription is on all of them."""
    if found.index >= 0 and found.topic.partitioned and len(found.topic.partitions) > 1:
        raise RefusedError(
            412,
            f"A subscription is on all partitions of a topic: name {found.name.parent}, not {found.name}.",
        )
    return found


def _indexes(found: Found) -> list[int]:
    return [found.index] if found.index >= 0 else list(range(len(found.topic.partitions)))


def _partition(broker: Broker, found: Found, verb: str) -> Partition:
    """One partition. Refuses a topic with several with 405, as Pulsar does; and a queue topic."""
    of = found.topic.queue
    if of is not None:
        base = broker.catalog.by_id(of.topic_id)
        named = base.name if base is not None else "one of the topics that it serves"
        raise RefusedError(
            412, f"{found.name} is a queue topic, which keeps no messages of its own: use {verb} on {named}."
        )
    if found.index < 0 and len(found.topic.partitions) > 1:
        raise RefusedError(
            405,
            f"{found.name} has {len(found.topic.partitions)} partitions and {verb} is for one:"
            f" name it, for example {found.name.with_partition(0)}.",
        )
    return broker.partition(found.topic, max(found.index, 0))


async def _lane(broker: Broker, call: Call, verb: str) -> tuple[Queue, int] | None:
    """The lane of a queue topic that the path names; None for any other topic. Refuses another subscription than the
    topic's, and the topic as a whole.
    """
    found = await found_by(broker, call)
    of = found.topic.queue
    if of is None:
        return None
    if of.subscription != call.path[5]:
        raise RefusedError(
            404, f"{found.name} has no subscription {call.path[5]}: it is that of {of.subscription}."
        )
    if found.index < 0 and len(found.topic.partitions) > 1:
        raise RefusedError(
            405,
            f"{found.name} has {len(found.topic.partitions)} lanes and {verb} is for one: name it, for example "
            f"{found.name.with_partition(0)}.",
        )
    await groups.load(broker, of.subscription)
    queue = await lane_stats.at_work(broker, found.topic)
    if queue is None:
        raise RefusedError(503, f"The lanes of {found.name} cannot be read at present.")
    return queue, max(found.index, 0)


def _cursor(broker: Broker, at: Named, index: int) -> SubscriptionPartition:
    subscription = broker.subscriptions.by_id(at.name, at.found.topic.topic_id)
    if subscription is None:
        raise RefusedError(404, f"{at.found.name} has no subscription {at.name} any more.")
    return subscription.partition(index)


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise RefusedError(400, f"A whole number says {what}; not {text[:40]!r}.")
    return int(text)


def _id(call: Call) -> MessageId:
    """The message id in the body; latest when there is none."""
    body = call.json()
    if isinstance(body, dict):
        # what stands beside the id in the body of create-subscription
        body = {name: value for name, value in body.items() if name != "properties"}
    try:
        return MessageId.from_json(body) if body not in (None, {}) else MessageId.parse("latest")
    except MessageIdError as error:
        raise RefusedError(400, str(error)) from None


def start_of(partition: Partition, call: Call) -> int:
    wanted = _id(call)
    if wanted.partition not in (-1, partition.index) and 0 <= wanted.ledger < _LATEST_LEDGER:
        return partition.high_watermark
    return _offset(partition, wanted)


def _offset(partition: Partition, wanted: MessageId) -> int:
    """Where a message id is. Refuses with 404 one that is not there."""
    if wanted.ledger < 0:
        return partition.log_start
    if wanted.ledger == _LATEST_LEDGER:
        return partition.high_watermark
    try:
        return partition.log.offset_of(wanted.ledger, wanted.entry) + max(wanted.batch_index, 0)
    except KeyError:
        raise RefusedError(404, f"There is no message {wanted} (any more).") from None


async def _by_time(broker: Broker, partition: Partition, since: int) -> int:
    try:
        found = await offsets_by_time.first_at_or_after(partition, since, broker.decompression_limit)
    except (BatchError, StoreError) as error:
        raise RefusedError(503, f"The log cannot be searched: {error}") from None
    return found[1] if found is not None else partition.high_watermark


def _java(call: Call) -> bool:
    return call.agent.startswith("Pulsar-Java")


# -- offsets of consumer groups


def _caller() -> Caller:
    return Caller(lambda answer: answer)


async def _answered(answer: object) -> None:
    """Wait for the group's answer. Raises KafkaError."""
    said = answer if isinstance(answer, Plain) else await answer  # type: ignore[misc]
    if said.error == Error.UNKNOWN_MEMBER_ID:
        raise RefusedError(412, "The consumer group has connected members: stop them first.")
    if said.error:
        raise from_code(said.error)


async def commit_offsets(broker: Broker, found: Found, group: str, targets: dict[int, int]) -> None:
    """Commit offsets on behalf of nobody, as kafka-consumer-groups --reset-offsets does."""
    now = broker.clock.wall_ms()
    rows = [
        Put(
            Family.OFFSET,
            offsets.key(group, found.topic.name, index),
            offsets.encode(offset, -1, now, -1, found.topic.topic_id, None),
        )
        for index, offset in targets.items()
    ]
    await _answered(broker.groups.commit_offsets(group, "", None, -1, list(rows), _caller()))
