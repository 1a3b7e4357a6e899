"""What holds the messages of a subscription up: causes before records, what holds up most first, and behind all that
what only waits for a consumer to ask.

1,204 messages that wait for three keys are three rows: the record at the head of each key, and how many it holds up.
What waits for something else is one row for each reason. The sentence is that of `topics explain` of one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin import lane_stats, windows
from gateway.admin.chosen import Look, Sought
from gateway.admin.exchange import iso, json
from gateway.admin.explaining import NO_TIMEOUT_MS, behind_transaction
from gateway.admin.open_messages import of_one, queue_of
from gateway.admin.slices import Pace
from gateway.admin.windows import Batches, Place
from semantics.console.looking import Wanted
from semantics.subscriptions.chosen import Act

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.broker.broker import Broker
    from gateway.broker.queues.queue import Queue
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.console.blocking import Heads

PAGE = 50

_ACTS = {
    "ACQUIRED": (Act.TAKE_BACK, Act.SETTLE, Act.DEAD_LETTER),
    "DELAYED": (Act.DELIVER_NOW, Act.SETTLE, Act.DEAD_LETTER),
    "BACKOFF": (Act.DELIVER_NOW, Act.SETTLE, Act.DEAD_LETTER),
    "AVAILABLE": (Act.SETTLE, Act.DEAD_LETTER),
    "BLOCKED": (Act.SETTLE, Act.DEAD_LETTER),
}
_NOT_TO_CHOOSE = frozenset(("unread", "dying"))
"""States that no act may be on: a row of such ones offers none."""

_WAITS = ("next-consumer", "unread")
"""Kinds that only wait for a consumer that is connected to ask: behind all others."""


class Cause(NamedTuple):
    """A row before it is written out: `record` speaks for it, or is at the head of what waits."""

    at: SubscriptionPartition
    kind: str
    holds_up: int
    messages: int
    """that it is about: one at the head of a key, those in a consumer's hands"""
    record: int
    oldest: int
    # which messages an act is on: those of a filter
    filter_: dict[str, Any]
    slot: int | None = None

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """What comes first. What a consumer gets as soon as it asks is in nobody's way, however many they are."""
        return self.kind in _WAITS, -self.holds_up, -self.messages, self.record


async def causes(context: Context, call: Call) -> Reply:
    """Up to `limit` causes. (Magnetar's own.)"""
    broker = context.broker
    limit = call.whole_number("limit", 1, 1_000, PAGE)
    at = await windows.shared(broker, call)
    pace = Pace()
    found: list[Cause] = []
    total = 0
    for each in await windows.partitions(broker, at, call, pace):
        some, number = await _of_partition(broker, each, limit, pace)
        found = sorted([*found, *some], key=lambda cause: cause.rank)[:limit]
        total += number
        await pace.rest()
    queue = await queue_of(broker, at)
    rows = []
    for cause in found:
        row = await _row(broker, cause, queue, pace)
        if row is not None:
            rows.append(row)
    answer: dict[str, Any] = {"causes": rows, "count": total}
    if total > len(found):
        answer["more"] = total - len(found)
    return json(answer)


async def _of_partition(
    broker: Broker, at: SubscriptionPartition, limit: int, pace: Pace
) -> tuple[list[Cause], int]:
    """The causes in one partition, and how many there are with those that are beyond the limit. Raises KafkaError."""
    cursor = at.ready()
    states = cursor.stats()
    found: list[Cause] = []
    free, slots = states["available"], 0
    heads = await windows.heads_of(cursor, pace)
    if heads is not None:
        # it brings numpy along, which Key_Shared has loaded
        from semantics.console.causes import held_up

        held = await pace.drive(held_up(cursor.planes(cursor.start, cursor.known), heads, limit))
        free, slots = max(free - held.number, 0), held.slots
        for each in held.most:
            kind = "key" if each.head is not None else "no-owner"
            record = each.head if each.head is not None else each.oldest
            filter_ = {"slot": each.slot, "state": "blocked"}
            found.append(Cause(at, kind, each.number, 1, record, each.oldest, filter_, each.slot))
    unread = max(at.partition.high_watermark - cursor.known, 0)
    groups = (
        (_waits_for(at), "available", free),
        ("delay", "delayed", states["delayed"]),
        ("backoff", "backoff", states["backoff"]),
        ("dead-letter", "dying", states["dying"]),
        (_unread_for(at), "unread", unread),
    )
    others = 0
    for kind, state, number in groups:
        if not number:
            continue
        first = await _first(broker, at, state, pace, heads)
        if first is not None:
            others += 1
            found.append(Cause(at, kind, number, number, first, first, {"state": state}))
    for name, number in cursor.holding().items():
        first = cursor.first_in_hand(name) if number else None
        if first is not None:
            others += 1
            kind = "in-hand" if name in at.consumers else "transaction"
            found.append(Cause(at, kind, 0, number, first, first, {"consumer": name}))
        await pace.rest()
    return found, slots + others


