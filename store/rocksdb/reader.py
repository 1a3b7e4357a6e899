"""Bytes of segments for the reading ends: from the page cache on the loop, from the disk in a thread."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from store.api import Buffer, Corrupt, StoreError
from store.pending import Pending
from store.rocksdb.file_region import AnswerEnds, FileRegion
from store.rocksdb.files import TOO_MANY, Files
from store.rocksdb.readahead import Readahead
from store.rocksdb.segments import Reading, Request, Segment, T, Work

if TYPE_CHECKING:
    from store.rocksdb.integrity import Trust
    from store.rocksdb.segment_index import SegmentIndex


class Reader:
    """Open descriptors, the most recently used at the end; the loop's own, so that nobody closes one in use.

    A thread that must wait for a disk opens the file for itself.
    """

    def __init__(self, files: Files, open_files: int) -> None:
        self.files = files
        self._limit = open_files
        self._open: dict[tuple[int, int], int] = {}
        # how often each descriptor is lent; those of them that are to be closed when they come back
        self._lent: dict[int, int] = {}
        self._doomed: set[int] = set()
        self._lock = threading.Lock()
        # what was lent and forgotten
        self.dropped: deque[int] = deque()
        self._pool: ThreadPoolExecutor | None = None
        # reads answered by the tail cache, and others
        self.hits = 0
        self.misses = 0
        self.readahead = Readahead()

    @property
    def open_files(self) -> int:
        return len(self._open)

    def _descriptor(self, request: Request) -> int:
        key = (request.partition, request.segment.number)
        descriptor = self._open.pop(key, -1)
        if descriptor < 0:
            if len(self._open) >= self._limit:
                self._close(self._open.pop(next(iter(self._open))))
            file = (request.partition, request.segment.base, request.segment.number)
            try:
                descriptor = self.files.open_to_read(*file)
            except OSError as error:
                if not self._open or error.errno not in TOO_MANY:
                    raise
                self._close(self._open.pop(next(iter(self._open))))
                descriptor = self.files.open_to_read(*file)
        self._open[key] = descriptor
        return descriptor

    def cached(self, request: Request, trust: Trust) -> Buffer | None:
        """The bytes when no disk must be asked, else None: `trust` knows then that they were missed."""
        trust.seen = trust.misses
        try:
            descriptor = self._descriptor(request)
            trust.loop_asks = request
            found = self.files.read_cached(descriptor, request.size, request.position)
            if found is None:
                self._missed(request, trust)
            return found
        except OSError as error:
            raise self.unreadable(error, request) from error
        finally:
            trust.loop_asks = None

    def lend(
        self, request: Request, trust: Trust, due: int, ends: AnswerEnds, index: SegmentIndex
    ) -> FileRegion | None:
        """The bytes of a request for a thread, see `FileRegion`; None when the system cannot say whether a disk must be
        asked, or so many files are lent that are not needed otherwise that files become scarce.
        """
        while self.dropped:
            self.returned(self.dropped.popleft())
        if not self.files.tells or len(self._doomed) >= self._limit // 2:
            return None
        try:
            descriptor = self._descriptor(request)
        except OSError:
            return None
        with self._lock:
            self._lent[descriptor] = self._lent.get(descriptor, 0) + 1
        return FileRegion(self, descriptor, request, trust, due, ends, index)

    def returned(self, descriptor: int) -> None:
        """Somebody to whom it was lent needs it no more. In any thread."""
        with self._lock:
            left = self._lent[descriptor] - 1
            if left:
                self._lent[descriptor] = left
                return
            del self._lent[descriptor]
            if descriptor not in self._doomed:
                return
            self._doomed.remove(descriptor)
        self.files.close(descriptor)

    def _close(self, descriptor: int) -> None:
        """Close it now, or when the last to whom it is lent returns it."""
        with self._lock:
            if descriptor in self._lent:
                self._doomed.add(descriptor)
                return
        self.files.close(descriptor)

    def _missed(self, request: Request, trust: Trust) -> None:
        if self.files.tells:
            trust.missed(request.segment, request.position, request.size)

    def now(self, reading: Reading[T], trust: Trust) -> T:
        """Run a read to its end, waiting for the disk here: for small ones that have no awaitable."""
        try:
            request = next(reading)
            while True:
                if isinstance(request, Work):
                    answer = request.run()
                else:
                    answer = self.cached(request, trust)
                    if answer is None:
                        answer, trust.seen = self._from_disk(request, trust)
                request = reading.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def run(self, reading: Reading[T], trust: Trust) -> Pending[T]:
        """Run a read on the loop while the page cache has the bytes; from the first miss on it is to be awaited."""
        cached = self.cached
        try:
            request = next(reading)
            while True:
                answer = None if isinstance(request, Work) else cached(request, trust)
                if answer is None:
                    return self._later(reading, request, trust)
                request = reading.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _later(self, reading: Reading[T], request: Request | Work, trust: Trust) -> T:
        """Go on with a read that has work to do, or whose bytes are not in memory, which `trust` knows already."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(4, thread_name_prefix="store-read")
        loop = asyncio.get_running_loop()
        answer: Any
        try:
            while True:
                if isinstance(request, Work):
                    answer = await loop.run_in_executor(self._pool, request.run)
                else:
                    answer, seen = await loop.run_in_executor(self._pool, self._from_disk, request, trust)
                    trust.seen = seen
                request = reading.send(answer)
                while isinstance(request, Request):
                    answer = self.cached(request, trust)
                    if answer is None:
                        break
                    request = reading.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _from_disk(self, request: Request, trust: Trust) -> tuple[bytes, int]:
        """The bytes, and how many misses there were when they had come. In any thread."""
        if not self.files.tells:
            return self._read(request), trust.misses
        _, segment, size, position = request
        with trust.asking(segment, position, size) as asking:
            return self._read(request), asking.lost()

    def _read(self, request: Request) -> bytes:
        try:
            segment = request.segment
            descriptor = self.files.open_to_read(request.partition, segment.base, segment.number)
            try:
                return self.files.read(descriptor, request.size, request.position)
            finally:
                self.files.close(descriptor)
        except OSError as error:
            raise self.unreadable(error, request) from error

    def forget(self, partition: int, number: int) -> None:
        """The file is about to go."""
        self.readahead.forget(partition)
        descriptor = self._open.pop((partition, number), -1)
        if descriptor >= 0:
            self._close(descriptor)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        for descriptor in self._open.values():
            self._close(descriptor)
        self._open.clear()

    def name(self, partition: int, segment: Segment) -> str:
        """The segment's file name, for people."""
        return os.path.basename(self.files.path(partition, segment.base, segment.number))

    def unreadable(self, error: OSError, request: Request) -> StoreError:
        """What the system said, as a sentence. A file that is gone is damage; the rest may pass."""
        segment = request.segment
        name = self.name(request.partition, segment)
        if error.errno == errno.ENOENT:
            return damaged(
                request.partition, segment.base, segment.next_offset, f"the file {name} is missing"
            )
        if error.errno in TOO_MANY:
            return StoreError(f"{name} cannot be opened: too many open files; raise `ulimit -n`.")
        return StoreError(f"{name} cannot be read at byte {request.position}: {error.strerror}.")


def damaged(partition: int, first: int, next_offset: int, what: str) -> Corrupt:
    """Offsets from `first` to below `next_offset` are lost to readers; `what` says where and why."""
    text = f"Log {partition}: the offsets {first} to {next_offset - 1} cannot be read ({what})."
    return Corrupt(text, first, next_offset, what)
