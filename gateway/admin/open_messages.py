"""The open messages of a subscription, one by one: in which state each is, and why it does not arrive."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from gateway.admin import explaining, groups, lane_explain, lane_stats, windows
from gateway.admin.chosen import Look, sought_by_query
from gateway.admin.exchange import iso, json
from gateway.admin.slices import Pace
from gateway.wire import properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.admin.chosen import Hit
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.admin.messages import Stored
    from gateway.admin.places import Named
    from gateway.broker.broker import Broker
    from gateway.broker.queues.queue import Queue
    from gateway.broker.subscriptions.partition import SubscriptionPartition

SECONDS = 0.2
"""Of work a page; what it did not come to is behind its `next`."""
PAGE = 50
SHOWN = 256
"""Bytes of a key."""


async def page(context: Context, call: Call) -> Reply:
    """Open messages in the order of their offsets, with `state`, `key`, `text`, `slot`, `consumer` to choose by. A page
    ends with its `limit`, or when it has had `work` ms of work (200): it says how many it has `looked` at `of` how many
    there are. (Magnetar's own.)
    """
    broker = context.broker
    limit = call.whole_number("limit", 1, 1_000, PAGE)
    seconds = call.whole_number("work", 1, 200, 0) / 1000 or SECONDS
    filter_, begin = sought_by_query(call.query), windows.place_of(call.query.get("after", ""))
    at = await windows.shared(broker, call)
    pace = Pace()
    ats = await windows.partitions(broker, at, call, pace)
    found = await Look(broker, filter_, pace, most=limit, seconds=seconds).go(ats, begin)
    rows = await _shown(broker, at, found.hits, pace)
    answer: dict[str, Any] = {"messages": rows, "looked": found.looked, "of": await backlog(ats, pace)}
    if found.next is not None:
        answer["next"] = str(found.next)
    return json(answer)


async def backlog(ats: Sequence[SubscriptionPartition], pace: Pace) -> int:
    """Open messages of some partitions."""
    total = 0
    for each in ats:
        total += each.ready().backlog(each.partition.high_watermark)
        await pace.rest()
    return total


async def queue_of(broker: Broker, at: Named) -> Queue | None:
    """The lanes that serve a subscription, when they are at work."""
    topic = broker.queues.serving(at.found.topic, at.name)
    if topic is None:
        return None
    await groups.load(broker, at.name)
    return await lane_stats.at_work(broker, topic)


async def _shown(broker: Broker, at: Named, hits: Sequence[Hit], pace: Pace) -> list[dict[str, Any]]:
    queue = await queue_of(broker, at) if hits else None
    offsets: dict[int, list[int]] = {}
    for hit in hits:
        offsets.setdefault(hit.at.index, []).append(hit.offset)
    rows: list[dict[str, Any]] = []
    dues: dict[int, int] = {}
    batches = None
    partition = -1
    for hit in hits:
        its = hit.at
        if batches is None or its.index != partition:
            partition = its.index
            batches = windows.Batches(broker, its.partition, pace)
            await pace.rest(0)
            dues = its.ready().due_times(offsets[partition])
            await pace.rest()
        stored = hit.stored if hit.stored is not None else await batches.at(hit.offset)
        row = await of_one(broker, its, hit.offset, dues, stored, queue)
        if row is not None:
            rows.append(row)
        await pace.rest()
    return rows


async def of_one(
    broker: Broker,
    at: SubscriptionPartition,
    offset: int,
    dues: dict[int, int],
    stored: Stored | None,
    queue: Queue | None,
) -> dict[str, Any] | None:
    """One message as the console's lists have it; None when it is settled by now."""
    known = at.ready().look(offset, dues)
    if known.state == "DONE":
        return None
    due = sent = None
    if stored is not None:
        record = stored.record
        sent = record.timestamp
        due = properties.deliver_at(record.headers, sent, retry=at.retries)
    # what backs off is due by its rows, not by what its producer said
    stands_in = due if known.state == "DELAYED" else None
    if queue is None:
        answer = explaining.why(at, known, stands_in)
    else:
        answer = await lane_explain.why(broker, queue, at, known, stands_in)
    row: dict[str, Any] = {"partition": at.index, **answer}
    row["why"] = row.pop("explanation")
    if stored is not None and sent is not None:
        row |= key_of(stored)
        row["published"] = iso(max(sent, 0))
        first = max(sent, due or 0)
        # counted from when it could first be delivered: else each delayed message is an alarm
        row["ageSeconds"] = max(at.node.clock.wall_ms() - first, 0) // 1000
    if (following := row.get("due") or row.get("lockedUntil")) is not None:
        row["next"] = following
    return row


def key_of(stored: Stored) -> dict[str, str]:
    """The key of a record: as text where it is that, else in base64."""
    key = stored.record.key
    if key is None:
        return {}
    cut = key[:SHOWN]
    try:
        text = cut.decode()
    except UnicodeDecodeError:
        return {"keyBase64": base64.b64encode(cut).decode()}
    return {"key": text} if text.isprintable() else {"keyBase64": base64.b64encode(cut).decode()}
