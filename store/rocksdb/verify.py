"""Every batch of a store held against its CRC and the index, while no gateway has the folder.

What a repair may do: move aside bytes that no commit speaks of, since nobody was told that they were stored; or,
when RocksDB lost commits that were made, take the records behind them back from the segments, since somebody was.
A log that refuses records because of damage takes them again afterwards, in a new file behind it.
Nothing that was acknowledged is ever cut off: damaged bytes stay where they are, and readers are told.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from store.api import Family, StoreError
from store.rocksdb import last_mark, rows
from store.rocksdb.check import check
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.integrity import go_on
from store.rocksdb.layout import DATABASE, MARK, SEGMENTS, SegmentFile, segment_files
from store.rocksdb.quarantine import Quarantine
from store.rocksdb.recovery import lost_commits
from store.rocksdb.repair import Repairer
from store.rocksdb.rows import LogRow
from store.rocksdb.segments import Segment

Progress = Callable[[int, int], None]
"""(bytes done, bytes in all)"""

_STEP = 8 << 20


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not check out. `partition` is -1 when it concerns the whole store."""

    partition: int
    file: str
    position: int
    text: str
    # whether clients were told that what is wrong here was stored
    acknowledged: bool
    # what clients call the log, when somebody knows
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.name or f'log {self.partition}'}: " if self.partition >= 0 else ""
        place = f"{self.file} at byte {self.position}: " if self.file else ""
        return f"{where}{place}{self.text}"


@dataclass(slots=True)
class Report:
    """What was looked at, what is wrong, and what was done about it."""

    logs: int = 0
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


Naming = Callable[[Database], dict[int, str]]
"""What clients call the logs of a store, by partition id."""


def _nameless(database: Database) -> dict[int, str]:
    return {}


def _silent(done: int, total: int) -> None:
    pass


def verify(
    path: Path, repair: bool = False, progress: Progress = _silent, naming: Naming = _nameless
) -> Report:
    """Check the store in a data folder. Raises Locked when it is in use, StoreError when there is none."""
    if not (path / DATABASE).is_dir():
        raise StoreError(f"There is no store in {path}.")
    database = Database(path / DATABASE)
    try:
        names = naming(database)
        return Verification(path, database, Files(path / SEGMENTS), repair, progress, names).run()
    finally:
        database.close()


