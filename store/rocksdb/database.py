"""RocksDB behind a small door: how it is opened, and its errors in plain words.

Facts about rocksdict that shape this file: raw mode takes `bytes` only; a WriteBatch is used up by `write`,
also when it fails; iterate bounds are broken (`set_iterate_upper_bound` keeps a dangling pointer), so scans
are bounded by a fixed prefix extractor or by looking at the key; an iterator that is alive keeps the folder's
lock after `close`, so none leaves this file. The GIL is held in all calls but `flush` and `flush_wal`.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    SliceTransform,
    WriteBatch,
    WriteOptions,
)

from store.api import DiskFull, Family, Locked, Refused, StoreError, Unknown
from store.rocksdb import options as of_store
from store.steps import step

PREFIXES = {
    Family.SEGMENT: 4,
    Family.INDEX: 4,
    Family.LEDGER: 4,
    Family.EPOCH: 4,
    Family.DEDUP: 4,
    Family.ABORTED: 4,
    Family.LETTER: 4,
    Family.CURSOR: 4,
    Family.ACK: 8,
    Family.COUNT: 8,
    Family.DUE: 4,
    Family.LANE: 8,
}
"""Bytes of the fixed prefix by family: scans within one prefix end there, whatever was deleted behind it."""

log = logging.getLogger("magnetar.store")

_CHUNK = 2000

SETTLE_SECONDS = 2.0
"""After a failure `settle` is not tried again sooner. RocksDB looks every five seconds whether a full disk has space
again, and never gets to it while somebody asks it to flush without a pause.
"""


def _options(cache: Cache, given: of_store.Options, family: Family | None = None) -> Options:
    """Of one family, or of the whole database."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(given.memtable_bytes)
    options.set_max_write_buffer_number(4)
    options.set_max_total_wal_size(given.wal_bytes)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(4 << 20)
    options.set_recycle_log_file_num(0)
    options.set_max_background_jobs(2)
    options.set_max_file_opening_threads(1)
    options.set_max_open_files(given.table_files)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_skip_stats_update_on_db_open(True)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_compression_type(
        DBCompressionType.none() if family is Family.JOURNAL else DBCompressionType.lz4()
    )
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    if family in PREFIXES:
        options.set_prefix_extractor(SliceTransform.create_fixed_prefix(PREFIXES[family]))
    return options


def plain(error: Exception, doing: str) -> StoreError:
    """What RocksDB or the system said, as a `StoreError` with one sentence.

    `doing` is e.g. "write to DIR".
    """
    text = str(error)
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOSPC or "No space left" in text or "Disk quota exceeded" in text:
        return DiskFull(f"Cannot {doing}: no space is left on the device; free some and try again.")
    if number in (errno.EMFILE, errno.ENFILE) or "Too many open files" in text:
        return Refused(f"Cannot {doing}: too many files are open; raise the limit with ulimit -n.")
    if (
        number in (errno.EACCES, errno.EPERM, errno.EROFS)
        or "Permission denied" in text
        or "Read-only" in text
    ):
        return Refused(f"Cannot {doing}: the folder is read-only or belongs to another user.")
    if isinstance(error, OSError) and error.errno:
        text = os.strerror(error.errno) + (f" ({error.filename})" if error.filename else "")
    return Unknown(f"Cannot {doing}: {text.rstrip('.')}.")


def _cannot_open(error: Exception, path: Path) -> StoreError:
    text = str(error)
    if "LOCK" in text and ("temporarily unavailable" in text or "lock hold by current process" in text):
        return Locked(
            f"The data folder {path} is in use by another process; stop that one, or choose another folder."
        )
    if "Corruption" in text:
        return StoreError(
            f"The database in {path} is damaged ({text.removeprefix('Corruption: ').rstrip('.')}): bring the folder "
            "back from a copy, or choose another one with --data."
        )
    found = plain(error, f"open the data folder {path}")
    return found if isinstance(found, Refused) else StoreError(str(found))


class _Closed(dict[str, Rdict]):
    """Families of a database that is closed: who still asks for one is told so, not that there is no such family."""

    def __missing__(self, family: str) -> Rdict:
        raise StoreError("The store is closed.")


