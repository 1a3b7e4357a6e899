"""What the stats of non-persistent topics say beside those of others: messages that were dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic

Stats = dict[str, Any]


def came(broker: Broker, topic: Topic, end: int) -> int:
    """Messages that a partition which ends there was sent: since the gateway started, where they are in memory only."""
    return end - broker.transients.first_offset if topic.transient else end


def add(context: Context, topic: Topic, index: int, answer: Stats) -> None:
    """Add to the stats of a partition what it has dropped, and what each of its subscriptions missed for that."""
    if not topic.transient:
        return
    broker, number = context.broker, topic.partitions[index]
    left = broker.transients.left(number)
    now = broker.loop.time()
    # as Pulsar has it: what there was nobody for
    answer["msgDropRate"] = context.recent.dropped(number, left.unread, now)
    answer["magnetar"]["memory"] = {
        "droppedMessages": left.unread,
        "forgottenMessages": left.messages,
        "forgottenBytes": left.size,
        "maxBytes": broker.effective(topic).memory_bytes,
        "maxMs": broker.settings.integer("non.persistent.max.ms"),
    }
    for name, one in answer["subscriptions"].items():
        states = one.get("magnetar", {}).get("states")
        row = broker.subscriptions.row(name, topic.name) if states is not None else None
        if row is not None:
            one["msgDropRate"] = context.recent.deliveries(row.id, number, states, now).expired


def summed(topic: Topic, each: dict[str, Stats], total: Stats) -> None:
    """The same of all partitions together."""
    if not topic.transient:
        return
    total["msgDropRate"] = sum(one["msgDropRate"] for one in each.values())
    for name, one in total["subscriptions"].items():
        one["msgDropRate"] = sum(
            its["subscriptions"].get(name, {}).get("msgDropRate", 0.0) for its in each.values()
        )
    memory = [one["magnetar"]["memory"] for one in each.values()]
    total["magnetar"]["memory"] = {
        key: sum(its[key] for its in memory)
        for key in ("droppedMessages", "forgottenMessages", "forgottenBytes")
    }
