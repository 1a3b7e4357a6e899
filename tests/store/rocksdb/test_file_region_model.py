"""Whatever the page cache lets go of, and whatever a disk gives instead: no byte is sent that nobody has written."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from store import batch, rocksdb
from store.api import Append, Corrupt, Durability, Piece, Stored, Trim
from store.rocksdb import RocksStore
from store.rocksdb.files import Files
from tests.examples import examples
from tests.store.making import soon

T = TypeVar("T")

PAGE = 4096
LEAST = 20_000
EPOCH, EPOCH_END = 12, 16
"""The bytes of a batch that are its leader epoch."""

pytestmark = pytest.mark.skipif(
    not hasattr(os, "RWF_NOWAIT"), reason="the system does not say what is in memory"
)

Pages = set[tuple[int, int]]
"""(inode, number)"""


class PageCache:
    """A page cache that has lost some pages. What is damaged among these is seen when the disk is asked for them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.lost: Pages = set()
        # whether a read that finds a hole has the system bring in what it asked for, for others to find
        self.reads_on = False
        cached, cached_into, whole_into, read = (
            Files.read_cached,
            Files.read_cached_into,
            Files.read_whole_into,
            Files.read,
        )

        def read_cached(files: Files, descriptor: int, size: int, position: int) -> memoryview | None:
            if self.miss(descriptor, position, size) >= 0:
                return None
            return cached(files, descriptor, size, position)

        def read_cached_into(files: Files, descriptor: int, buffer: memoryview, position: int) -> int:
            until = self.miss(descriptor, position, len(buffer))
            if until == 0:
                return 0
            return cached_into(files, descriptor, buffer[:until] if until > 0 else buffer, position)

        def read_whole_into(files: Files, descriptor: int, buffer: memoryview, position: int) -> bool:
            self.lost -= self.pages(descriptor, position, len(buffer))
            return whole_into(files, descriptor, buffer, position)

        def read_disk(files: Files, descriptor: int, size: int, position: int) -> bytes:
            self.lost -= self.pages(descriptor, position, size)
            return read(files, descriptor, size, position)

        patch.setattr(Files, "read_cached", read_cached)
        patch.setattr(Files, "read_cached_into", read_cached_into)
        patch.setattr(Files, "read_whole_into", read_whole_into)
        patch.setattr(Files, "read", read_disk)

    def pages(self, descriptor: int, position: int, size: int) -> Pages:
        inode = os.fstat(descriptor).st_ino
        return {(inode, page) for page in range(position // PAGE, -(-(position + size) // PAGE))}

    def miss(self, descriptor: int, position: int, size: int) -> int:
        """Bytes before the first hole, -1 if there is none."""
        holes = self.pages(descriptor, position, size) & self.lost
        if not holes:
            return -1
        if self.reads_on:
            self.lost -= holes
        return max(0, min(page for _, page in holes) * PAGE - position)


class Lending(RuleBasedStateMachine):
    """One log, some readers, and a disk that may be damaged where nobody looks."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="magnetar-"))
        self.patch = pytest.MonkeyPatch()
        self.cache = PageCache(self.patch)
        self.batches: list[bytes] = []
        self.lent: list[tuple[int, Stored, memoryview]] = []
        self.next = 0
        self.store: RocksStore

    def run(self, step: Coroutine[None, None, T]) -> T:
        return self.loop.run_until_complete(step)

    @initialize(tail=st.sampled_from([0, 0, 50_000]))
    def start(self, tail: int) -> None:
        async def begin() -> RocksStore:
            return await rocksdb.open(self.folder / "data", tail_cache_bytes=tail)

        self.store = self.run(begin())
        for _ in range(3):
            self.append([9000, 50, 30_000, 3000])

    def teardown(self) -> None:
        for _, piece, _ in self.lent:
            piece.release()
        if hasattr(self, "store"):
            reader = self.store._reader
            assert not reader._lent, "all that was lent was released"
            self.run(self.store.close())
        self.patch.undo()
        self.loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sent(self, offset: int, data: bytes) -> None:
        """It is what was written, from the batch with that offset on; the next is asked for then. The last batch may be
        cut off, and is not looked at: no client makes anything of it. Nor is its leader epoch: it lies outside the
        CRC, and nothing else says what it was (`store.rocksdb.check`).
        """
        at = 0
        for written in self.batches[offset:]:
            if at + len(written) > len(data):
                break
            given = data[at : at + len(written)]
            assert given[:EPOCH] == written[:EPOCH]
            assert given[EPOCH_END:] == written[EPOCH_END:]
            at += len(written)
            offset += 1
        assert at, "a client could not go on"
        self.next = offset

    @rule(sizes=st.lists(st.sampled_from([50, 3000, 9000, 30_000]), min_size=1, max_size=8))
    def append(self, sizes: list[int]) -> None:
        base = len(self.batches)
        new = [batch.build(base + nth, os.urandom(size), timestamp=1) for nth, size in enumerate(sizes)]
        end = base + len(new)
        self.run(self.store.write([Append(1, base, end, 1, new)], Durability.OS))
        self.batches += new

    @rule(size=st.sampled_from([1, 200_000, 1 << 30]))
    def roll(self, size: int) -> None:
        self.store.log(1).configure(segment_bytes=size)

    @rule(count=st.integers(1, 5))
    def trim(self, count: int) -> None:
        log = self.store.log(1)
        self.run(self.store.write([Trim(1, min(log.start_offset + count, log.end_offset))], Durability.OS))

    @rule(times=st.integers(2, 4), most=st.sampled_from([60_000, 200_000]), waits=st.integers(0, 15))
    def several(self, times: int, most: int, waits: int) -> None:
        """Some ask for the same at once, and are read one after the other."""
        offset, first = self.next, len(self.lent)
        for _ in range(times):
            self.next = offset
            self.lend("on", 0.0, most, short=False)
        for nth in range(times):
            if len(self.lent) > first:
                self.read(first, bool(waits >> nth & 1), kept=True)

    @rule(
        at=st.floats(0, 0.999),
        pages=st.sampled_from([1, 1, 3, 20]),
        damaged=st.booleans(),
        bit=st.integers(0, PAGE * 8 - 1),
        reads_on=st.sampled_from([True, True, False]),
    )
    def let_go(self, at: float, pages: int, damaged: bool, bit: int, reads_on: bool) -> None:
        """The page cache loses pages of one segment; the disk may have something else there."""
        files = sorted(self.folder.rglob("*.seg"))
        if not files:
            return
        self.cache.reads_on = reads_on
        path = files[int(at * len(files))]
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            first = int(at * size) // PAGE
            self.cache.lost |= self.cache.pages(file.fileno(), first * PAGE, pages * PAGE)
            place = first * PAGE + bit // 8
            if damaged and place < size:
                file.seek(place)
                (byte,) = file.read(1)
                file.seek(place)
                file.write(bytes([byte ^ (1 << bit % 8)]))

    @rule(
        how=st.sampled_from(["on", "on", "anywhere"]),
        anywhere=st.floats(0, 0.999),
        most=st.sampled_from([100, 25_000, 60_000, 60_000, 200_000]),
        short=st.booleans(),
    )
    def lend(self, how: str, anywhere: float, most: int, short: bool) -> None:
        log = self.store.log(1)
        offset = self.next
        if how == "anywhere" or not log.start_offset <= offset < log.end_offset:
            offset = log.start_offset + int(anywhere * (log.end_offset - log.start_offset))
        if offset == log.end_offset:
            return
        found: list[Piece] | None = log.read_at_once(offset, most, least=LEAST) if short else None
        if found is None:
            try:
                found = self.run(soon(log.lend(offset, most, least=LEAST)))
            except Corrupt as damage:
                self.next = damage.next_offset
                return
        for piece in found:
            if isinstance(piece, Stored):
                self.lent.append((offset, piece, memoryview(bytearray(len(piece)))))
            else:
                self.sent(offset, bytes(piece))
                break

    @precondition(lambda self: self.lent)
    @rule(which=st.integers(0, 99), wait=st.booleans(), kept=st.sampled_from([True, True, True, False]))
    def read(self, which: int, wait: bool, kept: bool) -> None:
        """A thread reads what was lent; if it cannot wait, another may go on in the same memory."""
        nth = which % len(self.lent)
        offset, piece, buffer = self.lent[nth]
        if not kept:
            buffer = memoryview(bytearray(len(piece)))
            self.lent[nth] = offset, piece, buffer
        if piece.read_into(buffer, wait=wait):
            self.sent(offset, bytes(buffer))
        elif not wait:
            return
        else:
            try:
                data = self.run(soon(self.store.log(1).read(offset, 60_000)))
                self.sent(offset, b"".join(bytes(each) for each in data))
            except Corrupt as damage:
                self.next = damage.next_offset
            except IndexError:
                pass  # it was trimmed meanwhile
        piece.release()
        del self.lent[nth]


TestLending = Lending.TestCase
TestLending.settings = settings(
    max_examples=examples(30),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
