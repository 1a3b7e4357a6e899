"""The keys of a batch's records, for compaction: which record has which key, and which of them are tombstones."""

from __future__ import annotations

from operator import le

from gateway.wire.batch import Header
from gateway.wire.keys import SMALLEST_RECORD
from gateway.wire.unreadable import damaged, wide

_ALIKE = 16
"""So many records of one shape are worth being read by columns"""
_ASCII = bytes(range(128))
_WIDE = bytes(range(128, 256))


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
        add, number, stamped, start_at = keys.append, deltas.append, stamps.append, starts.append
        position = 0
        last = -1
        index = 0
        # where it is tried whether records are alike
        look = 0
        try:
            while index < header.count:
                if index == look:
                    # a while, before it is tried again
                    look += _ALIKE
                    if header.count - index >= _ALIKE:
                        found = self._alike(payload, position, header.count - index)
                        if found:
                            if deltas[-found] <= last:
                                raise damaged("the order of offsets")
                            last = deltas[-1]
                            index += found
                            position = starts[-1]
                            look = index
                            continue
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
                index += 1
        except IndexError:
            raise damaged("the end of the records") from None
        if position != len(payload) or last > header.last_offset_delta:
            raise damaged("the number of records")

    def _alike(self, payload: bytes, position: int, left: int) -> int:
        """The records from a position on, as long as they have one shape: as many bytes, and as many of each part. They
        are read by columns, a byte of each record at a time. How many they are; 0 when it is not worth it.
        """
        at = position + 1
        length = payload[position]
        if length > 127:
            if payload[at] > 127:
                return 0
            length = length & 127 | payload[at] << 7
            at += 1
        step = at - position + (length >> 1)
        if length & 1 or step < SMALLEST_RECORD:
            return 0
        number = min(left, (len(payload) - position) // step)
        end = position + number * step
        for place in range(position, at):
            column = payload[place:end:step]
            number = len(column) - len(column.lstrip(column[:1]))
            end = position + number * step
        if number < _ALIKE:
            return 0
        # behind the attributes
        stamps, at, end = _numbers(payload, at + 1, end, step)
        deltas, at, end = _numbers(payload, at, end, step)
        number = len(deltas)
        if number < _ALIKE:
            return 0
        column = payload[at:end:step]
        size = column[0]
        if size & 1 or size > 127 or column.count(size) != number:
            return 0
        at += 1
        size >>= 1
        if at + size >= position + step:
            return 0
        deltas = [delta >> 1 for delta in deltas if not delta & 1]
        if len(deltas) < number or any(map(le, deltas[1:], deltas)):
            raise damaged("the order of offsets")
        column = payload[at + size : end : step]
        null = column.find(1)
        while null >= 0:
            self.tombstones.append(len(self.keys) + null)
            null = column.find(1, null + 1)
        self.keys += [payload[start : start + size] for start in range(at, end, step)]
        self.deltas += deltas
        self.stamps += stamps[:number]
        self.starts += range(position + step, end + 1, step)
        return number


def _numbers(payload: bytes, at: int, end: int, step: int) -> tuple[list[int], int, int]:
    """The varints that stand in one column, as long as they are of one width, one byte or two: with the column behind
    them, and where the last of their records ends.
    """
    first = payload[at:end:step]
    if first[:1] < b"\x80":
        number = len(first) - len(first.lstrip(_ASCII))
        return list(first[:number]), at + 1, end - (len(first) - number) * step
    number = len(first) - len(first.lstrip(_WIDE))
    second = payload[at + 1 : end : step][:number]
    number = len(second) - len(second.lstrip(_ASCII))
    found = [low & 127 | high << 7 for low, high in zip(first[:number], second[:number], strict=True)]
    return found, at + 2, end - (len(first) - number) * step
