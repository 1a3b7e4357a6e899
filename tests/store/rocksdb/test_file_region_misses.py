"""What the page cache lost, or others ask the disk for, while bytes are lent: it is checked by whoever reads it."""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from store import batch, rocksdb
from store.api import Append, Durability
from store.rocksdb import check, log_reader
from store.rocksdb.integrity import Trust
from tests.store.making import soon
from tests.store.rocksdb.regions import (
    BATCHES,
    LEAST,
    MIB,
    NOWAIT,
    damage,
    made,
    nothing_in_memory,
    read_in,
    stored,
)

pytestmark = NOWAIT


@pytest.mark.parametrize("by", ["the loop", "another thread"])
def test_what_another_missed_since_it_was_lent_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        piece, right, other = [await stored(log, 0, MIB) for _ in range(3)]
        into = memoryview(bytearray(MIB))[: len(piece)]
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", nothing_in_memory)
            if by == "the loop":
                reading = log.read(0, MIB)
            else:
                assert not other.read_into(into)
        if by == "the loop":
            assert read_in(await soon(reading)) == data
        assert right.read_into(into)
        assert into == data
        damage(tmp_path / "data")
        assert not piece.read_into(into)
        assert not other.read_into(into, wait=True)
        for each in (piece, right, other):
            each.release()
        await store.close()

    asyncio.run(main())


def test_what_another_asks_for_at_the_same_time_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: list[int]
) -> None:
    """To ask is enough for the system to read: it is there before who asked could say that it was not."""
    asks, go_on = threading.Event(), threading.Event()
    preadv = os.preadv

    def slow(*args: Any) -> int:
        if threading.current_thread() is threading.main_thread():
            return preadv(*args)
        asks.set()
        assert go_on.wait(10)
        raise BlockingIOError(errno.EAGAIN, "not in memory")

    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        log = store.log(1)
        piece, before, behind, other = [
            await stored(log, *each) for each in ((20, 400_000), (0, 150_000), (80, 150_000), (20, 400_000))
        ]
        monkeypatch.setattr(os, "preadv", slow)
        into = memoryview(bytearray(MIB))
        thread = threading.Thread(target=other.read_into, args=(into[: len(other)],))
        thread.start()
        assert asks.wait(10)
        damage(tmp_path / "data", 300_000)
        mine = memoryview(bytearray(MIB))
        checked.clear()
        assert before.read_into(mine[: len(before)])
        assert behind.read_into(mine[: len(behind)])
        assert not checked, "of others nobody asks"
        assert not piece.read_into(mine[: len(piece)])
        assert len(read_in(await soon(log.read(20, 400_000)))) < 400_000, "the loop looks, too"
        go_on.set()
        thread.join()
        for each in (piece, before, behind, other):
            each.release()
        await store.close()

    asyncio.run(main())


