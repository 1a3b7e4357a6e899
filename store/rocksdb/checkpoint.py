"""Checkpoints: segments are synced, then the rows that recovery would need for them go, then files nobody needs.

A checkpoint bounds what a start after a crash must look at, and ends the life of journal rows (as
BookKeeper's does of its journal files). It runs beside the commits: only its begin and its end take a place
in their queue.

A file is unlinked only when the commit that made it needless is on disk: else a power cut could bring back a log
start whose segment is gone.

A segment whose sync failed is never synced again: the system may have dropped the bytes and forgotten that it
did. A new file is begun for its log, and the rows that recovery needs stay until the next start, which checks
the bytes and writes them anew from the journal.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from store.api import Delete, DeleteRange, Durability, Family, Outcome, Put, StoreError, Write
from store.rocksdb import rows
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.group_commit import Executor
from store.rocksdb.options import Options
from store.rocksdb.unsynced import File, Snapshot
from store.rocksdb.writer import Writer
from store.steps import step

log = logging.getLogger("magnetar.store")


class CheckpointedStore(Protocol):
    """The store that it belongs to."""

    @property
    def epoch(self) -> int: ...

    @property
    def notices(self) -> list[str]:
        """What its operator must know."""
        ...

    async def write_own(self, writes: Sequence[Write], durability: Durability) -> None:
        """Rows of the store itself: also while it is being closed."""
        ...

    def forget_idle(self) -> None:
        """Let go of logs that nobody uses."""
        ...


class Checkpointer:
    """Decides when, and does it. On the loop but for `_sync`."""

    def __init__(
        self,
        store: CheckpointedStore,
        executor: Executor,
        writer: Writer,
        database: Database,
        files: Files,
        options: Options,
    ) -> None:
        self._store = store
        self._executor = executor
        self._writer = writer
        self._database = database
        self._files = files
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None
        # seconds until the next one when files are to go: it grows while they fail
        self._patience = options.checkpoint_pause
        self._closing = False
        self._last = self._loop.time()
        self._pool: ThreadPoolExecutor | None = None
        # files to unlink: (partition, base offset, segment number)
        self._doomed: list[tuple[int, int, int]] = []
        # those that are gone: their DOOMED rows may go too
        self._unlinked: list[tuple[int, int, int]] = []
        self.syncs = 0
        self.sync_seconds = 0.0
        self.checkpoints = 0

    # when

    def grown(self) -> None:
        """After every group."""
        unsynced, options = self._executor.unsynced, self._options
        if self._running is not None or self._closing:
            return
        if unsynced.journal_bytes >= options.checkpoint_journal_bytes:
            self._begin()
        elif unsynced.bytes >= options.checkpoint_bytes or unsynced.batches >= options.checkpoint_batches:
            if self._loop.time() - self._last >= options.checkpoint_pause:
                self._begin()
        elif self._timer is None and unsynced.files:
            self._timer = self._loop.call_later(options.checkpoint_seconds, self._begin)

    def doom(self, files: list[tuple[int, int, int]]) -> None:
        """Files to unlink after the next checkpoint, which comes soon: somebody wants the space."""
        if not self._doomed and self._running is None:
            self._begin_in(self._options.checkpoint_pause)
        self._doomed += files

    def _begin_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._closing:
            self._timer = self._loop.call_later(seconds, self._begin)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running is None and not self._closing:
            self._running = self._loop.create_task(self._run_and_log())

    async def _run_and_log(self) -> None:
        options = self._options
        try:
            await self._checkpoint()
            self._patience = options.checkpoint_pause
        except StoreError as error:
            log.warning("a checkpoint did not happen: %s", error)
            self._patience = min(2 * self._patience, options.checkpoint_seconds)
        finally:
            self._running = None
            if self._doomed:
                # learnt meanwhile, or left by what failed
                self._begin_in(self._patience)

    async def run(self) -> None:
        """A checkpoint now. Raises StoreError."""
        while self._running is not None:
            await asyncio.wait([self._running])
        await self._checkpoint()

    # what

    @step("checkpoint.begins")
    async def _checkpoint(self) -> None:
        self._last = self._loop.time()
        self.checkpoints += 1
        taken: list[Snapshot] = []
        await self._between_groups(lambda: taken.append(self._executor.checkpoint()))
        snapshot = taken[0]
        failed = await self.sync_files(snapshot.files)

        def settle() -> None:
            self._executor.failed(failed)
            self._executor.unsynced.synced(snapshot)

        await self._between_groups(settle)
        doomed, self._doomed = self._doomed, []
        gone, self._unlinked = self._unlinked, []
        try:
            await self._store.write_own([*self._forget(snapshot), *_forget_files(gone)], Durability.FSYNC)
        except BaseException:
            self._doomed, self._unlinked = doomed + self._doomed, gone + self._unlinked
            raise
        self._store.forget_idle()
        if doomed:
            self._unlinked += await self._loop.run_in_executor(self._thread(), self._unlink, doomed)

    async def sync_files(self, files: Mapping[File, bool]) -> list[File]:
        """Sync files in the thread, (is it new) by file. Answers those that failed, of which operators are told: the
        caller has the executor know of them.
        """
        failed = await self._loop.run_in_executor(self._thread(), self._sync, files)
        for partition, base, _ in failed:
            text = (
                f"Syncing the segment of log {partition} that begins at offset {base} failed; a new one is begun. "
                f"Its last bytes may not survive a power cut: look at the disk, then start Magnetar anew."
            )
            log.error("%s", text)
            self._store.notices.append(text)
        return failed

    def _thread(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="store-sync")
        return self._pool

    @step("checkpoint.forget")
    def _forget(self, snapshot: Snapshot) -> list[Write]:
        """Rows that recovery needs no more."""
        writes: list[Write] = []
        kept: list[bytes] = []
        end = rows.JOURNAL_KEY.pack(snapshot.group + 1, 0, 0)
        pinned = {(partition, number) for partition, _, number in self._executor.unsynced.failed}
        if pinned:
            writes += self._pin(snapshot, {partition for partition, _ in pinned})
            for key, value in self._database.scan(Family.JOURNAL):
                if key >= end:
                    break
                partition = rows.JOURNAL_KEY.unpack(key)[1]
                if (partition, rows.journal_head(value).number) in pinned:
                    kept.append(key)
        start = b""
        for key in kept:
            writes.append(DeleteRange(Family.JOURNAL, start, key))
            start = key + b"\0"
        writes.append(DeleteRange(Family.JOURNAL, start, end))
        writes.append(
            DeleteRange(
                Family.TOUCHED, rows.TOUCHED_KEY.pack(1, 0), rows.TOUCHED_KEY.pack(snapshot.generation + 1, 0)
            )
        )
        return writes

    def _pin(self, snapshot: Snapshot, partitions: set[int]) -> list[Write]:
        """Keep where to begin to check a log with a failed sync: under generation 0, which no checkpoint
        deletes.
        """
        writes: list[Write] = []
        done: set[int] = set()
        for key, value in self._database.scan(Family.TOUCHED):
            generation, partition = rows.TOUCHED_KEY.unpack(key)
            if partition in partitions and partition not in done and generation <= snapshot.generation:
                done.add(partition)
                writes.append(Put(Family.TOUCHED, rows.TOUCHED_KEY.pack(0, partition), value))
        return writes

    async def _between_groups(self, work: Callable[[], None]) -> None:
        future: asyncio.Future[None] = self._loop.create_future()

        def done(outcome: Outcome) -> None:
            if outcome is None:
                future.set_result(None)
            else:
                future.set_exception(outcome)

        self._writer.task(work, done)
        await future

    @step(after="checkpoint.synced", inside="checkpoint")
    def _sync(self, files: Mapping[File, bool]) -> list[File]:
        """In a thread: sync every file, then the folders of the new ones. Answers the files that failed."""
        failed: list[tuple[int, int, int]] = []
        folders: dict[int, tuple[int, int, int]] = {}
        for key, new in files.items():
            if key in self._executor.unsynced.failed:
                continue
            began = time.perf_counter()
            try:
                descriptor = self._files.open(*key, write=True)
            except FileNotFoundError:
                # trimmed or dropped in the meantime
                continue
            except OSError:
                failed.append(key)
                continue
            try:
                self._files.sync(descriptor)
            except OSError:
                failed.append(key)
            finally:
                self._files.close(descriptor)
            if new:
                folders[key[0] >> 8] = key
            self.syncs += 1
            self.sync_seconds += time.perf_counter() - began
        for key in folders.values():
            try:
                self._files.sync_folder(key[0])
            except OSError:
                failed.append(key)
        return failed

    @step("unlink.before", "unlink.after", inside="unlink")
    def _unlink(self, doomed: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """In a thread. Answers those that are gone for good; the next start tries the others.

        A removal that is not synced may be undone by a power cut, and then no row would speak of the file.
        """
        gone: list[tuple[int, int, int]] = []
        for key in doomed:
            try:
                self._files.unlink(*key)
                gone.append(key)
            except OSError as error:
                log.warning("a segment of log %d could not be removed: %s", key[0], error)
        for folder in {key[0] >> 8 for key in gone}:
            try:
                self._files.sync_folder(folder << 8)
            except OSError as error:
                log.warning("a folder of segments could not be synced: %s", error)
                gone = [key for key in gone if key[0] >> 8 != folder]
        return gone

    async def close(self) -> None:
        """The last checkpoint, and the mark of a clean shutdown: the next start need not check anything."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        while self._running is not None:
            await asyncio.wait([self._running])
        try:
            await self._last_checkpoint()
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=True)

    @step("stop.checkpoint")
    async def _last_checkpoint(self) -> None:
        await self._checkpoint()
        if self._executor.unsynced.failed or self._executor.suspect:
            return
        await self._mark_clean()

    @step("stop.clean")
    async def _mark_clean(self) -> None:
        await self._store.write_own(
            [Put(Family.META, rows.CLEAN, str(self._store.epoch).encode()), *_forget_files(self._unlinked)],
            Durability.FSYNC,
        )


def _forget_files(gone: list[tuple[int, int, int]]) -> list[Write]:
    return [
        Delete(Family.DOOMED, rows.PARTITION_U32.pack(partition, number)) for partition, _, number in gone
    ]
