"""Backlogs of many topics in one call: what `topics list --lag` shows.

Nothing is loaded for it: what is in use is asked, of the rest the rows in the store say how far it is. Of each backlog
one batch is read, for the age of its oldest message.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from gateway.admin import lane_stats, share_stats
from gateway.admin.exchange import Call, RefusedError, Reply, iso, json
from gateway.admin.group_consumers import type_of
from gateway.admin.groups import backlog, span_of, views
from gateway.admin.slices import Pace
from gateway.admin.topics import found_by, loaded, namespace_of
from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import prefix_of
from semantics.group_names import bare, shown
from semantics.policies import TYPE_NAMES
from semantics.subscriptions.rows import RowError
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.admin.asker import Asker
    from gateway.admin.context import Context
    from gateway.admin.groups import GroupView
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.subscriptions.subscription import Subscription
    from semantics.names import Namespace

PAGE, LARGEST_PAGE = 1_000, 10_000
"""Topics in an answer."""
CHECKED = 200
"""Topics that are read, or of which it is asked whether the caller may see them, before others get their turn."""
MOST_LOOKED = 20_000
"""Topics that are looked at for a page: those of its namespace that stand behind these are found by the next call."""

Lag = dict[str, Any]


async def of_topics(context: Context, call: Call) -> Reply:
    """A page of topics by name: `{"topics": […], "next": "the name to go on behind"}`, `next` null at the end. One with
    fewer than were asked for may have a `next`, too.

    `after` and `limit` choose the page, `namespace` one of them, `subscription` one name, `includeSystemTopic` adds
    the gateway's own. A topic has its partitions (0 for a plain one), the messages and bytes it keeps, and its
    subscriptions: msgBacklog, msgDelayed, consumersCount, and earliestMsgPublishTimeInBacklog, in ms since 1970, of
    the batch with the oldest message; -1 without one. `oldest` and `oldestAgeSeconds` say since when the oldest could
    have been delivered; without one that is due there is no `oldest`, and -1. Topics that the caller may not see are
    not named.
    """
    broker = context.broker
    limit = call.whole_number("limit", 1, LARGEST_PAGE, PAGE)
    after = call.query.get("after", "")
    groups = await _groups(broker, call.query.get("subscription"))
    only = _namespace(broker, call.query.get("namespace", ""))
    page, behind = await _page(
        broker, call.asker, only, call.flag("includeSystemTopic"), after + "\0" if after else "", limit
    )
    found: list[Lag] = []
    pace = Pace()
    for topic in page:
        await pace.rest()
        one = await _of_topic(context, topic, groups, call.query.get("subscription"), pace)
        if one is not None:
            found.append(one)
    return json({"topics": found, "next": behind})


async def _page(
    broker: Broker, asker: Asker, only: Namespace | None, hidden: bool, start: str, limit: int
) -> tuple[list[Topic], str | None]:
    """(so many topics of a namespace, or of all, that the caller may see, from a name on; the name to go on behind,
    None at the end). Fewer only where there are no more, or where MOST_LOOKED were looked at.
    """
    prefix = prefix_of(only) if only is not None else ""
    among_others = only is not None and not prefix
    found: list[Topic] = []
    looked, pace = 0, Pace()
    size = CHECKED if asker.checked or among_others else min(limit, CHECKED)
    while True:
        page = list(broker.catalog.topics_within(prefix, start, size))
        for topic in page:
            # what it may not see counts nowhere, and a page never goes on behind its name
            if not asker.sees(topic.name):
                continue
            looked += 1
            if (hidden or not topic.internal) and not (among_others and _namespace_of(broker, topic) != only):
                found.append(topic)
            if len(found) == limit or looked == MOST_LOOKED:
                return found, topic.name
        if len(page) < size:
            return found, None
        last = _namespace_of(broker, page[-1])
        # the others of that namespace come next, and '0' comes behind '/'
        start = f"{last}0" if among_others and last != only else page[-1].name + "\0"
        await pace.rest()


def _namespace_of(broker: Broker, topic: Topic) -> Namespace:
    return broker.catalog.namespaces.full(topic.name).namespace


def _namespace(broker: Broker, text: str) -> Namespace | None:
    """The one that is asked for, None for all. Refuses what is none, or not there."""
    tenant, _, name = text.partition("/")
    return namespace_of(broker, tenant, name) if text else None


async def of_one_topic(context: Context, call: Call) -> Reply:
    """The same of one topic, as an object."""
    found = await found_by(context.broker, call)
    wanted = call.query.get("subscription")
    groups = await _groups(context.broker, wanted)
    one = await _of_topic(context, found.topic, groups, wanted, Pace())
    if one is None:
        raise RefusedError(404, f"{found.name} has no subscription {wanted}.")
    return json(one)


async def _groups(broker: Broker, wanted: str | None) -> dict[str, list[GroupView]]:
    """Consumer groups by the topics that they have committed offsets of."""
    by_topic: dict[str, list[GroupView]] = {}
    async for group in views(broker):
        if wanted in (None, group.group_id, bare(group.group_id), shown(group.group_id)):
            for topic in group.offsets:
                by_topic.setdefault(topic, []).append(group)
    return by_topic


async def _of_topic(
    context: Context, topic: Topic, groups: dict[str, list[GroupView]], wanted: str | None, pace: Pace
) -> Lag | None:
    """None when a subscription is asked for that the topic does not have."""
    broker = context.broker
    await loaded(broker, topic.partitions)
    spans = [span_of(broker.store, number) for number in topic.partitions]
    subscriptions: list[Lag] = []
    home = broker.catalog.namespaces.home_of(topic.name)
    async for row in broker.subscriptions.each_of_topic(topic.topic_id):
        if wanted in (None, row.group, shown(row.group, home)):
            subscriptions.append(await _shared(context, topic, row, pace))
    named = {one["name"] for one in subscriptions}
    for group in groups.get(topic.name, ()):
        if not broker.catalog.namespaces.shows(group.group_id, topic.name):
            continue
        if wanted not in (None, group.group_id, shown(group.group_id, home)):
            continue
        if group.group_id in named:
            # lanes serve it: it stands where its cursors do
            continue
        behind, earliest = 0, -1
        for index, offset in group.offsets[topic.name].items():
            span = spans[index] if index < len(spans) else None
            waiting = backlog(span, offset) if span is not None else 0
            if span is not None and waiting:
                behind += waiting
                earliest = _first(
                    earliest,
                    await context.batch_times.of(
                        broker.store, topic.partitions[index], max(offset, span.start)
                    ),
                )
        subscriptions.append(
            {
                "name": group.group_id,
                "type": type_of(broker, group.group_id),
                "msgBacklog": behind,
                "msgDelayed": 0,
                "earliestMsgPublishTimeInBacklog": earliest,
                # no delay holds up who reads the log
                **_oldest(context, earliest),
                "consumersCount": group.members,
            }
        )
    if wanted is not None and not subscriptions:
        return None
    return {
        "topic": str(broker.catalog.full_of(topic)),
        "partitions": len(topic.partitions) if topic.partitioned else 0,
        "messages": sum(span.end - span.start for span in spans if span is not None),
        "storageSize": sum(span.size for span in spans if span is not None),
        "subscriptions": sorted(subscriptions, key=lambda one: str(one["name"])),
    }


async def _shared(context: Context, topic: Topic, row: SubscriptionRow, pace: Pace) -> Lag:
    """A share group's subscription over the partitions. What cannot be read at present counts as nothing."""
    broker = context.broker
    live = broker.subscriptions.in_use(row.group, row.topic_id)
    waiting = delayed = 0
    earliest = oldest = -1
    if (loading := broker.group_kinds.load((row.group,))) is not None:
        await loading
    for index, number in enumerate(topic.partitions):
        try:
            backlog_of, delayed_of, start = _standing(broker, row, live, index, number)
        except (KafkaError, StoreError):
            continue
        delayed += delayed_of
        if backlog_of:
            waiting += backlog_of
            earliest = _first(earliest, await context.batch_times.of(broker.store, number, start))
            with contextlib.suppress(KafkaError, StoreError, RowError, KeyError):
                oldest = _first(oldest, await context.sums.oldest_on(topic, index, row.group))
        await pace.rest()
    return {
        "name": row.group,
        "type": TYPE_NAMES[broker.subscriptions.configs.of(row).subscription.type],
        "msgBacklog": waiting,
        "msgDelayed": delayed,
        "earliestMsgPublishTimeInBacklog": earliest,
        **_oldest(context, oldest),
        "consumersCount": lane_stats.readers(broker, queue)
        if (queue := broker.queues.serving(topic, row.group)) is not None
        else broker.share_groups.members_on(row.group, topic.name),
    }


def _standing(
    broker: Broker, row: SubscriptionRow, live: Subscription | None, index: int, number: int
) -> tuple[int, int, int]:
    """(messages to acknowledge, delayed ones, offset of the first of them). Raises KafkaError, StoreError."""
    at = live.partitions.get(index) if live is not None else None
    if at is None or at.cursor is None:
        found = share_stats.resting(broker, row, number)
        if found is not None:
            return found.backlog, found.counts.delayed, found.start
        live = live or broker.subscriptions.by_id(row.group, row.topic_id)
        if live is None:
            return 0, 0, 0
        at = live.partition(index)
    cursor = at.ready()
    return cursor.backlog(at.partition.high_watermark), cursor.stats()["delayed"], cursor.start


def _oldest(context: Context, since: int) -> Lag:
    if since < 0:
        return {"oldestAgeSeconds": -1}
    age = max(context.broker.clock.wall_ms() - since, 0) // 1000
    return {"oldest": iso(since), "oldestAgeSeconds": age}


def _first(one: int, other: int) -> int:
    return other if one < 0 else one if other < 0 else min(one, other)
