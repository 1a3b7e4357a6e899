"""The keys of a batch's records, for compaction: which record has which key, and which of them are tombstones."""

from __future__ import annotations

from gateway.wire.batch import Header
from gateway.wire.unreadable import damaged, wide


class Keyed:
    """One pass over the records of a batch. Lists have an item for each record. Raises Unreadable."""

    __slots__ = ("deltas", "keys", "stamps", "starts", "tombstones")

    def __init__(self, payload: bytes, header: Header) -> None:
        """`payload` is decompressed."""
        keys: list[bytes | None] = []
        deltas: list[int] = []
        stamps: list[int] = []
        starts = [0]
        tombstones: list[int] = []
        add, number, stamped, start_at = keys.append, deltas.append, stamps.append, starts.append
        position = 0
        last = -1
        try:
            for index in range(header.count):
                length = payload[position]
                if length < 128:
                    # then the attributes, which nobody uses
                    position += 2
                    stop = position - 1 + (length >> 1)
                else:
                    byte = payload[position + 1]
                    if byte < 128:
                        length = length & 127 | byte << 7
                        position += 3
                        stop = position - 1 + (length >> 1)
                    else:
                        length, position = wide(payload, position)
                        stop = position + (length >> 1)
                        position += 1
                if length & 1:
                    raise damaged("a record's length")
                stamp = payload[position]
                position += 1
                if stamp > 127:
                    byte = payload[position]
                    if byte < 128:
                        stamp = stamp & 127 | byte << 7
                        position += 1
                    else:
                        stamp, position = wide(payload, position - 1)
                stamped(stamp)
                delta = payload[position]
                position += 1
                if delta > 127:
                    byte = payload[position]
                    if byte < 128:
                        delta = delta & 127 | byte << 7
                        position += 1
                    else:
                        delta, position = wide(payload, position - 1)
                # odd is negative
                if delta & 1 or delta >> 1 <= last:
                    raise damaged("the order of offsets")
                last = delta >> 1
                number(last)
                size = payload[position]
                position += 1
                if size > 127:
                    size, position = wide(payload, position - 1)
                if size & 1:
                    if size != 1:
                        raise damaged("a key's length")
                    add(None)
                else:
                    start = position
                    position += size >> 1
                    add(payload[start:position])
                if position >= stop:
                    raise damaged("a key's length")
                if payload[position] == 1:
                    tombstones.append(index)
                position = stop
                start_at(stop)
        except IndexError:
            raise damaged("the end of the records") from None
        if position != len(payload) or last > header.last_offset_delta:
            raise damaged("the number of records")
        self.keys = keys
        """None for a record without one."""
        self.deltas = deltas
        """Offset deltas, ascending."""
        self.stamps = stamps
        """Timestamp deltas, still in zigzag."""
        self.starts = starts
        """Where each record begins in the payload, and where the last one ends."""
        self.tombstones = tombstones
        """The numbers of the records without a value."""
