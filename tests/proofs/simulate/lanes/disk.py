"""A store as one life of a gateway sees it: it is slow, refuses, does not know, and is gone when the gateway dies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from store.api import Buffer, Durability, Outcome, Refused, StoreError, Unknown, Write

Done = Callable[[Outcome], None]


class Disk:
    """See the module. What it has not got when its gateway dies was never stored."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.dead = False
        self.slow = False
        """commits wait for `land` or `fail`"""
        self.cold: Callable[[], int] = lambda: 0
        """how many turns of the loop the next read of a log takes"""
        self._waiting: list[tuple[Sequence[Write], Durability, Done]] = []

    def commit(self, writes: Sequence[Write], durability: Durability, done: Done) -> None:
        if self.dead:
            return
        if self.slow or self._waiting:
            self._waiting.append((writes, durability, done))
        else:
            self.inner.commit(writes, durability, done)

    async def write(self, writes: Sequence[Write], durability: Durability) -> None:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.commit(writes, durability, future.set_result)
        if (outcome := await future) is not None:
            raise outcome

    def land(self) -> None:
        """What waits happens."""
        while self._waiting:
            self.inner.commit(*self._waiting.pop(0))
        self.slow = False

    def fail(self, *, happens: bool) -> None:
        """The oldest that waits fails, and with it those behind it. `happens`: it was stored, and nobody knows."""
        self.slow = False
        waiting, self._waiting = self._waiting, []
        error: StoreError = Unknown("the disk does not answer") if happens else Refused("no")
        for number, (writes, durability, done) in enumerate(waiting):
            if happens and not number:
                self.inner.commit(writes, durability, lambda outcome: None)
            done(error if not number else Refused("a write before this one failed"))

    def die(self, *, stored: bool) -> None:
        """The gateway dies. `stored`: what it had sent is there."""
        self.dead = True
        waiting, self._waiting = self._waiting, []
        if stored:
            for writes, durability, _ in waiting:
                self.inner.commit(writes, durability, lambda outcome: None)

    def log(self, partition: int) -> Any:
        return ColdLog(self.inner.log(partition), self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class ColdLog:
    """A log, some reads of which take a while."""

    def __init__(self, log: Any, disk: Disk) -> None:
        self._log = log
        self._disk = disk

    def read(
        self, offset: int, max_bytes: int, *, whole_first: bool = True
    ) -> list[Buffer] | Awaitable[list[Buffer]]:
        found: list[Buffer] = self._log.read(offset, max_bytes, whole_first=whole_first)
        turns = self._disk.cold()
        return self._later(found, turns) if turns else found

    async def _later(self, found: list[Buffer], turns: int) -> list[Buffer]:
        for _ in range(turns):
            await asyncio.sleep(0)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)
