"""How much freed memory the C library keeps for the process.

glibc gives the end of its heap back to the system as soon as two of the largest blocks are free there. A gateway takes
and frees blocks of a megabyte all the time, one for each large fetch and each large produce request: each then came
as fresh pages, and the system cleared them one by one. That took longer than reading and sending such a block.
"""

from __future__ import annotations

import ctypes
import os

KEPT = 32 << 20
"""Bytes that stay at the end of a heap when they are free. There is one heap, and a small one for each busy thread."""

OWN = 8 << 20
"""Blocks from this size on have a mapping of their own, which goes back to the system when they are freed."""

_BY_HAND = (
    "GLIBC_TUNABLES",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_MAX_",
)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep() -> None:
    """Have glibc keep what large requests use again and again.

    Does nothing where there is no glibc, and when whoever started the process has decided in the environment.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _BY_HAND):
        return
    mallopt(_M_MMAP_THRESHOLD, OWN)
    mallopt(_M_TRIM_THRESHOLD, KEPT)


def warm() -> None:
    """Have glibc take the blocks that TLS is read into, of 256 KiB, from its heap. By default it maps each of them anew
    until one larger block was freed, which makes a small request over TLS seven times as dear. After `keep` nothing
    changes.
    """
    block = bytes(4 << 20)
    del block