class Verification:
    """One run. Problems are collected first; repairs come after, in one batch."""

    def __init__(
        self,
        path: Path,
        database: Database,
        files: Files,
        repair: bool,
        progress: Progress,
        names: dict[int, str],
    ) -> None:
        self._path = path
        self._database = database
        self._files = files
        self._repair = repair
        self._progress = progress
        self._names = names
        self._report = Report()
        self._done = 0
        self._shown = 0
        self._total = 0

    def run(self) -> Report:
        report = self._report
        logs, segments = segment_files(self._database)
        listing = list(self._files.listing())
        self._total = sum(segment.size for own in segments.values() for segment in own.values())
        marked = last_mark.read(self._path / MARK)
        lost = lost_commits(self._database, marked, last_mark.boot_id())
        if lost:
            report.problems.append(Problem(-1, "", 0, lost.split(". ")[0] + ".", True))
        for partition in sorted(logs):
            report.logs += 1
            self._check_log(partition, logs[partition], sorted(segments.get(partition, {}).values()))
        strays = self._strays(segments, listing, bool(lost))
        self._progress(self._total, self._total)
        if self._repair:
            if lost:
                repairer = Repairer(self._path, self._database, self._files, logs, segments, self._names)
                report.repaired += repairer.run(strays)
                (self._path / MARK).unlink(missing_ok=True)
            else:
                self._move(strays)
            self._lift_refusals(logs)
        return report

    def _problem(
        self, partition: int, segment: SegmentFile, position: int, text: str, acknowledged: bool = True
    ) -> None:
        file = os.path.basename(self._files.path(partition, segment.base, segment.number))
        self._add(partition, file, position, text, acknowledged)

    def _add(self, partition: int, file: str, position: int, text: str, acknowledged: bool) -> None:
        name = self._names.get(partition, "")
        self._report.problems.append(Problem(partition, file, position, text, acknowledged, name))

    def _called(self, partition: int) -> str:
        return self._names.get(partition) or f"log {partition}"

    def _check_log(self, partition: int, row: LogRow, segments: list[SegmentFile]) -> None:
        index = {
            rows.PARTITION_OFFSET.unpack(key)[1]: rows.index_row(value)
            for key, value in self._database.scan(Family.INDEX, rows.U32.pack(partition))
        }
        expected = 0
        for segment in segments:
            self._report.segments += 1
            expected = self._check_segment(partition, segment, max(expected, segment.base), index)
        size = sum(segment.size for segment in segments)
        if size != row.size:
            text = f"the log row counts {row.size} bytes, its segments {size}"
            self._add(partition, "", 0, text, True)
        for base, entry in sorted(index.items()):
            text = f"the index has a row for offset {base} (byte {entry.position} of segment {entry.number}): no batch"
            self._add(partition, "", entry.position, text, True)
        if row.flags & rows.REFUSES and not self._of(partition):
            text = "takes no records since damage was found, and is whole now; `--repair` lets it take them again"
            self._add(partition, "", 0, text, False)

    def _of(self, partition: int) -> list[Problem]:
        return [problem for problem in self._report.problems if problem.partition == partition]

    def _check_segment(
        self, partition: int, segment: SegmentFile, expected: int, index: dict[int, rows.IndexRow]
    ) -> int:
        """Check one segment, and take the index rows that are right out of `index`. Answers where the next begins."""
        try:
            descriptor = self._files.open(partition, segment.base, segment.number)
        except FileNotFoundError:
            self._problem(
                partition, segment, 0, _lost(segment.base, segment.next_offset, "the file is missing")
            )
            self._forget(segment, index, 0, segment.size)
            self._done += segment.size
            return segment.next_offset
        report = self._report

        def each(position: int, base: int, following: int, timestamp: int) -> None:
            row = index.get(base)
            if row is not None and row.number == segment.number and row.position == position:
                del index[base]
            if position - self._shown >= _STEP:
                self._shown = position
                self._progress(self._done + position, self._total)

        self._shown = 0
        position = 0
        try:
            while True:
                begun = position
                checked = check(
                    self._files,
                    descriptor,
                    position,
                    segment.size,
                    expected,
                    each,
                    segment.next_offset,
                    sparse=segment.sparse,
                )
                report.batches += checked.batches
                position, expected = checked.position, checked.next_offset
                report.bytes += position - begun
                if position == segment.size:
                    break
                place, following = self._go_on(partition, segment, position, expected)
                self._problem(partition, segment, position, _lost(expected, following, checked.problem))
                self._forget(segment, index, position, place)
                position, expected = place, following
                if position == segment.size:
                    break
        finally:
            self._files.close(descriptor)
        if expected != segment.next_offset:
            text = f"ends at offset {expected}, and {segment.next_offset} was committed"
            self._problem(partition, segment, position, text)
        self._done += segment.size
        self._progress(self._done, self._total)
        return segment.next_offset

    def _go_on(self, partition: int, segment: SegmentFile, position: int, expected: int) -> tuple[int, int]:
        """Where the next good batch stands: (position, offset)."""
        committed = Segment(
            segment.base, segment.next_offset, segment.number, segment.size, -1, -1, segment.created_at
        )
        return go_on(self._database, self._files, partition, committed, position, expected)

    @staticmethod
    def _forget(segment: SegmentFile, index: dict[int, rows.IndexRow], begin: int, end: int) -> None:
        """Do not report every index row of damage that is reported itself."""
        for base in [
            base
            for base, row in index.items()
            if row.number == segment.number and begin <= row.position < end
        ]:
            del index[base]

    def _strays(
        self,
        segments: dict[int, dict[int, SegmentFile]],
        listing: list[tuple[int, int, int, int, str]],
        lost: bool,
    ) -> list[tuple[int, int, int, int, str]]:
        """Files and tails that no commit speaks of: (partition, base, number, known bytes, path)."""
        doomed = {rows.PARTITION_U32.unpack(key) for key, _ in self._database.scan(Family.DOOMED)}
        found = []
        for partition, base, number, size, path in listing:
            segment = segments.get(partition, {}).get(number)
            known = segment.size if segment is not None and segment.base == base else 0
            if size <= known or (partition, number) in doomed:
                continue
            text = f"{size - known} bytes that no commit speaks of"
            self._add(partition, os.path.basename(path), known, text, lost)
            found.append((partition, base, number, known, path))
        return found

    def _move(self, strays: list[tuple[int, int, int, int, str]]) -> None:
        quarantine = Quarantine(self._path, int(self._database.get(Family.META, rows.EPOCH_COUNTER) or b"0"))
        for partition, _, _, known, path in strays:
            place = quarantine.tail(self._files, path, known) if known else quarantine.whole(path)
            self._report.repaired.append(
                f"{self._called(partition)}: what stood behind byte {known} of {os.path.basename(path)} was never "
                f"acknowledged; it is in {place} now"
            )

    def _lift_refusals(self, logs: dict[int, LogRow]) -> None:
        batch = self._database.batch()
        for partition, row in logs.items():
            if not row.flags & rows.REFUSES:
                continue
            lifted = row._replace(flags=row.flags & ~rows.REFUSES)
            done = "is whole again and takes records"
            if any(each.acknowledged for each in self._of(partition)):
                # what comes now begins a new file: nobody knows what the disk does to the end of this one
                done = "takes records again; what is damaged stays as it is"
                if row.flags & rows.ACTIVE:
                    lifted = lifted._replace(flags=lifted.flags & ~rows.ACTIVE)
                    key = rows.PARTITION_OFFSET.pack(partition, row.segment_base)
                    batch.put(key, rows.SEGMENT.pack(*row.closed()), self._database.handles["segment"])
            batch.put(rows.U32.pack(partition), rows.LOG.pack(*lifted), self._database.handles["log"])
            self._report.repaired.append(f"{self._called(partition)}: {done}")
        if len(batch):
            self._database.write(batch)
            self._database.sync()


def _lost(first: int, following: int, problem: str) -> str:
    if following <= first:
        # bytes between two batches, neither of which misses an offset
        return problem
    which = f"offset {first} is" if following == first + 1 else f"offsets {first} to {following - 1} are"
    return f"{problem}: {which} damaged"
