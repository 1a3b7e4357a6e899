"""What is where in the windows of a subscription: counts by state, in so many columns of offsets."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from gateway.admin import windows
from gateway.admin.exchange import json
from gateway.admin.slices import Pace
from semantics.console.strip import edges_of, strip

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.broker.subscriptions.partition import SubscriptionPartition

KEPT_MS = 2_000
MOST_KEPT = 200
COLUMNS, MOST_COLUMNS = 220, 1_000
PAGE = 50


class Strips:
    """Those of the last two seconds: a page that many look at is made once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, int, int], tuple[int, dict[str, Any]]] = OrderedDict()

    async def of(self, at: SubscriptionPartition, columns: int, pace: Pace) -> dict[str, Any]:
        """One of a partition. Raises KafkaError."""
        now = at.node.clock.monotonic_ms()
        key = (at.subscription.id, at.id, columns)
        made, known = self._kept.get(key, (0, None))
        if known is not None and made <= now < made + KEPT_MS:
            return known
        found = await _made(at, columns, pace)
        self._kept[key] = now, found
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return found


async def _made(at: SubscriptionPartition, columns: int, pace: Pace) -> dict[str, Any]:
    cursor = at.ready()
    start, end = cursor.start, max(at.partition.high_watermark, cursor.start)
    edges = edges_of(start, end, columns)
    heads = await windows.heads_of(cursor, pace)
    found = await pace.drive(strip(cursor.planes(start, end), cursor.known, edges, heads))
    return {
        "partition": at.index,
        "start": start,
        "end": end,
        "columns": len(edges) - 1 if end > start else 0,
        "states": found.counts,
    }


async def strips(context: Context, call: Call) -> Reply:
    """Counts by state in `columns` columns of offsets, from the first open message to the end; `partition`, or some of
    all at a time (`after`, `limit`). (Magnetar's own.)
    """
    broker = context.broker
    columns = call.whole_number("columns", 1, MOST_COLUMNS, COLUMNS)
    limit = call.whole_number("limit", 1, 1_000, PAGE)
    after = call.whole_number("after", 0, 1 << 31)
    at = await windows.shared(broker, call)
    pace = Pace()
    answer: dict[str, Any] = {"partitions": []}
    for each in await windows.partitions(broker, at, call, pace):
        if each.index < after:
            continue
        if len(answer["partitions"]) == limit:
            answer["next"] = str(each.index)
            break
        answer["partitions"].append(await context.looks.strips.of(each, columns, pace))
        await pace.rest()
    return json(answer)
