"""Groups as the admin side shows them: a consumer group is a Failover (or Exclusive) subscription of each topic it
commits to, a share group a Shared or Key_Shared one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin import group_consumers, lane_stats, share_stats
from gateway.admin.slices import Pace, turn
from gateway.broker.errors import KafkaError
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.group_kinds import Listed
    from gateway.coordinators.offsets import Committed
    from store.api import Store

PAGE = 100
"""Groups that are read before the loop may do something else."""

_log = logging.getLogger("magnetar.admin")


class GroupView(NamedTuple):
    """One group: its members now, and committed offsets by Kafka topic and partition."""

    group_id: str
    members: int
    offsets: dict[str, dict[int, int]]


async def listing(broker: Broker) -> list[Listed]:
    """Every group there is, by id. Raises StoreError."""
    found = broker.group_kinds.listing()
    return found if isinstance(found, list) else await found


async def load(broker: Broker, *group_ids: str) -> None:
    """Before what groups have committed, or who is in them, is looked at."""
    loading = broker.group_kinds.load(group_ids)
    if loading is not None:
        await loading


async def views(broker: Broker) -> AsyncIterator[GroupView]:
    """Every group there is, with everything that it has committed."""
    for count, listed in enumerate(await listing(broker)):
        if count % PAGE == PAGE - 1:
            await turn()
        await load(broker, listed.group_id)
        try:
            rows = broker.groups.all_committed(listed.group_id)
        except (StoreError, KafkaError, ValueError) as error:
            _log.warning("the offsets of group %s cannot be read: %s", listed.group_id, error)
            continue
        offsets = {
            topic.name: _standing(broker, topic, listed.group_id, dict(partitions))
            for topic, partitions in rows
            # where lanes serve a subscription of that name, it stands where its cursors do
            if broker.queues.serving(topic, listed.group_id) is None
        }
        yield GroupView(listed.group_id, listed.members, offsets)


def _standing(broker: Broker, topic: Topic, group: str, committed: dict[int, Committed]) -> dict[int, int]:
    """By partition where a group goes on: of the lanes whose deliveries it acknowledges, at the first open one."""
    if topic.queue is not None and topic.queue.subscription == group:
        return {view.lane: view.first_open for view in lane_stats.views(broker, topic)}
    return {index: row.offset for index, row in committed.items()}


async def connected(broker: Broker, topic: Topic) -> list[str]:
    """Groups that have members now who subscribed to the topic."""
    kinds = broker.group_kinds
    groups = [listed for listed in await listing(broker) if listed.members]
    await load(broker, *[listed.group_id for listed in groups])
    return [listed.group_id for listed in groups if kinds.reads(listed, topic.name)]


class Span(NamedTuple):
    """What a partition holds: offsets [start, end) and bytes."""

    start: int
    end: int
    size: int


def span_of(store: Store, partition_id: int) -> Span | None:
    """What a partition holds by the store's id of it; None when it cannot be read."""
    try:
        log = store.log(partition_id)
        return Span(log.start_offset, log.end_offset, log.size)
    except (KeyError, StoreError):
        # deleted while we walked, or damaged: the store says so elsewhere
        return None


async def subscriptions(
    broker: Broker, topic: Topic, spans: dict[int, Span], among: Sequence[Listed] | None = None
) -> dict[int, dict[str, Any]]:
    """Pulsar's stats of the subscriptions on some partitions, by partition and subscription name. Where it is known
    which consumer groups read the topic, they are `among` these.
    """
    indexes = list(spans)
    found: dict[int, dict[str, Any]] = await share_stats.of_topic(broker, topic, indexes)
    may_subscribe = broker.catalog.namespaces.shows
    pace = Pace()
    for listed in await listing(broker) if among is None else among:
        await pace.rest()
        if all(listed.group_id in each for each in found.values()):
            # it stands where its cursors do, also where lanes serve it
            continue
        if not may_subscribe(listed.group_id, topic.name):
            # of another home: Pulsar's subscriptions here are those of this one
            continue
        await load(broker, listed.group_id)
        try:
            rows = broker.groups.committed(listed.group_id, topic, indexes)
        except (StoreError, KafkaError, ValueError) as error:
            _log.warning("the offsets of group %s cannot be read: %s", listed.group_id, error)
            continue
        if not any(row is not None for row in rows):
            continue
        kind, consumers = group_consumers.type_of(broker, listed.group_id), group_consumers.NOBODY
        if listed.members:
            with contextlib.suppress(KafkaError):
                consumers = group_consumers.of_topic(broker, listed.group_id, topic.name)
        for index, row in zip(indexes, rows, strict=True):
            if row is not None and listed.group_id not in found[index]:
                found[index][listed.group_id] = {
                    "type": kind,
                    **_subscription(spans[index], row.offset, listed),
                    "consumers": consumers.each,
                    "activeConsumerName": consumers.active.get(index),
                }
                await pace.rest()
    return found


async def merged(each: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The subscriptions of a partitioned topic: sums over its partitions."""
    total: dict[str, Any] = {}
    shared: dict[str, list[dict[str, Any]]] = {}
    pace = Pace()
    for one in each:
        await pace.rest()
        for name, stats in one.items():
            if "committedOffset" not in stats["magnetar"]:
                shared.setdefault(name, []).append(stats)
            elif name not in total:
                total[name] = {**stats, "magnetar": {**stats["magnetar"]}}
                # an offset belongs to one partition
                total[name]["magnetar"].pop("committedOffset")
            else:
                for key in _SUMMED:
                    total[name][key] += stats[key]
                own, its = total[name]["magnetar"], stats["magnetar"]
                own["oldestAgeSeconds"] = max(own["oldestAgeSeconds"], its["oldestAgeSeconds"])
                if stats["activeConsumerName"] != total[name]["activeConsumerName"]:
                    # each partition has its own
                    total[name]["activeConsumerName"] = None
    for name, stats_of in shared.items():
        await pace.rest()
        total[name] = await pace.drive(share_stats.merged(stats_of))
    return total


_SUMMED = ("msgBacklog", "msgBacklogNoDelayed", "backlogSize")


def backlog(span: Span, committed: int) -> int:
    """Records that a group which has committed this offset has still to read; what is trimmed does not count."""
    return max(0, span.end - max(committed, span.start))


def _subscription(span: Span, committed: int, listed: Any) -> dict[str, Any]:
    records = backlog(span, committed)
    kept = span.end - span.start
    return {
        "msgBacklog": records,
        "msgBacklogNoDelayed": records,
        # estimated by the average size of what is kept, as nobody has counted the bytes from there on
        "backlogSize": span.size * records // kept if kept else 0,
        "isDurable": True,
        "magnetar": {
            "committedOffset": committed,
            "groupState": listed.state,
            "groupMembers": listed.members,
        },
    }
