"""Who consumes a subscription: from which address, with which client, since when, and what it has in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.admin import group_consumers, groups, share_stats
from gateway.admin.exchange import RefusedError, json
from gateway.admin.slices import Pace, let_go
from gateway.admin.topics import found_by

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply

PAGE, LARGEST_PAGE = 50, 1_000


async def of_subscription(context: Context, call: Call) -> Reply:
    """A page of the consumers of a subscription, by name: `{"consumers": […], "next": "…"}`. Of each its `address`, the
    `clientId` and `clientVersion` that it says, `connectedSince`, and what its stats say. (Magnetar's own.)
    """
    limit = call.whole_number("limit", 1, LARGEST_PAGE, PAGE)
    after = call.query.get("after", "")
    found = await found_by(context.broker, call)
    broker, topic, group = context.broker, found.topic, call.path[5]
    indexes = list(range(len(topic.partitions))) if found.index < 0 else [found.index]
    await groups.load(broker, group)
    row = broker.subscriptions.row(group, topic.name)
    if row is not None:
        pace = Pace()
        stats = await share_stats.sliced(broker, row, indexes, pace)
        share_stats.with_lanes(broker, topic, row, list(stats.values()))
        each: list[dict[str, Any]] = []
        if stats:
            try:
                each = (await pace.drive(share_stats.merged([stats[index] for index in indexes])))[
                    "consumers"
                ]
            finally:
                await let_go(stats)
    else:
        committed = broker.groups.committed(group, topic, indexes)
        if all(one is None for one in committed):
            raise RefusedError(404, f"{found.name} has no subscription {group}.")
        each = []
        if broker.consumer_groups.claims(group) or broker.groups.claims(group):
            each = group_consumers.of_topic(broker, group, topic.name).each
    each = [{**one, "address": one.get("address", "").lstrip("/")} for one in each]
    each.sort(key=lambda one: str(one["consumerName"]))
    each = [one for one in each if str(one["consumerName"]) > after] if after else each
    answer: dict[str, Any] = {"consumers": each[:limit]}
    if len(each) > limit:
        answer["next"] = str(each[limit - 1]["consumerName"])
    return json(answer)
