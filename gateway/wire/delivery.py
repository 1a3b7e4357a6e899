"""What a dispatcher needs of stored batches: slots of keys, due times, and a batch of only some of its records.

The publish path looks at no record, so this is where delays and keys are found, once a batch. A batch is opened only
when something asks for it: Key_Shared for the keys, delays when the (decompressed) bytes hold the name of a header that
can say one, a batch that is to be sent in part. See `opened` for how, `properties` for what headers say.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gateway.wire import properties
from gateway.wire.batch import HEADER_SIZE, LOG_OVERHEAD, BatchError, Buffer, Header, batches
from gateway.wire.delays import MARK as DELAY_MARK
from gateway.wire.delays import Delays, find
from gateway.wire.keys import Slots
from gateway.wire.opened import LIMIT, Found, Opened, Range
from gateway.wire.searching import holds
from gateway.wire.unreadable import TooLarge, Unreadable

__all__ = [
    "DELAY_MARK",
    "LIMIT",
    "Delays",
    "Found",
    "Opened",
    "Scan",
    "Slots",
    "TooLarge",
    "Unreadable",
    "headers_of",
    "records_at",
    "scan",
    "subset",
]

_ORDERING_MARK = properties.ORDERING_KEY.encode()
_RETRY_MARKS = (
    properties.DELAY_TIME.encode(),
    properties.RECONSUME_TIMES.encode(),
    properties.RECONSUME_TIMES_SERVED.encode(),
)


NO_DELAYS = Delays()

# base offset, length, magic, last offset delta
_PLACE = struct.Struct(">qi4xb6xi").unpack_from
_SMALLEST = HEADER_SIZE - LOG_OVERHEAD


class Scan(NamedTuple):
    """What a batch says of its records."""

    slots: array[int] | None = None
    """'H', one for each offset of [base, next); None where no keys were asked for."""
    delayed: Delays = NO_DELAYS
    """(offset, when to deliver in ms since 1970), ascending; whether that is still to come is not looked at."""
    reconsumed: Sequence[tuple[int, int]] = ()
    """On a retry letter topic, (offset, how often the message has been there), ascending."""
    gaps: Sequence[Range] = ()
    """Offsets that have no record, ascending."""
    reached: int | None = None
    """Delays of records from this offset on are still to be found; None: they are all there."""


def headers_of(buffers: Iterable[Buffer]) -> Iterator[tuple[Buffer, int, Header]]:
    """(buffer, position, header) of each whole batch; one that is cut at the end of a buffer ends that buffer.

    Raises Unreadable for bytes that are no batch.
    """
    try:
        for buffer in buffers:
            for position, found in batches(buffer):
                yield buffer, position, found
    except BatchError as error:
        raise Unreadable(str(error)) from None


def up_to(buffers: Iterable[Buffer], first: int, most: int) -> tuple[list[bytes], int]:
    """Whole batches until `most` records from the offset `first` on are there, and how many that are; the first batch
    in any case. What is no batch ends them.
    """
    data = b"".join(buffers)
    records = end = 0
    try:
        for position, found in batches(data):
            if records and records >= most:
                break
            records += found.last_offset + 1 - max(found.base_offset, first)
            end = position + found.size
    except BatchError:
        # whoever reads it finds that out
        end = len(data)
    return ([data[:end]] if end else []), records


def before(buffers: Iterable[Buffer], end: int) -> tuple[list[Buffer], int]:
    """Whole batches that begin below the offset `end`, and the offset behind the last of them (-1 for none). What is no
    batch ends them. Nothing is copied while each buffer but the last holds whole batches.
    """
    left = list(buffers)
    whole: list[Buffer] = []
    behind = -1
    for nth, data in enumerate(left):
        size, found = _below(data, end)
        if found >= 0:
            behind = found
        if size == len(data):
            whole.append(data)
            continue
        if nth + 1 < len(left) and _is_cut(data, size):
            # it goes on in the next one
            more, found = before([b"".join([memoryview(data)[size:], *left[nth + 1 :]])], end)
            return [*whole, memoryview(data)[:size], *more], max(behind, found)
        if size:
            whole.append(memoryview(data)[:size])
        break
    return whole, behind


def _below(data: Buffer, end: int) -> tuple[int, int]:
    """(bytes of the whole batches at the beginning that begin below an offset, the offset behind them or -1)"""
    size = len(data)
    position, behind = 0, -1
    while size - position >= HEADER_SIZE:
        base, length, magic, delta = _PLACE(data, position)
        following = position + length + LOG_OVERHEAD
        if base >= end or magic != 2 or length < _SMALLEST or following > size:
            break
        position, behind = following, base + delta + 1
    return position, behind


def _is_cut(data: Buffer, position: int) -> bool:
    """Whether a batch, or what may be one, begins at a position and is not all there."""
    size = len(data)
    if size - position < HEADER_SIZE:
        return True
    _, length, magic, _ = _PLACE(data, position)
    return bool(magic == 2 and length >= _SMALLEST and position + length + LOG_OVERHEAD > size)


def scan(
    batch: Buffer | Opened,
    *,
    slots: Slots | None = None,
    delays: bool = True,
    retry: bool = False,
    limit: int = LIMIT,
) -> Scan:
    """What a dispatcher asks of one batch: slots if there is something to make them with, delays, and what stands in
    the headers of a retry letter topic's records (`retry`). `limit` bounds what it may decompress to, in bytes.

    The bytes of a batch may be longer than the batch. Raises Unreadable.
    """
    opened = batch if isinstance(batch, Opened) else Opened(batch, limit)
    payload = opened.payload
    base = opened.header.base_offset
    listed = None if slots is None else opened.slots(slots)
    marks: list[bytes] = []
    ordered = listed is not None and holds(payload, _ORDERING_MARK)
    if ordered:
        marks.append(_ORDERING_MARK)
    gaps = opened.gaps()
    delayed = NO_DELAYS
    listing: list[tuple[int, int, int]] = []
    if delays and holds(payload, DELAY_MARK):
        if retry or gaps:
            marks.append(DELAY_MARK)
        else:
            delayed = find(payload, opened.header)
            delays = False
    if retry:
        marks += [mark for mark in _RETRY_MARKS if holds(payload, mark)]
    reconsumed: list[tuple[int, int]] = []
    for offset, timestamp, key, _, headers in opened.mentioning(marks) if marks else ():
        if ordered:
            ordering = properties.ordering_key(headers)
            if ordering is not None:
                assert slots is not None
                assert listed is not None
                listed[offset - base] = slots.hash(key, ordering, offset)
        if delays:
            due = properties.deliver_at(headers, timestamp, retry=retry)
            if due is not None:
                listing.append((offset, due, timestamp))
        if retry:
            served, said = properties.reconsume_times(headers)
            times = said if served is None else served
            if times is not None:
                reconsumed.append((offset, times))
    return Scan(
        None if listed is None else array("H", listed), delayed or Delays.of(listing), reconsumed, gaps
    )


def subset(batch: Buffer, ranges: Sequence[Range], limit: int = LIMIT) -> Buffer:
    """See `Opened.subset`. Raises Unreadable."""
    return Opened(batch, limit).subset(ranges)


def records_at(batch: Buffer, ranges: Sequence[Range], limit: int = LIMIT) -> list[Found]:
    """The records whose offsets are in `ranges` (ascending, disjoint). Raises Unreadable."""
    return Opened(batch, limit).records_at(ranges)
