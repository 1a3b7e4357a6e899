"""Stats of Shared and Key_Shared subscriptions, with Pulsar's keys, and the answer to "why does it not arrive?"."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gateway.broker.subscriptions import rows
from semantics.message_id import MessageId
from semantics.subscriptions.rows import read_due_key, read_runs

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.subscriptions.subscription import Subscription

Stats = dict[str, Any]

WAITING = ("DELAYED", "BACKOFF")
DUE_ROWS = 2_000
"""Rows that are looked at before the loop may do something else."""

NO_TIMEOUT_MS = 2**31 - 1
"""What a group's configs make of pulsar.ack.timeout.ms=0"""

MODES = {"auto_split": "AUTO_SPLIT", "consistent_hashing": "AUTO_SPLIT", "sticky": "STICKY"}


def of_topic(broker: Broker, topic: Topic, indexes: list[int]) -> dict[int, dict[str, Stats]]:
    """The share groups' subscriptions on some partitions, by partition and name."""
    found: dict[int, dict[str, Stats]] = {index: {} for index in indexes}
    for row in broker.subscriptions.of_topic(topic.topic_id):
        for index, stats in of_subscription(broker, row, indexes).items():
            found[index][row.group] = stats
    return found


def of_subscription(broker: Broker, row: SubscriptionRow, indexes: list[int]) -> dict[int, Stats]:
    """One subscription on some partitions, by partition; nothing when it is deleted by now."""
    subscription = broker.subscriptions.by_id(row.group, row.topic_id)
    if subscription is None:
        return {}
    return {index: of_partition(subscription, subscription.partition(index)) for index in indexes}


def of_partition(subscription: Subscription, at: SubscriptionPartition) -> Stats:
    """One subscription on one partition."""
    cursor = at.ready()
    partition = at.partition
    clock = at.broker.clock
    now, wall = clock.monotonic_ms(), clock.wall_ms()
    states = cursor.stats()
    unread = max(0, partition.high_watermark - cursor.read)
    delayed = states["delayed"]
    backlog = unread + states["open"]
    kept = partition.high_watermark - partition.log_start
    config = subscription.config.subscription
    stats: Stats = {
        "type": "Key_Shared" if config.type == "key_shared" else "Shared",
        "msgBacklog": backlog,
        "msgBacklogNoDelayed": backlog - delayed,
        "backlogSize": partition.size * backlog // kept if kept else 0,
        "msgDelayed": delayed,
        "msgInReplay": states["redelivering"],
        "unackedMessages": cursor.acquired,
        "blockedSubscriptionOnUnackedMsgs": cursor.acquired >= config.max_locks,
        "consumers": [_consumer(subscription, at, name, now, wall) for name in at.consumers],
        "isDurable": True,
        "allowOutOfOrderDelivery": config.allow_out_of_order,
    }
    if subscription.selector is not None:
        draining = cursor.draining()
        stats["keySharedMode"] = MODES[subscription.config.mode]
        stats["drainingHashesCount"] = len(draining)
    stats["magnetar"] = {
        "markDeleteOffset": cursor.start - 1,
        "readOffset": cursor.read,
        "unread": unread,
        "states": states,
        "groupMembers": at.broker.share_groups.members(subscription.group),
    }
    if subscription.selector is not None:
        stats["magnetar"]["drainingHashes"] = [
            {
                "hash": one.slot,
                "holder": one.holder,
                "owner": one.owner,
                "unackMsgs": one.in_hand,
                "since": _iso(wall - (now - one.since)),
            }
            for one in draining
        ]
    return stats


