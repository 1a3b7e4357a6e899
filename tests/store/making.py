"""Shorthand for writes in tests."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, TypeVar

from store import batch
from store.api import Append, Buffer, Durability, Log, Outcome, Scope, Store, Write, of_partition
from store.scopes import of_write

T = TypeVar("T")

Opener = Callable[..., Coroutine[Any, Any, Store]]


class Clock:
    """ms since 1970, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def with_store(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test with an open store, and close it."""

    @wraps(test)
    def run(opener: Opener, clock: Clock) -> None:
        async def main() -> None:
            store = await opener()
            try:
                await test(store, clock)
            finally:
                await store.close()

        asyncio.run(main())

    # pytest would ask the wrapped function for its fixtures
    del run.__wrapped__
    return run


def batches(
    base: int, sizes: Sequence[int], *, timestamps: Sequence[int] = (), epoch: int = 1, records: int = 1
) -> list[bytes]:
    """One batch a size, each of `records` records, with payload that depends on its offset."""
    made = []
    for index, size in enumerate(sizes):
        seed = hashlib.blake2b(f"{base}/{index}".encode()).digest()
        payload = (seed * (size // len(seed) + 1))[:size]
        timestamp = timestamps[index] if index < len(timestamps) else base + index
        made.append(batch.build(base, payload, timestamp=timestamp, records=records, epoch=epoch))
        base += records
    return made


def append(
    partition: int,
    base: int,
    sizes: Sequence[int] = (50,),
    *,
    timestamps: Sequence[int] = (),
    epoch: int = 1,
    records: int = 1,
    carried: bool = False,
) -> Append:
    made = batches(base, sizes, timestamps=timestamps, epoch=epoch, records=records)
    return Append(
        partition,
        base,
        base + len(sizes) * records,
        max(map(batch.max_timestamp, made)),
        made,
        epoch,
        carried,
    )


async def soon(answer: T | Awaitable[T]) -> T:
    """The answer of a read, waited for when it must be."""
    if inspect.isawaitable(answer):
        return await answer
    return answer


async def content(log: Log, offset: int | None = None) -> bytes:
    """All bytes from an offset (the start) to the log's end, by as many reads as it takes."""
    at = log.start_offset if offset is None else offset
    found = b""
    while at < log.end_offset:
        data = joined(await soon(log.read(at, 1 << 20)))
        if not data:
            break
        whole = 0
        for position, size, _, following in batch.walk(data):
            if position + size > len(data):
                break
            whole, at = position + size, following
        assert whole, "the first batch must come whole"
        found += data[:whole]
    return found


def joined(buffers: Sequence[Buffer]) -> bytes:
    return b"".join(buffers)


def bases(data: bytes) -> list[int]:
    return [base for _, _, base, _ in batch.walk(data)]


class Outcomes:
    """Collects what `done` was called with, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Outcome]] = []

    def of(self, name: str) -> Any:
        return lambda outcome: self.seen.append((name, outcome))


async def write(store: Store, *writes: Write, durability: Durability = Durability.OS) -> None:
    """A commit, done; what it wrote to is loaded, to be looked at."""
    await store.write(writes, durability)
    await load(store, *filter(None, map(of_write, writes)))


async def opened(store: Store, partition: int) -> Log:
    """A log, loaded."""
    await load(store, of_partition(partition))
    return store.log(partition)


async def load(store: Store, *scopes: Scope) -> None:
    for scope in scopes:
        await soon(store.load(scope))