def test_who_waits_for_the_disk_says_when_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another found right meanwhile may be gone again, and have come back as something else."""

    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        log = store.log(1)
        late, early = await stored(log, 0, MIB), await stored(log, 0, MIB)
        into = memoryview(bytearray(len(late)))
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", nothing_in_memory)
            reading = log.read(0, MIB)
            assert not late.read_into(into)
            assert not early.read_into(into)
        assert early.read_into(into, wait=True)
        damage(tmp_path / "data")
        assert not late.read_into(into, wait=True)
        assert len(read_in(await soon(reading))) < 500_000, "and so it is for the loop's own"
        last = await stored(log, 0, MIB)
        assert not last.known
        assert not last.read_into(into)
        for each in (late, early, last):
            each.release()
        await store.close()

    asyncio.run(main())


def test_what_a_thread_checks_for_the_loop_may_be_lost_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()

    def held(*given: Any, **named: Any) -> Any:
        began.set()
        assert go_on.wait(10)
        return check.sound(*given, **named)

    async def main() -> None:
        store, data = await made(tmp_path / "data")
        await store.close()
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        other = await stored(log, 0, MIB)
        # a log of a megabyte is much to check
        monkeypatch.setattr(log_reader, "_CHECK_BYTES", LEAST)
        monkeypatch.setattr(log_reader, "sound", held)
        reading = asyncio.ensure_future(soon(log.read(0, MIB)))
        async with asyncio.timeout(10):
            while not began.is_set():
                await asyncio.sleep(0)
        into = memoryview(bytearray(len(other)))
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", nothing_in_memory)
            assert not other.read_into(into)
        (await stored(log, 0, MIB)).release()
        damage(tmp_path / "data")
        go_on.set()
        assert read_in(await reading) == data
        last = await stored(log, 0, MIB)
        assert not last.read_into(into)
        other.release()
        last.release()
        await store.close()

    asyncio.run(main())


def test_what_was_appended_since_to_the_same_page_is_unknown_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        piece = await stored(log, 0, 2 * MIB)
        more = batch.build(BATCHES, os.urandom(200_000), timestamp=1)
        await store.write([Append(1, BATCHES, BATCHES + 1, 1, [more])], Durability.OS)
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", nothing_in_memory)
            assert not piece.read_into(memoryview(bytearray(len(piece))))
        assert len(data) % mmap.PAGESIZE + 100 < mmap.PAGESIZE
        damage(tmp_path / "data", len(data) + 100)
        last = await stored(log, BATCHES, 2 * MIB)
        assert not last.read_into(memoryview(bytearray(len(last))))
        piece.release()
        last.release()
        await store.close()

    asyncio.run(main())


def test_to_ask_in_vain_counts_as_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        piece, other = [await stored(store.log(1), 0, MIB) for _ in range(2)]
        into = memoryview(bytearray(len(piece)))
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", broken)
            with pytest.raises(OSError, match="Input/output"):
                piece.read_into(into)
        damage(tmp_path / "data")
        assert not piece.read_into(into, wait=True)
        assert not other.read_into(into)
        piece.release()
        other.release()
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("where", ["a thread", "the loop"])
def test_who_asks_says_that_it_missed_before_it_asks_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whoever looks in between must see the one or the other."""
    asks, go_on = threading.Event(), threading.Event()
    preadv, asked = os.preadv, Trust.asked

    def slow(*given: Any) -> int:
        if threading.current_thread() is threading.main_thread():
            return preadv(*given)
        asks.set()
        assert go_on.wait(10)
        raise BlockingIOError(errno.EAGAIN, "not in memory")

    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        log = store.log(1)
        piece, other = [await stored(log, 20, 400_000) for _ in range(2)]
        monkeypatch.setattr(os, "preadv", slow)
        thread = threading.Thread(target=other.read_into, args=(memoryview(bytearray(len(other))),))
        thread.start()
        assert asks.wait(10)
        damage(tmp_path / "data", 300_000)

        def switched(self: Trust, *more: Any, **but: Any) -> bool:
            if threading.current_thread() is threading.main_thread():
                go_on.set()
                thread.join()
            return asked(self, *more, **but)

        monkeypatch.setattr(Trust, "asked", switched)
        if where == "a thread":
            assert not piece.read_into(memoryview(bytearray(len(piece))))
        else:
            assert len(read_in(await soon(log.read(20, 400_000)))) < 400_000
        piece.release()
        other.release()
        await store.close()

    asyncio.run(main())


def test_what_the_loop_asks_for_at_the_same_time_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: list[int]
) -> None:
    found: list[bool] = []
    preadv = os.preadv

    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        log = store.log(1)
        pieces = [await stored(log, *each) for each in ((20, 400_000), (0, 150_000), (80, 150_000))]
        intos = [memoryview(bytearray(len(each))) for each in pieces]

        def together(descriptor: int, buffers: list[Any], position: int, *flags: int) -> int:
            if threading.current_thread() is threading.main_thread() and not found:
                found.append(False)
                for piece, into in zip(pieces, intos, strict=True):
                    checked.clear()
                    thread = threading.Thread(target=lambda: found.append(piece.read_into(into)))  # noqa: B023
                    thread.start()
                    thread.join()
                    found.append(bool(checked))
            return preadv(descriptor, buffers, position, *flags)

        monkeypatch.setattr(os, "preadv", together)
        await soon(log.read(40, 100_000))
        assert found[1:] == [True, True, True, False, True, False], "whoever reads the same bytes checks them"
        checked.clear()
        assert pieces[0].read_into(intos[0])
        assert not checked, "it asks no more"
        for each in pieces:
            each.release()
        await store.close()

    asyncio.run(main())
