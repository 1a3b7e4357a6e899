"""What deliveries of a lane look like on the wire: stored batches under the lane's offsets.

A batch that a lane was given whole leaves as it is stored: only its base offset and its leader epoch are others, and
these lie outside its CRC. Of a batch that was dealt to several lanes each gets a batch of its records, with offsets
that follow each other (`gateway.wire.dense`). Under Key_Shared it is cut for all of them when the first one asks
(`dealt.py`). What was trimmed from the source meanwhile is passed over.
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.broker.queues.dealt import ROOM, DealtBatches
from gateway.broker.queues.headers import told
from gateway.broker.queues.just_read import JustRead
from gateway.broker.subscriptions.stored import Stored, walk
from gateway.wire.dealing import Dealt, deal
from gateway.wire.dense import Parts
from gateway.wire.opened import Opened
from gateway.wire.unreadable import Unreadable
from semantics.lanes.lane import Piece
from store.api import Corrupt
from store.batch import LENGTH_OVERHEAD
from store.pending import Asking

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gateway.broker.partition import Partition
    from store.api import Buffer

log = logging.getLogger("magnetar.queues")

_HEAD = struct.Struct(">qii")  # base offset, length, leader epoch
_CONTROL = 0x20
_LEAST_BYTES = 4096
_NAMED = 512
"""deliveries of a run that are named at once where most are dealt"""
_MOST_DEALT = 8_192
"""records that are cut for all lanes for one answer: some milliseconds' work"""
_SPAN = 65_536
"""offsets of batches that are dealt at once"""
KEPT_BYTES = 16 * 1024 * 1024
"""of batches that are cut for one lane after the other"""


class Sharing(Protocol):
    """Which other lanes have records of the batches that a lane reads, under Key_Shared."""

    @property
    def place(self) -> int:
        """A number for the lane, not 0."""
        ...

    def places(self, first: int, end: int, /) -> NDArray[np.uint16]:
        """Of each of these offsets whose it is, as the keys say; 0 for nobody's."""
        ...

    def opened(self, base: int, /) -> Opened | None:
        """The batch that begins at this offset, if it is open."""
        ...


class Builder:
    """One for all lanes of a node."""

    def __init__(self, limit: int, kept_bytes: int = KEPT_BYTES, dealt_bytes: int = ROOM) -> None:
        """`limit`: bytes that a batch may unfold to."""
        self.limit = limit
        self.dealt = DealtBatches(dealt_bytes)
        self.just_read = JustRead()
        self._kept: OrderedDict[tuple[int, int], Parts] = OrderedDict()
        self._room = kept_bytes

    def build(
        self,
        source: Partition,
        piece: Piece,
        leader_epoch: int,
        max_bytes: int,
        record_bytes: float,
        *,
        whole_first: bool,
        whole: Callable[[int, int], bool],
        with_headers: bool = False,
        sharing: Sharing | None = None,
        unreadable: Callable[[int, int], None] = lambda begin, end: None,
    ) -> Asking[tuple[list[Buffer], int, int]]:
        """(buffers, bytes, the lane offset behind what they have) of the deliveries of a piece, as far as `max_bytes`
        go. `record_bytes`: what one takes, on the whole; `whole_first`: the first batch comes whatever it has;
        `whole`: whether all of [begin, end) of the lane is to be read; `with_headers`: see `headers.py`; `sharing`:
        None where any lane may have any record; `unreadable` is told of [begin, end) of the lane that nobody can open.

        Raises StoreError, and IndexError when the log was opened anew.
        """
        build = _Build(self, source, piece, leader_epoch, max_bytes, whole_first, unreadable)
        return build.run(record_bytes, whole, with_headers, None if with_headers else sharing)

    def parts(self, source: int, batch: Stored) -> Parts:
        """Where the records of a batch are. Raises Unreadable."""
        key = source, batch.base
        found = self._kept.get(key)
        if found is None:
            found = Parts(Opened(bytes(batch.raw()), self.limit))
            self._keep(key, found)
        else:
            self._kept.move_to_end(key)
        return found

    def _keep(self, key: tuple[int, int], parts: Parts) -> None:
        self._kept[key] = parts
        self._room -= parts.size
        while self._room < 0 and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._room += gone.size


