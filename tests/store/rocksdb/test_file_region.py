"""What is lent to be read in a thread: the bytes of a read, checked where they may have come from a disk."""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c

from store import batch, rocksdb
from store.api import Append, Corrupt, DropLog, Durability, Family, Log, Piece, Stored, StoreError
from store.rocksdb import check, log_reader
from store.rocksdb.database import Database
from store.rocksdb.driver import RocksStore
from store.rocksdb.file_region import AnswerEnds
from store.rocksdb.files import Files
from store.rocksdb.integrity import Trust
from store.rocksdb.segments import Segment
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


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each batch whose CRC was looked at."""
    found: list[int] = []

    def counted(data: bytes) -> Any:
        found.append(len(data))
        return crc32c(data)

    monkeypatch.setattr(check, "crc32c", counted)
    return found


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


def read_at_last(piece: Stored, into: memoryview, wait: bool) -> bool:
    """Whether the piece is read: one that may not wait gets its pages brought in anew.

    A machine that is short of memory lets go of pages between two lines of a test.
    """
    for _ in range(20):
        if piece.read_into(into, wait=wait):
            return True
        piece.read_into(into, wait=True)
    return False


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


@pytest.mark.parametrize("known", [True, False], ids=["right", "checked"])
def test_who_goes_on_from_the_end_of_an_answer_asks_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    asked: list[bytes] = []
    at_or_before = Database.at_or_before

    def counted(self: Database, family: Family, key: bytes) -> tuple[bytes, bytes] | None:
        asked.append(key)
        return at_or_before(self, family, key)

    monkeypatch.setattr(Database, "at_or_before", counted)
    looks: list[int] = []
    read_cached = Files.read_cached

    def looked(self: Files, descriptor: int, size: int, position: int) -> memoryview | None:
        looks.append(position)
        return read_cached(self, descriptor, size, position)

    monkeypatch.setattr(Files, "read_cached", looked)

    async def main() -> None:
        store, data = await made(tmp_path / "data")
        size = len(data) // BATCHES
        if not known:
            await store.close()
            store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        await soon(log.lend(0, 1, least=LEAST))
        asked.clear()
        offset = 0
        # the first of all, and where nothing was cut off, or less than a header is there of it
        whole = (0, 39, 59)
        for most in (200_000, 20 * size, 20 * size + 60, 20 * size - 1):
            looks.clear()
            found = read_in(await soon(log.lend(offset, most, least=LEAST)))
            assert found == data[offset * size :][:most]
            assert len(looks) == (1 if offset in whole else 0), "at the file, before a thread reads it"
            offset += most // size
        assert len(asked) == 1
        assert read_in(await soon(log.read(offset, MIB))) == data[offset * size :]
        assert len(asked) == 1
        assert read_in(await soon(log.read(offset + 1, MIB))) == data[(offset + 1) * size :]
        assert len(asked) == 2
        await store.close()

    asyncio.run(main())


def test_who_goes_on_with_a_batch_that_is_too_large_gets_it_first_or_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        size = len(data) // BATCHES
        more = [batch.build(nth, os.urandom(400_000), timestamp=1) for nth in (BATCHES, BATCHES + 1)]
        for nth, each in enumerate(more):
            await store.write([Append(1, BATCHES + nth, BATCHES + nth + 1, 1, [each])], Durability.OS)
        assert read_in(await soon(log.lend(0, len(data) + 1000, least=LEAST)))[: len(data)] == data
        assert await soon(log.lend(BATCHES, 200_000, least=LEAST, whole_first=False)) == []
        assert read_in(await soon(log.lend(BATCHES, 200_000, least=LEAST))) == more[0]
        found = read_in(await soon(log.lend(BATCHES, len(more[0]) + size, least=LEAST, whole_first=False)))
        assert found == more[0] + more[1][:size]
        await store.close()

    asyncio.run(main())


def test_where_an_answer_ended_is_found_in_the_next_segment(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        log.configure(segment_bytes=1)
        more = batch.build(BATCHES, os.urandom(200_000), timestamp=1)
        await store.write([Append(1, BATCHES, BATCHES + 1, 1, [more])], Durability.OS)
        assert read_in(await soon(log.lend(BATCHES, MIB, least=LEAST))) == more
        await store.close()

    asyncio.run(main())


def test_where_an_answer_ended_offsets_may_be_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        more = [batch.build(nth, os.urandom(200_000), timestamp=1) for nth in (BATCHES + 7, BATCHES + 20)]
        await store.write([Append(1, BATCHES + 7, BATCHES + 8, 1, [more[0]])], Durability.OS)
        await store.write([Append(1, BATCHES + 20, BATCHES + 21, 1, [more[1]])], Durability.OS)
        for offset, nth in ((BATCHES, 0), (BATCHES + 7, 0), (BATCHES + 8, 1), (BATCHES + 19, 1)):
            assert read_in(await soon(log.lend(offset, MIB, least=LEAST))) == b"".join(more[nth:])
        await store.close()
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        for offset in (0, BATCHES, BATCHES + 7, BATCHES + 8):
            found = read_in(await soon(log.read(offset, 2 * MIB)))
            begin = data if not offset else b"".join(more[offset > BATCHES + 7 :])
            assert found
            assert begin.startswith(found), "up to the gap"
        await store.close()

    asyncio.run(main())


def test_ends_of_many_readers_are_remembered_and_not_all() -> None:
    ends = AnswerEnds()
    segment = Segment(0, 1000, 7, 1000, 0, 0, 0)
    for nth in range(100):
        ends.add(nth, 7, nth * 10, 61)
    ends.add(84, 7, 840, 0)
    ends.add(100, 7, 1000, 0)
    assert ends.place(segment, 99) == (990, 61)
    assert ends.place(segment, 90) == (900, 61)
    assert ends.place(segment, 84) == (840, 0), "it was told of again"
    assert ends.place(segment, 85) is None
    assert 85 not in ends
    assert ends.place(segment._replace(number=8), 99) is None


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
        descriptors = len(os.listdir("/proc/self/fd"))
        await stored(log, 0, MIB)
        (path,) = (tmp_path / "data").rglob("*.seg")
        name = Files.parse(path.name)
        assert name is not None
        store._reader.forget(1, name[2])
        (await stored(log, 0, MIB)).release()
        assert len(os.listdir("/proc/self/fd")) == descriptors
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
        descriptors = len(os.listdir("/proc/self/fd"))
        pieces = [await soon(store.log(each).lend(0, MIB, least=LEAST)) for each in range(2, 40)]
        assert [lent(each) for each in pieces] == [True] * 22 + [False] * 16, "16 open, and 8 to be closed"
        assert read_in([first]) == data
        assert read_in([second]) == data
        for found in pieces:
            assert read_in(found) == big
        assert len(os.listdir("/proc/self/fd")) < descriptors + 16
        assert lent(await soon(log.lend(0, MIB, least=LEAST))), "what came back can be lent again"
        await store.close()

    asyncio.run(main())
