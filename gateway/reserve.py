"""Space kept aside in the data folder, for the start after a disk has run full.

A store that opens writes a little: a new log of its database, the number of its epoch. On a full disk it cannot,
and whoever would delete a topic to make room needs a gateway for that. So a file of 8 MiB lies in the folder while
there is plenty of space. When opening fails for want of space it is given up, and opening is tried once more; the
first start with plenty of space makes a new one.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

NAME = "reserve"
SIZE = 8 * 1024 * 1024
PLENTY = 64 * 1024 * 1024
"""Bytes that must be free before 8 MiB of them are put aside."""


def keep(folder: Path) -> bool:
    """Make the reserve unless it is there. True when it is there now. May block: not for the event loop.

    Never raises OSError: a gateway without a reserve serves as well.
    """
    path = folder / NAME
    try:
        if _is_whole(path):
            return True
        if shutil.disk_usage(folder).free <= PLENTY:
            return False
        with open(path, "wb") as file:
            _allocate(file.fileno())
    except OSError:
        give_up(folder)
        return False
    return True


def give_up(folder: Path) -> bool:
    """Free the reserve's space. True when there was something to free."""
    try:
        (folder / NAME).unlink()
    except OSError:
        return False
    return True


def _is_whole(path: Path) -> bool:
    """Whether the file has all of its size: one whose making was cut short has not."""
    try:
        return path.stat().st_size >= SIZE
    except FileNotFoundError:
        return False


def _allocate(descriptor: int) -> None:
    """Give the file its size in blocks of its own. A file with a hole would keep no space aside."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, SIZE)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
    zeros = bytes(1024 * 1024)
    written = 0
    while written < SIZE:
        written += os.write(descriptor, zeros[: SIZE - written])
