"""The leader epoch of the first batch of a log, which clients are told with its offset."""

from __future__ import annotations

import asyncio

from store.api import Log, StoreError


class StartEpoch:
    """Of one log: what was read is kept until the log begins somewhere else."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # (log start, leader epoch of the batch there)
        self._known = (-1, -1)

    def of(self, log: Log) -> int:
        """-1 when a disk would have to be asked. The log is not empty."""
        start = log.start_offset
        if self._known[0] != start:
            try:
                data = log.look(start, 16)
            except (StoreError, IndexError):
                return -1
            if not isinstance(data, list):
                asyncio.ensure_future(data).cancel()
                return -1
            self._known = (start, int.from_bytes(b"".join(data)[12:16], "big"))
        return self._known[1] if self._known[0] == start else -1
