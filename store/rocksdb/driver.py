"""The RocksDB driver: the `Store` that the broker sees. See `open` in this package."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from store import limits
from store.api import (
    Append,
    DropLog,
    Durability,
    Family,
    Outcome,
    Refused,
    Roll,
    Scope,
    StoreError,
    StoreStats,
    Swap,
    Trim,
    Write,
)
from store.pending import Pending
from store.rewriting import Place
from store.rocksdb import rows
from store.rocksdb.cache import Tail, TailCache
from store.rocksdb.checkpoint import Checkpointer
from store.rocksdb.commits import QueuedCommit, Result
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.group_commit import Executor
from store.rocksdb.last_mark import LastMark
from store.rocksdb.log import RocksLog
from store.rocksdb.options import Options
from store.rocksdb.reader import Reader
from store.rocksdb.reserving import Reserving
from store.rocksdb.syncing import Syncing
from store.rocksdb.write_behind import WriteBehind
from store.rocksdb.writer import Writer
from store.steps import step

log = logging.getLogger("magnetar.store")

_OF_LOGS = (Append, Trim, Roll, DropLog)

KEPT_LOGS = 1000
"""This many logs are kept open, however idle."""


class RocksStore:
    """See `store.api.Store`."""

    def __init__(
        self,
        path: Path,
        database: Database,
        files: Files,
        mark: LastMark,
        *,
        options: Options,
        clock: Callable[[], int],
        epoch: int,
        next_ledger: int,
        notices: list[str],
        read_only: str,
    ) -> None:
        self.path = path
        # the number of this start
        self.epoch = epoch
        self.notices = notices
        self.read_only = read_only
        self._database = database
        self._files = files
        self._mark = mark
        self._configured: dict[int, tuple[int, int]] = {}
        self._reader = Reader(files, options.open_files)
        self._cache = TailCache(options.tail_cache_bytes)
        # logs that the store keeps open: all that have something in the queue or in the tail cache, and some more
        self._logs: dict[int, RocksLog] = {}
        # logs that live as long as somebody else holds them; there is never a second object for an open log
        self._idle: WeakValueDictionary[int, RocksLog] = WeakValueDictionary()
        # so many of the former, and it is time to let idle ones go: whoever walks over all logs must not gather them
        self._crowded = 2 * KEPT_LOGS
        # logs that commits drop which nobody was told of yet
        self._dropping: set[int] = set()
        self._behind = WriteBehind(files, options.page_cache_bytes)
        self._executor = Executor(
            database,
            files,
            mark,
            clock,
            epoch=epoch,
            next_ledger=next_ledger,
            options=options,
            configured=self._configured,
            behind=self._behind,
        )
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(
            self._executor,
            self._loop,
            self._take,
            inline_bytes=options.inline_bytes,
            slow_seconds=options.slow_seconds,
            thread_seconds=options.thread_seconds,
        )
        self._checkpointer = Checkpointer(self, self._executor, self._writer, database, files, options)
        self._syncing = Syncing(self._executor, self._writer, database, self._checkpointer)
        self._reserving = Reserving(self, database, files, self._checkpointer, self._distrust)
        self._replaced_seconds = options.replaced_seconds
        self._closed = False
        self._groups = 0
        self._bytes = 0
        self._syncs = 0
        self._sync_seconds = 0.0

    # commits

    @step("group.handed")
    def commit(
        self, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        size, dropped, refused = self._check(writes)
        if dropped:
            done = functools.partial(self._dropped, dropped, done)
        commit = QueuedCommit(writes, durability, done, size, self._writer.generation)
        commit.alone = any(type(write) is Swap for write in writes)
        if refused:
            commit.failed = Refused(refused)
        self._writer.submit(commit)

    def _dropped(self, partitions: list[int], done: Callable[[Outcome], None], outcome: Outcome) -> None:
        """Tell of a commit that drops logs. Until then they are neither there nor to be made anew."""
        try:
            done(outcome)
        finally:
            self._dropping.difference_update(partitions)
            if outcome is None:
                for partition in partitions:
                    self._configured.pop(partition, None)

    def _check(self, writes: Sequence[Write]) -> tuple[int, list[int], str]:
        """(bytes of batches, logs that it drops, why the commit is refused or "").

        Raises ValueError, KeyError: see `Store.commit`.
        """
        size = 0
        refused = "The store is closed." if self._closed else self.read_only
        # what to put back when the commit is not taken
        ends: list[tuple[RocksLog, int]] = []
        dropped: list[int] = []
        swaps = False
        write: Any
        try:
            for write in writes:
                kind = type(write)
                if kind is Append:
                    log = self._queued(write.partition)
                    end = log.queued_end
                    if write.base_offset < end:
                        raise ValueError(
                            f"append at {write.base_offset} below the end of log {write.partition} at {end}"
                        )
                    if log.refuses:
                        refused = refused or log.refuses
                    ends.append((log, end))
                    log.queued_end = write.next_offset
                    batches = write.batches
                    size += len(batches[0]) if len(batches) == 1 else sum(map(len, batches))
                elif kind is Trim:
                    end = self._queued(write.partition).queued_end
                    if write.offset > end:
                        raise ValueError(
                            f"trim at {write.offset} beyond the end of log {write.partition} at {end}"
                        )
                elif kind is DropLog:
                    if write.partition in self._dropping:
                        raise KeyError(write.partition)
                    self._dropping.add(write.partition)
                    dropped.append(write.partition)
                elif kind is Roll or kind is Swap:
                    self._queued(write.partition)
                    swaps = swaps or kind is Swap
            if swaps and any(type(write) in _OF_LOGS for write in writes):
                raise ValueError("a swap comes with nothing but rows")
        except (ValueError, KeyError):
            self._undo(ends, dropped)
            raise
        if refused:
            self._undo(ends, dropped)
            dropped = []
        return size, dropped, refused

    def _undo(self, ends: list[tuple[RocksLog, int]], dropped: list[int]) -> None:
        for log, end in reversed(ends):
            log.queued_end = end
        self._dropping.difference_update(dropped)

    async def write(self, writes: Sequence[Write], durability: Durability) -> None:
        future, done = _awaited(self._loop)
        self.commit(writes, durability, done)
        await future

    async def write_own(self, writes: Sequence[Write], durability: Durability) -> None:
        """Rows of the store itself: also while it is being closed."""
        future, done = _awaited(self._loop)
        self._writer.submit(QueuedCommit(writes, durability, done, 0, self._writer.generation))
        await future

    @step("publish.before", "publish.after")
    def _take(self, result: Result) -> None:
        """Take over what a group did, before anybody is told."""
        self._groups += 1
        self._syncs += result.syncs
        self._sync_seconds += result.sync_seconds
        failed = result.outcome is not None or any(commit.failed is not None for commit in result.commits)
        if failed or self._dropping:
            self._take_changed(result)
        if result.outcome is not None:
            return
        self._bytes += result.size
        logs = self._logs
        for news in result.published:
            each = logs.get(news.partition)
            if each is not None:
                each.publish(news)
        for partition, _, number in result.doomed:
            self._reader.forget(partition, number)
        if result.replaced:
            # when the store is closed before, the next start removes them
            self._loop.call_later(self._replaced_seconds, self._checkpointer.doom, result.replaced)
        elif result.doomed:
            self._checkpointer.doom(result.doomed)
        self._checkpointer.grown()

    def _take_changed(self, result: Result) -> None:
        """Discard logs that were dropped, and after a failure those whose state is not known."""
        for commit in result.commits:
            failed = result.outcome is not None or commit.failed is not None
            if commit.failed is not None and isinstance(commit.failed, Refused):
                # refused before it was queued: it touched nothing
                continue
            write: Any
            for write in commit.writes:
                kind = type(write)
                if kind is DropLog or (failed and (kind is Swap or kind in _OF_LOGS)):
                    self._discard(write.partition)

    def _discard(self, partition: int) -> None:
        gone = self._logs.pop(partition, None) or self._idle.pop(partition, None)
        if gone is not None:
            gone.stale = True
            gone.tail.clear()

    def sync(self, logs: Sequence[tuple[int, int]]) -> Pending[None]:
        if self._closed:
            raise StoreError("The store is closed.")
        return self._syncing.sync(logs)

    async def reserve(self, partition: int, bases: Sequence[int]) -> list[Place]:
        if self._closed or self.read_only:
            raise Refused(self.read_only or "The store is closed.")
        return await self._reserving.reserve(partition, bases)

    def _distrust(self) -> None:
        """RocksDB settles before the next group."""

        def suspect() -> None:
            self._executor.suspect = True

        self._writer.task(suspect, lambda outcome: None)

    def unreserve(self, partition: int, places: Sequence[Place]) -> None:
        self._reserving.unreserve(partition, places)

    # reads

    def load(self, scope: Scope) -> None:
        """All of it lies here: there is nothing to wait for."""

    def page(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        return list(self._database.scan(family, prefix, start, limit))

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._database.get(family, key)

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._database.scan(family, prefix, start, limit)

    def log(self, partition: int) -> RocksLog:
        if partition in self._dropping:
            raise KeyError(partition)
        found = self._logs.get(partition)
        if found is None:
            found = self._open_log(partition)
            if len(self._logs) > self._crowded:
                self.forget_idle()
                self._crowded = 2 * max(KEPT_LOGS, len(self._logs))
        return found

    def leader_epoch(self, partition: int) -> int:
        """Every start has the folder to itself: its number will do for all logs."""
        return self.epoch

    def _queued(self, partition: int) -> RocksLog:
        """The log as it is once everything queued is done. KeyError when there is none then."""
        if partition in self._dropping:
            raise KeyError(partition)
        found = self._logs.get(partition)
        return self._open_log(partition) if found is None else found

    def _open_log(self, partition: int) -> RocksLog:
        idle = self._idle.pop(partition, None)
        if idle is not None:
            self._logs[partition] = idle
            return idle
        value = self._database.get(Family.LOG, rows.U32.pack(partition))
        # its first append makes it
        row = rows.LogRow() if value is None else rows.log_row(value)
        found = self._logs[partition] = RocksLog(
            partition, row, self._database, self._reader, Tail(self._cache), self._configure
        )
        return found

    def _configure(self, partition: int, segment_bytes: int | None, segment_ms: int | None) -> None:
        known = self._configured.get(partition, (limits.SEGMENT_BYTES, limits.SEGMENT_MS))
        self._configured[partition] = (
            known[0] if segment_bytes is None else segment_bytes,
            known[1] if segment_ms is None else segment_ms,
        )
        self._executor.configure(partition)

    @property
    def rollover(self) -> limits.Rollover:
        return self._executor.rollover

    @rollover.setter
    def rollover(self, rollover: limits.Rollover) -> None:
        # read once for each append, in whatever thread
        self._executor.rollover = rollover

    def stats(self) -> StoreStats:
        return StoreStats(
            self._writer.commits,
            self._groups,
            self._bytes,
            self._syncs + self._checkpointer.syncs,
            self._sync_seconds + self._checkpointer.sync_seconds,
            self._cache.used,
            self._reader.hits,
            self._reader.misses,
            self._executor.open_files + self._reader.open_files,
            self._writer.inline_groups,
            self._writer.threaded_groups,
        )

    @step("checkpoint.forgotten")
    def forget_idle(self) -> None:
        """Drop the references to logs that have nothing in the queue and nothing in the tail cache. A log that has
        other holders stays alive, and is used again when it is asked for or written to.
        """
        if len(self._logs) <= KEPT_LOGS or not self._writer.idle:
            return
        for partition, each in list(self._logs.items()):
            if not each.tail.blocks:
                self._idle[partition] = each
                del self._logs[partition]

    async def checkpoint(self) -> None:
        """Sync what was written so far, so that a start after a crash need not look at it.

        Raises StoreError.
        """
        await self._checkpointer.run()

    @step("stop.close", "stop.closed")
    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._writer.drained()
        try:
            if not self.read_only:
                await self._checkpointer.close()
        except StoreError as error:
            log.warning("the last checkpoint did not happen, the next start checks more: %s", error)
        finally:
            await self._writer.stop()
            self._reader.close()
            self._executor.close()
            self._behind.close()
            for each in (*self._logs.values(), *self._idle.values()):
                each.stale = True
            self._logs.clear()
            self._idle.clear()
            self._mark.close()
            self._database.close()


def _awaited(loop: asyncio.AbstractEventLoop) -> tuple[asyncio.Future[None], Callable[[Outcome], None]]:
    """A future, and the `done` that settles it."""
    future: asyncio.Future[None] = loop.create_future()

    def done(outcome: Outcome) -> None:
        if future.done():
            return
        if outcome is None:
            future.set_result(None)
        else:
            future.set_exception(outcome)

    return future, done
