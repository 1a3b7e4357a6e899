"""The verbs of subscriptions that are there: delete, skip, clear, reset, peek, explain. Named in `routes.py`; see
`subscribing.py` for those that list, make and configure them.

A group id is a subscription's name. A share group's subscription is Shared or Key_Shared; a consumer group's is
Failover, and is there once the group has committed an offset of the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gateway.admin import (
    audit,
    clearing,
    explaining,
    groups,
    lane_explain,
    lane_stats,
    messages,
    reset_preview,
    share_stats,
)
from gateway.admin.exchange import DONE, Call, RefusedError, Reply, done, json, previewed
from gateway.admin.pages import UI
from gateway.admin.places import (
    LATEST_LEDGER,
    answered,
    backlog_of,
    by_time,
    caller,
    commit_offsets,
    committed_offset,
    cursor_of,
    id_of,
    indexes_of,
    lane_of,
    moved,
    named_subscription,
    number_of,
    offset_of,
    one_partition,
    subscription_of,
    whole,
)
from gateway.admin.slices import Pace
from gateway.admin.stats import topic_id
from gateway.admin.topics import found_by
from gateway.broker.message_ids import id_at
from gateway.coordinators import offsets
from semantics.message_id import MessageId, MessageIdError
from semantics.names import dotted

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.admin.context import Context
    from gateway.admin.places import Named
    from gateway.admin.topics import Found
    from gateway.broker.broker import Broker
    from gateway.broker.partition import Partition

FARTHEST = 10_000
"""The farthest message that can be peeked at: each one before it is looked at first."""


async def delete(context: Context, call: Call) -> Reply:
    """Unsubscribe: the cursor and all it remembers go. Refused while consumers are connected, unless forced. With
    `dryRun` nothing goes: it is refused in the same way, or says how many `messages` are open, and the ids of the topic
    and the subscription. A call that names these and finds others, made under the names since, is refused with 409.
    """
    broker, force = context.broker, call.flag("force")
    at = await named_subscription(broker, call)
    whole(at.found)
    if call.flag("dryRun"):
        await unsubscribe(broker, at, force=force, dry=True)
        counts = await clearing.open_by_partition(broker, at, ends_of(broker, at.found))
        ids = {"topicId": topic_id(at.found.topic), "subscriptionId": at.id}
        return previewed({"messages": sum(counts.values()), **ids})
    await broker.audit_log.ready()
    await unsubscribe(broker, at, force=force, with_it=audit.with_act(broker, call))
    return DONE


async def unsubscribe(
    broker: Broker, at: Named, *, force: bool, with_it: Callable[[], None] = lambda: None, dry: bool = False
) -> None:
    """The same. Refuses with 412 while consumers are connected. `with_it` puts what is one fact with it into the open
    turn; `dry` only refuses.
    """
    topic = at.found.topic
    if at.shared:
        if broker.share_groups.members(at.name) and not force:
            raise RefusedError(
                412, f"{at.name} has connected consumers. Stop them first, or unsubscribe with --force."
            )
        row = broker.subscriptions.row(at.name, topic.name)
        lanes = broker.catalog.get(row.queue) if row is not None and row.queue else None
        if lanes is not None and lanes.queue is not None and lanes.queue.pattern:
            raise RefusedError(
                412,
                f"{at.name} on {at.found.name} is one of those that {dotted(lanes.name)} serves, over "
                f"{lanes.queue.pattern}: delete '{dotted(lanes.name)}' first, which keeps the subscriptions.",
            )
        if row is not None and lanes is not None:
            await groups.load(broker, at.name)
            readers = broker.lane_members.members(at.name)
            if readers and not force:
                raise RefusedError(
                    412,
                    f"{at.name} has {readers} consumers of {dotted(row.queue)}. Stop them first, or unsubscribe "
                    "with --force.",
                )
            if dry:
                return
            # nothing is awaited from there to the commit: what goes is what was looked at
            subscription_of(broker, at)
            await broker.queues.unsubscribe(lanes, with_it)
            broker.share_groups.unsubscribed(at.name, topic)
            return
        if dry:
            return
        # the same
        subscription_of(broker, at)
        await broker.share_groups.delete_subscriptions(at.name, topic, with_it)
        return
    its = broker.committing.of(at.name)
    if its is broker.consumer_groups:
        members = broker.consumer_groups.members(at.name)
    else:
        members = broker.groups.members(at.name)
    if members:
        raise RefusedError(
            412,
            f"{at.name} is a consumer group with {members} member{'s' * (members != 1)}: stop them first.",
        )
    if dry:
        return
    keys = [offsets.key(at.name, topic.name, index) for index in range(len(topic.partitions))]
    # the same turn as what follows; the group is loaded, as its members were asked
    with_it()
    await answered(its.delete_offsets(at.name, keys, caller()))


# -- moved


async def skip(context: Context, call: Call) -> Reply:
    """Acknowledge the next n messages on the consumers' behalf."""
    broker = context.broker
    at = await named_subscription(broker, call)
    partition = one_partition(broker, at.found, "skip")
    count = number_of(call.path[7], "how many messages to skip")
    if at.shared:
        end = partition.high_watermark
        did: list[int] = []
        await moved(
            broker,
            at,
            {partition.index: count},
            lambda cursor, number: did.append(cursor.skip(number, end)),
            call,
            lambda: {"messages": sum(did)},
        )
        skipped = sum(did)
    else:
        begin = committed_offset(broker, at, partition)
        target = min(begin + count, partition.high_watermark)
        skipped = target - begin
        await commit_offsets(broker, at.found, at.name, {partition.index: target})
    return done(messages=skipped)


