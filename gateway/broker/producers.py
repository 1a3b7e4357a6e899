"""Which batches of an idempotent producer a partition has already taken, and whether it has a transaction open there.
Pure: no I/O, no clock.

Kafka's rule (KIP-98, KIP-360), as `ProducerTable.check` decides it for (producer id, epoch, first sequence):

| the partition knows                     | the batch                              | answer                        |
|-----------------------------------------|----------------------------------------|-------------------------------|
| nothing of this producer id             | any sequence                           | accept                        |
| the same, `from_zero` (KIP-890)         | starts elsewhere than at 0             | OUT_OF_ORDER_SEQUENCE (45)    |
| a newer epoch                           |                                        | INVALID_PRODUCER_EPOCH (47)   |
| an older epoch                          | starts at 0                            | accept                        |
| an older epoch                          | starts elsewhere                       | OUT_OF_ORDER_SEQUENCE (45)    |
| the same epoch, one of the last five    | same first and last sequence           | duplicate: the stored offset  |
| the same epoch                          | continues (after 2^31-1 comes 0)       | accept                        |
| the same epoch, by a marker (KIP-890)   | starts at 0, as the first of it        | accept                        |
| the same epoch                          | lies behind what was taken, all of it  | DUPLICATE_SEQUENCE_NUMBER (46) |
| the same epoch                          | lies ahead, or only some of it behind  | OUT_OF_ORDER_SEQUENCE (45)    |
| the same, of a transaction              | repeats one that is not of the open one | OUT_OF_ORDER_SEQUENCE (45)    |

The table holds what was *taken*, committed or still in flight: a duplicate of a batch in flight is answered with
the outcome of that batch's commit, because it joins a later group and groups succeed or fail in order. A failed
commit throws the whole table away; it is loaded again from the store.

A client takes both the stored offset and DUPLICATE_SEQUENCE_NUMBER as "stored". Of a transaction that is only true of
batches of the open one: whoever has ended a transaction sends nothing of it again. But librdkafka, whose batch was
stored while its connection broke, forgets it when it aborts, and uses its sequence numbers for the next transaction.

A transaction is open from its first batch here until its marker. Rows of producers that have one open, or whose last
word is a marker, are of version 2; all others stay as they were before there were transactions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from gateway.broker import producer_names
from gateway.broker.producer_names import ProducerNames
from gateway.wire.errors import Error
from store.api import Delete, Family, Put, Write

KEPT = 5
"""Batches remembered a producer: Kafka's bound for max.in.flight.requests.per.connection."""

MAX_SEQUENCE = 0x7FFFFFFF

ACCEPT = -1
"""Answer of `check`: take the batch. Any answer >= 0 is the base offset of the stored duplicate."""
INVALID_EPOCH = -47
OUT_OF_ORDER = -45
DUPLICATE = -46

REFUSALS = {
    INVALID_EPOCH: (
        Error.INVALID_PRODUCER_EPOCH,
        "A producer with this id and a newer epoch has written here.",
    ),
    OUT_OF_ORDER: (
        Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
        "The sequence number does not follow the last one: a batch between is missing.",
    ),
    DUPLICATE: (
        Error.DUPLICATE_SEQUENCE_NUMBER,
        "The batch was stored before, too long ago to tell its offset.",
    ),
}
"""What a client is told for each."""

_KEY = struct.Struct(">IQ")
_HEAD = struct.Struct(">BhqB")
_BATCH = struct.Struct(">iiqq")
_VERSION = 1
# in the place of the batches, which follow: last sequence, first offset of the open transaction, epoch of the
# coordinator that wrote the last marker, flags
_TRANSACTIONAL = struct.Struct(">iqiB")
_VERSION_2 = 2
_TORN = 1

NONE_OPEN = -1
"""In the place of the first offset of a transaction: there is none."""


