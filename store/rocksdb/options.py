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
    # of large streams, left in the system's page cache (see behind.py); None: as the machine has memory
    page_cache_bytes: int | None = None
    block_cache_bytes: int = 64 * MEGABYTE
    # segments kept open, for writing and again for reading; half as many may be lent
    open_files: int = field(default_factory=_open_files)
    # files that RocksDB keeps open; it takes 20 at least
    table_files: int = 256
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