class Database:
    """The one RocksDB of a store. Everything may be called from any thread; `close` last."""

    def __init__(
        self,
        path: Path,
        options: of_store.Options | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open or create. `now` in seconds. Raises Locked, DiskFull, Refused or StoreError."""
        self.path = path
        given = options or of_store.Options()
        cache = Cache(given.block_cache_bytes)
        families = {str(family): _options(cache, given, family) for family in Family}
        try:
            self._db = Rdict(str(path), _options(cache, given), column_families=families)
        except Exception as error:
            raise _cannot_open(error, path.parent) from error
        self._now = now
        # why the last `settle` failed, and when it was tried
        self._unsettled: StoreError | None = None
        self._tried = 0.0
        self._families: dict[str, Rdict] = {name: self._db.get_column_family(name) for name in families}
        # it holds even when the file that tells of it cannot be written, on a full disk
        with contextlib.suppress(Exception):
            larger = {"write_buffer_size": str(given.journal_memtable_bytes)}
            self._families[Family.JOURNAL].set_options(larger)
        self.handles: dict[str, Any] = {name: self._db.get_column_family_handle(name) for name in families}
        """Column family handles by family, for `WriteBatch.put(key, value, handle)`."""
        self._patient = WriteOptions()
        self._hurried = WriteOptions()
        self._hurried.no_slowdown = True
        self._anywhere = ReadOptions()
        self._anywhere.set_total_order_seek(True)
        self._in_prefix = ReadOptions()
        self._in_prefix.set_prefix_same_as_start(True)

    # writing

    @staticmethod
    def batch() -> WriteBatch:
        return WriteBatch(True)

    @step("writebatch.before", "writebatch.after", within="group")
    @step("start.rows.before", "start.rows.after", within="recovering")
    def write(self, batch: WriteBatch, *, wait: bool = True) -> bool:
        """Apply a batch, not synced. False when RocksDB would have stalled and not `wait`: nothing was
        written.

        Raises Unknown: a batch that failed may or may not come back from the WAL.
        """
        try:
            self._db.write(batch, self._patient if wait else self._hurried)
        except Exception as error:
            if not wait and "Write stall" in str(error):
                return False
            raise Unknown(str(plain(error, f"write to the database in {self.path.parent}"))) from error
        return True

    @step("wal.before", "wal.after", within="group")
    @step(after="start.rows.synced", within="recovering")
    def sync(self) -> None:
        """Put on disk what was written so far. Raises Unknown."""
        try:
            self._db.flush_wal(True)
        except Exception as error:
            raise Unknown(str(plain(error, f"sync the database in {self.path.parent}"))) from error

    def settle(self) -> None:
        """Write all memtables to (synced) tables and begin a new WAL, so that nothing depends on the old one."""
        now = self._now()
        if self._unsettled is not None and now - self._tried < SETTLE_SECONDS:
            raise self._unsettled
        self._tried = now
        try:
            for family in self._families.values():
                family.flush(True)
        except Exception as error:
            self._unsettled = plain(error, f"write to the database in {self.path.parent}")
            raise self._unsettled from error
        self._unsettled = None

    def sequence(self) -> int:
        """Number of the last write: grows with every one, and comes back with them when the database is
        opened.
        """
        return int(self._db.latest_sequence_number())

    # reading

    def get(self, family: Family, key: bytes) -> bytes | None:
        value: bytes | None = self._families[family].get(key)
        return value

    def at_or_before(self, family: Family, key: bytes) -> tuple[bytes, bytes] | None:
        """The row with the largest key <= `key` within the family's prefix."""
        rows = self._families[family].iter(self._in_prefix)
        rows.seek_for_prev(key)
        if not rows.valid():
            return None
        found: tuple[bytes, bytes] = rows.key(), rows.value()
        prefix = PREFIXES[family]
        return found if found[0][:prefix] == key[:prefix] else None

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose key begins with `prefix`, ascending, from `start` on; a chunk at a time."""
        rows = self._families[family]
        fixed = PREFIXES.get(family)
        options = self._in_prefix if fixed is not None and len(prefix) >= fixed else self._anywhere
        key = prefix if start is None or start < prefix else start
        if not key.startswith(prefix):
            return
        left = limit if limit is not None else -1
        while left:
            found: list[tuple[bytes, bytes]] = []
            for row in rows.items(from_key=key, read_opt=options):
                if not row[0].startswith(prefix):
                    break
                found.append(row)
                if len(found) == _CHUNK or len(found) == left:
                    break
            yield from found
            if len(found) < _CHUNK:
                return
            left -= len(found)
            key = found[-1][0] + b"\0"

    @step("stop.database")
    def close(self) -> None:
        """Let go of the folder. Never fails: rows that cannot be put in tables now are in the WAL."""
        self.handles.clear()
        self._families = _Closed()
        try:
            self._db.close()
        except Exception as error:
            found = plain(error, f"write to the database in {self.path.parent}")
            log.warning("the database's log was not made into tables, the next start does it: %s", found)
        # a close that failed let go of nothing
        del self._db
