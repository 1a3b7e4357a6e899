"""The writing end of one log: where the next batch goes, and the rows that say so.

A `LogWriter` belongs to whoever executes groups (the loop or the writer thread, never both at a time). It
runs ahead of what is committed; when a group fails it is thrown away and read again from its log row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from store import batch, limits
from store.api import Append
from store.rocksdb import rows
from store.rocksdb.rows import LogRow

INDEX_BYTES = 4096
"""A sparse index row stands before the first append, or batch of a larger append, that begins this far behind the
row before it.
"""

RUN_BYTES = 16 * 1024
"""Small batches of an append are joined to runs of about this size: one buffer to write, one part to cache, and
nothing to index within.
"""

LOOK_AHEAD = INDEX_BYTES + RUN_BYTES
"""Bytes from an index row within which the batch that is looked for begins, as a rule."""

_index = rows.INDEX.pack
_key = rows.PARTITION_OFFSET.pack
_u32 = rows.U32.pack


class Group(Protocol):
    """What a `LogWriter` needs of the group that it plans for."""

    put: Callable[[bytes, bytes, Any], None]
    """Put a row into the group's WriteBatch: key, value, column family handle."""
    handles: dict[str, Any]
    now: int
    rollover: limits.Rollover

    def new_ledger(self) -> int: ...
    def create(self, log: LogWriter, base: int) -> None:
        """Make the file of a new segment; sets the log's `number` and `descriptor`."""

    def descriptor(self, log: LogWriter) -> int:
        """Of the active segment, opened if need be."""


class Flush:
    """Bytes of one group for one segment, and whether the segment's file was made for them."""

    __slots__ = (
        "base",
        "buffers",
        "chunks",
        "created",
        "descriptor",
        "new",
        "next_offset",
        "number",
        "position",
        "size",
    )

    def __init__(self, base: int, number: int, created: int, position: int, descriptor: int) -> None:
        self.descriptor = descriptor
        self.new = position == 0
        self.base = base
        self.number = number
        self.created = created
        self.position = position
        self.size = 0
        self.next_offset = 0
        self.buffers: list[bytes] = []
        # (base offset, bytes) for the tail cache: the same bytes
        self.chunks: list[tuple[int, bytes]] = []


class Rolled:
    """A segment that was closed in this group, as the reading end will know it."""

    __slots__ = ("base", "row")

    def __init__(self, base: int, row: rows.SegmentRow) -> None:
        self.base = base
        self.row = row


