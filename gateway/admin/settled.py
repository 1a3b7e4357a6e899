"""What became of a settled record, where that can be known cheaply: whether it is a dead letter, and where.

Of an acknowledged record nothing is stored but that it is settled. A dead letter says where it came from, so its topic
is looked through: the newest first, a stretch at a time with turns for others between, LOOKED_AT_MOST bytes at most.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.wire import letters, records
from gateway.wire.batch import BatchError
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.partition import SubscriptionPartition

LOOKED_AT_MOST = 64 * 1024 * 1024
"""Bytes of a dead letter topic that one question may look through."""
_STRETCH = 1024 * 1024
"""Bytes that are read in one go."""

_WHOLE = letters.WHOLE.encode()


class Buried(NamedTuple):
    """Where a record's dead letter is."""

    topic: str
    partition: int
    offset: int
    reason: str
    deliveries: int
    """how often the record was delivered; 0 of a retry letter that came too often"""
    batch: bool
    """True when the letter is the record's whole batch, which cannot be opened"""


class Search(NamedTuple):
    """What came of a search: the letter, the topic that was searched, and whether all of it was."""

    found: Buried | None
    topic: str
    whole: bool


async def find_letter(at: SubscriptionPartition, offset: int) -> Search:
    """The dead letter of a record of this subscription on this partition."""
    subscription, node = at.subscription, at.node
    # of retries the letters lie with those of the topic that they came from
    base = subscription.base or subscription.topic
    name = subscription.config.dead_letters_of(subscription.group, base)
    topic = node.catalog.get(name)
    if topic is None:
        return Search(None, name, True)
    try:
        partition = await until_loaded(lambda: node.in_use.partition(topic, at.index % len(topic.partitions)))
        found, whole = await _search(partition, subscription.topic, at.index, subscription.group, offset)
    except (KafkaError, StoreError, BatchError):
        # what cannot be read there is told to whoever reads that topic
        return Search(None, name, False)
    return Search(found, name, whole)


async def _search(
    letters_of: Partition, topic: str, index: int, group: str, offset: int
) -> tuple[Buried | None, bool]:
    """From stretch to stretch backwards, each read forwards."""
    start, end = letters_of.log_start, letters_of.high_watermark
    each = max(1, letters_of.size // max(1, end - start))
    stride = max(1, _STRETCH // each)
    looked = 0
    while end > start and looked < LOOKED_AT_MOST:
        begin = max(start, end - stride)
        at = begin
        while at < end:
            buffers = letters_of.read(at, _STRETCH)
            data = b"".join(buffers if isinstance(buffers, list) else await buffers)
            if not data:
                break
            looked += len(data)
            found, behind = _among(data, topic, index, group, offset)
            if found is not None:
                return Buried(letters_of.topic.name, letters_of.index, *found), True
            at = max(behind, at + 1)
            await asyncio.sleep(0)
        end = begin
    return None, end <= start


def _among(
    data: bytes, topic: str, index: int, group: str, offset: int
) -> tuple[tuple[int, str, int, bool] | None, int]:
    """(offset, reason, deliveries, whether it is a whole batch) of the letter among stored batches, and the offset
    behind them.
    """
    behind = -1
    number = b"%d" % offset
    # letters are stored without compression: most batches are passed over without a look at their records
    needle = letters.OFFSET.encode() + bytes((len(number) << 1,)) + number
    wanted = {
        letters.PARTITION: b"%d" % index,
        letters.TOPIC: topic.encode(),
        letters.GROUP: group.encode(),
    }
    for position, header in records.batches(data):
        behind = header.base_offset + header.last_offset_delta + 1
        end = position + header.size
        if data.find(needle, position, end) < 0 and data.find(_WHOLE, position, end) < 0:
            continue
        for record in records.records(data[position:end]):
            said = {name: value for name, value in record.headers if value is not None}
            if any(said.get(name) != value for name, value in wanted.items()):
                continue
            whole = letters.covered(record.value, said.get(letters.MESSAGE, b""))
            if whole[0] <= offset <= whole[1] if whole is not None else said.get(letters.OFFSET) == number:
                reason = said.get(letters.REASON, b"").decode("utf-8", "replace")
                times = said.get(letters.DELIVERY_COUNT, b"")
                deliveries = int(times) if times.isdigit() else 0
                where = header.base_offset + record.offset_delta
                return (where, reason, deliveries, whole is not None), behind
    return None, behind
