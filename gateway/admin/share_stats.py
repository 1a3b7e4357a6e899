"""Stats of Shared and Key_Shared subscriptions, with Pulsar's keys. Why a message does not arrive: `explaining`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin import lane_stats
from gateway.admin.exchange import iso
from gateway.admin.slices import Pace
from gateway.broker.subscriptions import rows
from semantics.policies import TYPE_NAMES
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import Counts, RowError
from store.transient import is_transient

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.subscriptions.subscription import Subscription
    from store.api import Log

Stats = dict[str, Any]

DEEPEST = 100
"""Of so many deep slots stats tell how much waits."""

_FRESH = Cursor.fresh(SubscriptionConfig(), 0).stats()

MODES = {"auto_split": "AUTO_SPLIT", "consistent_hashing": "AUTO_SPLIT", "sticky": "STICKY"}


async def of_topic(broker: Broker, topic: Topic, indexes: list[int]) -> dict[int, dict[str, Stats]]:
    """The share groups' subscriptions on some partitions, by partition and name. Raises KafkaError, StoreError."""
    found: dict[int, dict[str, Stats]] = {index: {} for index in indexes}
    pace = Pace()
    async for row in broker.subscriptions.each_of_topic(topic.topic_id):
        if (loading := broker.group_kinds.load((row.group,))) is not None:
            await loading
        for index, stats in (await sliced(broker, row, indexes, pace)).items():
            found[index][row.group] = stats
        with_lanes(
            broker, topic, row, [found[index][row.group] for index in indexes if row.group in found[index]]
        )
    return found


def with_lanes(broker: Broker, topic: Topic, row: SubscriptionRow, each: list[Stats]) -> None:
    """Say in a subscription's stats on some partitions who has the lanes, if it has such; in the first of them, what
    the lanes do.
    """
    queue = broker.queues.serving(topic, row.group) if each else None
    if queue is None:
        return
    its = lane_stats.of_queue(broker, queue)
    for stats in each:
        lane_stats.name_consumers(broker, stats["consumers"], its["lanes"])
        stats["magnetar"]["groupMembers"] = its["members"]
    if each:
        each[0]["magnetar"]["queue"] = {"topic": its["topic"], "lanes": its["lanes"]}


def of_subscription(broker: Broker, row: SubscriptionRow, indexes: Sequence[int]) -> dict[int, Stats]:
    """One subscription on some partitions, by partition; nothing when it is deleted by now.

    Of what nobody uses, as far as its rows say it: no cursor is loaded for that.
    """
    found: dict[int, Stats] = {}
    for index, stats in _each(broker, row, indexes):
        if stats is None:
            return {}
        found[index] = stats
    return found


async def sliced(
    broker: Broker, row: SubscriptionRow, indexes: Sequence[int], pace: Pace
) -> dict[int, Stats]:
    """The same, with turns for others between two partitions."""
    found: dict[int, Stats] = {}
    for index, stats in _each(broker, row, indexes):
        if stats is None:
            return {}
        found[index] = stats
        await pace.rest()
    return found


def _each(broker: Broker, row: SubscriptionRow, indexes: Sequence[int]) -> Iterator[tuple[int, Stats | None]]:
    """Partition by partition; without stats when it is deleted by now."""
    subscriptions = broker.subscriptions
    subscription = subscriptions.in_use(row.group, row.topic_id)
    slots: dict[str, list[list[int]]] | None = None
    for index in indexes:
        runtime = broker.topic_by_id(row.topic_id)
        if runtime is None:
            yield index, None
            return
        at = subscription.partitions.get(index) if subscription is not None else None
        stats = (
            at_rest(broker, row, runtime.topic.partitions[index]) if at is None or at.cursor is None else None
        )
        if stats is None:
            subscription = subscription or subscriptions.by_id(row.group, row.topic_id)
            if subscription is None:
                yield index, None
                return
            if slots is None:
                # of all partitions, as they are when this begins
                slots = _slots(subscription)
            stats = of_partition(broker, subscription, subscription.partition(index), slots)
        yield index, stats


class Resting(NamedTuple):
    """Where a cursor stands that is not loaded: [start, read) is looked at, of which `counts` are open."""

    log: Log
    start: int
    read: int
    counts: Counts
    expired: int

    @property
    def backlog(self) -> int:
        """Messages to acknowledge."""
        return self.log.end_offset - self.read + min(self.counts.open, self.read - self.start)


