"""Some records of a stored batch as a batch of their own, with offsets that follow each other: what a lane sends.

A client that is sent a batch whose last offsets have no record may ask for them again and again, so a lane's offsets
are dense. Only the offset delta of each record changes, and it never grows: record number n of those that were picked
was at least number n of the batch. So it takes as many bytes as before; a varint may be padded. Everything else of a
record stays as its producer wrote it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gateway.wire.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, Buffer, Header, assemble
from gateway.wire.opened import Opened, Range
from gateway.wire.unreadable import damaged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WIDEST = 10
"""bytes of a varint"""
_LARGEST_STEP = 255
_EARLIEST, _LATEST = -(2**63), 2**63 - 1


class Dealt(NamedTuple):
    """The records of a batch that one of several is to have, as a batch of their own."""

    place: int
    first: int
    """the offset that the first of them has in the log"""
    following: int
    """the offset there behind the last"""
    steps: bytes
    """how many offsets lie between each and the next"""
    batch: bytes
    """its base offset and its leader epoch are 0: neither is part of its CRC"""


class Parts:
    """Where the offset deltas of a batch's records stand; made once for all that is picked from it. It is small, and
    has nothing of the batch but what a codec has unfolded: whoever picks brings the bytes that were stored.
    """

    __slots__ = ("_behind", "_deltas", "_header", "_payload", "_places", "_stamps", "_starts", "size")

    def __init__(self, opened: Opened) -> None:
        """Raises Unreadable."""
        found = self._header = opened.header
        self._deltas = opened.deltas()
        self._starts, self._places, self._behind, self._stamps = _places(opened)
        self._payload = opened.payload if found.attributes & CODEC_MASK else None
        self.size = 24 * (found.count + 1) + 400 + len(self._payload or b"")
        """bytes that it takes, on the whole"""

    def dense(self, batch: Buffer, ranges: Sequence[Range], base: int, leader_epoch: int) -> bytes:
        """The records in `ranges` (offsets, ascending, disjoint) at the offsets `base`, base + 1, …, uncompressed.
        `batch`: as it is stored.

        ValueError when the batch has none of them.
        """
        picked = self._picked(ranges)
        count = len(picked)
        if not count:
            raise ValueError("none of these records is in the batch")
        found, starts, places, behind = self._header, self._starts, self._places, self._behind
        unfolded = self._payload
        payload: Buffer = memoryview(batch)[HEADER_SIZE : found.size] if unfolded is None else unfolded
        parts: list[Buffer] = []
        append = parts.append
        ones, twos = _padded(1), _padded(2)
        for number, index in enumerate(picked):
            place, rest = places[index], behind[index]
            # all of a record but its offset delta
            append(payload[starts[index] : place])
            width = rest - place
            if width == 1:
                append(ones[number])
            elif width == 2:
                append(twos[number])
            else:
                append(_varint(number << 1, width))
            append(payload[rest : starts[index + 1]])
        if found.attributes & LOG_APPEND_TIME:
            newest = found.max_timestamp
        else:
            stamps = self._stamps
            newest = max([stamps[index] for index in picked])
            newest = max(_EARLIEST, min(found.base_timestamp + newest, _LATEST))
        return assemble(
            Header(
                base,
                0,
                leader_epoch,
                2,
                0,
                found.attributes & ~CODEC_MASK,
                count - 1,
                found.base_timestamp,
                newest,
                found.producer_id,
                found.producer_epoch,
                found.base_sequence,
                count,
            ),
            b"".join(parts),
        )

    def deal(self, batch: Buffer, places: NDArray[np.uint16]) -> list[Dealt]:
        """All records, each to its place: `places` has one for each offset of the batch, 0 for nobody's. What is made
        of a place's records are batches as of `dense`, a new one wherever more than 255 offsets lie in between.
        """
        import numpy as np

        found, count = self._header, self._header.count
        if not count:
            return []
        payload: Buffer = (
            memoryview(batch)[HEADER_SIZE : found.size] if self._payload is None else self._payload
        )
        deltas = np.arange(count) if self._deltas is None else np.array(self._deltas, np.int64)
        order = np.argsort(places[deltas], kind="stable")
        its, numbers = places[deltas[order]], deltas[order]
        steps = numbers[1:] - numbers[:-1] - 1
        edges = [0, *(((its[1:] != its[:-1]) | (steps > _LARGEST_STEP)).nonzero()[0] + 1).tolist(), count]
        begins = np.array(edges[:-1])
        lengths = np.diff(edges)
        starts = np.frombuffer(self._starts, np.uint32)
        image = _renumbered(
            payload,
            np.frombuffer(self._places, np.uint32)[order].astype(np.int64),
            np.frombuffer(self._behind, np.uint32)[order].astype(np.int64),
            np.arange(count) - np.repeat(begins, lengths),
        )
        records = [
            image[begin:end]
            for begin, end in zip(starts[:-1][order].tolist(), starts[1:][order].tolist(), strict=True)
        ]
        stamps = np.maximum.reduceat(np.frombuffer(self._stamps, np.int64)[order], begins).tolist()
        said = (steps & 255).astype(np.uint8).tobytes()
        firsts, lasts = numbers[begins].tolist(), numbers[np.array(edges[1:]) - 1].tolist()
        base, attributes = found.base_offset, found.attributes & ~CODEC_MASK
        appended = found.max_timestamp if found.attributes & LOG_APPEND_TIME else None
        made: list[Dealt] = []
        for nth, place in enumerate(its[begins].tolist()):
            if not place:
                continue
            begin, end = edges[nth], edges[nth + 1]
            if appended is None:
                newest = max(_EARLIEST, min(found.base_timestamp + stamps[nth], _LATEST))
            else:
                newest = appended
            head = Header(
                0,
                0,
                0,
                2,
                0,
                attributes,
                end - begin - 1,
                found.base_timestamp,
                newest,
                found.producer_id,
                found.producer_epoch,
                found.base_sequence,
                end - begin,
            )
            part = assemble(head, b"".join(records[begin:end]))
            made.append(Dealt(place, base + firsts[nth], base + lasts[nth] + 1, said[begin : end - 1], part))
        return made

    def _picked(self, ranges: Sequence[Range]) -> list[int]:
        """The numbers of the records whose offsets are in the ranges."""
        base, count, deltas = self._header.base_offset, self._header.count, self._deltas
        if deltas is not None:
            return [
                number
                for first, last in ranges
                for number in range(bisect_left(deltas, first - base), bisect_right(deltas, last - base))
            ]
        if base <= ranges[0][0] and ranges[-1][1] < base + count:
            return [number for first, last in ranges for number in range(first - base, last - base + 1)]
        return [
            number
            for first, last in ranges
            for number in range(max(first - base, 0), min(last - base + 1, count))
        ]


def _renumbered(
    payload: Buffer, at: NDArray[np.int64], behind: NDArray[np.int64], numbers: NDArray[np.int64]
) -> bytes:
    """The records with these offset deltas in the places of theirs, as wide as they were."""
    import numpy as np

    data = np.frombuffer(payload, np.uint8).copy()
    widths, values = behind - at, numbers << 1
    narrowest, widest = int(widths.min()), int(widths.max())
    for nth in range(widest):
        more = widths > nth + 1
        byte = values >> 7 * nth & 127 | more.astype(np.int64) << 7
        if nth < narrowest:
            data[at + nth] = byte
        else:
            wide = widths > nth
            data[at[wide] + nth] = byte[wide]
    return data.tobytes()


@lru_cache
def _padded(width: int) -> list[bytes]:
    """0, 1, 2 … as zigzag varints of one byte or of two: all that there are."""
    return [_varint(number << 1, width) for number in range(1 << 7 * width - 1)]


def _varint(value: int, width: int) -> bytes:
    """In so many bytes, which must be enough."""
    return bytes(
        [*(value >> shift & 127 | 128 for shift in range(0, 7 * width - 7, 7)), value >> 7 * width - 7]
    )


def _places(opened: Opened) -> tuple[array[int], array[int], array[int], array[int]]:
    """Of each record where it begins (and where the last one ends), where its offset delta stands and what lies behind
    that, and its timestamp delta in ms.
    """
    import numpy as np

    numbers = opened.deltas()
    data = np.frombuffer(opened.payload, np.uint8)
    starts = np.frombuffer(opened.starts(), np.uint32).astype(np.int64)
    try:
        _, at = _varints(data, starts[:-1])
        # behind the attributes
        stamps, at = _varints(data, at + 1)
        deltas, behind = _varints(data, at)
    except IndexError:
        raise damaged("the end of the records") from None
    expected = np.arange(len(at), dtype=np.uint64) if numbers is None else np.array(numbers, np.uint64)
    if (behind >= starts[1:]).any() or (deltas != expected << np.uint64(1)).any():
        raise damaged("the order of offsets")
    signed = (stamps >> np.uint64(1)).view(np.int64) ^ -(stamps & np.uint64(1)).view(np.int64)
    return (
        opened.starts(),
        array("I", at.astype(np.uint32).tobytes()),
        array("I", behind.astype(np.uint32).tobytes()),
        array("q", signed.tobytes()),
    )


def _varints(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The numbers that stand at these places, still in zigzag, and the places behind them. IndexError, Unreadable."""
    import numpy as np

    byte = data[at]
    values = (byte & 127).astype(np.uint64)
    at = at + 1
    more = (byte > 127).nonzero()[0]
    for shift in range(7, 7 * _WIDEST, 7):
        if not len(more):
            return values, at
        byte = data[at[more]]
        values[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        at[more] += 1
        more = more[byte > 127]
    if len(more):
        raise damaged("a number's length")
    return values, at
