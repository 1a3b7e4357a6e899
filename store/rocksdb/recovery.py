"""A start after a crash: what RocksDB says and what is in the segments are made to agree.

1. If RocksDB knows less than was once committed (it drops what stands behind a damaged WAL record), nothing is
   touched and the store takes no commits.
2. Payload in the journal is written to its segment again: the machine may have lost it there.
3. Every log that was touched since the last checkpoint is checked from there on, batch by batch.
4. A log whose bytes end early is cut there, in one batch with everything that speaks of the lost offsets; what the
   journal holds from behind the gap is kept. But where the lost bytes had been promised to survive the machine, or
   the machine did not stop, the disk is at fault: nothing is cut, and the log takes no more appends.
5. Bytes and files of which RocksDB knows nothing go to `quarantine/`; files that a commit made needless go.

Each step may be interrupted and done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from store.api import Delete, DeleteRange, Family, Put
from store.batch import walk
from store.rocksdb import rows
from store.rocksdb.check import check
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.last_mark import Marked
from store.rocksdb.layout import SegmentFile, segment_files
from store.rocksdb.quarantine import Quarantine
from store.rocksdb.rows import LogRow
from store.rocksdb.truncation import Truncation
from store.steps import step


class RowReader(Protocol):
    """What a `Clip` may look at."""

    def get(self, family: Family, key: bytes) -> bytes | None: ...
    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...


LostOffsets = Sequence[tuple[int, int]]
"""Offsets from the one to below the other, ascending. There are several when the journal kept batches in between."""

Clip = Callable[[RowReader, int, LostOffsets], Iterable[Put | Delete | DeleteRange]]
"""(rows, partition, what of it was lost): answers what must change with it."""


class RecoveryResult(NamedTuple):
    notices: list[str]
    read_only: str
    # the machine stopped before the process did
    power_lost: bool = False


def forget_producers(known: RowReader, partition: int, lost: LostOffsets) -> Iterable[DeleteRange]:
    """The `Clip` of a caller that gave none: a retry must not be answered with an offset that is gone."""
    prefix = rows.U32.pack(partition)
    return [
        DeleteRange(family, prefix, rows.successor(prefix))
        for family in (Family.DEDUP, Family.ABORTED, Family.LETTER)
    ]


@step("start.recovery", "start.epoch")
def recover(
    path: Path,
    database: Database,
    files: Files,
    marked: Marked | None,
    boot: str,
    *,
    clean: bool,
    epoch: int,
    clip: Clip | None,
) -> RecoveryResult:
    """Bring the folder in order. `epoch` is the last run's; 0 when there was none."""
    lost = lost_database(path, files, epoch) or lost_commits(database, marked, boot)
    if lost:
        return RecoveryResult([lost], lost)
    power_cut = False
    same_boot = marked is not None and marked.boot == boot != ""
    recovery = Recovery(path, database, files, epoch, clip or forget_producers, same_boot)
    if not clean and epoch:
        said = power_lost(database, marked, boot)
        recovery.notices += said
        power_cut = bool(said)
        recovery.unlink_doomed()
        recovery.run()
    else:
        recovery.unlink_doomed()
    return RecoveryResult(recovery.notices, "", power_cut)


def lost_commits(database: Database, marked: Marked | None, boot: str) -> str:
    """Why RocksDB must have lost commits that no crash may lose, or ""."""
    sequence = database.sequence()
    if marked is None:
        return ""
    same_boot = bool(boot) and marked.boot == boot
    if marked.synced <= sequence and not (same_boot and marked.committed > sequence):
        # A machine that stopped may take unsynced commits with it: that is what `os` means.
        return ""
    missing = max(marked.synced, marked.committed if same_boot else 0) - sequence
    return (
        f"The database in {database.path} has lost its last {missing} rows, though they were written: its log is "
        f"damaged. Nothing was changed, and nothing can be written. Make a copy of the data folder, then run "
        f"`magnetar store verify --repair`, which takes the records of the lost rows back from the segments."
    )


def power_lost(database: Database, marked: Marked | None, boot: str) -> list[str]:
    """What to say when it was the machine that stopped: whole commits may be gone, of which nothing is left to tell."""
    if marked is not None and marked.boot == boot != "":
        return []
    missing = marked.committed - database.sequence() if marked is not None else 0
    known = f", at least {missing} rows of the database among it" if missing > 0 else ""
    return [
        "The machine stopped before Magnetar did (power, or a reset). What was acknowledged under durability=os "
        f"shortly before may be gone{known}; what was acknowledged under fsync is there."
    ]


