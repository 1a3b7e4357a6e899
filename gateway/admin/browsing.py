"""Records of a topic across its partitions, in the order of their times, by pages.

A page is bounded in records, in bytes of its answer, and in time: a search that has found too little in WORK_NS ends
its page and says how far it came. Where it goes on stands in the page's cursor: an offset for each partition, and
nothing is kept here.

Each partition is read a stretch at a time, forwards or backwards, and the newest (or oldest) of what they have found
comes next. Within a partition offsets decide, whatever its records say of their times. Large batches are opened in a
thread. What is kept of a record is what is shown: its first bytes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import struct
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin.exchange import RefusedError
from gateway.admin.slices import turn
from gateway.broker.errors import KafkaError
from gateway.wire import records
from gateway.wire.batch import BatchError
from semantics.console.decoding import LONGEST
from store.api import Corrupt, StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.partition import Partition
    from gateway.wire.records import Record

PARTITIONS = 100
"""Partitions that one page goes over."""
WORK_NS = 200_000_000
"""Of time that one page takes, about."""
SLICE_NS = 2_000_000
"""After so long others have their turn."""
IN_A_THREAD = 500
"""A batch of more records is opened in a thread, and so is one that is compressed."""
SHOWN = LONGEST
"""Bytes of a key or a value that are shown."""
SHOWN_HEADER = 4096
"""Of a header's value."""
HEADERS = 100
"""Headers of a record that are shown."""
ANSWER = 512 * 1024
"""Bytes of keys, values and headers in a page; its first record may have more."""
STRETCH = 256 * 1024
"""Bytes that are read in one go."""

_CONTROL = 0x20
_POSITION = struct.Struct(">IQ")


class Wanted(NamedTuple):
    """Which records. What is empty asks for nothing."""

    key: bytes = b""
    text: bytes = b""
    """anywhere in the value, the key or the value of a header"""
    header: str = ""
    header_value: bytes | None = None
    """None for any"""

    @property
    def all(self) -> bool:
        return not (self.key or self.text or self.header)

    @property
    def needles(self) -> list[bytes]:
        """What stands in the bytes of a batch that has such a record, and is not compressed."""
        found = (
            self.key,
            self.text,
            self.header.encode("utf-8", "surrogateescape"),
            self.header_value or b"",
        )
        return [each for each in found if each]

    def matches(self, record: Record) -> bool:
        if self.key and record.key != self.key:
            return False
        if self.text and not self._has_text(record):
            return False
        return not self.header or any(
            name == self.header and self.header_value in (None, value) for name, value in record.headers
        )

    def _has_text(self, record: Record) -> bool:
        parts = (record.value, record.key, *[value for _, value in record.headers])
        return any(part is not None and self.text in part for part in parts)


class Seen(NamedTuple):
    """A record that is in the page: what is shown of it, and how many bytes its key and its value have."""

    partition: Partition
    offset: int
    timestamp: int
    key: bytes | None
    key_size: int
    value: bytes | None
    value_size: int
    headers: records.Headers
    headers_left_out: int

    @property
    def size(self) -> int:
        """Bytes that are shown."""
        headers = sum([len(name) + len(value or b"") for name, value in self.headers])
        return len(self.key or b"") + len(self.value or b"") + headers


def _seen(partition: Partition, offset: int, record: Record) -> Seen:
    key, value, headers = record.key, record.value, record.headers
    return Seen(
        partition,
        offset,
        record.timestamp,
        key if key is None else key[:SHOWN],
        len(key or b""),
        value if value is None else value[:SHOWN],
        len(value or b""),
        # one byte more tells that there is more
        [
            (name[:SHOWN_HEADER], each if each is None else each[: SHOWN_HEADER + 1])
            for name, each in headers[:HEADERS]
        ],
        max(0, len(headers) - HEADERS),
    )


class Page(NamedTuple):
    found: list[Seen]
    looked: int
    """records that were looked at for this page and those before it"""
    of: int
    """those, and those that are left"""
    next: str
    """cursor of the next page, "" at the end"""
    damaged: int
    """batches that cannot be opened"""


