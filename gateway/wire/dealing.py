"""All records of some stored batches, dealt to several receivers: for each a batch of its own, of each stored one.

What is made is what `dense.py` makes, but for all who have a part, and of many batches in one go: by columns, so that
little is done for each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.wire.batch import CODEC_MASK, LOG_APPEND_TIME, sealed
from gateway.wire.dense import EARLIEST, LATEST, located

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gateway.wire.opened import Opened

LARGEST_STEP = 255


class Dealt(NamedTuple):
    """The records of a batch that one receiver is to have, as a batch of their own."""

    place: int
    first: int
    """the offset that the first of them has in the log"""
    following: int
    """the offset there behind the last"""
    steps: bytes
    """how many offsets lie between each and the next"""
    batch: bytes
    """its base offset and its leader epoch are 0: neither is part of its CRC"""


def deal(batches: Sequence[tuple[Opened, NDArray[np.uint16]]]) -> list[list[Dealt]]:
    """Of each batch what was made of it; with it comes whose each of its offsets is, 0 for nobody's. A receiver has
    more than one part of a batch where more than 255 offsets lie in between. Raises Unreadable if one of them is it.
    """
    if not batches:
        return []
    import numpy as np

    starts: list[NDArray[np.int64]] = []
    ends: list[NDArray[np.int64]] = []
    numbers: list[NDArray[np.int64]] = []
    keys: list[NDArray[np.int64]] = []
    reached = 0
    for nth, (opened, places) in enumerate(batches):
        bounds = np.frombuffer(opened.starts(), np.uint32).astype(np.int64)
        bounds += reached
        reached += len(opened.payload)
        deltas = opened.deltas()
        number = np.arange(len(bounds) - 1) if deltas is None else np.array(deltas, np.int64)
        starts.append(bounds[:-1])
        ends.append(bounds[1:])
        numbers.append(number)
        keys.append(places[number] | np.int64(nth << 16))
    made: list[list[Dealt]] = [[] for _ in batches]
    start, end, delta, key = map(np.concatenate, (starts, ends, numbers, keys))
    if not len(start):
        return made
    image = bytearray().join([opened.payload for opened, _ in batches])
    data = np.frombuffer(image, np.uint8)
    at, behind, stamps = located(data, start, end, delta)
    # a part after the other, in each the records as they were
    order = np.argsort(key, kind="stable")
    its, delta = key[order], delta[order]
    steps = delta[1:] - delta[:-1] - 1
    breaks = ((its[1:] != its[:-1]) | (steps > LARGEST_STEP)).nonzero()[0] + 1
    begins = np.concatenate(([0], breaks))
    stops = np.append(breaks, len(order))
    _number(data, at[order], behind[order], np.arange(len(order)) - np.repeat(begins, stops - begins))
    written = bytes(image)
    records = [
        written[first:last] for first, last in zip(start[order].tolist(), end[order].tolist(), strict=True)
    ]
    said = (steps & LARGEST_STEP).astype(np.uint8).tobytes()
    for which, begin, stop, first, last, stamp in zip(
        its[begins].tolist(),
        begins.tolist(),
        stops.tolist(),
        delta[begins].tolist(),
        delta[stops - 1].tolist(),
        np.maximum.reduceat(stamps[order], begins).tolist(),
        strict=True,
    ):
        place = which & 0xFFFF
        if not place:
            continue
        nth = which >> 16
        head = batches[nth][0].header
        if head.attributes & LOG_APPEND_TIME:
            newest = head.max_timestamp
        else:
            newest = max(EARLIEST, min(head.base_timestamp + stamp, LATEST))
        part = sealed(
            (
                head.attributes & ~CODEC_MASK,
                stop - begin - 1,
                head.base_timestamp,
                newest,
                head.producer_id,
                head.producer_epoch,
                head.base_sequence,
                stop - begin,
            ),
            b"".join(records[begin:stop]),
        )
        base = head.base_offset
        made[nth].append(Dealt(place, base + first, base + last + 1, said[begin : stop - 1], part))
    return made


def _number(
    data: NDArray[np.uint8], at: NDArray[np.int64], behind: NDArray[np.int64], numbers: NDArray[np.int64]
) -> None:
    """Write these offset deltas where others stand, as wide as these are."""
    import numpy as np

    widths, values = behind - at, numbers << 1
    narrowest, widest = int(widths.min()), int(widths.max())
    for nth in range(widest):
        more = (widths > nth + 1).astype(np.int64)
        byte = values >> 7 * nth & 127 | more << 7
        if nth < narrowest:
            data[at + nth] = byte
        else:
            wide = widths > nth
            data[at[wide] + nth] = byte[wide]
