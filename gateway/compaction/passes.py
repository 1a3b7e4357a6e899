"""The two passes of compaction over batches, pure: the last offset of each key, and what of a batch stays.

Offsets never change, and neither do the bounds of batches: one that loses records keeps the offsets that it had, and
one that loses all of them goes. What cannot be opened stays as it is, since nobody can say what it has. So does a
record without a key: nothing is newer than it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import compress
from typing import NamedTuple

from gateway.wire import compression
from gateway.wire.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchError,
    Header,
    assemble,
    empty_batch,
    header,
    open_payload,
)
from gateway.wire.keyed import Keyed
from gateway.wire.unreadable import Unreadable

LONGEST_KEY = 16
"""Longer keys are remembered by a digest of one byte more."""

KEY_BYTES = 160
"""What a key takes in the map: the bytes object, the number, and its place in a dict."""

_LARGEST = (1 << 63) - 1
_COMMIT = b"\0\0\0\1"


class Aborted(NamedTuple):
    """An aborted transaction: its first offset in this partition, that of its marker, and whose it is."""

    first: int
    marker: int
    producer_id: int


class _Undone:
    """Which batches are of aborted transactions, asked in the order of offsets."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._left = sorted(aborted, reverse=True)
        # producer -> its marker
        self._open: dict[int, int] = {}

    def has(self, found: Header) -> bool:
        base = found.base_offset
        while self._left and self._left[-1].first <= base:
            each = self._left.pop()
            self._open[each.producer_id] = each.marker
        return self._open.get(found.producer_id, -1) > base


def _opened(batch: bytes, found: Header, limit: int) -> tuple[bytes, Keyed] | None:
    """The records of a batch; None for one that cannot be opened."""
    try:
        payload = open_payload(batch, found, limit)
        return payload, Keyed(payload, found)
    except (BatchError, Unreadable):
        return None


def _remembered(keys: list[bytes | None]) -> list[bytes | None]:
    """Keys as they stand in the map."""
    if max([len(key) for key in keys if key is not None], default=0) <= LONGEST_KEY:
        return keys
    return [
        key if key is None or len(key) <= LONGEST_KEY else blake2b(key, digest_size=LONGEST_KEY + 1).digest()
        for key in keys
    ]


class Survey:
    """The first pass: over the dirty part of a log, in order."""

    def __init__(
        self,
        end: int,
        memory: int,
        aborted: Sequence[Aborted] = (),
        limit: int = compression.LIMIT,
        *,
        first_dirty: int = 0,
    ) -> None:
        """From `first_dirty` up to the offset `end`. The map has about `memory` bytes, but takes one batch at least,
        so that every pass gets on; a batch may unfold to `limit`.
        """
        self.latest: dict[bytes | None, int] = {}
        """The last offset of each key below `end`."""
        self.end = end
        """How far it came: the map was full there."""
        self._first_dirty = first_dirty
        self._most = memory // KEY_BYTES
        self._aborted = _Undone(aborted)
        self._limit = limit

    def add(self, batch: bytes) -> bool:
        """The next batch. False when it is not looked at, and none behind it is."""
        found = header(batch)
        base = found.base_offset
        if base >= self.end:
            return False
        if found.next_offset <= self._first_dirty:
            # clean: its keys would only fill the map
            return True
        latest = self.latest
        if latest and len(latest) + found.count > self._most:
            self.end = base
            return False
        if found.control or not found.count or (found.transactional and self._aborted.has(found)):
            return True
        opened = _opened(batch, found, self._limit)
        if opened is None:
            return True
        keys, deltas = _remembered(opened[1].keys), opened[1].deltas
        if base < self._first_dirty:
            clean = sum([base + delta < self._first_dirty for delta in deltas])
            keys, deltas = keys[clean:], deltas[clean:]
        if found.next_offset > self.end:
            count = sum([base + delta < self.end for delta in deltas])
            keys, deltas = keys[:count], deltas[:count]
        latest.update(zip(keys, [base + delta for delta in deltas], strict=True))
        latest.pop(None, None)
        return True


