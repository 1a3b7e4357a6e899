"""Bytes of a log that a thread reads, checks and sends while the loop serves others."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from store.api import Stored
from store.batch import HEADER_BYTES, LENGTH_OVERHEAD
from store.rocksdb.check import header, sound

if TYPE_CHECKING:
    from store.rocksdb.files import Files
    from store.rocksdb.integrity import Trust
    from store.rocksdb.segment_index import SegmentIndex
    from store.rocksdb.segments import Request, Segment

_LENGTH, _LENGTH_AT = struct.Struct(">i"), 8
_BASE = struct.Struct(">q")
_OFFSETS = struct.Struct(">q15xi")  # base, last offset delta
_WALK = 128
"""Batches that are walked to find where an answer ends; to ask the index is quicker than more."""
_REMEMBERED = 16


class AnswerEnds:
    """Where large answers ended: a read that goes on from there needs neither the index nor the file."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int, int]] = {}

    def __contains__(self, offset: int) -> bool:
        return offset in self._places

    def add(self, next_offset: int, number: int, position: int, size: int) -> None:
        """The batches before `next_offset` end at this position of a segment. `size`: bytes of the batch that begins
        there with that offset, as its header says; 0 if none was seen. In any thread.
        """
        self._places.pop(next_offset, None)
        self._places[next_offset] = number, position, size
        if len(self._places) > _REMEMBERED:
            for each in list(self._places)[:-_REMEMBERED]:
                self._places.pop(each, None)

    def place(self, segment: Segment, offset: int) -> tuple[int, int] | None:
        """(position, size) as in `add`, in a segment; None when no answer ended there."""
        number, position, size = self._places.get(offset, (-1, 0, 0))
        return (position, size) if number == segment.number else None


class Lender(Protocol):
    """Who keeps the descriptors."""

    @property
    def files(self) -> Files: ...

    @property
    def dropped(self) -> deque[int]:
        """Descriptors that were lent and forgotten."""
        ...

    def returned(self, descriptor: int) -> None:
        """It is not needed any more. In any thread."""
        ...


class FileRegion(Stored):
    """See `store.api.Stored`. Its descriptor stays open until it is released: the file may go meanwhile."""

    __slots__ = (
        "_begun",
        "_descriptor",
        "_doubts",
        "_due",
        "_ends",
        "_index",
        "_into",
        "_misses",
        "_reader",
        "_request",
        "_trust",
        "_waits",
    )

    def __init__(
        self,
        reader: Lender,
        descriptor: int,
        request: Request,
        trust: Trust,
        due: int,
        ends: AnswerEnds,
        index: SegmentIndex,
    ) -> None:
        """A batch begins where the request does, with the offset `due` or a later one."""
        self._reader = reader
        self._descriptor = descriptor
        self._request = request
        self._trust = trust
        self._due = due
        self._ends = ends
        self._index = index
        _, segment, size, position = request
        # what was not known to be right (from, to) when there were so many misses
        self._misses = trust.misses
        self._doubts = trust.doubts(segment, position, size)
        # the page cache has not all of it, but so many bytes at the beginning, which are here
        self._waits = False
        self._begun = 0
        self._into: memoryview | None = None

    def __len__(self) -> int:
        return self._request.size

    @property
    def below(self) -> int:
        _, segment, size, position = self._request
        return self._index.below(segment, position, self._due, position + size)

    def read_into(self, buffer: memoryview, *, wait: bool = False) -> bool:
        _, segment, size, position = self._request
        files, trust = self._reader.files, self._trust
        if not self._waits:
            misses = trust.misses
            with trust.asking(segment, position, size) as asking:
                self._waits = True
                read = files.read_cached_into(self._descriptor, buffer, position)
                # Whoever else asks may have brought in what nobody has checked. Looked at first: who asks says that it
                # missed before it asks no more.
                others = trust.asked(segment, position, size, but=asking)
                if read == size:
                    asking.found()
                    self._waits = False
                elif asking.lost() == self._misses + 1 and not others:
                    self._begun, self._into = read, buffer
            if not self._waits:
                if others or trust.misses != self._misses:
                    return self._check(buffer, misses, None)
                if self._doubts:
                    return self._check(buffer, misses, self._doubts)
                self._find_end(buffer)
                return True
        if not wait:
            return False
        begun = self._begun if buffer is self._into else 0
        with trust.asking(segment, position + begun, size - begun) as asking:
            whole = files.read_whole_into(self._descriptor, buffer[begun:], position + begun)
            misses = asking.lost()
        if not whole:
            return False
        if not begun:
            return self._check(buffer, misses, None)
        if misses != self._misses + 2:
            # What was read first is right, but what the page cache has there by now may be something else.
            misses = -1
        before = [
            (start, min(end, position + begun)) for start, end in self._doubts if start < position + begun
        ]
        return self._check(buffer, misses, [*before, (position + begun, position + size)])

    @property
    def known(self) -> bool:
        return not self._doubts and self._trust.misses == self._misses

    def _check(self, buffer: memoryview, misses: int, doubts: Sequence[tuple[int, int]] | None) -> bool:
        """Whether all batches in the buffer are right. `misses`: how many there had been when it was read. `doubts`:
        as in `sound`, but positions of the segment.

        The last one may be cut off: it is not checked, since clients ignore it.
        """
        _, segment, size, position = self._request
        room = segment.size - position
        if doubts is not None:
            doubts = [(start - position, end - position) for start, end in doubts]
        checked = sound(buffer, 0, room, self._due, segment.next_offset, doubts=doubts, sparse=segment.sparse)
        end, left = checked.position, size - checked.position
        following = 0
        if checked.problem or not checked.batches:
            return False
        if left >= HEADER_BYTES:
            problem, whole, base, _ = header(
                buffer, end, room - end, checked.next_offset, segment.next_offset
            )
            if problem or whole <= left:
                return False
            if base == checked.next_offset:
                following = whole
        self._trust.found(segment.number, position, position + end, checked.next_offset, misses)
        self._ends.add(checked.next_offset, segment.number, position + end, following)
        return True

    def _find_end(self, buffer: memoryview) -> None:
        """Tell where the last whole batch ends, if there are few."""
        size = len(buffer)
        # the first is whole, and begins with the request
        length_at = _LENGTH.unpack_from
        last = following = 0
        end = length_at(buffer, _LENGTH_AT)[0] + LENGTH_OVERHEAD
        for _ in range(_WALK):
            if size - end < HEADER_BYTES:
                break
            whole = length_at(buffer, end + _LENGTH_AT)[0] + LENGTH_OVERHEAD
            if whole > size - end:
                following = whole
                break
            last = end
            end += whole
        else:
            return
        base, delta = _OFFSETS.unpack_from(buffer, last)
        due = base + delta + 1
        if following and _BASE.unpack_from(buffer, end)[0] != due:
            # a gap
            following = 0
        _, segment, _, position = self._request
        self._ends.add(due, segment.number, position + end, following)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._reader.returned(descriptor)

    def __del__(self) -> None:
        # nobody released it; the lock may be held by whoever is interrupted
        if self._descriptor >= 0:
            self._reader.dropped.append(self._descriptor)
