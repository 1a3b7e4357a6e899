"""When the records of a batch are due: one pass over its bytes, in which only those that mention a delay are parsed.

Half of what is asked of a batch of delayed records is this, a million times for a million of them, so nothing is made
of a record but two numbers. What a header says is as in `properties`; what is damaged is so as in `records.walk`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from gateway.wire.batch import LOG_APPEND_TIME, Header
from gateway.wire.properties import DELIVER_AFTER, DELIVER_AT, FOR_EVER, number
from gateway.wire.unreadable import damaged, wide

MARK = b"pulsar-deliver-"
"""What the (decompressed) bytes of a batch with a delayed record hold."""

_AT, _AFTER = DELIVER_AT.encode(), DELIVER_AFTER.encode()
# their lengths, as a header's name has them before it
_AT_SIZE, _AFTER_SIZE = 2 * len(_AT), 2 * len(_AFTER)
# one header and no more, with thirteen digits: what nearly all of them look like until the year 2286
_DIGITS = 13
_ALONE = bytes((2, _AT_SIZE)) + _AT + bytes((2 * _DIGITS,))
_ALONE_SIZE = len(_ALONE)

_PASSED, _PARSED = 16, 5
"""For each delay that is asked for, so many records may be passed over, or have delays that are over: others wait."""

_NEAR = 1 << 20


class Delays(Sequence[tuple[int, int]]):
    """(offset, when to deliver in ms since 1970), ascending, and the records' timestamps: 24 bytes each."""

    __slots__ = ("dues", "offsets", "stamps")

    def __init__(
        self,
        offsets: array[int] | None = None,
        dues: array[int] | None = None,
        stamps: array[int] | None = None,
    ) -> None:
        self.offsets = offsets if offsets is not None else array("q")
        self.dues = dues if dues is not None else array("q")
        self.stamps = stamps if stamps is not None else array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    @overload
    def __getitem__(self, at: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, at: slice) -> Delays: ...
    def __getitem__(self, at: int | slice) -> tuple[int, int] | Delays:
        if isinstance(at, slice):
            return Delays(self.offsets[at], self.dues[at], self.stamps[at])
        return self.offsets[at], self.dues[at]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.offsets, self.dues, strict=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    @classmethod
    def of(cls, listed: Iterable[tuple[int, int, int]]) -> Delays:
        """(offset, when to deliver, timestamp) each, packed."""
        found = cls()
        for offset, due, stamp in listed:
            found.offsets.append(offset)
            found.dues.append(due)
            found.stamps.append(_stamp(stamp))
        return found

    def at_most(self, longest: int, wall: int) -> Delays:
        """The same, none later than `longest` ms after its record was sent: whoever reads it, and however often.

        Where a record has no timestamp (-1) that counts from `wall`, since nothing says when it was sent.
        """
        dues, stamps = self.dues, self.stamps
        oldest = min(stamps, default=0)
        if oldest >= 0 and max(dues, default=0) - oldest <= longest:
            return self
        ends = array(
            "q",
            [
                due
                if due - stamp <= longest and stamp >= 0
                else min(due, (stamp if stamp >= 0 else wall) + longest)
                for due, stamp in zip(dues, stamps, strict=True)
            ],
        )
        return Delays(self.offsets, ends, stamps)

    def between(self, first: int, end: int) -> Delays:
        """Those of the offsets [first, end)."""
        offsets = self.offsets
        return self[bisect_left(offsets, first) : bisect_left(offsets, end)]


