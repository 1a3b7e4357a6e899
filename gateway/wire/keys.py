"""The keys of a batch's records, as slots: what every record under Key_Shared is looked at for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.wire.batch import Header
from gateway.wire.unreadable import damaged, wide

SMALLEST_RECORD = 7
"""Bytes of a record with nothing in it: a batch that says more records than its bytes can hold is Unreadable."""
_MOST_REMEMBERED = 65_536
_LONGEST_REMEMBERED = 128

_ALIKE = 16
"""So many records of one shape are worth being read by columns"""
_DELTAS = bytes(number << 1 & 255 for number in range(128))
_LOW_DELTAS = bytes(number << 1 & 127 | 128 for number in range(8192))
_HIGH_DELTAS = bytes(number >> 6 for number in range(8192))
"""The offset deltas of records that follow each other, zigzag varints of one and of two bytes"""

Hash = Callable[[bytes | None, bytes | None, int], int]
"""(key, ordering key, offset) -> slot, 0 to 65,535."""


class Slots:
    """From keys to slots, with a memory of some 65,000 short keys, since the same ones come again and again."""

    __slots__ = ("hash", "known")

    def __init__(self, hash: Hash) -> None:
        self.hash = hash
        self.known: dict[bytes, int] = {}

    def of_key(self, key: bytes, offset: int) -> int:
        """The slot of a key that is not remembered."""
        slot = self.hash(key, None, offset)
        if len(key) <= _LONGEST_REMEMBERED:
            if len(self.known) >= _MOST_REMEMBERED:
                self.known.clear()
            self.known[key] = slot
        return slot


class Keys:
    """One pass for lengths, offsets and keys, since this is every record's way. Raises Unreadable."""

    __slots__ = ("_header", "_payload", "slots", "stamps", "starts")

    def __init__(self, payload: bytes, header: Header, deltas: Sequence[int] | None, slots: Slots) -> None:
        """`deltas`: the offset deltas of the records, None where they are 0, 1, 2 …"""
        self._payload = payload
        self._header = header
        base = header.base_offset
        known = slots.known.get
        listed: list[int] = []
        starts = [0]
        stamps: list[int] = []
        add, start_at, stamped = listed.append, starts.append, stamps.append
        numbers = range(header.count) if deltas is None else deltas
        total = len(numbers)
        position = done = 0
        try:
            while done < total:
                if deltas is None and total - done >= _ALIKE:
                    found = self._alike(position, done, slots, listed, starts, stamps)
                    if found:
                        done += found
                        position = starts[-1]
                        continue
                # a while, before it is tried again
                for number in numbers[done : done + _ALIKE]:
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
                    if delta < 128:
                        position += 1
                    else:
                        byte = payload[position + 1]
                        if byte < 128:
                            delta = delta & 127 | byte << 7
                            position += 2
                        else:
                            delta, position = wide(payload, position)
                    if delta != number << 1 or length & 1:
                        raise damaged("the order of offsets")
                    length = payload[position]
                    position += 1
                    if length > 127:
                        length, position = wide(payload, position - 1)
                    if length & 1:
                        if length != 1:
                            raise damaged("a key's length")
                        add(slots.hash(None, None, base + number))
                    else:
                        key = payload[position : position + (length >> 1)]
                        position += length >> 1
                        slot = known(key)
                        add(slots.of_key(key, base + number) if slot is None else slot)
                    if position > stop:
                        raise damaged("a key's length")
                    position = stop
                    start_at(stop)
                done = min(done + _ALIKE, total)
        except IndexError:
            raise damaged("the end of the records") from None
        if position != len(payload):
            raise damaged("the number of records")
        self.slots = listed
        """one for each record"""
        self.starts = starts
        """where each record begins in the payload, and where the last one ends"""
        self.stamps = stamps
        """timestamp deltas, still in zigzag"""

    def _alike(
        self,
        position: int,
        done: int,
        slots: Slots,
        listed: list[int],
        starts: list[int],
        stamps: list[int],
    ) -> int:
        """The records from number `done` on, as long as they have one shape: as many bytes, and as many of each part.
        They are read by columns, a byte of each record at a time. How many they are; 0 when it is not worth it.
        """
        payload = self._payload
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
        # the offset deltas are of one width only
        most = 64 if done < 64 else 8192
        number = min(self._header.count - done, most - done, (len(payload) - position) // step)
        end = position + number * step
        for place in range(position, at):
            column = payload[place:end:step]
            number = len(column) - len(column.lstrip(column[:1]))
            end = position + number * step
        if number < _ALIKE:
            return 0
        # behind the attributes
        at += 1
        seen = payload[at:end:step]
        if seen.isascii():
            found = list(seen)
            at += 1
        else:
            more = payload[at + 1 : end : step]
            if not more.isascii() or min(seen) < 128:
                return 0
            found = [low & 127 | high << 7 for low, high in zip(seen, more, strict=True)]
            at += 2
        if most == 64:
            if payload[at:end:step] != _DELTAS[done : done + number]:
                return 0
            at += 1
        else:
            if (
                payload[at:end:step] != _LOW_DELTAS[done : done + number]
                or payload[at + 1 : end : step] != _HIGH_DELTAS[done : done + number]
            ):
                return 0
            at += 2
        seen = payload[at:end:step]
        size = seen[0]
        if size & 1 or size > 127 or seen.count(size) != number:
            return 0
        at += 1
        size >>= 1
        if at + size > position + step:
            return 0
        keys = [payload[start : start + size] for start in range(at, end, step)]
        its = list(map(slots.known.get, keys))
        if None in its:
            offset = self._header.base_offset + done
            its = [
                slots.of_key(key, offset + index) if slot is None else slot
                for index, (key, slot) in enumerate(zip(keys, its, strict=True))
            ]
        listed += its  # type: ignore[arg-type]
        starts += range(position + step, end + 1, step)
        stamps += found
        return number
