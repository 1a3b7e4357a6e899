"""A log whose large answers are lent, and ways to read what is lent and to damage it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from store import batch, rocksdb
from store.api import Append, Durability, Log, Piece, Stored
from store.rocksdb.driver import RocksStore
from tests.store.making import soon

NOWAIT = pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system does not say what is in memory")

BATCHES = 100


MIB = 1 << 20


LEAST = 100_000


async def made(data: Path) -> tuple[RocksStore, bytes]:
    """A log of a megabyte that this process wrote, with no tail cache; its bytes."""
    store = await rocksdb.open(data, tail_cache_bytes=0)
    batches = [batch.build(nth, os.urandom(10_000), timestamp=1) for nth in range(BATCHES)]
    for nth, each in enumerate(batches):
        await store.write([Append(1, nth, nth + 1, 1, [each])], Durability.OS)
    await soon(store.log(1).read(0, MIB))
    if not store._reader.files.tells:
        pytest.skip("this file system does not say what is in memory")
    return store, b"".join(batches)


def read_in(pieces: Sequence[Piece]) -> bytes:
    """The bytes, lent or not."""
    found = b""
    for piece in pieces:
        if isinstance(piece, Stored):
            into = memoryview(bytearray(len(piece)))
            assert piece.read_into(into, wait=True)
            piece.release()
            found += into
        else:
            found += piece
    return found


def open_segments() -> int:
    """How many segment files this process has open. RocksDB opens and closes its own files when it wants to, and so
    do other threads: they are not counted."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it was closed since
            found += ".seg" in os.readlink(f"/proc/self/fd/{descriptor}")
    return found


def lent(pieces: Sequence[Piece]) -> bool:
    return any(isinstance(piece, Stored) for piece in pieces)


def nothing_in_memory(*_: object) -> int:
    raise BlockingIOError(errno.EAGAIN, "not in memory, but the system has begun to read it")


def damage(data: Path, position: int = 500_000) -> None:
    """A byte of the log is another now, in memory too: as if the disk had given it."""
    (path,) = data.rglob("*.seg")
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 1]))


async def stored(log: Log, offset: int, most: int) -> Stored:
    (piece,) = await soon(log.lend(offset, most, least=LEAST))
    assert isinstance(piece, Stored)
    return piece


def read_at_last(piece: Stored, into: memoryview, wait: bool) -> bool:
    """Whether the piece is read: one that may not wait gets its pages brought in anew.

    A machine that is short of memory lets go of pages between two lines of a test.
    """
    for _ in range(20):
        if piece.read_into(into, wait=wait):
            return True
        piece.read_into(into, wait=True)
    return False