class Finder:
    """Looks through a decompressed payload whose records have the offset deltas 0, 1, 2 …, some at a time."""

    __slots__ = ("_delta", "_header", "_hit", "_position")

    def __init__(self, found: Header) -> None:
        self._header = found
        # the next record, where it begins, and before where there is no mark
        self._delta = self._position = self._hit = 0

    @property
    def reached(self) -> int:
        """Records before this offset were looked at."""
        return self._header.base_offset + self._delta

    @property
    def done(self) -> bool:
        return self._delta >= self._header.count

    def more(self, payload: bytes, delays: Delays, most: int, wall: int = 0) -> None:
        """Add the next `most` delays that end after `wall`, or what there is of them within some milliseconds' work.

        The payload is the same each time. Raises Unreadable.
        """
        found = self._header
        add_offset, add_due, add_stamp = delays.offsets.append, delays.dues.append, delays.stamps.append
        base, base_stamp = found.base_offset, found.base_timestamp
        stamped = found.max_timestamp if found.attributes & LOG_APPEND_TIME else None
        search, starts = payload.find, payload.startswith
        size = len(payload)
        hit, position, begin = self._hit, self._position, self._delta
        delta = begin - 1
        parsed = most * _PARSED
        try:
            for delta in range(begin, min(found.count, begin + most * _PASSED)):
                length = payload[position]
                position += 1
                if length > 127:
                    byte = payload[position]
                    position += 1
                    length = length & 127 | byte << 7
                    if byte > 127:
                        length, position = wide(payload, position - 2, 5)
                if length & 1:
                    raise damaged("a record's length")
                stop = position + (length >> 1)
                if hit >= stop:
                    position = stop
                    continue
                if stop > size:
                    raise damaged("a record's length")
                # behind the attributes: when, as a difference, which is read if somebody asks
                when = position = position + 1
                while payload[position] > 127:
                    position += 1
                if position - when > 9:
                    raise damaged("a varint")
                position += 1
                byte = payload[position]
                position += 1
                if byte > 127:
                    byte, position = wide(payload, position - 1, 5)
                if byte != delta << 1:
                    raise damaged("the order of offsets")
                # the key, the value
                length = payload[position]
                position += 1
                if length > 127:
                    length, position = wide(payload, position - 1, 5)
                if length & 1:
                    if length != 1:
                        raise damaged("a key's length")
                else:
                    position += length >> 1
                length = payload[position]
                position += 1
                if length > 127:
                    length, position = wide(payload, position - 1, 5)
                if length & 1:
                    if length != 1:
                        raise damaged("a value's length")
                else:
                    position += length >> 1
                if (
                    starts(_ALONE, position)
                    and position + _ALONE_SIZE + _DIGITS == stop
                    and (digits := payload[stop - _DIGITS : stop]).isdigit()
                ):
                    due = int(digits)
                else:
                    due = _due(payload, position, stop, when, base_stamp, stamped)
                position = stop
                hit = search(MARK, stop, stop + _NEAR)
                if hit < 0:
                    # one search over many megabytes takes long: beyond, it goes on from there
                    hit = min(stop + _NEAR - len(MARK), size)
                parsed -= 1
                if due > wall:
                    add_offset(base + delta)
                    add_due(due)
                    if stamped is None:
                        byte = payload[when]
                        if byte > 127:
                            length = payload[when + 1]
                            byte = byte & 127 | length << 7
                            if length > 127:
                                byte, _ = wide(payload, when)
                        sent = base_stamp + ((byte >> 1) ^ -(byte & 1))
                        add_stamp(sent if 0 <= sent <= FOR_EVER else -1)
                    else:
                        add_stamp(stamped if stamped >= 0 else -1)
                    parsed -= _PARSED - 1
                if parsed <= 0:
                    break
        except IndexError:
            raise damaged("the end of the records") from None
        delta += 1
        if delta >= found.count and position != size:
            raise damaged("the number of records")
        self._hit, self._position, self._delta = hit, position, delta


def find(payload: bytes, found: Header) -> Delays:
    """All delays of a payload. Raises Unreadable."""
    finder, delays = Finder(found), Delays()
    while not finder.done:
        finder.more(payload, delays, found.count)
    return delays


def _stamp(said: int) -> int:
    """A timestamp as it is kept: -1 for none, and for what cannot be one."""
    return said if 0 <= said <= FOR_EVER else -1


def _due(payload: bytes, position: int, stop: int, when: int, base: int, stamped: int | None) -> int:
    """When a record whose headers begin at `position` is due; 0 when they do not say."""
    count = payload[position]
    position += 1
    if count > 127:
        count, position = wide(payload, position - 1, 5)
    if count & 1 or count > stop - position:
        raise damaged("the number of headers")
    due = 0
    for _ in range(count >> 1):
        size = payload[position]
        position += 1
        if size > 127:
            size, position = wide(payload, position - 1, 5)
        if size & 1:
            raise damaged("a header's name")
        name = position
        position += size >> 1
        length = payload[position]
        position += 1
        if length > 127:
            length, position = wide(payload, position - 1, 5)
        if length & 1:
            if length != 1:
                raise damaged("a header's value")
            continue
        begin = position
        position += length >> 1
        if position > stop:
            raise damaged("a header's value")
        if size == _AT_SIZE and payload.startswith(_AT, name):
            value = payload[begin:position]
            said = number(value)
            if said is None and len(value) == 8 and value[:2] == b"\0\0":
                # up to the year 10889, so that no text is taken for a number
                said = int.from_bytes(value, "big")
            if said is not None:
                due = said
        elif size == _AFTER_SIZE and payload.startswith(_AFTER, name):
            said = number(payload[begin:position])
            if said is not None:
                if stamped is None:
                    delta, _ = wide(payload, when)
                    due = base + ((delta >> 1) ^ -(delta & 1)) + said
                else:
                    due = stamped + said
    if position != stop:
        raise damaged("a record's length")
    return min(due, FOR_EVER)
