"""Stats as Pulsar's clients read them, from counters and the log's head: nothing here scans a topic.

Only the keys that mean something here are sent; a client shows the others as 0. Messages going out are among
those: a Fetch sends stored bytes and does not count the records in them. What Pulsar has no key for stands
under `magnetar`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.admin import dropped, groups, publishers
from gateway.admin.exchange import iso
from gateway.admin.groups import Span
from gateway.admin.rates import ZERO
from gateway.admin.slices import Pace
from gateway.broker.backlog_quota import usage_from
from gateway.broker.compaction import State
from gateway.broker.retention import HOLDS, Kept
from semantics.backlog_quota import Usage
from semantics.names import dotted
from store.api import LedgerInfo, Log

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition

Stats = dict[str, Any]

_SUMMED = (
    "msgRateIn", "msgThroughputIn", "msgThroughputOut", "bytesInCounter", "msgInCounter",
    "bytesOutCounter", "storageSize", "backlogSize", "waitingPublishers",
)  # fmt: skip


def span(context: Context, topic: Topic, index: int) -> Span:
    """What a partition holds now."""
    log = context.broker.log_of(topic, index)
    return Span(log.start_offset, log.end_offset, log.size)


async def spans(context: Context, topic: Topic, indexes: Sequence[int], pace: Pace) -> dict[int, Span]:
    """The same of some."""
    found: dict[int, Span] = {}
    for index in indexes:
        found[index] = span(context, topic, index)
        await pace.rest()
    return found


async def of_partition(
    context: Context, topic: Topic, index: int, subscriptions: Stats, extras: Stats | None = None
) -> Stats:
    """A plain topic, or one partition. `subscriptions` are its subscriptions' stats by name, `extras` what
    `extras_of` says of the topic, where somebody has asked that already. Raises KafkaError, StoreError.
    """
    broker = context.broker
    log = broker.log_of(topic, index)
    usage = Usage(0, -1)
    # nothing of a lane
    if topic.queue is None:
        starts = _starts(subscriptions)
        usage = await usage_from(min(starts.values(), default=None), log)
        _measure(log, subscriptions, starts)
        usage = await _with_ages(context, topic, index, subscriptions, usage)
    quota = broker.effective(topic).quota
    partition = in_use(context, topic, index)
    rate = context.rates.of(partition, broker.loop.time()) if partition is not None else ZERO
    bytes_in, bytes_out = traffic(broker, topic.partitions[index], partition)
    answer: Stats = {
        "msgRateIn": rate.messages_in,
        "msgThroughputIn": rate.bytes_in,
        "msgThroughputOut": rate.bytes_out,
        "bytesInCounter": bytes_in,
        # offsets never go back: exact, whoever has been in memory
        "msgInCounter": dropped.came(broker, topic, log.end_offset),
        "bytesOutCounter": bytes_out,
        "averageMsgSize": _average(rate.bytes_in, rate.messages_in),
        "storageSize": log.size,
        "backlogSize": max([usage.size, *[one["backlogSize"] for one in subscriptions.values()]]),
        "backlogQuotaLimitSize": quota.size,
        "backlogQuotaLimitTime": -(-quota.age // 1000) if quota.age > 0 else quota.age,
        "oldestBacklogMessageAgeSeconds": _age(broker, usage),
        "publishers": publishers.of(partition, broker.clock.wall_ms()) if partition is not None else [],
        "waitingPublishers": broker.held_back.waiting((topic.topic_id, index)),
        "subscriptions": subscriptions,
        "deduplicationStatus": _deduplication(broker, topic),
        "ownerBroker": context.address,
        "magnetar": {
            "kafkaTopic": dotted(topic.name),
            "kafkaPartition": index,
            **(extras if extras is not None else extras_of(context, topic)),
            "logStartOffset": log.start_offset,
            "highWatermark": log.end_offset,
            "leaderEpoch": broker.store_of(topic).leader_epoch(topic.partitions[index]),
            "inUse": partition is not None,
            **_kept(broker.retention.kept.get(topic.partitions[index])),
        },
    }
    dropped.add(context, topic, index, answer)
    return answer


def _deduplication(broker: Broker, topic: Topic) -> str:
    return "Enabled" if broker.effective(topic).deduplicate else "Disabled"


def _starts(subscriptions: Stats) -> dict[str, int]:
    """The first open message of each subscription with a cursor, Shared or Key_Shared."""
    return {
        name: its["markDeleteOffset"] + 1
        for name, one in subscriptions.items()
        if "markDeleteOffset" in (its := one["magnetar"])
    }


def _measure(log: Log, subscriptions: Stats, starts: dict[str, int]) -> None:
    """Bytes that subscriptions with cursors have not acknowledged: of what lies behind the first open message, as much
    as the open ones are of all there.
    """
    for name, start in starts.items():
        one, start = subscriptions[name], max(start, log.start_offset)
        there = log.end_offset - start
        one["backlogSize"] = log.size_from(start) * min(one["msgBacklog"], there) // there if there > 0 else 0


async def _with_ages(context: Context, topic: Topic, index: int, subscriptions: Stats, usage: Usage) -> Usage:
    """Say of each subscription since when its oldest message could have been delivered. The usage with the oldest that
    a consumer group has still to read: backlog quotas do not ask for that.
    """
    wall = context.broker.clock.wall_ms()
    for name, one in subscriptions.items():
        oldest = await context.sums.oldest_on(topic, index, name)
        one["magnetar"]["oldestAgeSeconds"] = max(0, wall - oldest) // 1000 if oldest >= 0 else -1
        if "committedOffset" in one["magnetar"] and oldest >= 0:
            usage = usage._replace(oldest=min(oldest, usage.oldest) if usage.oldest >= 0 else oldest)
    return usage


def _age(broker: Broker, usage: Usage) -> int:
    """Of the oldest message, in seconds; -1 where there is none."""
    return max(0, broker.clock.wall_ms() - usage.oldest) // 1000 if usage.oldest >= 0 else -1


async def of_partitioned(
    context: Context, topic: Topic, each: dict[str, Stats], per_partition: bool
) -> Stats:
    """Sums over the partitions, whose stats are `each` by full name."""
    pace, total = Pace(), Stats()
    for key in _SUMMED:
        total[key] = sum(one[key] for one in each.values())
        await pace.rest()
    total["averageMsgSize"] = _average(total["msgThroughputIn"], total["msgRateIn"])
    # each partition has its quota for itself
    for key in ("backlogQuotaLimitSize", "backlogQuotaLimitTime", "oldestBacklogMessageAgeSeconds"):
        total[key] = max([one[key] for one in each.values()], default=-1)
        await pace.rest()
    total["publishers"] = publishers.merged(one["publishers"] for one in each.values())
    await pace.rest()
    total["subscriptions"] = await groups.merged(one["subscriptions"] for one in each.values())
    total["deduplicationStatus"] = _deduplication(context.broker, topic)
    total["metadata"] = metadata(topic)
    total["partitions"] = each if per_partition else {}
    total["magnetar"] = {
        "kafkaTopic": dotted(topic.name),
        **extras_of(context, topic),
        **_kept_of(context, topic),
    }
    await pace.rest()
    dropped.summed(topic, each, total)
    return total


def metadata(topic: Topic) -> Stats:
    """What is known of a partitioned topic as such."""
    kept = {"properties": topic.properties} if topic.properties else {}
    return {"partitions": len(topic.partitions), "deleted": False, **kept}


def internal(context: Context, topic: Topic, index: int, cursors: Stats) -> Stats:
    """The ledgers of a plain topic or one partition, the segments that hold them, and its cursors."""
    log = context.broker.log_of(topic, index)
    ledgers = log.ledgers()
    current = ledgers[-1] if ledgers else None
    entries = sum(ledger.entries for ledger in ledgers)
    return {
        "entriesAddedCounter": entries,
        "numberOfEntries": _entries(log, ledgers),
        "totalSize": log.size,
        "currentLedgerEntries": current.entries if current else 0,
        "currentLedgerSize": current.size if current else 0,
        "lastConfirmedEntry": _last_entry(log, current),
        "state": "Terminated" if index in topic.terminated else "LedgerOpened",
        "ledgers": [
            {"ledgerId": ledger.ledger, "entries": ledger.entries, "size": ledger.size, "offloaded": False}
            for ledger in ledgers
        ],
        "cursors": cursors,
        "magnetar": {
            "kafkaTopic": dotted(topic.name),
            "kafkaPartition": index,
            "logStartOffset": log.start_offset,
            "highWatermark": log.end_offset,
            "ledgerFirstOffsets": {str(ledger.ledger): ledger.first_offset for ledger in ledgers},
            "segments": [
                {
                    "baseOffset": segment.base_offset,
                    "nextOffset": segment.next_offset,
                    "size": segment.size,
                    "maxTimestamp": segment.max_timestamp,
                    "createdAt": segment.created_at,
                    "active": segment.active,
                }
                for segment in log.segments()
            ],
        },
    }


def info(context: Context, topic: Topic, index: int, cursors: Stats) -> Stats:
    """The ledgers of a plain topic or one partition, when they were begun, and its cursors."""
    ledgers = context.broker.log_of(topic, index).ledgers()
    begun = iso(ledgers[0].opened_at) if ledgers else None
    return {
        "version": len(ledgers),
        "creationDate": begun,
        "modificationDate": iso(ledgers[-1].opened_at) if ledgers else None,
        "ledgers": [
            {"ledgerId": each.ledger, "entries": each.entries, "size": each.size, "isOffloaded": False}
            for each in ledgers
        ],
        "cursors": cursors,
        "properties": topic.properties,
    }


def traffic(broker: Broker, number: int, partition: Partition | None) -> tuple[int, int]:
    """(bytes in, bytes out) of a partition since the gateway started: what it counts now, and what it had counted
    each time it was let go. `number` is the store's id of it.
    """
    bytes_in, bytes_out = broker.traffic.of(number)
    if partition is None:
        return bytes_in, bytes_out
    return bytes_in + partition.bytes_in, bytes_out + partition.bytes_out


def in_use(context: Context, topic: Topic, index: int) -> Partition | None:
    """The partition's runtime if somebody uses it. Asking does not bring it to life."""
    runtime = context.broker.topic(topic.name.encode())
    if runtime is None or runtime.topic_id != topic.topic_id or index >= len(runtime.partitions):
        return None
    return runtime.partitions[index]