def lost_database(path: Path, files: Files, epoch: int) -> str:
    if epoch or next(files.listing(), None) is None:
        return ""
    return (
        f"There are segments in {path} but no database that knows them. Nothing was changed, and nothing can be "
        f"written: bring the folder {path / 'db'} back, or choose an empty data folder."
    )


class Recovery:
    """One run of steps 2 to 5."""

    def __init__(
        self, path: Path, database: Database, files: Files, epoch: int, clip: Clip, same_boot: bool = False
    ) -> None:
        self._path = path
        self._database = database
        self._files = files
        self._clip = clip
        # the machine did not stop in between: what was written is in the page cache or on the disk
        self._same_boot = same_boot
        self._quarantine = Quarantine(path, epoch)
        self.notices: list[str] = []
        self._batch = database.batch()
        self._handles = database.handles
        self._logs: dict[int, LogRow] = {}
        # segments by partition, then by number
        self._segments: dict[int, dict[int, SegmentFile]] = {}
        # (partition, base, number) of files to sync before the journal goes
        self._dirty: set[tuple[int, int, int]] = set()

    @step(after="start.doomed", inside="doomed")
    def unlink_doomed(self) -> None:
        batch = self._database.batch()
        folders = set()
        for key, value in self._database.scan(Family.DOOMED):
            partition, number = rows.PARTITION_U32.unpack(key)
            self._files.unlink(partition, rows.DOOMED.unpack(value)[0], number)
            batch.delete(key, self._handles["doomed"])
            folders.add(partition >> 8)
        for folder in folders:
            # before the rows go: a power cut may undo a removal that is not synced
            self._files.sync_folder(folder << 8)
        if folders:
            self._database.write(batch)

    @step(inside="recovering")
    def run(self) -> None:
        self._logs, self._segments = segment_files(self._database)
        journal = self._redo()
        touched = self._touched()
        for partition in sorted(touched):
            self._check_log(partition, touched[partition], journal.get(partition, []))
        self._sync()
        everything = b"\xff" * 32
        self._batch.delete_range(b"", everything, self._handles["journal"])
        self._batch.delete_range(b"", everything, self._handles["touched"])
        self._database.write(self._batch)
        self._database.sync()
        self._move_strays()

    # step 2

    @step("start.redo", "start.redone", inside="recovery")
    def _redo(self) -> dict[int, list[bytes]]:
        """Write the journal's payload to its place. Answers it by partition, in order."""
        payloads: dict[int, list[bytes]] = {}
        for key, value in self._database.scan(Family.JOURNAL):
            partition = rows.JOURNAL_KEY.unpack(key)[1]
            head = rows.journal_head(value)
            segment = self._segments.get(partition, {}).get(head.number)
            payload = value[rows.JOURNAL_HEAD.size :]
            if (
                segment is None
                or segment.base != head.segment_base
                or head.position + len(payload) > segment.size
            ):
                # trimmed or dropped since, or of a group that a later one replaced
                continue
            descriptor = self._open(partition, segment)
            try:
                # also when the bytes are there: a sync that failed may have left them in the page cache only
                self._files.write(descriptor, [payload], head.position)
            finally:
                self._files.close(descriptor)
            self._dirty.add((partition, segment.base, segment.number))
            payloads.setdefault(partition, []).append(payload)
        return payloads

    def _open(self, partition: int, segment: SegmentFile) -> int:
        try:
            return self._files.open(partition, segment.base, segment.number, write=True)
        except FileNotFoundError:
            descriptor, number = self._files.create(partition, segment.base, segment.number)
            assert number == segment.number
            return descriptor

    # steps 3 and 4

    def _touched(self) -> dict[int, rows.TouchedRow]:
        """Where to begin to check each log: the earliest of its marks."""
        found: dict[int, rows.TouchedRow] = {}
        for key, value in self._database.scan(Family.TOUCHED):
            partition = rows.TOUCHED_KEY.unpack(key)[1]
            row = rows.touched_row(value)
            known = found.get(partition)
            if known is None or row.end_offset < known.end_offset:
                found[partition] = row
        return found

    @step("start.check")
    def _check_log(self, partition: int, touched: rows.TouchedRow, journal: list[bytes]) -> None:
        row = self._logs.get(partition)
        if row is None or row.flags & rows.REFUSES:
            return
        segments = sorted(self._segments.get(partition, {}).values())
        expected = touched.end_offset
        for segment in segments:
            position = 0
            if segment.sparse:
                # it was on disk before the commit that speaks of it
                expected = max(expected, segment.next_offset)
                continue
            if segment.number == touched.number:
                position = touched.position
            elif segment.next_offset <= touched.end_offset:
                continue
            expected = max(expected, segment.base)
            self._dirty.add((partition, segment.base, segment.number))
            try:
                descriptor = self._files.open(partition, segment.base, segment.number)
            except FileNotFoundError:
                if segment.size > position:
                    self._ends_early(
                        partition, row, segment, position, expected, "the file is missing", journal
                    )
                    return
                continue
            try:
                checked = check(self._files, descriptor, position, segment.size, expected)
            finally:
                self._files.close(descriptor)
            expected = checked.next_offset
            if checked.position < segment.size:
                self._ends_early(
                    partition, row, segment, checked.position, expected, checked.problem, journal
                )
                return

    def _ends_early(
        self,
        partition: int,
        row: LogRow,
        segment: SegmentFile,
        position: int,
        offset: int,
        problem: str,
        journal: list[bytes],
    ) -> None:
        """The bytes of a log are good up to `offset`, and RocksDB speaks of more."""
        salvage = [
            payload[at : at + size]
            for payload in journal
            for at, size, base, _ in walk(payload)
            if base >= offset
        ]
        if row.durable_end > offset or self._same_boot:
            flags = row.flags | rows.REFUSES
            self._put_log(partition, row._replace(flags=flags))
            self.notices.append(
                f"Log {partition} is damaged at offset {offset} (byte {position} of {self._name(partition, segment)}: "
                f"{problem}), though its records were written. It is served as far as it can be read and takes no "
                f"more records; `magnetar store verify` says more."
            )
            return
        truncation = Truncation(
            self._database, self._files, self._batch, partition, row, segment, position, offset
        )
        self._logs[partition] = truncation.apply(self._segments[partition], salvage)
        self._dirty |= truncation.made
        lost = _between(offset, salvage, row.end)
        for write in self._clip(self._database, partition, lost):
            handle = self._handles[write.family]
            if isinstance(write, Put):
                self._batch.put(write.key, write.value, handle)
            elif isinstance(write, Delete):
                self._batch.delete(write.key, handle)
            elif write.start < write.end:
                self._batch.delete_range(write.start, write.end, handle)
        told = ", ".join(f"{first} to {last - 1}" for first, last in lost)
        self.notices.append(
            f"Log {partition} lost the offsets {told}: the machine stopped before they were on "
            f"disk (byte {position} of {self._name(partition, segment)}: {problem})."
        )

    def _put_log(self, partition: int, row: LogRow) -> None:
        self._logs[partition] = row
        self._batch.put(rows.U32.pack(partition), rows.LOG.pack(*row), self._handles["log"])

    def _name(self, partition: int, segment: SegmentFile) -> str:
        return os.path.basename(self._files.path(partition, segment.base, segment.number))

    @step("start.sync", "start.synced")
    def _sync(self) -> None:
        """What is about to lose its journal rows must be on disk."""
        folders = set()
        for partition, base, number in sorted(self._dirty):
            try:
                descriptor = self._files.open(partition, base, number, write=True)
            except FileNotFoundError:
                continue
            try:
                self._files.sync(descriptor)
            finally:
                self._files.close(descriptor)
            folders.add(partition >> 8)
        for folder in folders:
            self._files.sync_folder(folder << 8)

    # step 5

    @step("start.strangers")
    def _move_strays(self) -> None:
        tails = size = whole = 0
        for partition, base, number, length, path in list(self._files.listing()):
            segment = self._segments.get(partition, {}).get(number)
            if segment is None or segment.base != base:
                if length == 0:
                    self._files.unlink(partition, base, number)
                else:
                    self._quarantine.whole(path)
                    whole += 1
                    size += length
            elif length > segment.size:
                self._quarantine.tail(self._files, path, segment.size)
                tails += 1
                size += length - segment.size
        if tails or whole:
            self.notices.append(
                f"{size} bytes that no commit speaks of were moved from {tails + whole} segments to "
                f"{self._path / 'quarantine'}."
            )


def _between(offset: int, kept: list[bytes], end: int) -> list[tuple[int, int]]:
    """The offsets from `offset` to below `end` that are in none of the batches."""
    lost = []
    for batch in kept:
        for _, _, base, following in walk(batch):
            if base > offset:
                lost.append((offset, base))
            offset = following
    if end > offset:
        lost.append((offset, end))
    return lost


__all__ = ["Clip", "LostOffsets", "Recovery", "RecoveryResult", "recover"]
