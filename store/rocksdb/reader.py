"""Bytes of segments for the reading ends: from the page cache on the loop, from the disk in a thread."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from store.api import Buffer, Corrupt, StoreError
from store.rocksdb.files import Files

if TYPE_CHECKING:
    from store.rocksdb.log import Request

T = TypeVar("T")


class Reader:
    """Open descriptors, the most recently used at the end; the loop's own, so that nobody closes one in use.

    A thread that must wait for a disk opens the file for itself.
    """

    def __init__(self, files: Files, open_files: int) -> None:
        self._files = files
        self._limit = open_files
        self._open: dict[tuple[int, int], int] = {}
        self._pool: ThreadPoolExecutor | None = None
        # reads answered by the tail cache, and others
        self.hits = 0
        self.misses = 0

    @property
    def open_files(self) -> int:
        return len(self._open)

    def _descriptor(self, request: Request) -> int:
        key = (request.partition, request.segment.number)
        descriptor = self._open.pop(key, -1)
        if descriptor < 0:
            if len(self._open) >= self._limit:
                self._files.close(self._open.pop(next(iter(self._open))))
            descriptor = self._files.open(request.partition, request.segment.base, request.segment.number)
        self._open[key] = descriptor
        return descriptor

    def cached(self, request: Request) -> Buffer | None:
        """The bytes when no disk must be asked, else None."""
        try:
            return self._files.read_cached(self._descriptor(request), request.size, request.position)
        except OSError as error:
            raise _unreadable(error, request) from error

    def now(self, reading: Generator[Request, Buffer, T]) -> T:
        """Run a read to its end, waiting for the disk here: for small ones that have no awaitable."""
        try:
            request = next(reading)
            while True:
                data = self.cached(request)
                request = reading.send(self._read(request) if data is None else data)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def later(self, reading: Generator[Request, Buffer, T], request: Request) -> T:
        """Go on with a read whose bytes are not in memory."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(4, thread_name_prefix="store-read")
        loop = asyncio.get_running_loop()
        try:
            while True:
                data = await loop.run_in_executor(self._pool, self._read, request)
                request = reading.send(data)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _read(self, request: Request) -> bytes:
        try:
            descriptor = self._files.open(request.partition, request.segment.base, request.segment.number)
            try:
                data = self._files.read(descriptor, request.size, request.position)
            finally:
                self._files.close(descriptor)
        except OSError as error:
            raise _unreadable(error, request) from error
        if len(data) < request.size:
            raise Corrupt(
                f"Log {request.partition}: the segment that begins at offset {request.segment.base} is "
                f"{request.size - len(data)} bytes shorter than what was committed."
            )
        return data

    def forget(self, partition: int, number: int) -> None:
        """The file is about to go."""
        descriptor = self._open.pop((partition, number), -1)
        if descriptor >= 0:
            self._files.close(descriptor)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        for descriptor in self._open.values():
            self._files.close(descriptor)
        self._open.clear()


def _unreadable(error: OSError, request: Request) -> StoreError:
    where = f"Log {request.partition}: the segment that begins at offset {request.segment.base}"
    if error.errno == errno.ENOENT:
        return Corrupt(f"{where} is missing.")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return StoreError(f"{where} cannot be opened: too many open files; raise `ulimit -n`.")
    return Corrupt(f"{where} cannot be read: {error.strerror}.")