def _consumer(subscription: Subscription, at: SubscriptionPartition, name: str, now: int, wall: int) -> Stats:
    counts = at.consumers[name]
    cursor = at.ready()
    held = cursor.holding().get(name, 0)
    age = max(now - counts.attached_at, 1) / 1000
    consumer: Stats = {
        "consumerName": name,
        "connectedSince": _iso(wall - (now - counts.attached_at)),
        # what its last request asked for, less what it has
        "availablePermits": max(counts.asked - held, 0),
        "unackedMessages": held,
        "blockedConsumerOnUnackedMsgs": cursor.acquired >= subscription.config.subscription.max_locks,
        "msgOutCounter": counts.delivered,
        "bytesOutCounter": counts.sent_bytes,
        # over the time it has been connected
        "msgRateOut": counts.delivered / age,
        "msgThroughputOut": counts.sent_bytes / age,
        "messageAckRate": counts.acked / age,
        "metadata": {"clientId": subscription.client_ids.get(name, "")},
    }
    if subscription.selector is not None:
        consumer["keyHashRangeArrays"] = [
            [start, end - 1] for start, end, owner in subscription.selector.ranges() if owner == name
        ]
        if name in subscription.refused:
            consumer["metadata"]["refused"] = subscription.refused[name]
    return consumer


def merged(each: list[Stats]) -> Stats:
    """A partitioned topic's subscription: sums over its partitions, consumers by name."""
    total: Stats = {**each[0], "consumers": []}
    total["magnetar"] = {"states": {}, "unread": 0, "groupMembers": each[0]["magnetar"]["groupMembers"]}
    for key in _SUMMED:
        total[key] = sum(one[key] for one in each)
    if "drainingHashesCount" in total:
        total["drainingHashesCount"] = sum(one["drainingHashesCount"] for one in each)
    total["blockedSubscriptionOnUnackedMsgs"] = any(one["blockedSubscriptionOnUnackedMsgs"] for one in each)
    consumers: dict[str, Stats] = {}
    for one in each:
        total["magnetar"]["unread"] += one["magnetar"]["unread"]
        for state, count in one["magnetar"]["states"].items():
            if state in ("start", "read"):
                # offsets belong to one partition
                continue
            total["magnetar"]["states"][state] = total["magnetar"]["states"].get(state, 0) + count
        for consumer in one["consumers"]:
            known = consumers.setdefault(
                consumer["consumerName"], {**consumer, **dict.fromkeys(_OF_CONSUMER, 0)}
            )
            for key in _OF_CONSUMER:
                known[key] += consumer[key]
    total["consumers"] = list(consumers.values())
    return total


_SUMMED = ("msgBacklog", "msgBacklogNoDelayed", "backlogSize", "msgDelayed", "msgInReplay", "unackedMessages")
_OF_CONSUMER = (
    "availablePermits", "unackedMessages", "msgOutCounter", "bytesOutCounter", "msgRateOut", "msgThroughputOut",
    "messageAckRate",
)  # fmt: skip


async def explained(at: SubscriptionPartition, offset: int) -> Stats:
    """Everything that is known of one record, and a sentence that says why it does not arrive."""
    due = None
    known = at.ready().look(offset)
    if known.state in WAITING and known.due is None:
        # only the nearest due times are in memory
        due = await stored_due(at, offset)
    cursor = at.ready()
    partition = at.partition
    clock = at.broker.clock
    now, wall = clock.monotonic_ms(), clock.wall_ms()
    found = cursor.look(offset)
    if found.due is None and found.state in WAITING:
        found = found._replace(due=due)
    timed = at.subscription.config.subscription.lock_ms < NO_TIMEOUT_MS
    deadline = wall + (found.deadline - now) if found.deadline is not None and timed else None
    answer: Stats = {"offset": offset, "state": found.state, "failedDeliveries": found.count}
    if partition.log_start <= offset < partition.high_watermark:
        position = partition.log.position_of(offset)
        answer["messageId"] = str(
            MessageId(position.ledger, position.entry, partition.index, position.batch_index)
        )
    for key, value in (
        ("consumer", found.consumer),
        ("lockedUntil", _iso(deadline) if deadline is not None else None),
        ("due", _iso(found.due) if found.due is not None else None),
        ("slot", found.slot),
        ("owner", found.owner),
        ("reason", found.reason),
    ):
        if value is not None:
            answer[key] = value
    until = at.subscription.reserved.get(found.owner) if found.owner is not None else None
    if until is not None:
        answer["ownerAwaitedUntil"] = _iso(wall + until - now)
    answer["explanation"] = _sentence(at, answer, partition.log_start, partition.high_watermark)
    return answer