def notices(context: Context, topic: Topic) -> list[str]:
    """What a user of this topic should know, in plain sentences: it looks at all of its partitions."""
    status = context.broker.compaction.status(topic, range(len(topic.partitions)))
    if status.state is not State.ERROR:
        return []
    return [f"It was not compacted when that was tried last: {status.error}"]


def topic_id(topic: Topic) -> str:
    """As JSON has it."""
    return str(uuid.UUID(bytes=topic.topic_id))


def extras_of(context: Context, topic: Topic) -> Stats:
    """What the stats of each partition say of the topic."""
    found = notices(context, topic)
    extras: Stats = {
        "topicId": topic_id(topic),
        "createdAt": topic.created_at,
        "configs": topic.configs,
    }
    if found:
        extras["notices"] = found
    return extras


def _kept(kept: Kept | None) -> Stats:
    """What is kept beyond the policy, and for whom; nothing where there is nothing."""
    if kept is None:
        return {}
    return {
        "keptBeyondRetention": {
            "bytes": kept.size,
            "messages": kept.records,
            "subscriptions": kept.subscriptions,
            # those that need the oldest
            "holds": [
                {"subscription": name, "offset": offset, "state": state} for name, offset, state in kept.holds
            ],
            "asOf": kept.at,
        }
    }


