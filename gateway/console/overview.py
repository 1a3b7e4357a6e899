"""/ui/: is anything wrong, and where?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.admin.slices import Pace
from gateway.console import standing, transactions_page
from gateway.console.visit import LIVE
from semantics.access.acl import Operation
from semantics.command_line import line

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Reply
    from gateway.console.visit import Visit

STEP = 16
"""Partitions that are looked at between two looks at the clock."""
SHOWN = 20
"""Subscriptions on the first page."""


async def show(visit: Visit) -> Reply:
    """The page."""
    context, broker = visit.context, visit.context.broker
    seen = await standing.seen(visit)
    whole = visit.asker.node(Operation.DESCRIBE)
    return await visit.page(
        "overview.html",
        live=LIVE,
        title="What happens to your messages",
        section="overview",
        not_ready=context.not_ready(),
        durability=str(broker.durability),
        uptime=visit.clock.now - broker.started_at,
        traffic=await traffic(context) if whole else None,
        open_transactions=await transactions_page.open_now(visit),
        signs=await standing.attention(visit),
        seen=seen,
        rows=seen.found[:SHOWN],
        command=line("subscriptions", "list", "--limit", str(SHOWN)),
    )


class Traffic(NamedTuple):
    """Of all partitions, a second."""

    messages_in: float
    bytes_in: float
    bytes_out: float
    partitions: int
    topics: int


async def traffic(context: Context) -> Traffic:
    """Of those that are in use: others have none."""
    now = context.broker.loop.time()
    messages_in = bytes_in = bytes_out = 0.0
    topics = set()
    count, pace = 0, Pace()
    for count, partition in enumerate(list(context.broker.in_use.partitions()), 1):
        rate = context.rates.of(partition, now)
        messages_in += rate.messages_in
        bytes_in += rate.bytes_in
        bytes_out += rate.bytes_out
        topics.add(partition.topic.topic_id)
        if count % STEP == 0:
            await pace.rest()
    return Traffic(messages_in, bytes_in, bytes_out, count, len(topics))
