"""What can be set when a store is opened. Sizes in bytes, times in seconds."""

from __future__ import annotations

import resource
from dataclasses import dataclass, field

MEGABYTE = 1 << 20


def _open_files() -> int:
    """A share of what the process may open: the rest is for RocksDB and for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(1024, soft // 8)) if soft != resource.RLIM_INFINITY else 1024


@dataclass(frozen=True, slots=True)
class Options:
    """Defaults are measured; see `store/README.md`."""

    tail_cache_bytes: int = 64 * MEGABYTE
    # of large streams, left in the system's page cache (see write_behind.py); None: as the machine has memory
    page_cache_bytes: int | None = None
    block_cache_bytes: int = 64 * MEGABYTE
    # segments kept open, for writing and again for reading; half as many may be lent
    open_files: int = field(default_factory=_open_files)
    # files that RocksDB keeps open; it takes 20 at least
    table_files: int = 256
    # Small values in many families: small memtables, and a WAL that can be replayed in about a second.
    memtable_bytes: int = 16 * MEGABYTE
    wal_bytes: int = 128 * MEGABYTE
    # The journal's rows live until the next checkpoint and should die in its memtable, so that one is larger. It gets
    # this size when the database is open. RocksDB does not try to go on after a full disk until as much is free as the
    # largest memtable had at the opening, and a gateway on a small disk should not wait for more than it needs.
    journal_memtable_bytes: int = 64 * MEGABYTE
    # up to here all of a group's synced payload goes into the journal; above, the largest log syncs its segment
    journal_bytes: int = 128 * 1024
    # a log with more than this in one group syncs its own segment, whatever the others do
    journal_log_bytes: int = MEGABYTE
    # a group up to this is written on the loop
    inline_bytes: int = 256 * 1024
    # a write that took longer sends the next ones to the thread ...
    slow_seconds: float = 0.010
    # ... for so long
    thread_seconds: float = 0.05
    # a checkpoint begins when one of these is reached; recovery after a crash reads no more than this
    checkpoint_bytes: int = 512 * MEGABYTE
    checkpoint_batches: int = 250_000
    checkpoint_journal_bytes: int = 32 * MEGABYTE
    checkpoint_seconds: float = 30.0
    # and not before this long after the last one, unless the journal grows
    checkpoint_pause: float = 2.0
    # files that others replaced stay for so long: a read that had begun may still open them
    replaced_seconds: float = 60.0