def resting(broker: Broker, row: SubscriptionRow, partition: int) -> Resting | None:
    """One subscription on one partition (the store's id of it) whose cursor is not loaded; None if only the cursor
    knows: also where the log has lost its beginning since, unless all of what it lost was available.
    """
    try:
        log = broker.store.log(partition)
        stands = rows.stands(broker.store, rows.prefix(row.id, partition))
    except (KeyError, RowError):
        return None
    log_start, end = log.start_offset, log.end_offset
    if is_transient(partition):
        begin = stands.start if stands is not None else broker.transients.first_offset
        if begin < log_start:
            # how much it had open of what has left memory
            return None
    if stands is None:
        start = read = log_start
        counts = Counts()
    elif stands.counts is None or stands.read > end:
        return None
    else:
        start, read, counts = max(stands.start, log_start), max(stands.read, log_start), stands.counts
        if start >= read:
            counts = Counts()
        elif start > stands.start and (any(counts[1:]) or counts.open < stands.read - stands.start):
            # which of them are gone
            return None
    return Resting(log, start, read, counts, stands.expired if stands is not None else 0)


def at_rest(broker: Broker, row: SubscriptionRow, partition: int) -> Stats | None:
    """The stats of a subscription on a partition whose cursor is not loaded; None if only the cursor knows."""
    found = resting(broker, row, partition)
    if found is None:
        return None
    log, start, read, counts, expired = found
    log_start, end = log.start_offset, log.end_offset
    config = broker.subscriptions.configs.of(row)
    still = min(counts.open, read - start)
    _, delayed, backoff, dying = counts
    unread = end - read
    states = {
        **_FRESH,
        "start": start,
        "read": read,
        "available": max(still - delayed - backoff - dying, 0),
        "delayed": delayed,
        "backoff": backoff,
        "dying": dying,
        "open": still,
        "expired": expired,
        **broker.subscriptions.counted.of(row.id, partition),
    }
    stats = _stats(config.subscription, unread + still, states, log.size, end - log_start)
    if config.subscription.type == "key_shared":
        stats["keySharedMode"] = MODES[config.mode]
        stats["drainingHashesCount"] = 0
    stats["subscriptionProperties"] = row.properties
    stats["magnetar"] = _more(broker, row, start, read, unread, states)
    if config.subscription.type == "key_shared":
        stats["magnetar"]["drainingHashes"] = []
        stats["magnetar"]["deepHashesCount"] = 0
        stats["magnetar"]["deepHashes"] = []
    return stats


def _stats(config: SubscriptionConfig, backlog: int, states: dict[str, int], size: int, kept: int) -> Stats:
    """What Pulsar says of any subscription; `kept` records of the log take `size` bytes."""
    return {
        "type": TYPE_NAMES[config.type],
        "msgBacklog": backlog,
        "msgBacklogNoDelayed": backlog - states["delayed"],
        "backlogSize": size * backlog // kept if kept else 0,
        "msgDelayed": states["delayed"],
        "msgInReplay": states["redelivering"],
        "unackedMessages": states["acquired"],
        "blockedSubscriptionOnUnackedMsgs": states["acquired"] >= config.max_locks,
        "consumers": [],
        # what retention took of records that nobody had acknowledged
        "totalMsgExpired": states["expired"],
        "isDurable": True,
        "allowOutOfOrderDelivery": config.allow_out_of_order,
    }


_KEYS = {"timed_out": "timedOut"}


def in_json(states: Mapping[str, int]) -> dict[str, int]:
    """What a cursor counts, with the keys that it has in JSON."""
    return {_KEYS.get(name, name): count for name, count in states.items()}


def _more(
    broker: Broker, row: SubscriptionRow, start: int, read: int, unread: int, states: dict[str, int]
) -> Stats:
    return {
        "markDeleteOffset": start - 1,
        "readOffset": read,
        "unread": unread,
        "states": in_json(states),
        "groupMembers": broker.share_groups.members(row.group),
        # configs that are not the group's
        "overrides": broker.subscriptions.configs.own(row),
    }


def _slots(subscription: Subscription) -> dict[str, list[list[int]]]:
    """By consumer, the ranges of slots that it has: [first, last] of each."""
    found: dict[str, list[list[int]]] = {}
    if subscription.selector is not None:
        for start, end, owner in subscription.selector.ranges():
            found.setdefault(owner, []).append([start, end - 1])
    return found


