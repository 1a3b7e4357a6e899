"""Write-behind: what large streams leave in the system's page cache is written soon, and then given back.

Left to itself the system keeps every page that was written until memory is full, and writes a gigabyte at a time
when its limit of dirty pages is reached. A stream of large batches then pays for a fresh page with each write (on a
virtual machine whose memory comes from its host page by page that is ten times the copy itself), stalls when the
limit is reached, and drives out what others have in the cache.

So a log that has written `KICK_BYTES` tells this thread, which starts the writing of just those bytes, and gives the
pages back when `limit` bytes have been written after them: as many as the machine has memory for, unless a number is
given. Consumers that are less far behind than that still read from memory. Nothing waits for this, and it promises
nothing: durability comes from the commit protocol's own syncs. A page that is not yet on disk when it is to be given
back stays in the cache.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from store.rocksdb.available import page_cache_bytes
from store.rocksdb.files import Files

KICK_BYTES = 8 << 20
"""Bytes of one segment that are worth a request to the disk."""

LOOK_BYTES = 256 << 20
"""The available memory is looked up again after this many bytes."""

Extent = tuple[int, int, int, int, int]
"""partition, base offset and number of a segment; position and bytes in it."""


class WriteBehind:
    """`wrote` may be called from any thread; the work is done by one of its own, made when first needed."""

    def __init__(
        self, files: Files, limit: int | None, available: Callable[[], int | None] = page_cache_bytes
    ) -> None:
        """`limit`: bytes left in the page cache; 0 leaves everything to the system. None: what `available` says, which
        is asked every LOOK_BYTES; where it does not know (None), nothing is given back.
        """
        self._files = files
        self._fixed = limit
        self._available = available
        self.enabled = limit != 0 and files.can_write_behind
        self._queue: SimpleQueue[Extent | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def wrote(self, extent: Extent) -> None:
        """So much of a segment is complete: written by the store, though not by the system."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="store-behind", daemon=True)
            self._thread.start()
        self._queue.put(extent)

    def close(self) -> None:
        """End the thread; what is queued is left to the system."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        kept: deque[Extent] = deque()
        held = 0
        since = LOOK_BYTES
        limit = self._fixed
        while (extent := self._queue.get()) is not None:
            self._on_file(extent, self._files.start_writing)
            kept.append(extent)
            held += extent[4]
            since += extent[4]
            if self._fixed is None and since >= LOOK_BYTES:
                since = 0
                limit = self._available()
            while limit is not None and held > limit:
                oldest = kept.popleft()
                held -= oldest[4]
                self._on_file(oldest, self._files.give_back)

    def _on_file(self, extent: Extent, action: Callable[[int, int, int], None]) -> None:
        partition, base, number, position, size = extent
        # the segment may be gone by now, and a disk that fails is found out by those who must know
        with contextlib.suppress(OSError):
            descriptor = self._files.open(partition, base, number)
            try:
                action(descriptor, position, size)
            finally:
                self._files.close(descriptor)
