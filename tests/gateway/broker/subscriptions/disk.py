"""The log of a partition as a slow, failing or damaged disk gives it: what the test holds back, lets go or breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from store.api import Buffer, Corrupt


class Disk:
    """The log of a partition, every read of which waits until the test lets it go on, or fails."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.waiting: list[asyncio.Future[list[Buffer]]] = []
        self.reads = 0
        # the most that one read was asked for
        self.most = 0
        # damaged offsets: from the first to below the second
        self.damaged: tuple[int, int] | None = None
        self.cold = True

    def read(
        self, offset: int, max_bytes: int, *, whole_first: bool = True
    ) -> list[Buffer] | Awaitable[list[Buffer]]:
        self.reads += 1
        self.most = max(self.most, max_bytes)
        if self.damaged is not None and self.damaged[0] <= offset < self.damaged[1]:
            raise Corrupt("bad bytes", self.damaged[0], self.damaged[1], "segment")
        found: list[Buffer] = self.log.read(offset, max_bytes, whole_first=whole_first)
        if self.damaged is not None and offset < self.damaged[0]:
            found = found[: self.damaged[0] - offset]
        if not self.cold:
            return found
        future: asyncio.Future[list[Buffer]] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)

        async def wait() -> list[Buffer]:
            await future
            return found

        return wait()

    async def go(self, error: Exception | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if not each.cancelled():
                if error is None:
                    each.set_result([])
                else:
                    each.set_exception(error)
        for _ in range(5):
            await asyncio.sleep(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)