def of_partition(
    broker: Broker,
    subscription: Subscription,
    at: SubscriptionPartition,
    slots: Mapping[str, list[list[int]]],
) -> Stats:
    """One subscription on one partition. `slots`: who has which."""
    cursor = at.ready()
    partition = at.partition
    clock = at.node.clock
    now, wall = clock.monotonic_ms(), clock.wall_ms()
    states = cursor.stats()
    unread = max(0, partition.high_watermark - cursor.known)
    config = subscription.config.subscription
    # Key_Shared reads again what it knows the state of
    backlog = cursor.backlog(partition.high_watermark)
    kept = partition.high_watermark - partition.log_start
    stats = _stats(config, backlog, states, partition.size, kept)
    holding = cursor.holding() if at.consumers else {}
    stats["consumers"] = []
    for name in at.consumers:
        one = _consumer(broker, subscription, at, name, holding.get(name, 0), now, wall)
        if subscription.selector is not None:
            one["keyHashRangeArrays"] = slots.get(name, [])
        stats["consumers"].append(one)
    if subscription.config.exclusive:
        stats["activeConsumerName"] = next(iter(at.consumers), None)
    elif subscription.config.failover:
        stats["activeConsumerName"] = at.active.consumer(partition.topic.topic)
    if subscription.selector is not None:
        draining = cursor.draining()
        stats["keySharedMode"] = MODES[subscription.config.mode]
        stats["drainingHashesCount"] = len(draining)
    row = subscription.row
    stats["subscriptionProperties"] = row.properties
    stats["magnetar"] = _more(broker, row, cursor.start, cursor.read, unread, states)
    if subscription.selector is not None:
        stats["magnetar"]["drainingHashes"] = [
            {
                "hash": one.slot,
                "holder": one.holder,
                "owner": one.owner,
                "unackMsgs": one.in_hand,
                "since": iso(wall - (now - one.since)),
            }
            for one in draining
        ]
        deep = sorted(cursor.deep(), key=lambda one: -one.waiting)
        stats["magnetar"]["deepHashesCount"] = len(deep)
        stats["magnetar"]["deepHashes"] = [
            {"hash": one.slot, "owner": one.owner, "waiting": one.waiting} for one in deep[:DEEPEST]
        ]
    return stats


def _consumer(
    broker: Broker,
    subscription: Subscription,
    at: SubscriptionPartition,
    name: str,
    held: int,
    now: int,
    wall: int,
) -> Stats:
    counts = at.consumers[name]
    cursor = at.ready()
    config = subscription.config.subscription
    age = max(now - counts.attached_at, 1) / 1000
    consumer: Stats = {
        "consumerName": name,
        "connectedSince": iso(wall - (now - counts.attached_at)),
        # what its last request asked for, less what it has
        "availablePermits": max(counts.asked - held, 0),
        "unackedMessages": held,
        "blockedConsumerOnUnackedMsgs": cursor.acquired >= config.max_locks or held >= config.receiver_queue,
        "msgOutCounter": counts.delivered,
        "bytesOutCounter": counts.sent_bytes,
        # over the time it has been connected
        "msgRateOut": counts.delivered / age,
        "msgThroughputOut": counts.sent_bytes / age,
        "messageAckRate": counts.acked / age,
        "metadata": {"clientId": subscription.client_ids.get(name, "")},
    }
    peer = broker.share_sessions.peer_of(subscription.group, name)
    if peer is not None:
        # who asked last as that member
        consumer["address"] = peer.host.lstrip("/")
        consumer["clientVersion"] = peer.software
    if subscription.selector is not None and name in subscription.refused:
        consumer["metadata"]["refused"] = subscription.refused[name]
    return consumer


def merged(each: list[Stats]) -> Generator[None, None, Stats]:
    """A partitioned topic's subscription: sums over its partitions, consumers by name. In slices: others may have their
    turn behind each partition.
    """
    total: Stats = {**each[0], "consumers": []}
    kept = each[0]["magnetar"]
    total["magnetar"] = {
        "states": {},
        "unread": 0,
        "groupMembers": kept["groupMembers"],
        "overrides": kept["overrides"],
        "oldestAgeSeconds": max(one["magnetar"].get("oldestAgeSeconds", -1) for one in each),
    }
    if "queue" in kept:
        # it is of no partition alone
        total["magnetar"]["queue"] = kept.pop("queue")
    for key in _SUMMED:
        total[key] = sum([one[key] for one in each])
        yield
    if "drainingHashesCount" in total:
        total["drainingHashesCount"] = sum(one["drainingHashesCount"] for one in each)
        total["magnetar"]["deepHashesCount"] = sum(one["magnetar"]["deepHashesCount"] for one in each)
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
        yield
    total["consumers"] = list(consumers.values())
    if len({one.get("activeConsumerName") for one in each}) > 1:
        # each partition has its own
        total["activeConsumerName"] = None
    return total


_SUMMED = (
    "msgBacklog", "msgBacklogNoDelayed", "backlogSize", "msgDelayed", "msgInReplay", "unackedMessages",
    "totalMsgExpired",
)  # fmt: skip
_OF_CONSUMER = (
    "availablePermits", "unackedMessages", "msgOutCounter", "bytesOutCounter", "msgRateOut", "msgThroughputOut",
    "messageAckRate",
)  # fmt: skip
