"""What is lent to be read in a thread: the bytes of a read, checked where they may have come from a disk."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from store import batch, rocksdb
from store.api import Append, Corrupt, DropLog, Durability, StoreError
from store.rocksdb.files import Files
from tests.store.making import soon
from tests.store.rocksdb.regions import (
    BATCHES,
    LEAST,
    MIB,
    NOWAIT,
    damage,
    lent,
    made,
    nothing_in_memory,
    open_segments,
    read_at_last,
    read_in,
    stored,
)

pytestmark = NOWAIT


def test_what_is_lent_are_the_bytes_of_a_read(tmp_path: Path) -> None:
    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        log = store.log(1)
        descriptors = open_segments()
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
        assert open_segments() <= descriptors + 1, "one is kept open to read"
        assert await soon(log.lend(0, 200_000, whole_first=False, least=LEAST))
        for offset in (-1, BATCHES + 1):
            with pytest.raises(IndexError):
                await soon(log.lend(offset, MIB, least=LEAST))
        await store.close()

    asyncio.run(main())


def test_what_is_not_known_to_be_right_is_checked_by_who_reads_it(tmp_path: Path, checked: list[int]) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        await store.close()
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        checked.clear()
        first = await soon(log.lend(0, MIB, least=LEAST))
        assert not checked, "not on the loop"
        assert read_in(first) == data
        assert len(checked) == BATCHES
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        assert len(checked) == BATCHES, "once"
        await store.close()

    asyncio.run(main())


def test_damage_is_told_by_a_read_and_not_sent(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        await store.close()
        damage(tmp_path / "data")
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        piece = await stored(log, 0, MIB)
        for wait in (False, True):
            assert not piece.read_into(memoryview(bytearray(len(piece))), wait=wait)
        piece.release()
        found = read_in(await soon(log.read(0, MIB)))
        assert found == data[: len(found)]
        assert 400_000 < len(found) < 500_000
        with pytest.raises(Corrupt):
            await soon(log.read(BATCHES // 2 - 1, MIB))
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("wait", [False, True])
def test_of_the_last_batch_that_is_cut_off_nobody_makes_anything(tmp_path: Path, wait: bool) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        await store.close()
        size = len(data) // BATCHES
        # of its end the answer has nothing; of its begin, the byte is its own
        damage(tmp_path / "data", 20 * size + 500)
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        for rest in (0, 1, 60, 61, 600, size - 1):
            piece = await stored(log, 0, 20 * size + rest)
            into = memoryview(bytearray(len(piece)))
            assert read_at_last(piece, into, wait=wait)
            piece.release()
            assert into[: 20 * size] == data[: 20 * size]
        piece = await stored(log, 0, 21 * size)
        assert not piece.read_into(memoryview(bytearray(len(piece))), wait=wait), (
            "whole: clients would read it"
        )
        piece.release()
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("at", [7, 11, 16, 17, 26], ids=["base", "length", "magic", "crc", "delta"])
def test_a_damaged_header_is_not_sent(tmp_path: Path, at: int) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        await store.close()
        size = len(data) // BATCHES
        damage(tmp_path / "data", 20 * size + at)
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        piece = await stored(store.log(1), 0, MIB)
        assert not piece.read_into(memoryview(bytearray(len(piece))))
        piece.release()
        await store.close()

    asyncio.run(main())


def test_what_the_page_cache_has_let_go_of_is_waited_for_only_if_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: list[int]
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        piece = await stored(log, 0, MIB)
        into = memoryview(bytearray(len(piece)))
        checked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", nothing_in_memory)
            assert not piece.read_into(into)
        assert not checked
        assert piece.read_into(into, wait=True)
        assert into == data
        assert len(checked) == BATCHES, "it came from the disk"
        piece.release()
        piece.release()
        checked.clear()
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        assert not checked, "known to be right again"
        await store.close()

    asyncio.run(main())


def test_a_file_that_ends_before_is_not_sent(tmp_path: Path) -> None:
    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        piece = await stored(store.log(1), 0, MIB)
        (path,) = (tmp_path / "data").rglob("*.seg")
        os.truncate(path, 900_000)
        into = memoryview(bytearray(len(piece)))
        assert not piece.read_into(into)
        assert not piece.read_into(into, wait=True)
        piece.release()
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


def test_without_descriptors_nothing_is_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(self: Files, *_: int) -> int:
        raise OSError(24, "Too many open files")

    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        piece = await stored(log, 0, MIB)
        (path,) = (tmp_path / "data").rglob("*.seg")
        name = Files.parse(path.name)
        assert name is not None
        store._reader.forget(1, name[2])
        with monkeypatch.context() as patch:
            patch.setattr(Files, "open_to_read", none_left)
            with pytest.raises(StoreError, match="too many open files"):
                await soon(log.lend(0, MIB, least=LEAST))
            assert read_in([piece]) == data, "it has its own"
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        await store.close()

    asyncio.run(main())


def test_what_is_forgotten_comes_back(tmp_path: Path) -> None:
    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        log = store.log(1)
        descriptors = open_segments()
        await stored(log, 0, MIB)
        (path,) = (tmp_path / "data").rglob("*.seg")
        name = Files.parse(path.name)
        assert name is not None
        store._reader.forget(1, name[2])
        (await stored(log, 0, MIB)).release()
        assert open_segments() == descriptors
        await store.close()

    asyncio.run(main())


def test_a_file_that_is_lent_is_closed_when_it_comes_back(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        await store.close()
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0, open_files=16)
        big = batch.build(0, os.urandom(200_000), timestamp=1)
        for each in range(2, 40):
            await store.write([Append(each, 0, 1, 1, [big])], Durability.OS)
        log = store.log(1)
        first, second = await stored(log, 0, MIB), await stored(log, 0, MIB)
        descriptors = open_segments()
        pieces = [await soon(store.log(each).lend(0, MIB, least=LEAST)) for each in range(2, 40)]
        assert [lent(each) for each in pieces] == [True] * 22 + [False] * 16, "16 open, and 8 to be closed"
        assert read_in([first]) == data
        assert read_in([second]) == data
        for found in pieces:
            assert read_in(found) == big
        assert open_segments() < descriptors + 16
        assert lent(await soon(log.lend(0, MIB, least=LEAST))), "what came back can be lent again"
        await store.close()

    asyncio.run(main())