class Cleaning:
    """The second pass: over the whole log up to where the first one came, in order."""

    def __init__(
        self,
        latest: dict[bytes | None, int],
        end: int,
        *,
        tombstones_to: int,
        markers_to: int,
        aborted: Sequence[Aborted] = (),
        limit: int = compression.LIMIT,
    ) -> None:
        """`latest` and `end` are those of the survey. Tombstones and markers below the two offsets may go; what lies at
        `end` or behind it stays.
        """
        self._latest = latest
        self._end = end
        self._tombstones_to = tombstones_to
        self._markers_to = markers_to
        self._aborted = _Undone(aborted)
        self._limit = limit
        # producers of whose transaction something has stayed
        self._stayed: set[int] = set()

    def clean(self, batch: bytes, *, last: bool = False) -> bytes | None:
        """What stays of the next batch, None for nothing. `last`: its offsets must stay, if need be without records."""
        kept = self._of(batch)
        if kept is None and last:
            found = header(batch)
            return empty_batch(found.base_offset, found.last_offset, found.leader_epoch)
        return kept

    def _of(self, batch: bytes) -> bytes | None:
        found = header(batch)
        if found.base_offset >= self._end:
            return batch
        if found.control:
            return batch if self._marker_stays(batch, found) else None
        if not found.count:
            return None
        if found.transactional and self._aborted.has(found):
            # somebody who reads all at once may hold a part of it
            return None if found.next_offset <= self._end else batch
        kept = self._records(batch, found)
        if kept is not None and found.transactional:
            self._stayed.add(found.producer_id)
        return kept

    def _marker_stays(self, batch: bytes, found: Header) -> bool:
        """Whether a marker is still needed: readers go by those of aborted transactions as long as they are told of
        them, and by none else. Who wants to know how a transaction ended of which something is left finds it still.
        """
        stayed = found.producer_id in self._stayed
        self._stayed.discard(found.producer_id)
        if found.base_offset >= self._markers_to:
            return True
        # length, attributes, timestamp and offset delta 0, length of the key
        return batch[HEADER_SIZE + 5 : HEADER_SIZE + 9] == _COMMIT and stayed

    def _records(self, batch: bytes, found: Header) -> bytes | None:
        opened = _opened(batch, found, self._limit)
        if opened is None:
            return batch
        payload, keyed = opened
        base, deltas = found.base_offset, keyed.deltas
        latest = self._latest.get
        keys = _remembered(keyed.keys)
        stays = [
            key is None or base + delta >= latest(key, -1) for key, delta in zip(keys, deltas, strict=True)
        ]
        if base < self._tombstones_to:
            for index in keyed.tombstones:
                if keys[index] is not None and base + deltas[index] < self._tombstones_to:
                    stays[index] = False
        if found.next_offset > self._end:
            for index, delta in enumerate(deltas):
                if base + delta >= self._end:
                    stays[index] = True
        count = sum(stays)
        if count == found.count:
            return batch
        return _of_some(found, payload, keyed, stays, count) if count else None


def _of_some(found: Header, payload: bytes, keyed: Keyed, stays: list[bool], count: int) -> bytes:
    """A batch of some of the records; offsets and the codec as they were."""
    starts = keyed.starts
    indexes = list(compress(range(found.count), stays))
    records = b"".join([payload[starts[index] : starts[index + 1]] for index in indexes])
    if not found.attributes & LOG_APPEND_TIME:
        newest = max([(keyed.stamps[index] >> 1) ^ -(keyed.stamps[index] & 1) for index in indexes])
        found.max_timestamp = max(-_LARGEST - 1, min(found.base_timestamp + newest, _LARGEST))
    found.count = count
    return assemble(found, compression.compress(found.codec, records))