class _Build:
    """What is made of one piece."""

    __slots__ = (
        "_at",
        "_builder",
        "_first_of_all",
        "_full",
        "_leader_epoch",
        "_max_bytes",
        "_may_deal",
        "_out",
        "_piece",
        "_size",
        "_source",
        "_unreadable",
    )

    def __init__(
        self,
        builder: Builder,
        source: Partition,
        piece: Piece,
        leader_epoch: int,
        max_bytes: int,
        whole_first: bool,
        unreadable: Callable[[int, int], None],
    ) -> None:
        self._builder = builder
        self._unreadable = unreadable
        self._source = source
        self._piece = piece
        self._leader_epoch = leader_epoch
        self._max_bytes = max_bytes
        # True while what comes next comes whatever it has
        self._first_of_all = whole_first
        self._out: list[Buffer] = []
        self._size = 0
        self._at = piece.begin
        self._full = False
        # records
        self._may_deal = _MOST_DEALT

    def run(
        self,
        record_bytes: float,
        whole: Callable[[int, int], bool],
        with_headers: bool,
        sharing: Sharing | None,
    ) -> Asking[tuple[list[Buffer], int, int]]:
        """See `Builder.build`."""
        end = self._piece.end
        while not self._full and self._at < end:
            before = self._at
            if sharing is not None:
                self._dealt(sharing.place)
            if not self._full and self._at < end:
                try:
                    yield from self._read_on(record_bytes, whole, with_headers, sharing)
                except Corrupt as error:
                    if self._out:
                        # what lies before the damage comes; the next fetch begins there
                        break
                    if not self._source.skips_damage:
                        raise
                    self._source.unreadable(error)
                    self._at += bisect_left(self._piece.run.offsets(self._at, end), error.next_offset)
                    continue
                if sharing is not None:
                    self._dealt(sharing.place)
            if self._at == before:
                break
        return self._out, self._size, self._at

    # -- what was made before ---------------------------------------------------------------------------------------

    def _dealt(self, place: int) -> None:
        """What others have had cut for this lane, as far as it goes."""
        source, piece = self._source, self._piece
        waiting = self._builder.dealt.waiting(source.id, place)
        if not waiting:
            return
        run, end, at, size = piece.run, piece.end, self._at, self._size
        steps, begin = run.steps, run.at
        offset = run.offsets(at, at + 1)[0]
        start = source.log_start
        firsts: list[int] = []
        while at < end and offset >= start and (found := waiting.get(offset)) is not None:
            part = found[0]
            batch = part.batch
            behind = self._behind(part, at)
            if behind is None:
                break
            if size + len(batch) > self._max_bytes and not self._first_of_all:
                self._full = True
                break
            self._first_of_all = False
            size += len(batch)
            self._out += _under(batch, at, self._leader_epoch)
            firsts.append(offset)
            at = behind
            offset = part.following
            if steps is not None and at < run.end:
                offset += steps[at - begin - 1]
        if firsts:
            self._builder.dealt.taken(source.id, place, firsts)
            self._at, self._size = at, size

    def _is_dealt(self, place: int, offset: int) -> bool:
        """Whether `_dealt` goes on with what begins at an offset."""
        found = self._builder.dealt.waiting(self._source.id, place).get(offset)
        return found is not None and self._behind(found[0], self._at) is not None

    def _behind(self, part: Dealt, at: int) -> int | None:
        """Where a part that begins at `at` ends, if it has what the lane was given there and nothing else."""
        run, behind = self._piece.run, at + len(part.steps) + 1
        if behind > self._piece.end:
            return None
        if run.steps is None:
            return behind if part.following - part.first == behind - at else None
        return behind if run.steps[at - run.at : behind - run.at - 1] == part.steps else None

    def _deal(self, stored: Sequence[Stored], sharing: Sharing) -> None:
        """Cut batches for all lanes: those of which this one has all that is its own, as then most others have."""
        dealt, source, run = self._builder.dealt, self._source.id, self._piece.run
        batches: list[Stored] = []
        end = stored[0].base + _SPAN
        for each in stored:
            if each.count > _MOST_DEALT or each.attributes & _CONTROL or dealt.has(source, each.base):
                continue
            if each.next > end:
                break
            if each.count > self._may_deal:
                self._may_deal = 0
                break
            self._may_deal -= each.count
            batches.append(each)
        if not batches:
            return
        import numpy as np

        base = batches[0].base
        edges = np.array([[each.base, each.next] for each in batches])
        places = sharing.places(base, batches[-1].next)
        offsets = run.column(self._at, min(self._piece.end, self._at + len(places)))
        wanted = np.diff(np.searchsorted(offsets, edges))[:, 0]
        mine = np.concatenate(([0], np.cumsum(places == sharing.place)))
        its = np.diff(mine[edges - base])[:, 0]
        chosen = ((wanted == its) & (wanted > 0)).nonzero()[0].tolist()
        found: list[tuple[Opened, NDArray[np.uint16]]] = []
        for nth in chosen:
            each = batches[nth]
            try:
                opened = sharing.opened(each.base) or Opened(bytes(each.raw()), self._builder.limit)
                opened.starts()
            except Unreadable:
                # whoever cuts its own part says so
                continue
            found.append((opened, places[each.base - base : each.next - base]))
        try:
            made = deal(found) if found else []
        except Unreadable:
            made = [_alone(*each) for each in found]
        for (opened, _), parts in zip(found, made, strict=True):
            dealt.add(source, opened.header.base_offset, parts)

    # -- what is read now -------------------------------------------------------------------------------------------

    def _read_on(
        self,
        record_bytes: float,
        whole: Callable[[int, int], bool],
        with_headers: bool,
        sharing: Sharing | None,
    ) -> Asking[None]:
        """Read once, and make what that has, up to where something is dealt already."""
        run, source = self._piece.run, self._source
        # to name all of a long run takes long, and most of it is dealt
        stop = self._piece.end if sharing is None else min(self._piece.end, self._at + _NAMED)
        first = run.offsets(self._at, self._at + 1)[0]
        if first < source.log_start:
            # it was trimmed
            self._at += bisect_left(run.offsets(self._at, stop), source.log_start)
            return
        room = max(self._max_bytes - self._size, 0)
        if not room and not self._first_of_all:
            self._full = True
            return
        last = run.offsets(stop - 1, stop)[0]
        want = min(room, max(int(record_bytes * (last + 1 - first)), _LEAST_BYTES))
        data = self._builder.just_read.take(source.id, first, room)
        stored = walk(data or (yield from _read(source, first, want, self._first_of_all)), first)
        if not stored and want < room:
            stored = walk((yield from _read(source, first, room, self._first_of_all)), first)
        if not stored:
            return
        if sharing is not None:
            if self._out and self._may_deal <= 0:
                # enough for one answer: others have their turns
                self._full = True
                return
            self._deal(stored, sharing)
        ranges = run.ranges(self._at, stop)
        index = 0
        for batch in stored:
            if self._out and self._size >= self._max_bytes:
                # those before have unfolded to more than was read
                self._full = True
                return
            parts: list[tuple[int, int]] = []
            base = at = self._at
            while index < len(ranges) and ranges[index][0] < batch.next:
                first, last = ranges[index]
                if first < batch.base:
                    # nothing is stored there
                    gone = min(last + 1, batch.base) - first
                    if not parts:
                        base += gone
                    at += gone
                    if last < batch.base:
                        index += 1
                        continue
                    first = batch.base
                end = min(last, batch.next - 1)
                parts.append((first, end))
                at += end - first + 1
                if last > end:
                    ranges[index] = end + 1, last
                    break
                index += 1
            if not parts or batch.attributes & _CONTROL:
                self._at = at
                continue
            if (
                not with_headers
                and run.steps is None
                and run.first <= batch.base
                and batch.next - 1 <= run.last
                and batch.count == batch.next - batch.base
                and whole(run.at + batch.base - run.first, run.at + batch.next - run.first)
            ):
                raw = memoryview(batch.buffer)[batch.position : batch.position + batch.size]
                self._add(_under(raw, run.at + batch.base - run.first, self._leader_epoch), batch.size)
                self._at = at
                continue
            if sharing is not None:
                self._at = base
                if self._is_dealt(sharing.place, parts[0][0]):
                    return
            made = (
                self._told(batch, parts, base, run.failed) if with_headers else self._cut(batch, parts, base)
            )
            if made is None:
                self._unreadable(base, at)
            elif made:
                self._add([made], len(made))
            self._at = at

    def _cut(self, batch: Stored, parts: list[tuple[int, int]], base: int) -> bytes | None:
        """Some records of a batch, at lane offset `base` and behind it; None when it cannot be opened."""
        try:
            found = self._builder.parts(self._source.id, batch)
            return found.dense(batch.raw(), parts, base, self._leader_epoch)
        except Unreadable as error:
            log.warning("of a batch at offset %d nothing is sent: %s", batch.base, error)
            return None
        except ValueError:
            # compaction, or whoever made the batch, left these out
            return b""

    def _told(self, batch: Stored, parts: list[tuple[int, int]], base: int, failed: int) -> bytes | None:
        """The same with headers."""
        try:
            return told(self._source, batch, parts, base, self._leader_epoch, failed, self._builder.limit)
        except Unreadable as error:
            log.warning("of a batch at offset %d nothing is sent: %s", batch.base, error)
            return None
        except ValueError:
            # as in `_cut`
            return b""

    # -- the answer -------------------------------------------------------------------------------------------------

    def _add(self, buffers: Iterable[Buffer], size: int) -> None:
        self._out += buffers
        self._size += size
        self._first_of_all = False


def _alone(opened: Opened, places: NDArray[np.uint16]) -> list[Dealt]:
    """What is made of one batch, which may be damaged."""
    try:
        return deal([(opened, places)])[0]
    except Unreadable:
        return []


def _read(source: Partition, offset: int, want: int, whole_first: bool) -> Asking[list[Buffer]]:
    data = source.log.read(offset, want, whole_first=whole_first)
    if not isinstance(data, list):
        found: list[Buffer] = yield data
        return found
    return data


def _under(batch: Buffer, base: int, leader_epoch: int) -> tuple[bytes, memoryview]:
    """A whole batch under another base offset and leader epoch: neither is part of its CRC."""
    return _HEAD.pack(base, len(batch) - LENGTH_OVERHEAD, leader_epoch), memoryview(batch)[16:]
