"""The cursors of a partition as `stats-internal` and `info-internal` show them, with Pulsar's keys: one for each
subscription. A position is `ledger:entry`, and an entry a batch. Offsets are under `magnetar`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin import groups, stats
from gateway.admin.slices import Pace, let_go

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from store.api import Log

MOST_RANGES = 1_000
"""Ranges of acknowledged messages that are told of one cursor."""


class Place(NamedTuple):
    """An entry. The one before the first of a ledger is -1, as Pulsar counts."""

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"

    @property
    def before(self) -> Place:
        return Place(self.ledger, self.entry - 1)


async def of_partitions(
    context: Context, topic: Topic, indexes: Sequence[int]
) -> dict[int, dict[str, dict[str, Any]]]:
    """By partition and subscription. Raises KafkaError, StoreError."""
    pace = Pace()
    spans = await stats.spans(context, topic, indexes, pace)
    there = await groups.subscriptions(context.broker, topic, spans)
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for index, by_name in there.items():
        found[index] = {}
        for name, each in by_name.items():
            found[index][name] = _cursor(context.broker, topic, index, name, each)
            await pace.rest()
    await let_go(there)
    return found


def kept(cursor: dict[str, Any]) -> dict[str, Any]:
    """What of it is kept on the disk: as `info-internal` has it."""
    ledger, _, entry = cursor["markDeletePosition"].partition(":")
    return {
        "markDelete": {"ledgerId": int(ledger), "entryId": int(entry)},
        "properties": cursor["properties"],
    }


def _cursor(broker: Broker, topic: Topic, index: int, name: str, one: dict[str, Any]) -> dict[str, Any]:
    """`one` is what `stats` tells of the subscription."""
    log, said = broker.log_of(topic, index), one["magnetar"]
    start = said["committedOffset"] if "committedOffset" in said else said["markDeleteOffset"] + 1
    read = said.get("readOffset", start)
    settled = _settled(broker, topic, index, name, one)
    cursor: dict[str, Any] = {
        "markDeletePosition": str(place(log, start).before),
        "readPosition": str(place(log, read)),
        # of an idle one Pulsar has no ledger open
        "state": "NoLedger" if settled is None else "Open",
        "active": bool(one.get("consumers") or said.get("groupMembers")),
        "properties": one.get("subscriptionProperties", {}),
        "magnetar": {"markDeleteOffset": start - 1, "readOffset": read},
    }
    if settled is not None:
        ranges = [each for each in (_entries(log, *each) for each in settled) if each is not None]
        shown = ",".join(f"({first.before}‥{last}]" for first, last in ranges)
        cursor["individuallyDeletedMessages"] = f"[{shown}]"
        cursor["totalNonContiguousDeletedMessagesRange"] = len(ranges)
        cursor["magnetar"]["acknowledgedBeyond"] = [[first, end - 1] for first, end in settled]
    return cursor


def _settled(
    broker: Broker, topic: Topic, index: int, name: str, one: dict[str, Any]
) -> list[tuple[int, int]] | None:
    """Ranges of offsets that are acknowledged behind the first that is not; None where only the disk knows."""
    if "states" not in one["magnetar"]:
        return []
    subscription = broker.subscriptions.in_use(name, topic.topic_id)
    at = subscription.partitions.get(index) if subscription is not None else None
    if at is not None and at.cursor is not None:
        return at.cursor.settled(MOST_RANGES)
    said = one["magnetar"]
    return [] if said["states"]["open"] == said["readOffset"] - said["markDeleteOffset"] - 1 else None


def place(log: Log, offset: int) -> Place:
    """The entry of an offset; of the next one to come, the entry behind the last."""
    if log.start_offset == log.end_offset:
        ledgers = log.ledgers()
        return Place(ledgers[-1].ledger, ledgers[-1].entries) if ledgers else Place(-1, 0)
    if offset >= log.end_offset:
        last = log.position_of(log.end_offset - 1)
        return Place(last.ledger, last.entry + 1)
    found = log.position_of(max(offset, log.start_offset))
    return Place(found.ledger, found.entry)


def _entries(log: Log, first: int, end: int) -> tuple[Place, Place] | None:
    """The first and the last entry of which all records are in [first, end); None where there is none."""
    first, end = max(first, log.start_offset), min(end, log.end_offset)
    if first >= end:
        return None
    begins = log.position_of(first)
    low = Place(begins.ledger, begins.entry + bool(begins.batch_index))
    high = place(log, end).before
    return (low, high) if low <= high else None