async def skip_all(context: Context, call: Call) -> Reply:
    """Acknowledge everything there is: clear-backlog. A body says `ends` by partition, as the dry run (`dryRun`) told
    them: it goes no further; and how many `messages` those were, so that many more are refused with 409.
    """
    broker = context.broker
    at = await named_subscription(broker, call)
    bounds = clearing.bounds_of(broker, at, call)
    if call.flag("dryRun"):
        return await clearing.preview(broker, at, bounds.ends if bounds else ends_of(broker, at.found))
    return done(messages=await clear(broker, at, bounds, call))


async def clear(
    broker: Broker, at: Named, bounds: clearing.Bounds | None = None, call: Call | None = None
) -> int:
    """The same: how many messages that were. Without `bounds` all there is goes; for `call` see `moved`."""
    if bounds is None:
        ends = ends_of(broker, at.found)
        backlog = sum(backlog_of(broker, at, index, end) for index, end in ends.items())
    else:
        ends, backlog = bounds.ends, await clearing.check(broker, at, bounds)
    if not at.shared:
        # who has read on meanwhile does not go back
        begun = {
            index: committed_offset(broker, at, broker.partition(at.found.topic, index)) for index in ends
        }
        await commit_offsets(
            broker, at.found, at.name, {index: max(end, begun[index]) for index, end in ends.items()}
        )
    else:
        await moved(
            broker, at, ends, lambda cursor, end: cursor.clear(end), call, lambda: {"messages": backlog}
        )
    return backlog


async def reset(context: Context, call: Call) -> Reply:
    """Begin again: at a time (ms since 1970, in the path), or at the message id in the body. With `dryRun` it says what
    that would do, and does nothing. With a time the body may have the `ends` of such a look: what is behind them is
    not settled, whatever time its client says, and not counted.
    """
    broker, dry = context.broker, call.flag("dryRun")
    at = await named_subscription(broker, call)
    targets: dict[int, int] = {}
    seen: clearing.Bounds | None = None
    if len(call.path) > 7:
        since = number_of(call.path[7], "the time to go back to, in ms since 1970")
        if isinstance(body := call.json(), dict) and "ends" in body:
            seen = clearing.bounds_of(broker, at, call, "A reset to a time settles nothing behind")
            _refuse_new(at, seen)
        pace = Pace()
        for index in indexes_of(at.found):
            partition = broker.partition(at.found.topic, index)
            targets[index] = await by_time(broker, partition, since)
            if seen is not None:
                targets[index] = min(targets[index], seen.ends[index])
            await pace.rest()
    else:
        if call.json() is None:
            raise RefusedError(
                400, "A cursor is reset to a time in the path, or to the message id in the body."
            )
        wanted = id_of(call)
        if wanted.ledger in (-1, LATEST_LEDGER):
            indexes = indexes_of(at.found)
        else:
            indexes = [one_partition(broker, at.found, "reset-cursor to a message id").index]
        exclusive = (
            isinstance(body := call.json(), dict) and body.get("isExcluded", body.get("excluded")) is True
        )
        for index in indexes:
            partition = broker.partition(at.found.topic, index)
            targets[index] = offset_of(partition, wanted) + (1 if exclusive and wanted.ledger >= 0 else 0)
    if dry:
        return await reset_preview.preview(broker, at, targets, seen.ends if seen is not None else None)
    if not at.shared:
        await commit_offsets(broker, at.found, at.name, targets)
    else:
        await moved(broker, at, targets, lambda cursor, offset: cursor.seek(offset), call)
    ends = {index: broker.partition(at.found.topic, index).high_watermark for index in targets}
    return done(messages=sum(backlog_of(broker, at, index, end) for index, end in ends.items()))


def _refuse_new(at: Named, seen: clearing.Bounds | None) -> None:
    """Refuse with 409 where a look says nothing of a partition: all of it would be delivered, or settled, unseen."""
    new = [index for index in indexes_of(at.found) if seen is not None and index not in seen.ends]
    if new:
        raise RefusedError(409, f"ends has no partition {new[0]}: it has come since, or was left out.")


