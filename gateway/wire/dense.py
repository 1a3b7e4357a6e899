"""Some records of a stored batch as a batch of their own, with offsets that follow each other: what a lane sends.

A client that is sent a batch whose last offsets have no record may ask for them again and again, so a lane's offsets
are dense. Only the offset delta of each record changes, and it never grows: record number n of those that were picked
was at least number n of the batch. So it takes as many bytes as before; a varint may be padded. Everything else of a
record stays as its producer wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from gateway.wire.batch import CODEC_MASK, LOG_APPEND_TIME, Header, assemble
from gateway.wire.opened import Opened, Range
from gateway.wire.unreadable import damaged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_WIDEST = 10
"""bytes of a varint"""
_EARLIEST, _LATEST = -(2**63), 2**63 - 1


class Parts:
    """The records of a batch, cut where their offset deltas stand; made once for all that is picked from it."""

    __slots__ = ("_heads", "_opened", "_stamps", "_tails", "_widths")

    def __init__(self, opened: Opened) -> None:
        """Raises Unreadable."""
        self._opened = opened
        payload = opened.payload
        starts, places, behind, stamps = _places(opened)
        # all of a record but its offset delta
        self._heads = list(map(payload.__getitem__, map(slice, starts[:-1], places)))
        self._tails = list(map(payload.__getitem__, map(slice, behind, starts[1:])))
        self._widths = [end - place for place, end in zip(places, behind, strict=True)]
        self._stamps = stamps

    def dense(self, ranges: Sequence[Range], base: int, leader_epoch: int) -> bytes:
        """The records in `ranges` (offsets, ascending, disjoint) at the offsets `base`, base + 1, …, uncompressed.

        ValueError when the batch has none of them.
        """
        picked = self._picked(ranges)
        count = len(picked)
        if not count:
            raise ValueError("none of these records is in the batch")
        heads, tails = _of(self._heads, picked), _of(self._tails, picked)
        widths, stamps = _of(self._widths, picked), _of(self._stamps, picked)
        ones = widths.count(1)
        if max(widths) <= 2 and sum(widths[:ones]) == ones:
            # those of one byte come first, since what they say rises; a producer that padded some takes the other way
            deltas = _padded(1)[:ones] + _padded(2)[ones:count]
        else:
            deltas = [_varint(number << 1, width) for number, width in enumerate(widths)]
        records = b"".join(chain.from_iterable(zip(heads, deltas, tails, strict=True)))
        found = self._opened.header
        if found.attributes & LOG_APPEND_TIME:
            newest = found.max_timestamp
        else:
            newest = max(_EARLIEST, min(found.base_timestamp + max(stamps), _LATEST))
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
            records,
        )

    def _picked(self, ranges: Sequence[Range]) -> list[int]:
        """The numbers of the records whose offsets are in the ranges."""
        found = self._opened.header
        base, count = found.base_offset, found.count
        if self._opened.deltas() is None and base <= ranges[0][0] and ranges[-1][1] < base + count:
            return [number for first, last in ranges for number in range(first - base, last - base + 1)]
        return [number for begin, end in self._opened.numbers(ranges) for number in range(begin, end)]


def _of(listed: Sequence[T], numbers: Sequence[int]) -> Sequence[T]:
    """Those of these numbers, which are one at least."""
    found: Sequence[T] = itemgetter(*numbers)(listed) if len(numbers) > 1 else (listed[numbers[0]],)
    return found


@lru_cache
def _padded(width: int) -> list[bytes]:
    """0, 1, 2 … as zigzag varints of one byte or of two: all that there are."""
    return [_varint(number << 1, width) for number in range(1 << 7 * width - 1)]


def _varint(value: int, width: int) -> bytes:
    """In so many bytes, which must be enough."""
    return bytes(
        [*(value >> shift & 127 | 128 for shift in range(0, 7 * width - 7, 7)), value >> 7 * width - 7]
    )


def _places(opened: Opened) -> tuple[list[int], list[int], list[int], list[int]]:
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
    return starts.tolist(), at.tolist(), behind.tolist(), signed.tolist()


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
