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
from typing import TYPE_CHECKING

from gateway.wire.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, Buffer, Header, assemble
from gateway.wire.opened import Opened, Range
from gateway.wire.unreadable import damaged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WIDEST = 10
"""bytes of a varint"""
EARLIEST, LATEST = -(2**63), 2**63 - 1


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
            newest = max(EARLIEST, min(found.base_timestamp + newest, LATEST))
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
    expected = np.arange(len(starts) - 1) if numbers is None else np.array(numbers, np.int64)
    at, behind, stamps = located(data, starts[:-1], starts[1:], expected)
    return (
        opened.starts(),
        array("I", at.astype(np.uint32).tobytes()),
        array("I", behind.astype(np.uint32).tobytes()),
        array("q", stamps.tobytes()),
    )


def located(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], deltas: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of records that lie between these places where the offset delta stands, what lies behind that, and the timestamp
    delta in ms. `deltas`: the offset deltas as they should be. Raises Unreadable.
    """
    import numpy as np

    try:
        _, at = _varints(data, starts)
        # behind the attributes
        stamps, at = _varints(data, at + 1)
        found, behind = _varints(data, at)
    except IndexError:
        raise damaged("the end of the records") from None
    if (behind >= ends).any() or (found != deltas.astype(np.uint64) << np.uint64(1)).any():
        raise damaged("the order of offsets")
    return at, behind, (stamps >> np.uint64(1)).view(np.int64) ^ -(stamps & np.uint64(1)).view(np.int64)


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