def _waits_for(at: SubscriptionPartition) -> str:
    """What a message waits for that can be delivered, by the same order as in the sentence of `topics explain`."""
    cursor = at.ready()
    if not at.consumers:
        return "no-consumer"
    if cursor.acquired >= cursor.config.max_locks:
        return "unacknowledged"
    if at.pacing.shut:
        return "dispatch-rate"
    return "next-consumer"


def _unread_for(at: SubscriptionPartition) -> str:
    """The same of what the dispatcher has not come to."""
    kind = _waits_for(at)
    if kind in ("next-consumer", "dispatch-rate") and behind_transaction(at, at.ready().known):
        return "uncommitted"
    return kind if kind != "next-consumer" else "unread"


async def _first(
    broker: Broker, at: SubscriptionPartition, state: str, pace: Pace, heads: Heads | None
) -> int | None:
    """The first record in a state. `heads` were looked for just now."""
    if state == "unread":
        return at.ready().known
    look = Look(broker, Sought(Wanted(frozenset({state}))), pace, most=1, heads=heads)
    hits = (await look.go([at], Place(at.index, 0))).hits
    return hits[0].offset if hits else None


async def _row(broker: Broker, cause: Cause, queue: Queue | None, pace: Pace) -> dict[str, Any] | None:
    """As JSON; None when what it is about is over by now."""
    at = cause.at
    batches = Batches(broker, at.partition, pace, alone=True)
    cursor = at.ready()
    offsets: Sequence[int] = sorted({cause.record, cause.oldest})
    await pace.rest(0)
    dues = cursor.due_times(offsets)
    shown = {}
    for offset in offsets:
        stored = await batches.at(offset)
        shown[offset] = await of_one(broker, at, offset, dues, stored, queue)
        await pace.rest()
    record, oldest = shown[cause.record], shown[cause.oldest]
    if record is None:
        return None
    state = record["state"]
    kind = cause.kind
    if (
        kind in ("next-consumer", "unread")
        and queue is not None
        and not lane_stats.readers(broker, queue.topic)
    ):
        # lanes are there whether somebody has them or not
        kind = "no-consumer"
    row: dict[str, Any] = {
        "cause": kind,
        "partition": at.index,
        "holdsUp": cause.holds_up,
        "messages": cause.messages,
        "explanation": record.pop("why"),
        "record": record,
    }
    for name in ("slot", "key", "keyBase64"):
        if name in record and cause.slot is not None:
            row[name] = record[name]
    if state == "ACQUIRED":
        row["consumer"] = record.get("consumer")
        if (since := _since(at, cause.record)) is not None:
            row["since"] = iso(since)
    if "next" in record:
        row["next"] = record["next"]
    if oldest is not None:
        row["oldest"] = {
            name: oldest[name]
            for name in ("offset", "messageId", "published", "ageSeconds")
            if name in oldest
        }
    closed = cause.kind == "transaction" or cause.filter_.get("state") in _NOT_TO_CHOOSE
    row["acts"] = _acts(at, state, queue) if not closed else []
    row["filter"] = cause.filter_
    return row


def _acts(at: SubscriptionPartition, state: str, queue: Queue | None) -> list[str]:
    """What may be done to a record in a state."""
    acts = _ACTS.get(state, ())
    letters = at.subscription.config.subscription.dead_letters
    return [
        each
        for each in acts
        if (each is not Act.DEAD_LETTER or letters) and (each is not Act.TAKE_BACK or queue is None)
    ]


def _since(at: SubscriptionPartition, offset: int) -> int | None:
    """Since when somebody has a record in hand, or has renewed it: wall ms."""
    cursor, clock = at.ready(), at.node.clock
    known = cursor.look(offset, {})
    if known.deadline is None:
        return None
    now = clock.monotonic_ms()
    begun = known.deadline - cursor.config.lock_ms
    if cursor.config.lock_ms >= NO_TIMEOUT_MS and begun > now:
        return None
    return clock.wall_ms() - max(now - begun, 0)
