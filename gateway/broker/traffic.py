"""Bytes that came into and went out of partitions since the gateway started, also of those that are let go.

A partition that nobody uses is not in memory, but what it has counted must not fall back to 0 for that. Two 64-bit
numbers stay for each, in pages by the partition's id: 16 bytes where a page is touched, nothing where it is not.
Records that came in need no counter: they are the end offset.
"""

from __future__ import annotations

from array import array

PAGE = 256
"""Partitions in a page of 4 KiB."""


class Traffic:
    """Sums by partition id (the store's, from 0 up). They begin at 0 with each start of the gateway."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}
        self.moved: set[bytes] = set()
        """Ids of topics of which a log grew, or lost its beginning, since whoever asks about that took them out."""

    def add(self, partition: int, bytes_in: int, bytes_out: int) -> None:
        """What a partition has counted that leaves memory."""
        if not bytes_in and not bytes_out:
            return
        number, at = divmod(partition, PAGE)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = array("Q", bytes(16 * PAGE))
        page[2 * at] += bytes_in
        page[2 * at + 1] += bytes_out

    def of(self, partition: int) -> tuple[int, int]:
        """(bytes in, bytes out) that were counted by what has left memory."""
        number, at = divmod(partition, PAGE)
        page = self._pages.get(number)
        return (page[2 * at], page[2 * at + 1]) if page is not None else (0, 0)

    def forget(self, partition: int) -> None:
        """The partition is deleted, and its id comes never again."""
        number, at = divmod(partition, PAGE)
        page = self._pages.get(number)
        if page is None:
            return
        page[2 * at] = page[2 * at + 1] = 0
        if not any(page):
            del self._pages[number]