def ends_of(broker: Broker, found: Found) -> dict[int, int]:
    """By partition, where the log ends."""
    return {index: broker.partition(found.topic, index).high_watermark for index in indexes_of(found)}


# -- looked at


async def peek(context: Context, call: Call) -> Reply:
    """The n-th message that the subscription has still to acknowledge, from 1; 404 when there is none. Of a lane the
    n-th that is open there.
    """
    broker = context.broker
    place = await lane_of(broker, call, "peek-messages")
    at = await named_subscription(broker, call) if place is None else None
    number = number_of(call.path[7], "which message")
    if not 1 <= number <= FARTHEST:
        raise RefusedError(412, f"Messages 1 to {FARTHEST} of a backlog can be peeked at, not {number}.")
    if place is not None:
        source, offset = lane_explain.nth_open(*place, number)
        stored = await messages.record_at(broker, source.partition, offset)
        if stored is None or stored.offset != offset:
            raise RefusedError(404, f"Message {number} of the lane is not there any more.")
        return messages.reply(source.partition, stored, _java(call))
    assert at is not None
    partition = one_partition(broker, at.found, "peek-messages")
    if at.shared:
        offset = cursor_of(broker, at, partition.index).ready().nth_open(number)
    else:
        row = broker.groups.committed(at.name, at.found.topic, [partition.index])[0]
        offset = max(row.offset if row is not None else 0, partition.log_start) + number - 1
    stored = await messages.record_at(broker, partition, offset)
    if stored is None:
        raise RefusedError(404, f"The backlog of {at.name} has no message {number}.")
    return messages.reply(partition, stored, _java(call))


async def examine(context: Context, call: Call) -> Reply:
    """The n-th message of the topic, from its first or (initialPosition=latest) its last."""
    partition = one_partition(context.broker, await found_by(context.broker, call), "examine-messages")
    where = call.query.get("initialPosition", "latest").lower()
    number = number_of(call.query.get("messagePosition", "1"), "messagePosition")
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
    partition = one_partition(context.broker, await found_by(context.broker, call), "get-message-by-id")
    ledger, entry = number_of(call.path[5], "the ledger"), number_of(call.path[7], "the entry")
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
    partition = one_partition(broker, at.found, "analyze-backlog")
    end = partition.high_watermark
    if at.shared:
        cursor = cursor_of(broker, at, partition.index).ready()
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
    """Why a message does not arrive: its state, who holds it, until when, how often it failed, when it is due.
    `page` is where a browser shows it."""
    broker = context.broker
    if (place := await lane_of(broker, call, "explain")) is not None:
        offset = number_of(call.query.get("offset", ""), "offset")
        return json(await lane_explain.of_delivery(broker, *place, offset))
    at = await named_subscription(broker, call)
    partition = one_partition(broker, at.found, "explain")
    if "messageId" in call.query:
        try:
            offset = offset_of(partition, MessageId.parse(call.query["messageId"]))
        except MessageIdError as error:
            raise RefusedError(400, str(error)) from None
    else:
        offset = number_of(call.query.get("offset", ""), "offset")
    end = partition.high_watermark
    if offset >= end:
        raise RefusedError(404, f"There is no record {offset} yet: the partition ends at offset {end}.")
    page = _page(context, call, at, partition, offset)
    if not at.shared:
        row = broker.groups.committed(at.name, at.found.topic, [partition.index])[0]
        committed = row.offset if row is not None else 0
        state = "DONE" if offset < committed else "UNREAD"
        said = f"{at.name} is a consumer group; it has committed offset {committed} of this partition."
        stable = partition.last_stable_offset
        if max(stable, committed) <= offset:
            said += (
                f" Who reads only what is committed waits at offset {stable} for a transaction that is open:"
                " magnetar-admin transactions list."
            )
        return json({"offset": offset, "state": state, "explanation": said} | page)
    its = cursor_of(broker, at, partition.index)
    queue_topic = broker.queues.serving(at.found.topic, at.name)
    # lanes say what they hold when they are loaded
    queue = await lane_stats.at_work(broker, queue_topic) if queue_topic is not None else None
    if queue is not None:
        answer = await lane_explain.of_record(broker, queue, its, offset)
    else:
        answer = await explaining.explained(its, offset)
    return json(await explaining.since_dead(broker, answer) | page)


def _page(context: Context, call: Call, at: Named, partition: Partition, offset: int) -> dict[str, str]:
    """Where a browser shows a message, if there are pages."""
    if not context.pages:
        return {}
    name = context.broker.catalog.full_of(at.found.topic)
    path = f"{name.namespace}/{quote(name.local, safe='')}/{partition.index}/{offset}"
    return {"page": f"{context.url(call.host)}{UI}/m/{path}"}


def _java(call: Call) -> bool:
    return call.agent.startswith("Pulsar-Java")
