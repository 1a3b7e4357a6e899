"""What deliveries of a lane look like on the wire: stored batches under the lane's offsets.

A batch that a lane was given whole leaves as it is stored: only its base offset and its leader epoch are others, and
these lie outside its CRC. Of a batch that was dealt to several lanes each gets a batch of its records, with offsets
that follow each other (`gateway.wire.dense`). What was trimmed from the source meanwhile is passed over.
"""

from __future__ import annotations

import logging
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.queues.headers import told
from gateway.broker.subscriptions.stored import Stored, walk
from gateway.wire.dense import Parts
from gateway.wire.opened import Opened
from gateway.wire.unreadable import Unreadable
from semantics.lanes.lane import Piece
from store.pending import Asking

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from store.api import Buffer

log = logging.getLogger("magnetar.queues")

_BASE, _EPOCH = struct.Struct(">q"), struct.Struct(">i")
_CONTROL = 0x20
_LEAST_BYTES = 4096
KEPT_BYTES = 16 * 1024 * 1024
"""of batches that are cut for one lane after the other"""


class Builder:
    """One for all lanes of a node."""

    def __init__(self, limit: int, kept_bytes: int = KEPT_BYTES) -> None:
        """`limit`: bytes that a batch may unfold to."""
        self._limit = limit
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
    ) -> Asking[tuple[list[Buffer], int, int]]:
        """(buffers, bytes, the lane offset behind what they have) of the deliveries of a piece, as far as `max_bytes`
        go. `record_bytes`: what one takes, on the whole; `whole_first`: the first batch comes whatever it has;
        `whole`: whether all of [begin, end) of the lane is to be read; `with_headers`: see `headers.py`.

        Raises StoreError, and IndexError when the log was opened anew.
        """
        run, at = piece.run, piece.begin
        ranges = piece.ranges()
        out: list[Buffer] = []
        size = index = 0
        while index < len(ranges):
            first, last = ranges[index]
            start = source.log_start
            if first < start:
                # it was trimmed
                at += min(last + 1, start) - first
                if last < start:
                    index += 1
                    continue
                ranges[index] = first, last = start, last
            room = max(max_bytes - size, 0)
            first_of_all = whole_first and not out
            if not room and not first_of_all:
                break
            want = min(room, max(int(record_bytes * (ranges[-1][1] + 1 - first)), _LEAST_BYTES))
            stored = walk((yield from _read(source, first, want, first_of_all)), first)
            if not stored and want < room:
                stored = walk((yield from _read(source, first, room, first_of_all)), first)
            if not stored:
                break
            for batch in stored:
                if out and size >= max_bytes:
                    # those before have unfolded to more than was read
                    return out, size, at
                parts: list[tuple[int, int]] = []
                base = at
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
                    continue
                if (
                    not with_headers
                    and run.steps is None
                    and run.first <= batch.base
                    and batch.next - 1 <= run.last
                    and batch.count == batch.next - batch.base
                    and whole(run.at + batch.base - run.first, run.at + batch.next - run.first)
                ):
                    out += _patched(batch, run.at + batch.base - run.first, leader_epoch)
                    size += batch.size
                    continue
                piece_of = (
                    self._told(source, batch, parts, base, leader_epoch, run.failed)
                    if with_headers
                    else self._cut(source, batch, parts, base, leader_epoch)
                )
                if piece_of:
                    out.append(piece_of)
                    size += len(piece_of)
        return out, size, at

    def _cut(
        self, source: Partition, batch: Stored, parts: list[tuple[int, int]], base: int, leader_epoch: int
    ) -> bytes:
        """Some records of a batch, at lane offset `base` and behind it; nothing when it cannot be opened."""
        key = source.id, batch.base
        raw = batch.raw()
        try:
            found = self._kept.get(key)
            if found is None:
                found = Parts(Opened(bytes(raw), self._limit))
                self._keep(key, found)
            else:
                self._kept.move_to_end(key)
            return found.dense(raw, parts, base, leader_epoch)
        except Unreadable as error:
            log.warning("of a batch at offset %d nothing is sent: %s", batch.base, error)
        except ValueError:
            # compaction, or whoever made the batch, left these out
            pass
        return b""

    def _told(
        self,
        source: Partition,
        batch: Stored,
        parts: list[tuple[int, int]],
        base: int,
        leader_epoch: int,
        failed: int,
    ) -> bytes:
        """The same with headers."""
        try:
            return told(source, batch, parts, base, leader_epoch, failed, self._limit)
        except Unreadable as error:
            log.warning("of a batch at offset %d nothing is sent: %s", batch.base, error)
        except ValueError:
            # as in `_cut`
            pass
        return b""

    def _keep(self, key: tuple[int, int], parts: Parts) -> None:
        self._kept[key] = parts
        self._room -= parts.size
        while self._room < 0 and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._room += gone.size


def _read(source: Partition, offset: int, want: int, whole_first: bool) -> Asking[list[Buffer]]:
    data = source.log.read(offset, want, whole_first=whole_first)
    if not isinstance(data, list):
        found: list[Buffer] = yield data
        return found
    return data


def _patched(batch: Stored, base: int, leader_epoch: int) -> list[Buffer]:
    """A whole batch under another base offset and leader epoch: neither is part of its CRC."""
    raw = memoryview(batch.buffer)[batch.position : batch.position + batch.size]
    return [_BASE.pack(base) + bytes(raw[8:12]) + _EPOCH.pack(leader_epoch), raw[16:]]
