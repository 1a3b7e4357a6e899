"""System calls on segments: what they bring into the page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from store.rocksdb.files import Files

MIB = 1 << 20
PAGE = mmap.PAGESIZE


def in_memory(descriptor: int, size: int) -> set[int]:
    """Which pages of a file are in the page cache. To ask brings none in, as a read that must not wait may."""
    mincore = ctypes.CDLL(None, use_errno=True).mincore
    mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    found = ctypes.create_string_buffer(size // PAGE)
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        answer = mincore(ctypes.addressof(first), size, found)
        del first
    assert answer == 0, os.strerror(ctypes.get_errno())
    return {number for number, byte in enumerate(found.raw) if byte & 1}


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system does not say what is in memory")
def test_a_read_brings_no_page_that_was_not_asked_for(tmp_path: Path) -> None:
    """What came unasked would be found in memory, and pass for what this process has written."""
    files = Files(tmp_path)
    descriptor, number = files.create(1, 0, 0)
    files.write(descriptor, [os.urandom(16 * MIB)], 0)
    files.sync(descriptor)
    files.give_back(descriptor, 0, 16 * MIB)
    reading = files.open_to_read(1, 0, number)
    try:
        before = in_memory(reading, 16 * MIB)
        if len(before) > 8 * MIB // PAGE:
            pytest.skip("this file system keeps everything in memory, or does not say")
        for nth in range(4):
            files.read(reading, MIB, (4 + nth) * MIB)
        asked = set(range(4 * MIB // PAGE, 8 * MIB // PAGE))
        after = in_memory(reading, 16 * MIB)
        assert after >= asked
        assert after - before <= asked
    finally:
        files.close(reading)
        files.close(descriptor)
