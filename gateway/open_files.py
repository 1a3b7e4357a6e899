"""How many files this process may have open: each connection is one, and so is each segment that is read."""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("magnetar.open_files")

MOST = 1_048_576
"""What the limit is raised to at most: some systems reserve memory for each that might be."""

KEPT = 512
"""Files that connections leave to everything else: the store's, the listeners, HTTP."""

FEWEST = 16
"""Connections that a listener takes however low the limit is."""


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


def room_for_connections() -> int:
    """How many connections a listener may take without using up the files of everything else."""
    try:
        import resource
    except ImportError:
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(FEWEST, soft - KEPT)
