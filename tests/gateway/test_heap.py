"""What large requests use stays with the process."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
from unittest import mock

import pytest

from gateway import heap, server

ROUNDS = """
import resource
from gateway import heap
heap.keep()
def work():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        blocks = [bytearray(1 << 20) for _ in range(8)]
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
work()
print(work())
"""
GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
SET_BY_HAND = ("GLIBC_TUNABLES", "MALLOC_")


def pages_taken(**more: str) -> int:
    """Fresh pages for 400 blocks of a megabyte, eight at a time, in a process that has warmed up."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(SET_BY_HAND)}
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS], env=environment | more, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@GLIBC
def test_blocks_of_a_megabyte_are_used_again() -> None:
    assert pages_taken() < 2048, "eight of them are 2,048 pages; without it there were 25,000 and more"


@GLIBC
def test_who_starts_the_process_may_decide_otherwise() -> None:
    assert pages_taken(MALLOC_TRIM_THRESHOLD_="0") > 20_000
    assert pages_taken(GLIBC_TUNABLES="glibc.malloc.mmap_threshold=65536") > 20_000


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    heap.keep()


def test_a_gateway_begins_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Begun(Exception):
        pass

    monkeypatch.setattr(heap, "keep", mock.Mock(side_effect=Begun))
    with pytest.raises(Begun):
        asyncio.run(server.run(mock.Mock(), print))
