"""How many files this process may have open: each connection is one, and so is each segment that is read."""

from __future__ import annotations

import logging
import sys
from typing import NamedTuple

log = logging.getLogger("magnetar.open_files")

MOST = 1_048_576
"""What the limit is raised to at most: some systems reserve memory for each that might be."""

LEAST = 128
"""A limit below this is too low to serve anybody."""

FIXED = 64
"""Files that are open in any case, and those that are open for a moment: the process' own, the listeners, RocksDB's
logs and its handles of folders (30), segments that a checkpoint or a read from the disk opens.
"""


class Shares(NamedTuple):
    """Who may have how many files open. Together with `FIXED` they are the limit: RocksDB, which opens files when it
    likes to, never recovers from one that could not be opened.
    """

    connections: int
    """of Kafka clients, over all listeners"""
    http: int
    """connections of HTTP clients"""
    segments: int
    """held open for writing, and as many for reading; half as many are lent to the threads that send"""
    tables: int
    """of RocksDB"""


def shares() -> Shares:
    """What the limit, as it is now, leaves to each."""
    soft = _limit()
    if soft is None:
        return Shares(sys.maxsize, 256, 1024, 256)
    rest = max(soft, LEAST) - FIXED
    http, segments = min(256, rest // 8), min(1024, rest // 16)
    # RocksDB takes 20 if it gets less
    tables = max(20, min(256, rest // 8))
    return Shares(rest - http - 2 * segments - segments // 2 - tables, http, segments, tables)


def too_few() -> str:
    """Why the gateway cannot start with a limit this low, or ""."""
    soft = _limit()
    if soft is None or soft >= LEAST:
        return ""
    return (
        f"This process may have {soft} files open, and needs {LEAST} at least: raise the hard limit (ulimit -Hn, or "
        "LimitNOFILE= of the service)."
    )


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as every process may. Leaves it where that is not possible."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        # macOS says so of more than its kernel allows one process
        log.debug("the limit of open files stays at %d: %s", soft, error)


def _limit() -> int | None:
    """The soft limit, None where there is none."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
