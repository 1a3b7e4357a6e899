"""A store whose commits the test holds back, lets land, or fails; and a gateway that runs on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any
from unittest import mock

import uvloop

from gateway.clock import Clock as AnyClock
from gateway.server import Gateway
from store import memory
from store.api import Durability, Outcome, Refused, StoreError, Unknown, Write
from tests.gateway.serving import Client, serving


class Clock:
    """A clock that stands until the test moves it: ms since 1970, and of the same time since the start."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.now = now

    def wall_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


class HeldStore:
    """A memory store; while `holding`, commits queue until `land` or `fail`."""

    def __init__(self, inner: memory.MemoryStore | None = None) -> None:
        self.inner = inner or memory.open()
        self.holding = False
        self.queued: deque[tuple[Sequence[Write], Durability, Callable[[Outcome], None]]] = deque()
        # the writes of every commit that was asked for
        self.commits: list[Sequence[Write]] = []
        self._arrived = asyncio.Event()

    def commit(
        self, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        self.commits.append(writes)
        self._arrived.set()
        if self.holding:
            self.queued.append((writes, durability, done))
        else:
            self.inner.commit(writes, durability, done)

    async def write(self, writes: Sequence[Write], durability: Durability) -> None:
        await self.inner.write(writes, durability)

    async def has(self, count: int) -> None:
        """Wait until that many commits are held."""
        async with asyncio.timeout(10):
            while len(self.queued) < count:
                self._arrived.clear()
                await self._arrived.wait()

    def land(self, count: int = 1) -> None:
        """The oldest held commits happen."""
        for _ in range(count):
            self.inner.commit(*self.queued.popleft())

    def release(self) -> None:
        self.holding = False
        self.land(len(self.queued))

    def fail(self, outcome: StoreError) -> None:
        """The oldest held commit fails, and with it those that are queued behind it."""
        _, _, done = self.queued.popleft()
        behind = list(self.queued)
        self.queued.clear()
        done(outcome)
        for _, _, each in behind:
            each(Refused("a write before this one failed"))

    def land_unknown(self) -> None:
        """The oldest held commit happens, and nobody knows."""
        writes, durability, done = self.queued.popleft()
        self.inner.commit(writes, durability, lambda outcome: None)
        done(Unknown("who knows"))

    async def close(self) -> None:
        self.holding = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextlib.asynccontextmanager
async def serving_on(
    store: Any, *flags: str, clock: AnyClock | None = None, listeners: str = "127.0.0.1:0"
) -> AsyncIterator[Gateway]:
    """A started gateway on this store; a second one on the same memory store is a restart."""

    async def opened(settings: Any) -> tuple[Any, None]:
        return store, None

    with mock.patch("gateway.server.open_store", opened):
        if clock is None:
            async with serving(*flags, listeners=listeners) as gateway:
                yield gateway
        else:
            with mock.patch("gateway.server.SystemClock", return_value=clock):
                async with serving(*flags, listeners=listeners) as gateway:
                    yield gateway


Body = Callable[[Gateway, Client], Coroutine[Any, Any, None]]


def run(body: Body, *flags: str, store: Any = None, clock: AnyClock | None = None) -> None:
    """One test against a gateway of its own, with a connected client."""

    async def main() -> None:
        async with serving_on(store or memory.open(), *flags, clock=clock) as gateway:
            client = await Client.connect(gateway)
            try:
                await body(gateway, client)
            finally:
                client.close()

    uvloop.run(main())


def run_held(
    body: Callable[[Gateway, Client, HeldStore], Awaitable[None]], *flags: str, clock: AnyClock | None = None
) -> None:
    """The same on a store whose commits can be held back."""

    async def main() -> None:
        store = HeldStore()
        async with serving_on(store, *flags, clock=clock) as gateway:
            client = await Client.connect(gateway)
            try:
                await body(gateway, client, store)
            finally:
                store.release()
                client.close()

    uvloop.run(main())


def part(answer: Any, index: int = 0) -> Any:
    """A partition of the only topic of a Produce, Fetch, ListOffsets or OffsetForLeaderEpoch answer."""
    (topic,) = answer.responses if hasattr(answer, "responses") else answer.topics
    partitions = topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions
    return partitions[index]


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop turn until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)
