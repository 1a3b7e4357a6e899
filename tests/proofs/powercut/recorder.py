"""The recorder as a library to preload, and what it recorded as a sequence of events. `shim.c` is the other half."""

from __future__ import annotations

import enum
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("shim.c")
BUILT = Path(__file__).parents[3] / ".cache" / "powercut"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")

_FIRST = 128
"""Where records begin, as in `shim.c`"""
_USED = struct.Struct("<Q")
_HEAD = struct.Struct("<IIiiqqII")


class Kind(enum.IntEnum):
    """As in `shim.c`."""

    OPEN = 1
    CLOSE = 2
    WRITE = 3
    TRUNCATE = 4
    ALLOCATE = 5
    RENAME = 6
    UNLINK = 7
    MKDIR = 8
    LINK = 9
    SYNC_BEGIN = 10
    SYNC_END = 11
    MAP = 12
    MAPPED = 13
    SEND = 14
    FAILED = 15


class Event(NamedTuple):
    """One record. What `a` and `b` are depends on the kind: flags, offset, size, token of a sync, port."""

    kind: Kind
    pid: int
    fd: int
    a: int
    b: int
    first: memoryview
    second: memoryview


def library() -> Path:
    """The compiled shim, made when it is not there yet."""
    name = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    made = BUILT / f"recorder-{name}.so"
    if not made.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        fresh = made.with_suffix(f".{os.getpid()}")
        if shutil.which("gcc") is None:
            raise AssertionError(
                "the recorder is compiled with gcc: install it, e.g. with apt-get install gcc"
            )
        subprocess.run(["gcc", *FLAGS, "-o", str(fresh), str(SOURCE), "-ldl", "-lpthread"], check=True)
        fresh.replace(made)
    return made


def environment(root: Path, log: Path) -> dict[str, str]:
    """Variables that make a process be recorded. `root` must be a real path: no symbolic link in it."""
    return {"LD_PRELOAD": str(library()), "POWERCUT_ROOT": str(root), "POWERCUT_LOG": str(log)}


def events(log: Path) -> list[Event]:
    """Everything that was recorded, by processes that are over. The parts are views into the file, which stays mapped;
    what was not used of it is cut off, so that it can be copied.
    """
    return list(_events(log))


def _events(log: Path) -> Iterator[Event]:
    with log.open("rb+") as file:
        (used,) = _USED.unpack(file.read(8))
        if not used:
            raise AssertionError("nothing was recorded: was the library loaded?")
        file.truncate(used)
        data = memoryview(mmap.mmap(file.fileno(), used, access=mmap.ACCESS_READ))
    at = _FIRST
    while at < used:
        size, kind, pid, fd, a, b, first, second = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size
        yield Event(
            Kind(kind),
            pid,
            fd,
            a,
            b,
            data[begin : begin + first],
            data[begin + first : begin + first + second],
        )
        at += size