async def stored_due(at: SubscriptionPartition, offset: int) -> int | None:
    """When a record is due, by the rows: all of the cursor's are looked through, a page at a time."""
    key = b""
    while True:
        page = rows.due(at.broker.store, at.prefix, key, DUE_ROWS)
        for row in page:
            assert row.value is not None
            for run in read_runs(row.value):
                if run >> 10 <= offset <= (run >> 10) + (run & 1023):
                    return read_due_key(row.key)[0]
        if len(page) < DUE_ROWS:
            return None
        key = page[-1].key + b"\0"
        await asyncio.sleep(0)


def _sentence(at: SubscriptionPartition, known: Stats, log_start: int, end: int) -> str:
    offset, state = known["offset"], known["state"]
    times = known["failedDeliveries"]
    failed = f" It failed {times} time{'s' if times > 1 else ''} so far." if times else ""
    reason = f" ({known['reason']})" if "reason" in known else ""
    if offset >= end:
        return f"There is no such record yet: the partition ends at offset {end}."
    if offset < log_start:
        return f"It is not there any more: the log begins at offset {log_start}."
    if state == "DONE":
        return "It is settled: acknowledged, dead-lettered, skipped, expired, or before the subscription's start."
    config = at.subscription.config.subscription
    if state == "ACQUIRED":
        until = "for as long as it is connected: the group has no ack timeout"
        if "lockedUntil" in known:
            until = f"until {known['lockedUntil']} at the latest"
        return f"{known.get('consumer')} has it, {until}.{failed}"
    if state == "BACKOFF" and reason:
        return f"It is to be a dead letter, which is tried again at {known.get('due')}{reason}.{failed}"
    if state in WAITING:
        why = (
            "Its producer asked for a delay" if state == "DELAYED" else "It was nacked or timed out and waits"
        )
        return f"{why}: it is due at {known.get('due', 'a time that is being written')}{reason}.{failed}"
    if state == "BLOCKED":
        return (
            f"It waits for its key{reason}: slot {known.get('slot')}, owned by {known.get('owner')}.{failed}"
        )
    if state.startswith("DYING"):
        return f"It is on its way to the dead letter topic{reason}.{failed}"
    if "ownerAwaitedUntil" in known:
        return (
            f"It waits for {known['owner']}, which owned slot {known['slot']} before the gateway was started again and"
            f" is not back. Others get the slot at {known['ownerAwaitedUntil']}, or when that member leaves its"
            f" group.{failed}"
        )
    if not at.consumers:
        return f"It can be delivered, but no consumer is connected.{failed}"
    cursor = at.ready()
    if cursor.acquired >= config.max_locks:
        return (
            f"It can be delivered, but {config.max_locks} records are unacknowledged, which is"
            f" share.partition.max.record.locks.{failed}"
        )
    if state == "UNREAD" and at.key_shared and cursor.available >= config.lookahead:
        return (
            f"It comes behind the records that were looked at so far, those before offset {cursor.read}, and no more"
            f" are read at present: {cursor.available} records wait for the consumers of their keys, and"
            f" pulsar.key.shared.look.ahead is {config.lookahead}."
        )
    if state == "UNREAD":
        return (
            f"It comes behind the records that were looked at so far, those before offset {cursor.read}: what its"
            " headers say of a delay is not known yet. Consumers that ask for more come to it."
        )
    return f"It can be delivered: the next consumer that asks, and whose turn it is, gets it.{failed}"


def _iso(wall_ms: int) -> str:
    at = datetime.fromtimestamp(wall_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