class LogWriter:
    """All that the next append must know. Fields are those of `LogRow`, and the group's own."""

    __slots__ = (
        "carried",
        "descriptor",
        "durable_end",
        "end",
        "epoch",
        "flags",
        "flushes",
        "generation",
        "gone",
        "group_base",
        "group_end",
        "group_number",
        "group_size",
        "handed_over",
        "key",
        "ledger",
        "ledger_entries",
        "ledger_first",
        "ledger_opened",
        "ledger_size",
        "number",
        "open",
        "partition",
        "recent",
        "rolled",
        "seal",
        "segment_base",
        "segment_bytes",
        "segment_created",
        "segment_max",
        "segment_max_from",
        "segment_ms",
        "segment_size",
        "since_index",
        "size",
        "start",
        "swapped",
        "synced",
        "touched",
        "trimmed",
        "unsynced",
    )

    def __init__(
        self,
        partition: int,
        row: LogRow,
        configured: tuple[int, int] | None,
        unsynced: dict[tuple[int, int], int],
    ) -> None:
        self.partition = partition
        self.key = _u32(partition)
        self.flags = row.flags
        self.start = row.start
        self.end = row.end
        self.size = row.size
        self.durable_end = row.durable_end
        self.number = row.number
        self.segment_base = row.segment_base
        self.segment_size = row.segment_size
        self.segment_created = row.segment_created
        self.segment_max = row.segment_max
        self.segment_max_from = row.segment_max_from
        self.since_index = row.since_index
        self.ledger = row.ledger
        self.ledger_first = row.ledger_first
        self.ledger_entries = row.ledger_entries
        self.ledger_size = row.ledger_size
        self.ledger_opened = row.ledger_opened
        self.epoch = row.epoch
        self.segment_bytes, self.segment_ms = configured or (limits.SEGMENT_BYTES, limits.SEGMENT_MS)
        # an active segment that takes appends
        self.open = bool(row.flags & rows.ACTIVE)
        # begin a new file with the next append: something happened to this one
        self.seal = False
        # descriptor of the active segment, -1 when closed
        self.descriptor = -1
        self.recent = True
        # checkpoint generation under which this log is already known as touched
        self.generation = -1
        # segments (base, number) with bytes that are neither synced nor in the journal, by the checkpoint
        # generation of the latest of them
        self.unsynced = unsynced
        # position in the active segment up to which the write-behind knows of it
        self.handed_over = row.segment_size
        self._reset()

    def _reset(self) -> None:
        self.touched = False
        self.synced = False
        self.carried = False
        self.flushes: list[Flush] = []
        self.rolled: list[Rolled] = []
        # base offsets of closed segments that this group trims away
        self.gone: set[int] = set()
        self.trimmed = False
        self.swapped = False

    def begin(self) -> None:
        """The first write of a group: remember where to cut the file when the group fails."""
        self.touched = True
        self.group_base = self.segment_base
        self.group_number = self.number if self.open else 0
        self.group_size = self.segment_size
        self.group_end = self.end

    def finish(self) -> None:
        """The group is over and done."""
        self._reset()

    # planning

    def append(self, write: Append, group: Group) -> None:
        """Take an append into the group: decide its place, put its rows (all but the log row).

        Raises OSError when the file of a new segment cannot be made.
        """
        put, handles, now = group.put, group.handles, group.now
        batches = write.batches
        count = len(batches)
        size = len(batches[0]) if count == 1 else sum(map(len, batches))
        base = write.base_offset
        force = False
        if (
            not self.open
            or self.seal
            or (self.segment_size and self.segment_size + size > self.segment_bytes)
            or now - self.segment_created >= self.segment_ms
        ):
            self._roll(base, group)
            force = True
        entries = self.ledger_entries
        rollover = group.rollover
        if not self.ledger or (
            (
                (age := now - self.ledger_opened) >= rollover.most_ms
                or (
                    entries
                    and (entries + count > rollover.entries or self.ledger_size + size > rollover.size)
                )
            )
            and (age > rollover.least_ms or not rollover.least_ms)
        ):
            self._roll_ledger(base, group)
            entries = 0
            force = True
        if write.leader_epoch > self.epoch:
            self.epoch = write.leader_epoch
            put(rows.PARTITION_U32.pack(self.partition, self.epoch), rows.U64.pack(base), handles["epoch"])
        position = self.segment_size
        since = self.since_index
        if force or since >= INDEX_BYTES:
            put(
                _key(self.partition, base),
                _index(self.number, position, self.segment_max, self.ledger, entries),
                handles["index"],
            )
            since = 0
        if count == 1 or size <= RUN_BYTES:
            since += size
        else:
            since = self._index_within(batches, position, since, entries, group)
        self.since_index = since
        if write.max_timestamp > self.segment_max:
            self.segment_max = write.max_timestamp
            self.segment_max_from = base
        flushes = self.flushes
        if flushes and (flush := flushes[-1]).number == self.number:
            pass
        else:
            flush = Flush(
                self.segment_base, self.number, self.segment_created, position, group.descriptor(self)
            )
            flushes.append(flush)
        flush.size += size
        flush.next_offset = write.next_offset
        if size <= RUN_BYTES:
            data = batches[0] if count == 1 else b"".join(batches)
            if type(data) is not bytes:
                data = bytes(data)
            flush.buffers.append(data)
            flush.chunks.append((base, data))
        else:
            self._in_runs(flush, batches)
        self.segment_size = position + size
        self.size += size
        self.ledger_entries = entries + count
        self.ledger_size += size
        self.end = write.next_offset

    def _index_within(
        self, batches: Sequence[bytes], position: int, since: int, entry: int, group: Group
    ) -> int:
        put, handle = group.put, group.handles["index"]
        earlier = self.segment_max
        for data in batches:
            if since >= INDEX_BYTES:
                key = _key(self.partition, batch.base_offset(data))
                put(key, _index(self.number, position, earlier, self.ledger, entry), handle)
                since = 0
            size = len(data)
            since += size
            position += size
            entry += 1
            timestamp = batch.max_timestamp(data)
            if timestamp > earlier:
                earlier = timestamp
        return since

    def _in_runs(self, flush: Flush, batches: Sequence[bytes]) -> None:
        run: list[bytes] = []
        length = 0
        for data in batches:
            if run and length + len(data) > RUN_BYTES:
                joined = run[0] if len(run) == 1 else b"".join(run)
                flush.chunks.append((batch.base_offset(joined), joined))
                flush.buffers.append(joined)
                run, length = [], 0
            run.append(data if type(data) is bytes else bytes(data))
            length += len(data)
        joined = run[0] if len(run) == 1 else b"".join(run)
        flush.chunks.append((batch.base_offset(joined), joined))
        flush.buffers.append(joined)

    def close_segment(self, group: Group) -> None:
        """The active segment takes no more: its row is written.

        Nothing when there is none, or it is empty.
        """
        if not self.open:
            return
        self.open = False
        if not self.segment_size:
            return
        row = rows.SegmentRow(
            self.number,
            self.end,
            self.segment_size,
            self.segment_max,
            self.segment_max_from,
            self.segment_created,
        )
        group.put(_key(self.partition, self.segment_base), rows.SEGMENT.pack(*row), group.handles["segment"])
        self.rolled.append(Rolled(self.segment_base, row))

    def _roll(self, base: int, group: Group) -> None:
        self.close_segment(group)
        group.create(self, base)
        self.open = True
        self.seal = False
        self.segment_base = base
        self.segment_size = 0
        self.segment_created = group.now
        self.segment_max = -1
        self.segment_max_from = base
        self.since_index = 0

    def _roll_ledger(self, base: int, group: Group) -> None:
        put, handle, now = group.put, group.handles["ledger"], group.now
        ledger = group.new_ledger()
        if self.ledger:
            closed = rows.LEDGER.pack(
                self.ledger_first, 0, self.ledger_opened, self.ledger_entries, self.ledger_size
            )
            put(_key(self.partition, self.ledger), closed, handle)
        self.ledger = ledger
        self.ledger_first = base
        self.ledger_entries = 0
        self.ledger_size = 0
        self.ledger_opened = now
        put(_key(self.partition, ledger), rows.LEDGER.pack(base, 0, now, 0, 0), handle)

    def row(self) -> tuple[int, ...]:
        """The fields of the `LogRow` as it is after what was planned. A plain tuple: a LogRow would add 0.5 us to the
        15 of a group.
        """
        return (
            (self.flags & rows.REFUSES) | (rows.ACTIVE if self.open else 0),
            self.start,
            self.end,
            self.size,
            self.durable_end,
            self.number,
            self.segment_base,
            self.segment_size,
            self.segment_created,
            self.segment_max,
            self.segment_max_from,
            self.since_index,
            self.ledger,
            self.ledger_first,
            self.ledger_entries,
            self.ledger_size,
            self.ledger_opened,
            self.epoch,
        )