class Producer:
    """What a partition remembers of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "open_from",
        "torn",
        "updated_at",
    )

    def __init__(self, epoch: int, last_sequence: int, updated_at: int) -> None:
        self.epoch = epoch
        # -1: it has sent nothing in this epoch
        self.last_sequence = last_sequence
        self.updated_at = updated_at
        # the first offset of its open transaction
        self.open_from = NONE_OPEN
        # a power cut may have taken batches of that: it must not be committed
        self.torn = False
        # of whoever wrote the last marker; -1: there was none
        self.coordinator_epoch = -1
        # the last batches, oldest first: (first sequence, last sequence, base offset, log append time or -1)
        self.batches: list[tuple[int, int, int, int]] = []


def next_sequence(sequence: int) -> int:
    """The sequence after `sequence`; it wraps from 2^31-1 to 0."""
    return 0 if sequence == MAX_SEQUENCE else sequence + 1


def advance(sequence: int, count: int) -> int:
    """The sequence of the last of `count` records whose first has `sequence`."""
    return (sequence + count - 1) & MAX_SEQUENCE


class ProducerTable:
    """The producers of one partition."""

    __slots__ = ("_dirty", "names", "partition", "producers")

    def __init__(self, partition: int, rows: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.partition = partition
        self.producers: dict[int, Producer] = {}
        self._dirty: set[int] = set()
        self.names = ProducerNames(partition)
        """producers that say their names, where a topic has deduplication"""
        named: list[tuple[bytes, bytes]] = []
        for key, value in rows:
            if producer_names.is_named(key):
                named.append((key, value))
                continue
            _, producer_id = _KEY.unpack(key)
            self.producers[producer_id] = _decode(value)
        self.names.load(named)

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        count: int,
        transactional: bool = False,
        from_zero: bool = False,
    ) -> int:
        """ACCEPT, INVALID_EPOCH, OUT_OF_ORDER, DUPLICATE, or the base offset of the batch this one repeats.

        `from_zero`: one of whom nothing is known begins at 0. So do transactions of KIP-890, each in an epoch of its
        own: anything else is late, and of one that is over.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            return OUT_OF_ORDER if from_zero and first_sequence else ACCEPT
        if epoch != producer.epoch:
            if epoch < producer.epoch:
                return INVALID_EPOCH
            return ACCEPT if first_sequence == 0 else OUT_OF_ORDER
        last = producer.last_sequence
        if first_sequence == last + 1 or (last == MAX_SEQUENCE and first_sequence == 0):
            return ACCEPT
        last_sequence = (first_sequence + count - 1) & MAX_SEQUENCE
        for first, end, base_offset, _ in producer.batches:
            if first == first_sequence and end == last_sequence:
                if transactional and not 0 <= producer.open_from <= base_offset:
                    return OUT_OF_ORDER
                return base_offset
        if last < 0 or transactional:
            return OUT_OF_ORDER
        # Sequences live on a ring: what ends less than half a turn behind was sent before.
        behind = (last - last_sequence) & MAX_SEQUENCE
        return DUPLICATE if behind < (MAX_SEQUENCE >> 1) else OUT_OF_ORDER

    def append_time(self, producer_id: int, base_offset: int) -> int:
        """The log append time of a remembered batch, or -1."""
        producer = self.producers.get(producer_id)
        if producer is not None:
            for _, _, base, append_time in producer.batches:
                if base == base_offset:
                    return append_time
        return -1

    def take(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        count: int,
        base_offset: int,
        now: int,
        append_time: int = -1,
    ) -> None:
        """Remember a batch that `check` accepted. `now` in ms since 1970."""
        last_sequence = (first_sequence + count - 1) & MAX_SEQUENCE
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(epoch, last_sequence, now)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.last_sequence = last_sequence
        producer.updated_at = now
        batches = producer.batches
        batches.append((first_sequence, last_sequence, base_offset, append_time))
        if len(batches) > KEPT:
            del batches[0]
        self._dirty.add(producer_id)

    # -- transactions -----------------------------------------------------------------------------------------------

    def open_from(self, producer_id: int) -> int:
        """The first offset of a producer's open transaction, or NONE_OPEN."""
        producer = self.producers.get(producer_id)
        return producer.open_from if producer is not None else NONE_OPEN

    def begin(self, producer_id: int, base_offset: int) -> int:
        """A batch that was just taken at `base_offset` is of a transaction: the first offset of that."""
        producer = self.producers[producer_id]
        if producer.open_from < 0:
            producer.open_from = base_offset
        return producer.open_from

    def end(self, producer_id: int, epoch: int, coordinator_epoch: int, now: int) -> int:
        """A marker of that epoch ends a producer's open transaction, whose first offset is the answer.

        The epoch may be higher than that of the batches (a producer is fenced; KIP-890): sequence numbers begin at 0
        then. `now` in ms since 1970. Raises ValueError when nothing is open, and for an epoch that is over.
        """
        producer = self.producers.get(producer_id)
        if producer is None or producer.open_from < 0:
            raise ValueError(f"producer {producer_id} has no open transaction in partition {self.partition}")
        if epoch < producer.epoch:
            raise ValueError(
                f"a marker of epoch {epoch}, while producer {producer_id} has epoch {producer.epoch}"
            )
        if epoch > producer.epoch:
            producer.epoch, producer.last_sequence = epoch, -1
            producer.batches.clear()
        first, producer.open_from, producer.torn = producer.open_from, NONE_OPEN, False
        producer.coordinator_epoch = coordinator_epoch
        producer.updated_at = now
        self._dirty.add(producer_id)
        return first

    def open(self) -> Iterator[tuple[int, int]]:
        """(first offset, producer id) of all open transactions, in any order."""
        for producer_id, producer in self.producers.items():
            if producer.open_from >= 0:
                yield producer.open_from, producer_id

    # -- rows -------------------------------------------------------------------------------------------------------

    def begun_from(self, offset: int) -> Iterator[tuple[int, int, int]]:
        """(producer id, epoch, sequence number of its first batch) of those with nothing that lies before an offset."""
        for producer_id, producer in self.producers.items():
            if producer.batches and producer.batches[0][2] >= offset:
                # the oldest stands first: sequence numbers begin anew at some point
                yield producer_id, producer.epoch, producer.batches[0][0]

    def flush(self) -> list[Write]:
        """Rows for what changed since the last call: they belong into the WriteBatch of the batches themselves."""
        partition = self.partition
        writes: list[Write] = [
            Put(Family.DEDUP, _KEY.pack(partition, producer_id), _encode(self.producers[producer_id]))
            for producer_id in self._dirty
            if producer_id in self.producers
        ]
        self._dirty.clear()
        return writes + self.names.flush()

    def expire(self, before: int) -> list[Write]:
        """Forget producers that wrote nothing since `before` (ms since 1970; producer.id.expiration.ms).

        One with an open transaction stays, however old.
        """
        old = [
            producer_id
            for producer_id, producer in self.producers.items()
            if producer.updated_at < before and producer.open_from < 0 and producer_id not in self._dirty
        ]
        for producer_id in old:
            del self.producers[producer_id]
        writes: list[Write] = [
            Delete(Family.DEDUP, _KEY.pack(self.partition, producer_id)) for producer_id in old
        ]
        return writes + self.names.expire(before)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self.producers.items())


