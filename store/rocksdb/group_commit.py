"""One group of commits made durable: the commit protocol, step by step.

1. Every write of every commit is planned: rows go into one WriteBatch, batches to their place in a segment.
2. Segment bytes are written, without a sync.
3. What must not be lost with the machine is secured: small payloads as journal rows in the WriteBatch, the rest by
   syncing its segment now.
4. The WriteBatch, not synced. This is the commit point.
5. When a commit of the group wants `fsync`: the WAL is synced. At most two syncs, however many partitions.

Ends of logs move, and `done` is called, only after all five. A failure before step 4 is `Refused`: nothing is
known to RocksDB, and the segments are cut back. From step 4 on it is `Unknown`: the segments keep their
bytes, since the WAL may still bring the rows back, and new files are begun.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

from store.api import (
    Append,
    Delete,
    DeleteRange,
    DropLog,
    Durability,
    Family,
    Put,
    Refused,
    Roll,
    StoreError,
    Swap,
)
from store.limits import CARRIED_BYTES, Rollover
from store.rocksdb import removal, rows, swapping
from store.rocksdb.append import LogWriter
from store.rocksdb.commits import Published, QueuedCommit, Result
from store.rocksdb.database import Database, plain
from store.rocksdb.files import Files
from store.rocksdb.last_mark import LastMark
from store.rocksdb.openfiles import OpenFiles
from store.rocksdb.options import Options
from store.rocksdb.unsynced import File, Snapshot, Unsynced
from store.rocksdb.write_behind import KICK_BYTES, WriteBehind
from store.steps import step

KEPT_WRITERS = 1000
"""This many logs are kept ready for the next append, however idle."""


class Executor:
    """Executes groups. Belongs to one thread at a time, and to nobody while it is idle."""

    def __init__(
        self,
        database: Database,
        files: Files,
        mark: LastMark,
        clock: Callable[[], int],
        *,
        epoch: int,
        next_ledger: int,
        options: Options,
        configured: dict[int, tuple[int, int]],
        behind: WriteBehind,
    ) -> None:
        self._database = database
        self._behind = behind
        self.files = files
        self._mark = mark
        self._clock = clock
        self._next_ledger = next_ledger
        self._open = OpenFiles(files, options.open_files)
        self._configured = configured
        self._journal_bytes = options.journal_bytes
        self._journal_log_bytes = options.journal_log_bytes
        self.handles = database.handles
        self._writers: dict[int, LogWriter] = {}
        # logs whose active file takes no more appends
        self._seals: set[int] = set()
        self.unsynced = Unsynced(epoch)
        # the last WriteBatch or WAL sync failed: RocksDB must settle before the next group
        self.suspect = False
        # groups are numbered through restarts: the epoch in the upper half
        self.group = epoch << 40
        # of the group at work
        self.now = 0
        self.rollover = Rollover()
        self.put: Callable[[bytes, bytes, Any], None] = _nowhere
        self._batch: Any = None
        self._created: list[tuple[int, int, int]] = []
        self._dropped: list[int] = []
        self._ledgers_taken = False

    @property
    def open_files(self) -> int:
        return len(self._open)

    # the group

    @step("group.begun", "group.done", inside="group")
    def execute(self, commits: list[QueuedCommit], *, wait: bool) -> Result:
        """Steps 1 to 5.

        Not `wait`: answers `stalled` rather than wait for RocksDB; then nothing has happened.
        """
        result = Result(commits)
        touched: list[LogWriter] = []
        self._created = []
        self._dropped = []
        try:
            if self.suspect:
                self._settle()
            if commits[0].alone and self._declines(commits[0], result):
                return result
            self._plan(commits, touched, result)
            self._write_segments(touched, result)
            if any(log.synced or log.carried for log in touched):
                self._secure(touched, result)
            durable = any(commit.durability is Durability.FSYNC for commit in commits)
            published = self._close_batch(touched)
        except StoreError as error:
            result.outcome = error
        except OSError as error:
            result.outcome = _refused(error, self.files)
        except Exception:
            self._abandon(touched, unknown=False)
            raise
        if result.outcome is not None:
            self._abandon(touched, unknown=False)
            return result
        try:
            batch, self._batch = self._batch, None
            if not self._database.write(batch, wait=wait):
                result.stalled = True
                self._abandon(touched, unknown=False)
                return result
            if durable:
                self._timed(result, self._database.sync)
        except StoreError as error:
            self.suspect = True
            result.outcome = error
            self._abandon(touched, unknown=True)
            return result
        self._mark.store(self._database.sequence(), durable)
        result.published = published
        for doomed in result.doomed:
            self.unsynced.trimmed(doomed)
        for partition in self._dropped:
            self.unsynced.dropped(partition)
        for log in touched:
            log.finish()
        if self._open.closing:
            self._open.close_old()
        self.unsynced.bytes += result.size
        return result

    def _settle(self) -> None:
        """After an unknown outcome nothing may depend on the WAL's last bytes. Raises Refused."""
        try:
            self._database.settle()
        except StoreError as error:
            kind = type(error) if isinstance(error, Refused) else Refused
            raise kind(str(error)) from error
        self.suspect = False

    def _declines(self, commit: QueuedCommit, result: Result) -> bool:
        """Whether a commit with a swap is not made, since the log is not what it was."""
        reasons = [
            swapping.declined(write, self._database, self.files)
            for write in commit.writes
            if isinstance(write, Swap)
        ]
        if any(reasons):
            result.declined = Refused(next(filter(None, reasons)))
        return result.declined is not None

    def _timed(self, result: Result, sync: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            sync()
        finally:
            result.syncs += 1
            result.sync_seconds += time.perf_counter() - began

    # step 1

    @step(after="group.planned")
    def _plan(self, commits: list[QueuedCommit], touched: list[LogWriter], result: Result) -> None:
        batch = self._batch = self._database.batch()
        put = self.put = batch.put
        handles = self.handles
        self.now = self._clock()
        self.group += 1
        self._ledgers_taken = False
        count = 0
        for commit in commits:
            synced = commit.durability is Durability.FSYNC
            write: Any
            for write in commit.writes:
                kind = type(write)
                if kind is Put:
                    family, key, value = write
                    put(key, value, handles[family])
                elif kind is Append:
                    log = self._touch(write.partition, touched)
                    if synced:
                        log.synced = True
                    if write.carried:
                        log.carried = True
                    log.append(write, self)
                    count += len(write.batches)
                elif kind is Delete:
                    batch.delete(write.key, handles[write.family])
                elif kind is DeleteRange:
                    # RocksDB counts an empty range when it is written and not when it is recovered, which
                    # would look like a lost row
                    if write.start < write.end:
                        batch.delete_range(write.start, write.end, handles[write.family])
                elif kind is DropLog:
                    self._drop(write.partition, touched, result)
                elif kind is Roll:
                    self._roll(write.partition, touched)
                elif kind is Swap:
                    log = self._touch(write.partition, touched)
                    swapping.swap(log, write, self._database, batch, result)
                else:
                    self._trim(self._touch(write.partition, touched), write.offset, result)
            result.size += commit.size
        self.unsynced.batches += count
        if self._ledgers_taken:
            put(rows.NEXT_LEDGER, rows.U64.pack(self._next_ledger), handles["meta"])

    def _touch(self, partition: int, touched: list[LogWriter]) -> LogWriter:
        log = self._writers.get(partition)
        if log is None:
            log = self._load(partition)
        if not log.touched:
            log.begin()
            log.recent = True
            touched.append(log)
        return log

    def _load(self, partition: int) -> LogWriter:
        value = self._database.get(Family.LOG, rows.U32.pack(partition))
        # the first append makes it
        row = rows.LogRow() if value is None else rows.log_row(value)
        unsynced = self.unsynced.of_logs.setdefault(partition, {})
        log = self._writers[partition] = LogWriter(partition, row, self._configured.get(partition), unsynced)
        if partition in self._seals:
            self._seals.discard(partition)
            log.seal = log.open
        elif log.open and not self.files.holds(partition, log.segment_base, log.number, log.segment_size):
            # somebody took the file away or cut it: what comes now goes into another one
            log.seal = True
        return log

    def new_ledger(self) -> int:
        self._ledgers_taken = True
        self._next_ledger += 1
        return self._next_ledger - 1

    def create(self, log: LogWriter, base: int) -> None:
        descriptor, number = self._open.attempt(
            lambda: self.files.create(log.partition, base, log.number + 1)
        )
        self._created.append((log.partition, base, number))
        self.unsynced.unnamed.add((log.partition, base, number))
        log.number = number
        self._open.hold(log, descriptor)

    def descriptor(self, log: LogWriter) -> int:
        if log.descriptor < 0:
            file = (log.partition, log.segment_base, log.number)
            self._open.hold(log, self._open.attempt(lambda: self.files.open(*file, write=True)))
        return log.descriptor

    @step("drop.before", "drop.after")
    def _drop(self, partition: int, touched: list[LogWriter], result: Result) -> None:
        if (
            partition not in self._writers
            and self._database.get(Family.LOG, rows.U32.pack(partition)) is None
        ):
            removal.drop_unwritten(partition, self._database, self._batch)
            return
        log = self._touch(partition, touched)
        removal.drop(log, self._database, self._batch, result)
        self._open.leave(log)
        touched.remove(log)
        del self._writers[partition]
        self._seals.discard(partition)
        self._dropped.append(partition)

    @step("trim.before", "trim.after")
    def _trim(self, log: LogWriter, offset: int, result: Result) -> None:
        removal.trim(log, offset, self._database, self._batch, result)
        if not log.open:
            self._open.leave(log)

    def _roll(self, partition: int, touched: list[LogWriter]) -> None:
        if partition in self._writers or self._database.get(Family.LOG, rows.U32.pack(partition)) is not None:
            log = self._touch(partition, touched)
            log.close_segment(self)
            self._open.leave(log)

    # steps 2 and 3

    def _write_segments(self, touched: list[LogWriter], result: Result) -> None:
        write, dirty = self.files.write, self.unsynced.files
        behind = self._behind if self._behind.enabled else None
        for log in touched:
            for flush in log.flushes:
                write(flush.descriptor, flush.buffers, flush.position)
                key = (log.partition, flush.base, flush.number)
                dirty[key] = flush.new or dirty.get(key, False)
                if behind is not None:
                    if flush.new:
                        log.handed_over = 0
                    end = flush.position + flush.size
                    if end - log.handed_over >= KICK_BYTES:
                        behind.wrote((*key, log.handed_over, end - log.handed_over))
                        log.handed_over = end

    @step("secure.before")
    def _secure(self, touched: list[LogWriter], result: Result) -> None:
        candidates = [log for log in touched if log.flushes and (log.synced or log.carried)]
        sizes = [sum(flush.size for flush in log.flushes) for log in candidates]
        total = sum(sizes)
        largest = max(sizes, default=0) if total > self._journal_bytes else -1
        for log, size in zip(candidates, sizes, strict=True):
            large_carried = log.carried and not log.synced and size > CARRIED_BYTES
            direct = size > self._journal_log_bytes or large_carried
            if size == largest:
                direct, largest = True, -1
            if direct:
                self._sync_segments(log, result)
            else:
                self._journal(log)
            if log.synced and not log.unsynced:
                log.durable_end = log.end

    @step("journal.before", "journal.after")
    def _journal(self, log: LogWriter) -> None:
        for part, flush in enumerate(log.flushes):
            head = rows.JOURNAL_HEAD.pack(
                flush.base, flush.number, flush.position, flush.next_offset, flush.created
            )
            key = rows.JOURNAL_KEY.pack(self.group, log.partition, part)
            self.put(key, b"".join((head, *flush.buffers)), self.handles["journal"])
            self.unsynced.journal_bytes += flush.size
            # in the journal: as good as synced
            flush.descriptor = -1

    @step("direct.before", "direct.after")
    def _sync_segments(self, log: LogWriter, result: Result) -> None:
        """Sync what this group wrote for a log, and what earlier groups left unsynced before it."""
        descriptors = {(flush.base, flush.number): flush.descriptor for flush in log.flushes}
        for base, number in list(log.unsynced):
            if (base, number) not in descriptors:
                try:
                    descriptor = self.files.open(log.partition, base, number, write=True)
                except FileNotFoundError:
                    # of a group that failed, and cut back
                    continue
                self._open.closing.append(descriptor)
                descriptors[base, number] = descriptor
        for (base, number), descriptor in descriptors.items():
            try:
                self._timed(result, functools.partial(self.files.sync, descriptor))
            except OSError:
                self.unsynced.failed.add((log.partition, base, number))
                self._seals.add(log.partition)
                raise
        if any((log.partition, base, number) in self.unsynced.unnamed for base, number in descriptors):
            self.files.sync_folder(log.partition)
            self.unsynced.folder_synced(log.partition)
        log.unsynced.clear()
        for flush in log.flushes:
            flush.descriptor = -1

    # step 4

    @step(after="batch.closed")
    def _close_batch(self, touched: list[LogWriter]) -> list[Published]:
        put, handles = self.put, self.handles
        log_handle = handles["log"]
        pack, generation = rows.LOG.pack, self.unsynced.generation
        published = []
        for log in touched:
            flushes = log.flushes
            if flushes and log.generation != generation:
                log.generation = generation
                put(
                    rows.TOUCHED_KEY.pack(generation, log.partition),
                    rows.TOUCHED.pack(log.group_base, log.group_number, log.group_size, log.group_end),
                    handles["touched"],
                )
            for flush in flushes:
                if flush.descriptor >= 0:
                    log.unsynced[flush.base, flush.number] = generation
            row = log.row()
            put(log.key, pack(*row), log_handle)
            if len(flushes) == 1:
                chunks = flushes[0].chunks
            else:
                chunks = [chunk for flush in flushes for chunk in flush.chunks]
            published.append(Published(log.partition, row, chunks, log.rolled, log.trimmed, log.swapped))
        return published

    # failure

    def _abandon(self, touched: list[LogWriter], *, unknown: bool) -> None:
        """Throw away what ran ahead. Unless `unknown`, cut the segments back to what is committed."""
        self._batch = None
        self.put = _nowhere
        for log in touched:
            if unknown:
                self._seals.add(log.partition)
            else:
                self._cut_back(log)
            self._writers.pop(log.partition, None)
            self._open.forget(log)
        self._open.close_old()
        if not unknown:
            for partition, base, number in self._created:
                self.unsynced.gone((partition, base, number))
                try:
                    self.files.unlink(partition, base, number)
                except OSError:
                    # a left-over without a row: the next start moves it away
                    self._seals.add(partition)

    def _cut_back(self, log: LogWriter) -> None:
        for flush in log.flushes:
            if flush.number == log.group_number:
                try:
                    descriptor = self.files.open(log.partition, flush.base, flush.number, write=True)
                    try:
                        self.files.truncate(descriptor, log.group_size)
                    finally:
                        self.files.close(descriptor)
                except OSError:
                    self._seals.add(log.partition)

    # for the checkpoint and the driver

    def configure(self, partition: int) -> None:
        """Take over when the log's segments are to end."""
        log = self._writers.get(partition)
        if log is not None:
            log.segment_bytes, log.segment_ms = self._configured[partition]

    @step(after="checkpoint.taken")
    def checkpoint(self) -> Snapshot:
        """Begin a new generation; what the ended one left to sync is the answer."""
        snapshot = self.unsynced.snapshot(self.group)
        self._forget_idle()
        return snapshot

    def _forget_idle(self) -> None:
        """Logs without an append for two checkpoints: all of them is in their rows."""
        if len(self._writers) <= KEPT_WRITERS:
            return
        for partition, log in list(self._writers.items()):
            if log.generation < self.unsynced.generation - 2 and not log.seal:
                self._open.forget(log)
                del self._writers[partition]
                if not self.unsynced.of_logs.get(partition):
                    self.unsynced.dropped(partition)

    def failed(self, files: Iterable[File]) -> None:
        """They could not be synced: they are never synced again, and their logs go on in new ones."""
        for file in files:
            self.unsynced.failed.add(file)
            self.seal(file[0])

    def seal(self, partition: int) -> None:
        """Begin a new file with the log's next append."""
        log = self._writers.get(partition)
        if log is None:
            self._seals.add(partition)
        else:
            log.seal = log.open

    def close(self) -> None:
        self._open.close()


def _nowhere(key: bytes, value: bytes, handle: Any) -> None:
    raise AssertionError("a row was put outside a group")


def _refused(error: OSError, files: Files) -> Refused:
    found = plain(error, f"write to the segments in {files.root}")
    return found if isinstance(found, Refused) else Refused(str(found))
