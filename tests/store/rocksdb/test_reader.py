"""What is lent to be read in a thread: the bytes of a read, known to be right, and never from a disk."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c

from store import batch, rocksdb
from store.api import Append, CreateLog, DropLog, Durability, Piece, Stored
from store.rocksdb import check
from store.rocksdb.driver import RocksStore
from store.rocksdb.files import Files
from tests.store.making import soon

BATCHES = 100
MIB = 1 << 20
LEAST = 100_000

pytestmark = pytest.mark.skipif(
    not hasattr(os, "RWF_NOWAIT"), reason="the system does not say what is in memory"
)


async def made(data: Path) -> tuple[RocksStore, bytes]:
    """A log of a megabyte that this process wrote, with no tail cache; its bytes."""
    store = await rocksdb.open(data, tail_cache_bytes=0)
    batches = [batch.build(nth, os.urandom(10_000), timestamp=1) for nth in range(BATCHES)]
    await store.write([CreateLog(1)], Durability.OS)
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
            assert piece.read_into(into)
            piece.release()
            found += into
        else:
            found += piece
    return found


def lent(pieces: Sequence[Piece]) -> bool:
    return any(isinstance(piece, Stored) for piece in pieces)


def test_what_is_lent_are_the_bytes_of_a_read(tmp_path: Path) -> None:
    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        log = store.log(1)
        descriptors = len(os.listdir("/proc/self/fd"))
        for offset, most in [
            (0, 200_000),
            (37, 300_000),
            (37, 10),
            (95, 300_000),
            (BATCHES, MIB),
            (99, 200_000),
        ]:
            pieces = await soon(log.lend(offset, most, least=LEAST))
            assert lent(pieces) == (most > 10 and offset < 90), "small ones are not worth it"
            assert read_in(pieces) == b"".join(await soon(log.read(offset, most)))
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 1, "one is kept open to read"
        assert await soon(log.lend(0, 200_000, whole_first=False, least=LEAST))
        for offset in (-1, BATCHES + 1):
            with pytest.raises(IndexError):
                await soon(log.lend(offset, MIB, least=LEAST))
        await store.close()

    asyncio.run(main())


def test_what_is_not_known_to_be_right_is_checked_and_not_lent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []

    def counted(data: bytes) -> Any:
        checked.append(len(data))
        return crc32c(data)

    monkeypatch.setattr(check, "crc32c", counted)

    async def main() -> None:
        store, data = await made(tmp_path / "data")
        await store.close()
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        checked.clear()
        first = await soon(log.lend(0, MIB, least=LEAST))
        assert not lent(first)
        assert len(checked) == BATCHES
        again = await soon(log.lend(0, MIB, least=LEAST))
        assert lent(again)
        assert len(checked) == BATCHES
        assert read_in(first) == read_in(again) == data
        await store.close()

    asyncio.run(main())


def test_what_the_page_cache_has_let_go_of_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        (piece,) = await soon(log.lend(0, MIB, least=LEAST))
        assert isinstance(piece, Stored)
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", lambda *_: 4096)  # the first page, and no more
            assert not piece.read_into(memoryview(bytearray(len(piece))))
        piece.release()
        piece.release()
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        await store.close()

    asyncio.run(main())


def damage(data: Path) -> None:
    """A byte of the log is another now, in memory too: as if the disk had given it."""
    (path,) = data.rglob("*.seg")
    with path.open("r+b") as file:
        file.seek(500_000)
        byte = file.read(1)
        file.seek(500_000)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("by", ["whom it was lent", "another"])
def test_what_was_not_in_memory_is_checked_when_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    def none(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "not in memory, but the system has begun to read it")

    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        log = store.log(1)
        (piece,) = await soon(log.lend(0, MIB, least=LEAST))
        (other,) = await soon(log.lend(0, MIB, least=LEAST))
        assert isinstance(piece, Stored)
        assert isinstance(other, Stored)
        into = memoryview(bytearray(len(piece)))
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", none)
            if by == "another":
                reading = log.read(0, MIB)
                damage(tmp_path / "data")
                assert len(read_in(await soon(reading))) < 500_000
            else:
                assert not other.read_into(into)
                damage(tmp_path / "data")
        assert not piece.read_into(into), "lent before that"
        found = await soon(log.lend(0, MIB, least=LEAST))
        assert not lent(found)
        assert len(read_in(found)) < 500_000, "up to the damage"
        piece.release()
        other.release()
        await store.close()

    asyncio.run(main())


def test_a_log_may_go_while_its_bytes_are_lent(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        pieces = await soon(store.log(1).lend(0, MIB, least=LEAST))
        await store.write([DropLog(1)], Durability.OS)
        await store.close()
        assert lent(pieces)
        assert read_in(pieces) == data

    asyncio.run(main())


def test_without_descriptors_bytes_are_read_and_not_lent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(self: Files, descriptor: int) -> int:
        raise OSError(24, "Too many open files")

    async def main() -> None:
        store, data = await made(tmp_path / "data")
        monkeypatch.setattr(Files, "copy", none_left)
        pieces = await soon(store.log(1).lend(0, MIB, least=LEAST))
        assert not lent(pieces)
        assert read_in(pieces) == data
        await store.close()

    asyncio.run(main())


def test_no_more_is_lent_than_there_are_files_for(tmp_path: Path) -> None:
    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        await store.close()
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0, open_files=16)
        log = store.log(1)
        await soon(log.lend(0, MIB, least=LEAST))
        pieces = [await soon(log.lend(0, MIB, least=LEAST)) for _ in range(10)]
        assert [lent(each) for each in pieces] == [True] * 8 + [False] * 2
        for each in pieces:
            read_in(each)
        assert lent(await soon(log.lend(0, MIB, least=LEAST))), "what was released can be lent again"
        await store.close()

    asyncio.run(main())
