"""What became of a settled record, where that can be known cheaply: whether it is a dead letter or a retry letter, and
where.

Of an acknowledged record nothing is stored but that it is settled. A letter says where it came from: a dead letter
where the record was read last, and every letter which message it was at first, also one that died as a retry. So
their topics are looked through: the newest first, a stretch at a time with turns for others between, LOOKED_AT_MOST
bytes at most.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin.slices import turn
from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.broker.subscriptions import letter_names
from gateway.wire import letters, properties, records
from gateway.wire.batch import BatchError
from semantics.group_names import bare
from semantics.names import dotted
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.partition import SubscriptionPartition

LOOKED_AT_MOST = 64 * 1024 * 1024
"""Bytes of a topic of letters that one question may look through."""
MOST_RECORDS = 10_000
"""A batch with more is a client's own, and not looked at: it would hold up the loop."""
_STRETCH = 1024 * 1024
"""Bytes that are read in one go."""

_WHOLE = letters.WHOLE.encode()


class Buried(NamedTuple):
    """Where a record's letter is."""

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


class _Record(NamedTuple):
    """The record that is looked for: where it is read, and which message it is."""

    topic: str
    partition: int
    group: str
    offset: int
    real_topic: str
    message_id: str
    """empty if nobody knows it any more"""


async def find_letter(at: SubscriptionPartition, offset: int, message_id: str = "") -> Search:
    """The dead letter of a record of this subscription on this partition, or of a retry of it."""
    subscription = at.subscription
    # of retries the letters lie with those of the topic that they came from
    base = subscription.base or subscription.topic
    name = subscription.config.dead_letters_of(subscription.group, base)
    return await _find(at, name, _wanted(at, offset, message_id))


async def find_retry(at: SubscriptionPartition, offset: int, message_id: str) -> Search | None:
    """The last retry letter that was written for a record when a consumer of a lane asked for it. None where there is
    none to look for: of a record that is a retry itself.
    """
    subscription = at.subscription
    if subscription.base is not None or not message_id:
        return None
    name = subscription.config.retries_of(subscription.group, subscription.topic)
    return await _find(at, name, _wanted(at, offset, message_id))


def _wanted(at: SubscriptionPartition, offset: int, message_id: str) -> _Record:
    topic, group = at.subscription.topic, bare(at.subscription.group)
    return _Record(
        dotted(topic), at.index, group, offset, letter_names.full_name(at.node.catalog, topic), message_id
    )


async def _find(at: SubscriptionPartition, name: str, wanted: _Record) -> Search:
    node = at.node
    topic = node.catalog.get(name)
    if topic is None:
        return Search(None, dotted(name), True)
    own = at.index % len(topic.partitions)
    # its retries may have been on a topic with other partitions
    others = [index for index in range(len(topic.partitions)) if index != own] if wanted.message_id else []
    left, all_of_it = LOOKED_AT_MOST, True
    for index in [own, *others]:
        try:
            partition = await until_loaded(partial(node.in_use.partition, topic, index))
            found, whole, looked = await _search(partition, wanted, left)
        except (KafkaError, StoreError):
            # what cannot be read there is told to whoever reads that topic
            all_of_it = False
            continue
        if found is not None:
            return Search(found, dotted(name), True)
        left -= looked
        all_of_it = all_of_it and whole
    return Search(None, dotted(name), all_of_it)


async def _search(letters_of: Partition, wanted: _Record, most: int) -> tuple[Buried | None, bool, int]:
    """From stretch to stretch backwards, each read forwards, about `most` bytes: the letter, whether all was looked
    through, and how much was.
    """
    start, end = letters_of.log_start, letters_of.high_watermark
    each = max(1, letters_of.size // max(1, end - start))
    stride = max(1, _STRETCH // each)
    looked = 0
    # the last one of the message, where none is of the very record
    second: Buried | None = None
    while end > start:
        begin = max(start, end - stride)
        at = begin
        best: Buried | None = None
        while at < end:
            if looked >= most:
                return best or second, False, looked
            try:
                buffers = letters_of.read(at, _STRETCH)
                data = b"".join(buffers if isinstance(buffers, list) else await buffers)
            except IndexError:
                # retention has taken it meanwhile
                start = letters_of.log_start
                at = max(start, at + 1)
                continue
            if not data:
                break
            looked += len(data)
            exact, other, behind = _among(data, wanted)
            if exact is not None:
                best = Buried(dotted(letters_of.topic.name), letters_of.index, *exact)
            elif other is not None and best is None:
                second = Buried(dotted(letters_of.topic.name), letters_of.index, *other)
            at = max(behind, at + 1)
            await turn()
        if best is not None or second is not None:
            return best or second, True, looked
        end = begin
    return None, True, looked


_Letter = tuple[int, str, int, bool]
"""(offset, reason, deliveries, whether it is a whole batch)"""


def _among(data: bytes, wanted: _Record) -> tuple[_Letter | None, _Letter | None, int]:
    """Of letters among stored batches the last one of the very record, and the last one of a retry of it; and the
    offset behind them.
    """
    behind = -1
    exact: _Letter | None = None
    other: _Letter | None = None
    number = b"%d" % wanted.offset
    # most batches are passed over without a look at their records
    needles = [letters.OFFSET.encode() + bytes((len(number) << 1,)) + number, _WHOLE]
    if wanted.message_id:
        needles.append(wanted.message_id.encode())
    for position, header in records.batches(data):
        behind = header.base_offset + header.last_offset_delta + 1
        end = position + header.size
        if header.codec or header.count > MOST_RECORDS:
            continue
        if all(data.find(needle, position, end) < 0 for needle in needles):
            continue
        try:
            listed = list(records.records(data[position:end]))
        except BatchError:
            # whoever reads that topic is told
            continue
        for record in listed:
            said = {name: value for name, value in record.headers if value is not None}
            whole = _read_there(said, record.value, wanted)
            if whole is None and not _was(said, wanted):
                continue
            reason = said.get(letters.REASON, b"").decode("utf-8", "replace")
            deliveries = properties.number(said.get(letters.DELIVERY_COUNT)) or 0
            found = header.base_offset + record.offset_delta, reason, deliveries, bool(whole)
            if whole is None:
                other = found
            else:
                exact = found
    return exact, other, behind


def _read_there(said: dict[str, bytes], value: bytes | None, wanted: _Record) -> bool | None:
    """Whether the letter of a record that was read where the wanted one was is its whole batch; None of another's."""
    place = (said.get(letters.TOPIC), said.get(letters.PARTITION), said.get(letters.GROUP))
    if place != (wanted.topic.encode(), b"%d" % wanted.partition, wanted.group.encode()):
        return None
    whole = letters.covered(value, said.get(letters.MESSAGE, b""))
    if whole is not None:
        return True if whole[0] <= wanted.offset <= whole[1] else None
    return False if said.get(letters.OFFSET) == b"%d" % wanted.offset else None


def _was(said: dict[str, bytes], wanted: _Record) -> bool:
    """Whether it was the wanted message at first. A dead letter that was read where that lies is of another record: of
    one that somebody made of an earlier letter.
    """
    if not wanted.message_id:
        return False
    dead = letters.REASON in said
    return not (dead and said.get(letters.TOPIC) == wanted.topic.encode()) and (
        said.get(properties.ORIGIN_MESSAGE_ID) == wanted.message_id.encode()
        and said.get(properties.REAL_TOPIC) == wanted.real_topic.encode()
        and said.get(properties.REAL_SUBSCRIPTION) == wanted.group.encode()
    )
