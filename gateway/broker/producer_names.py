"""Which messages of a named producer a partition has already taken: Pulsar's deduplication. Pure: no I/O, no clock.

A message says who sent it (`pulsar-producer-name`, else its client's id) and which of that sender's it is
(`pulsar-sequence-id`). Sequence ids ascend, and may leave gaps: what is not above the highest that was taken of its
producer is a duplicate, across connections and restarts (seed 1, "Message deduplication"; PIP-6). What is taken is
stored with the messages themselves, so that no snapshot is ever behind.

As in `producers.py` the table holds what was *taken*; a failed commit throws it away.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from store.api import Delete, DeleteRange, Family, Put, Write

KEPT = 5
"""Batches remembered of a producer: after a power cut that lost the newest, it stands where the one before ended."""

MOST = 10_000
"""Names that a partition remembers; beyond that the one that has been silent for longest is forgotten."""

MOST_NAME = 256
"""Bytes of a name that count."""

Named = tuple[bytes, int]
"""A producer's name and a message's sequence id."""

_MARK = b"\xff" * 8
# no producer id of Kafka's is so
_HEAD = struct.Struct(">BqB")
_BATCH = struct.Struct(">qq")
VERSION = 2
"""Rows of the family begin with it; those of `producers.py` have another."""
_KEY_OF_ID = 12


class Known:
    """What a partition remembers of one name."""

    __slots__ = ("batches", "updated_at")

    def __init__(self, updated_at: int) -> None:
        self.updated_at = updated_at
        # the last batches, oldest first: (highest sequence id, offset of the last message)
        self.batches: list[tuple[int, int]] = []


class ProducerNames:
    """The names of one partition."""

    __slots__ = ("_dirty", "_forgotten", "_known", "_prefix")

    def __init__(self, partition: int) -> None:
        self._prefix = partition.to_bytes(4, "big") + _MARK
        # those that were silent for longest first
        self._known: dict[bytes, Known] = {}
        # what of it is to be stored; None: it is to be deleted
        self._dirty: dict[bytes, Known | None] = {}
        # all rows are to be deleted
        self._forgotten = False

    def load(self, key: bytes, value: bytes) -> None:
        """A row as it is stored."""
        self._known[key[_KEY_OF_ID:]] = _decode(value)

    def __len__(self) -> int:
        return len(self._known)

    def last(self, name: bytes) -> int:
        """The highest sequence id that was taken of a producer, -1 where there is none."""
        known = self._known.get(name)
        return known.batches[-1][0] if known is not None else -1

    def duplicates(self, named: Sequence[Named | None]) -> list[int]:
        """Which messages of a batch were taken already, or are in it twice: their places. None has no sequence id, and
        is none.
        """
        last: dict[bytes, int] = {}
        found: list[int] = []
        for at, each in enumerate(named):
            if each is None:
                continue
            name, sequence = each
            before = last.get(name)
            if before is None:
                before = self.last(name)
            if sequence <= before:
                found.append(at)
            else:
                last[name] = sequence
        return found

    def take(self, named: Sequence[Named | None], first: int, now: int) -> None:
        """Messages without duplicates, at the offsets from `first` on, are taken. `now` in ms since 1970."""
        last = {each[0]: (each[1], first + at) for at, each in enumerate(named) if each is not None}
        for name, batch in last.items():
            known = self._known.pop(name, None) or Known(now)
            known.updated_at = now
            known.batches.append(batch)
            del known.batches[:-KEPT]
            self._known[name] = self._dirty[name] = known
        while len(self._known) > MOST:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._dirty[oldest] = None

    def forget(self) -> None:
        """Messages are taken without being looked at: what is known is worth nothing from now on."""
        if self._known:
            self._known.clear()
            self._dirty.clear()
            self._forgotten = True

    def flush(self) -> list[Write]:
        """Rows for what changed since the last call: they belong into the commit of the messages themselves."""
        writes: list[Write] = []
        if self._forgotten:
            self._forgotten = False
            writes.append(DeleteRange(Family.DEDUP, self._prefix, self._prefix + b"\xff" * (MOST_NAME + 1)))
        for name, known in self._dirty.items():
            key = self._prefix + name
            writes.append(
                Put(Family.DEDUP, key, _encode(known)) if known is not None else Delete(Family.DEDUP, key)
            )
        self._dirty.clear()
        return writes

    def expire(self, before: int) -> list[Write]:
        """Forget names of which nothing came since `before` (ms since 1970)."""
        old = [
            name
            for name, known in self._known.items()
            if known.updated_at < before and name not in self._dirty
        ]
        for name in old:
            del self._known[name]
        return [Delete(Family.DEDUP, self._prefix + name) for name in old]


def is_named(key: bytes) -> bool:
    """Whether a row of the family is of a name."""
    return len(key) > _KEY_OF_ID


def expired(value: bytes, before: int) -> bool:
    """Whether nothing came since `before`, of a row."""
    return _decode(value).updated_at < before


def without(value: bytes, first: int, last: int) -> bytes | None:
    """A row without its batches from offset `first` to below `last`; None when nothing is left of it."""
    known = _decode(value)
    known.batches = [batch for batch in known.batches if not first <= batch[1] < last]
    return _encode(known) if known.batches else None


def _encode(known: Known) -> bytes:
    parts = [_HEAD.pack(VERSION, known.updated_at, len(known.batches))]
    parts.extend([_BATCH.pack(*batch) for batch in known.batches])
    return b"".join(parts)


def _decode(value: bytes) -> Known:
    version, updated_at, count = _HEAD.unpack_from(value)
    if version != VERSION:
        raise ValueError(f"a deduplication row of version {version}; this release reads version {VERSION}")
    known = Known(updated_at)
    known.batches = [_BATCH.unpack_from(value, _HEAD.size + i * _BATCH.size) for i in range(count)]
    return known
