"""System calls on segments: what they bring into the page cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store.rocksdb.files import Files

MIB = 1 << 20


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
        if files.read_cached(reading, 4096, 12 * MIB) is not None or not files.tells:
            pytest.skip("this file system keeps everything in memory, or does not say")
        for nth in range(4):
            files.read(reading, MIB, (4 + nth) * MIB)
        assert files.read_cached(reading, 4096, 8 * MIB - 4096) is not None
        for position in (*range(0, 4 * MIB, MIB // 4), *range(8 * MIB, 12 * MIB, MIB // 4)):
            assert files.read_cached(reading, 4096, position) is None, position
    finally:
        files.close(reading)
        files.close(descriptor)