class Cursor(NamedTuple):
    """Where a page begins: by partition the next offset, of pages backwards the one behind the next."""

    older: bool
    looked: int
    positions: dict[int, int]

    def __str__(self) -> str:
        packed = struct.pack(">?Q", self.older, self.looked)
        packed += b"".join([_POSITION.pack(*each) for each in sorted(self.positions.items())])
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Refuses with 400 what no page has told."""
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
            older, looked = struct.unpack_from(">?Q", packed)
            positions = dict(_POSITION.iter_unpack(packed[9:]))
            if not positions:
                raise ValueError
        except (ValueError, binascii.Error, struct.error):
            raise RefusedError(400, f"{text[:40]!r} is no cursor: take `next` of the page before.") from None
        return cls(older, looked, positions)


class _Reader:
    """One partition: what was found and is not in the page yet."""

    def __init__(self, partition: Partition, position: int, older: bool) -> None:
        self.partition = partition
        self.older = older
        # what lies before retention's mark is gone
        start, end = partition.log_start, partition.high_watermark
        self.start, self.end = start, end
        self.position = min(max(position, start), end)
        # up to where it was read
        self.covered = self.position
        self.found: deque[Seen] = deque()
        self.damaged = 0
        self._stride = 0

    @property
    def exhausted(self) -> bool:
        return self.covered <= self.start if self.older else self.covered >= self.end

    @property
    def left(self) -> int:
        return self.position - self.start if self.older else self.end - self.position

    def take(self) -> Seen:
        seen = self.found.popleft()
        self.position = seen.offset if self.older else seen.offset + 1
        return seen

    def stretch(self, limit: int, every: bool) -> tuple[int, int]:
        """Offsets to look at next, the last excluded."""
        if not self.older:
            return self.covered, self.end
        if not self._stride:
            each = max(1, self.partition.size // max(1, self.end - self.start))
            self._stride = max(1, STRETCH // each)
            if every:
                self._stride = min(self._stride, limit)
        begin = max(self.start, self.covered - self._stride)
        # where there is little, as behind a compaction, the next is longer
        self._stride = min(self._stride * 2, 1 << 20)
        return begin, self.covered


async def browse(
    broker: Broker,
    partitions: list[Partition],
    cursor: Cursor,
    wanted: Wanted,
    limit: int,
    work_ns: int | None = None,
) -> Page:
    """Up to `limit` records from a cursor on, in `work_ns` (WORK_NS) of time. Refuses what cannot be read."""
    readers = [
        _Reader(each, cursor.positions[each.index], cursor.older)
        for each in partitions
        if each.index in cursor.positions
    ]
    before = sum(reader.left for reader in readers)
    work = _Work(broker, wanted, limit, WORK_NS if work_ns is None else work_ns)
    found: list[Seen] = []
    size = 0
    while len(found) < limit:
        empty = next((each for each in readers if not each.found and not each.exhausted), None)
        if empty is not None:
            # only what moves a cursor is progress: what is found and not given is read again for the next page
            moved = any(each.covered != each.position and not each.found for each in readers)
            if work.spent and (found or moved):
                break
            await work.read(empty)
            continue
        ready = [each for each in readers if each.found]
        if not ready:
            break
        choose = max if cursor.older else min
        reader = choose(ready, key=lambda each: each.found[0].timestamp)
        size += reader.found[0].size
        if found and size > ANSWER:
            break
        found.append(reader.take())
        # each of a page is chosen among all partitions
        await work.pause()
    for reader in readers:
        if not reader.found:
            reader.position = reader.covered
    left = sum(reader.left for reader in readers)
    looked = cursor.looked + max(0, before - left)
    behind = Cursor(cursor.older, looked, {each.partition.index: each.position for each in readers})
    damaged = sum(reader.damaged for reader in readers)
    return Page(found, looked, looked + left, str(behind) if left else "", damaged)


class _Work:
    """What one page may do, and has done."""

    def __init__(self, broker: Broker, wanted: Wanted, limit: int, work_ns: int) -> None:
        self._limit, self._wanted, self._needles = limit, wanted, wanted.needles
        self._work_ns = work_ns
        self._unfolds_to = broker.decompression_limit
        self._clock = broker.clock_ns
        self._begun = self._slice = broker.clock_ns()

    @property
    def spent(self) -> bool:
        return self._clock() - self._begun >= self._work_ns

    async def read(self, reader: _Reader) -> None:
        """A stretch of a partition: what it has of the wanted comes into the reader."""
        begin, end = reader.stretch(self._limit, self._wanted.all)
        at, found = begin, list[Seen]()
        while at < end:
            data, behind = await self._bytes(reader, at)
            for batch, header in _batches(data):
                behind = max(behind, header.next_offset)
                found += await self._among(reader, batch, header, at, end)
                await self.pause()
            at = max(behind, at + 1)
            if not reader.older:
                # what comes next is another stretch
                break
        if reader.older:
            found.reverse()
            reader.covered = begin
        else:
            reader.covered = min(at, end)
        self._keep(reader, found)

    def _keep(self, reader: _Reader, found: list[Seen]) -> None:
        """As many as a page takes; those behind them are read again."""
        size = 0
        for count, seen in enumerate(found):
            size += seen.size
            if count >= self._limit or (count and size > STRETCH):
                last = found[count - 1].offset
                reader.covered = last if reader.older else last + 1
                break
            reader.found.append(seen)

    async def _bytes(self, reader: _Reader, at: int) -> tuple[bytes, int]:
        """Stored batches from an offset on, and the offset behind what cannot be read there."""
        try:
            buffers = reader.partition.read(at, STRETCH)
            data = b"".join(buffers if isinstance(buffers, list) else await buffers)
        except Corrupt as error:
            reader.damaged += 1
            return b"", max(error.next_offset, at + 1)
        except IndexError:
            # retention has taken it meanwhile
            return b"", max(reader.partition.log_start, at + 1)
        except (StoreError, KafkaError) as error:
            raise RefusedError(503, f"The log cannot be read at present: {error}") from None
        # at the end there is nothing
        return data, at if data else reader.end

    async def _among(
        self, reader: _Reader, batch: bytes, header: records.Header, begin: int, end: int
    ) -> list[Seen]:
        """Those of a batch that are wanted, between two offsets."""
        if header.attributes & _CONTROL:
            return []
        # most are passed over without a look at their records
        if not header.codec and any(needle not in batch for needle in self._needles):
            return []
        look = partial(self._opened, reader.partition, batch, header.base_offset, begin, end)
        try:
            return await asyncio.to_thread(look) if header.codec or header.count > IN_A_THREAD else look()
        except BatchError:
            reader.damaged += 1
            return []

    def _opened(self, partition: Partition, batch: bytes, base: int, begin: int, end: int) -> list[Seen]:
        return [
            _seen(partition, base + record.offset_delta, record)
            for record in records.records(batch, self._unfolds_to)
            if begin <= base + record.offset_delta < end and self._wanted.matches(record)
        ]

    async def pause(self) -> None:
        """Others have their turn, if it is time for that."""
        if self._clock() - self._slice >= SLICE_NS:
            await turn()
            self._slice = self._clock()


def _batches(data: bytes) -> Iterator[tuple[bytes, records.Header]]:
    for position, header in records.batches(data):
        yield data[position : position + header.size], header
