"""Logs are made durable when somebody asks for it, long before the checkpoint that would do it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from store.api import Family, Outcome, StoreError
from store.pending import Pending
from store.rocksdb import rows
from store.rocksdb.checkpoint import Checkpointer
from store.rocksdb.database import Database
from store.rocksdb.group_commit import Executor
from store.rocksdb.unsynced import File
from store.rocksdb.writer import Writer

FAILED = "A segment of this log could not be synced; look at the disk, then start Magnetar anew."


class Syncing:
    """See `Store.sync`. Bytes are synced in the checkpoint's thread: of a sync that failed whoever comes next would not
    learn, so both have one after the other, and ask what failed meanwhile.
    """

    def __init__(
        self, executor: Executor, writer: Writer, database: Database, checkpointer: Checkpointer
    ) -> None:
        self._executor = executor
        self._writer = writer
        self._database = database
        self._checkpointer = checkpointer
        # log -> the offset from which on all is on disk that was there when the store was opened
        self._found: dict[int, int] = {}

    def sync(self, wanted: Sequence[tuple[int, int]]) -> Pending[None]:
        """(log, offset) for each log. Raises StoreError."""
        if self._writer.idle and not self._files(wanted):
            return None
        return self._sync(wanted)

    async def _sync(self, wanted: Sequence[tuple[int, int]]) -> None:
        files: dict[File, bool] = {}
        await self._between_groups(lambda: files.update(self._files(wanted)))
        if not files:
            return
        failed = await self._checkpointer.sync_files(files)
        # also what a checkpoint or a group found: it may have been told in our place
        await self._between_groups(lambda: self._settle(files, failed))
        for partition, offset in wanted:
            self._found[partition] = min(offset, self._found.get(partition, offset))

    def _files(self, wanted: Sequence[tuple[int, int]]) -> dict[File, bool]:
        """What is to be synced, and whether it is new. Raises StoreError."""
        unsynced = self._executor.unsynced
        found: dict[File, bool] = {}
        for partition, offset in wanted:
            for base, number in unsynced.of_logs.get(partition, ()):
                found[partition, base, number] = (partition, base, number) in unsynced.unnamed
            if self._found.get(partition, offset + 1) > offset:
                for file in self._stored(partition, offset):
                    found.setdefault(file, True)
        if any(file in unsynced.failed for file in found):
            raise StoreError(FAILED)
        return found

    def _stored(self, partition: int, offset: int) -> list[File]:
        """The segments of a log that have an offset or what is behind it."""
        key = rows.U32.pack(partition)
        value = self._database.get(Family.LOG, key)
        if value is None:
            return []
        row = rows.log_row(value)
        found = [(partition, row.segment_base, row.number)] if row.flags & rows.ACTIVE else []
        for at, closed in self._database.scan(Family.SEGMENT, key):
            segment = rows.segment_row(closed)
            if segment.next_offset > offset:
                found.append((partition, rows.PARTITION_OFFSET.unpack(at)[1], segment.number))
        return found

    def _settle(self, files: dict[File, bool], failed: list[File]) -> None:
        self._executor.failed(failed)
        unsynced = self._executor.unsynced
        if any(file in unsynced.failed for file in files):
            raise StoreError(FAILED)
        unsynced.unnamed.difference_update(files)

    async def _between_groups(self, work: Callable[[], None]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if future.done():
                return
            if outcome is None:
                future.set_result(None)
            else:
                future.set_exception(outcome)

        self._writer.task(work, done)
        await future