def row_key(partition: int, producer_id: int) -> bytes:
    """The key of what is stored of a producer."""
    return _KEY.pack(partition, producer_id)


def prefix(partition: int) -> bytes:
    """The key prefix of a partition's rows."""
    return partition.to_bytes(4, "big")


def expired(key: bytes, value: bytes, before: int) -> list[Write]:
    """The deletion of a row whose producer wrote nothing since `before` (ms), for partitions that are not in use."""
    if producer_names.is_named(key):
        return [Delete(Family.DEDUP, key)] if producer_names.expired(value, before) else []
    producer = _decode(value)
    if producer.updated_at >= before or producer.open_from >= 0:
        return []
    return [Delete(Family.DEDUP, key)]


def without(value: bytes, first: int, last: int) -> bytes | None:
    """A row without its batches from offset `first` to below `last`; None when nothing is left of it.

    An open transaction that may have lost one of them is torn: nothing of it can be told apart, so it can only be
    aborted. It stays open for that even when all that was here is lost.
    """
    if value[0] == producer_names.VERSION:
        return producer_names.without(value, first, last)
    producer = _decode(value)
    before = producer.batches
    # the newest batch of an open transaction is always among those that are remembered
    if 0 <= producer.open_from < last and before and before[-1][2] >= first:
        producer.torn = True
        if producer.open_from > first:
            # others will take its offset
            producer.open_from = first
    producer.batches = [batch for batch in before if not first <= batch[2] < last]
    if before and len(producer.batches) != len(before):
        producer.last_sequence = producer.batches[-1][1] if producer.batches else -1
        if not producer.batches and producer.open_from < 0:
            return None
    return _encode(producer)


def _encode(producer: Producer) -> bytes:
    batches = producer.batches
    if producer.open_from < 0 and producer.coordinator_epoch < 0:
        parts = [_HEAD.pack(_VERSION, producer.epoch, producer.updated_at, len(batches))]
    else:
        parts = [
            _HEAD.pack(_VERSION_2, producer.epoch, producer.updated_at, len(batches)),
            _TRANSACTIONAL.pack(
                producer.last_sequence,
                producer.open_from,
                producer.coordinator_epoch,
                _TORN if producer.torn else 0,
            ),
        ]
    parts.extend([_BATCH.pack(*batch) for batch in batches])
    return b"".join(parts)


def _decode(value: bytes) -> Producer:
    version, epoch, updated_at, count = _HEAD.unpack_from(value)
    if version not in (_VERSION, _VERSION_2):
        raise ValueError(
            f"a deduplication row of version {version}; this release reads versions {_VERSION} and {_VERSION_2}"
        )
    at = _HEAD.size
    producer = Producer(epoch, -1, updated_at)
    if version == _VERSION_2:
        last, producer.open_from, producer.coordinator_epoch, flags = _TRANSACTIONAL.unpack_from(value, at)
        producer.last_sequence, producer.torn = last, bool(flags & _TORN)
        at += _TRANSACTIONAL.size
    producer.batches = [_BATCH.unpack_from(value, at + i * _BATCH.size) for i in range(count)]
    if version == _VERSION:
        producer.last_sequence = producer.batches[-1][1]
    return producer