def _kept_of(context: Context, topic: Topic) -> Stats:
    """The same of all partitions together."""
    found = context.broker.retention.kept
    each = [(index, found[id]) for index, id in enumerate(topic.partitions) if id in found]
    if not each:
        return {}
    return {
        "keptBeyondRetention": {
            "bytes": sum(kept.size for _, kept in each),
            "messages": sum(kept.records for _, kept in each),
            "holds": [
                {"partition": index, "subscription": name, "offset": offset, "state": state}
                for index, kept in each[:HOLDS]
                for name, offset, state in kept.holds
            ][:HOLDS],
            "asOf": max(kept.at for _, kept in each),
        }
    }


def _average(total: float, count: float) -> float:
    return total / count if count else 0.0


def _entries(log: Log, ledgers: Sequence[LedgerInfo]) -> int:
    """Batches that are there: of the first ledger some may be deleted."""
    if log.end_offset == log.start_offset:
        return 0
    first = log.position_of(log.start_offset)
    return sum(each.entries for each in ledgers if each.ledger >= first.ledger) - first.entry


def _last_entry(log: Log, current: LedgerInfo | None) -> str:
    """`ledger:entry` of the last batch, also if it is deleted; entry -1 where the ledger never had one, as Pulsar
    writes it.
    """
    if log.end_offset == log.start_offset:
        return f"{current.ledger}:{current.entries - 1}" if current is not None else "-1:-1"
    position = log.position_of(log.end_offset - 1)
    return f"{position.ledger}:{position.entry}"
