"""Deliveries that say what they are: headers of records that come again, or of all, as `pulsar.queue.headers` says.

| header | value |
|---|---|
| `pulsar-message-id` | `ledger:entry:partition:batch-index` of the record where it lies |
| `pulsar-redelivery-count` | how many deliveries of it have failed, decimal text |
| `pulsar-origin-topic`, `pulsar-origin-partition`, `pulsar-origin-offset` | where it lies |

A record that bears such names already, as a client copied what it was given, gets others in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.broker.message_ids import id_at
from gateway.wire.delivery import records_at
from gateway.wire.records import Record, build_batch
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.stored import Stored
    from gateway.wire.opened import Found
    from semantics.message_id import MessageId

MESSAGE_ID = "pulsar-message-id"
REDELIVERY_COUNT = "pulsar-redelivery-count"
ORIGIN_TOPIC = "pulsar-origin-topic"
ORIGIN_PARTITION = "pulsar-origin-partition"
ORIGIN_OFFSET = "pulsar-origin-offset"

NAMES = frozenset((MESSAGE_ID, REDELIVERY_COUNT, ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET))


def told(
    source: Partition,
    batch: Stored,
    parts: Sequence[tuple[int, int]],
    base: int,
    leader_epoch: int,
    failed: int,
    limit: int,
) -> bytes:
    """The records of `parts`, (first, last) offsets of a batch, at lane offset `base` and behind it, with their
    headers, uncompressed. Raises Unreadable; ValueError when the batch has none of them.
    """
    records = records_at(bytes(batch.raw()), parts, limit)
    first = _id(source, batch.base)
    return build_batch(
        [
            Record(
                number,
                each.timestamp,
                each.key,
                each.value,
                [
                    *(pair for pair in each.headers if pair[0] not in NAMES),
                    *_headers(source, each, first, failed),
                ],
            )
            for number, each in enumerate(records)
        ],
        base,
        leader_epoch=leader_epoch,
    )


def _headers(
    source: Partition, record: Found, first: tuple[int, MessageId] | None, failed: int
) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    if first is not None:
        base, its = first
        found.append((MESSAGE_ID, str(its._replace(batch_index=record.offset - base)).encode()))
    found += (
        (REDELIVERY_COUNT, b"%d" % failed),
        (ORIGIN_TOPIC, source.topic.name.encode()),
        (ORIGIN_PARTITION, b"%d" % source.index),
        (ORIGIN_OFFSET, b"%d" % record.offset),
    )
    return found


def _id(source: Partition, offset: int) -> tuple[int, MessageId] | None:
    """The offset of a batch, and the id of what is first in it; None when it is not known any more."""
    try:
        return offset, id_at(source, offset)
    except (StoreError, LookupError):
        return None
