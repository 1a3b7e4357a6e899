"""Which messages of a named producer a partition has already taken: Pulsar's deduplication. Pure: no I/O, no clock.

A message says who sent it (`pulsar-producer-name`, else its client's id) and which of that sender's it is
(`pulsar-sequence-id`). A producer's sequence ids ascend, and may leave gaps, also because the others went to other
partitions. What is above the highest that was taken is new; so is what lies in a gap between two batches: there a batch
belongs that its client sent earlier, and had to send again (seed 1, "Message deduplication"; PIP-6, whose brokers never
see batches out of order). All else is a duplicate, across connections and restarts. What is taken is stored with the
messages themselves, so that no snapshot is ever behind.

As in `producers.py` the table holds what was *taken*; a failed commit throws it away.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence

from store.api import Delete, DeleteRange, Family, Put, Write

KEPT = 5
"""Batches remembered of a producer: after a power cut that lost the newest, it stands where the one before ended."""

GAPS = 8
"""Gaps remembered of a producer: more than clients have requests under way."""

MOST = 10_000
"""Names that a partition remembers; beyond that the one that has been silent for longest is forgotten."""

MOST_NAME = 256
"""Bytes of a name that count."""

Named = tuple[bytes, int]
"""A producer's name and a message's sequence id."""

_MARK = b"\xff" * 8
# no producer id of Kafka's is so
_HEAD = struct.Struct(">BqBB")
_BATCH = struct.Struct(">qqq")
_GAP = struct.Struct(">qq")
VERSION = 3
"""Rows of the family begin with it; those of `producers.py` have another."""
_KEY_OF_ID = 12


class Known:
    """What a partition remembers of one name."""

    __slots__ = ("batches", "gaps", "updated_at")

    def __init__(self, updated_at: int) -> None:
        self.updated_at = updated_at
        # the last batches, oldest first: (lowest and highest sequence id, offset of the last message)
        self.batches: list[tuple[int, int, int]] = []
        # ascending: what lies between these two sequence ids was not taken
        self.gaps: list[tuple[int, int]] = []

    @property
    def highest(self) -> int:
        """Of the sequence ids that were taken; -1 for none."""
        return max([last for _, last, _ in self.batches], default=-1)

    def has(self, sequence: int) -> bool:
        """Whether it was taken."""
        return sequence <= self.highest and not any(below < sequence < above for below, above in self.gaps)

    def take(self, sequences: list[int], offset: int) -> None:
        """These, ascending, are taken, the last of them with the message at `offset`."""
        highest = self.highest
        above = [each for each in sequences if each > highest]
        for below, end in list(self.gaps):
            within = [each for each in sequences if below < each < end]
            if within:
                self.gaps.remove((below, end))
                self._gap(below, within[0])
                self._gap(within[-1], end)
        if above:
            self._gap(highest, above[0])
        self.batches.append((sequences[0], sequences[-1], offset))
        if len(self.batches) > KEPT:
            # the highest is never the one that goes
            oldest = next(each for each in self.batches if each[1] < self.highest)
            self.batches.remove(oldest)

    def _gap(self, below: int, above: int) -> None:
        if above > below + 1:
            self.gaps.append((below, above))
            self.gaps.sort()
            del self.gaps[:-GAPS]

    def lose(self, first: int, last: int) -> None:
        """The messages at offsets from `first` to below `last` are not in the log."""
        lost = [each for each in self.batches if first <= each[2] < last]
        self.batches = [each for each in self.batches if each not in lost]
        highest = self.highest
        self.gaps = [(below, min(above, highest)) for below, above in self.gaps if below < highest]
        for low, high, _ in lost:
            if low < highest:
                self._gap(low - 1, min(high + 1, highest))


class ProducerNames:
    """The names of one partition."""

    __slots__ = ("_dirty", "_forgotten", "_known", "_prefix")

    def __init__(self, partition: int) -> None:
        self._prefix = partition.to_bytes(4, "big") + _MARK
        # those that were silent for longest first
        self._known: OrderedDict[bytes, Known] = OrderedDict()
        # what of it is to be stored; None: it is to be deleted
        self._dirty: dict[bytes, Known | None] = {}
        # all rows are to be deleted
        self._forgotten = False

    def load(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """The rows as they are stored."""
        found = [(key[_KEY_OF_ID:], _decode(value)) for key, value in rows]
        found.sort(key=lambda each: each[1].updated_at)
        self._known.update(found)

    def __len__(self) -> int:
        return len(self._known)

    def last(self, name: bytes) -> int:
        """The highest sequence id that was taken of a producer, -1 where there is none."""
        known = self._known.get(name)
        return known.highest if known is not None else -1

    def duplicates(self, named: Sequence[Named | None]) -> list[int]:
        """Which messages of a batch were taken already, or are in it twice: their places. None has no sequence id, and
        is none.
        """
        seen: set[Named] = set()
        found: list[int] = []
        for at, each in enumerate(named):
            if each is None:
                continue
            known = self._known.get(each[0])
            if each in seen or (known is not None and known.has(each[1])):
                found.append(at)
            else:
                seen.add(each)
        return found

    def take(self, named: Sequence[Named | None], first: int, now: int) -> None:
        """Messages without duplicates, at the offsets from `first` on, are taken. `now` in ms since 1970."""
        by_name: dict[bytes, list[int]] = {}
        ends: dict[bytes, int] = {}
        for at, each in enumerate(named):
            if each is not None:
                by_name.setdefault(each[0], []).append(each[1])
                ends[each[0]] = first + at
        for name, sequences in by_name.items():
            known = self._known.get(name)
            if known is None:
                known = self._known[name] = Known(now)
            known.updated_at = now
            known.take(sorted(sequences), ends[name])
            self._known.move_to_end(name)
            self._dirty[name] = known
        while len(self._known) > MOST:
            oldest, _ = self._known.popitem(last=False)
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
    known.lose(first, last)
    return _encode(known) if known.batches else None


def _encode(known: Known) -> bytes:
    parts = [_HEAD.pack(VERSION, known.updated_at, len(known.batches), len(known.gaps))]
    parts += [_BATCH.pack(*batch) for batch in known.batches]
    parts += [_GAP.pack(*gap) for gap in known.gaps]
    return b"".join(parts)


def _decode(value: bytes) -> Known:
    version, updated_at, batches, gaps = _HEAD.unpack_from(value)
    if version != VERSION:
        raise ValueError(f"a deduplication row of version {version}; this release reads version {VERSION}")
    known = Known(updated_at)
    at = _HEAD.size
    known.batches = [_BATCH.unpack_from(value, at + i * _BATCH.size) for i in range(batches)]
    at += batches * _BATCH.size
    known.gaps = [_GAP.unpack_from(value, at + i * _GAP.size) for i in range(gaps)]
    return known
