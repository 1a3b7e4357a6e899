"""A store in memory that answers as late, and in as strange an order, as the contract allows.

Code that relies on an answer at once, on rows that were not loaded, or on an order between unrelated commits fails
here, in tests; on a store over a network it would fail now and then. Everything follows from a seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from store.api import (
    INSTANCE,
    Append,
    Buffer,
    Delete,
    Durability,
    Family,
    Fenced,
    Outcome,
    Piece,
    Put,
    Refused,
    Scope,
    StoreError,
    Write,
    of_partition,
)
from store.memory.driver import MemoryStore, log
from store.memory.log import MemoryLog
from store.pending import Pending
from store.scopes import of_key, of_prefix, of_write

T = TypeVar("T")

TURNS = 3
"""The most turns of the loop that something takes."""


class NotLoaded(AssertionError):
    """A scope is read that was not loaded: a bug in the caller."""


class LateLog(MemoryLog):
    """Only the end of the log is at hand: the batch that was appended last."""

    def __init__(self, partition: int, latency: Latency) -> None:
        super().__init__(partition)
        self.latency = latency

    def again(self) -> LateLog:
        made = super().again()
        assert isinstance(made, LateLog)
        made.latency = self.latency
        return made

    def read(self, offset: int, max_bytes: int, *, whole_first: bool = True) -> Pending[list[Buffer]]:
        return self.latency.answer(lambda: self._read(offset, max_bytes, whole_first=whole_first))

    def look(self, offset: int, max_bytes: int) -> Pending[list[Buffer]]:
        return self.latency.answer(lambda: self._look(offset, max_bytes))

    def lend(
        self, offset: int, max_bytes: int, *, least: int, whole_first: bool = True
    ) -> Pending[list[Piece]]:
        return self.latency.answer(lambda: [*self._read(offset, max_bytes, whole_first=whole_first)])

    def read_at_once(self, offset: int, max_bytes: int, *, least: int) -> list[Piece] | None:
        if not self._bases or offset < self._bases[-1]:
            return None
        return super().read_at_once(offset, max_bytes, least=least)

    def batch_at_or_after(self, timestamp: int, from_offset: int = 0) -> Pending[list[Buffer]]:
        return self.latency.answer(lambda: self._batch_at_or_after(timestamp, from_offset))

    def max_timestamp_batch(self) -> Pending[list[Buffer]]:
        return self.latency.answer(self._max_timestamp_batch)


class Latency:
    """Gives answers some turns of the loop from now."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def answer(self, find: Callable[[], T]) -> Awaitable[T]:
        """What `find` finds then."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        turns = self.random.randint(1, TURNS)

        def step() -> None:
            nonlocal turns
            turns -= 1
            if turns:
                loop.call_soon(step)
            elif not future.done():
                try:
                    future.set_result(find())
                except Exception as error:
                    future.set_exception(error)

        loop.call_soon(step)
        return future


class _Queued:
    """A commit that has not happened yet."""

    __slots__ = ("_touched", "broken", "done", "writes")

    def __init__(self, writes: Sequence[Write], done: Callable[[Outcome], None]) -> None:
        self.writes = writes
        self.done = done
        # the scopes, and the rows of the instance; None: of many
        self._touched = _touched(writes)
        # why it cannot happen any more
        self.broken: StoreError | None = None

    def follows(self, ahead: _Queued) -> bool:
        """Whether it has to wait for one that came before it."""
        return not self.writes or (bool(ahead.writes) and self.shares(ahead))

    def shares(self, other: _Queued) -> bool:
        """Whether both write to the same."""
        mine, theirs = self._touched, other._touched
        return mine is None or theirs is None or not mine.isdisjoint(theirs)


def _touched(writes: Sequence[Write]) -> frozenset[Hashable] | None:
    found: set[Hashable] = set()
    for write in writes:
        scope = of_write(write)
        if scope == INSTANCE and isinstance(write, Put | Delete):
            found.add((write.family, write.key))
        elif scope is None or scope == INSTANCE:
            return None
        else:
            found.add(scope)
    return frozenset(found)


class LateStore(MemoryStore):
    """See the module. `faults` are the reads of what was not loaded: each raised NotLoaded, which somebody may have
    caught.
    """

    def __init__(self, clock: Callable[[], int], epoch: int, seed: int) -> None:
        super().__init__(clock, epoch)
        self._latency = Latency(seed)
        self._loaded: set[Scope] = {INSTANCE}
        self._loading: dict[Scope, Awaitable[None]] = {}
        self._queue: list[_Queued] = []
        self._scheduled = False
        self.faults: list[str] = []

    # commits

    def commit(
        self, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        self._check(writes)
        self._queue.append(_Queued(writes, self._drops(writes, done)))
        self._schedule()

    def _schedule(self) -> None:
        if self._queue and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Some of those happen that need not wait for another, in any order."""
        self._scheduled = False
        queue, dice = self._queue, self._latency.random
        free = [each for index, each in enumerate(queue) if not any(map(each.follows, queue[:index]))]
        for each in dice.sample(free, dice.randint(0, len(free))):
            self._take(each)
        self._schedule()

    def _take(self, commit: _Queued) -> None:
        queue = self._queue
        outcome = commit.broken or self._happen(commit.writes)
        index = queue.index(commit)
        del queue[index]
        if outcome is not None and not isinstance(outcome, Refused):
            self._loaded -= {scope for each in commit.writes if (scope := of_write(each)) != INSTANCE}
            for behind in queue[index:]:
                if behind.writes and behind.shares(commit) and behind.broken is None:
                    behind.broken = Fenced(f"a write before this one failed: {outcome}")
        try:
            commit.done(outcome)
        except Exception:
            log.exception("a callback of a commit failed")

    def _end(self, partition: int) -> int:
        end = super()._end(partition)
        for each in self._queue:
            for write in each.writes if each.broken is None else ():
                if isinstance(write, Append) and write.partition == partition:
                    end = write.next_offset
        return end

    def _new_log(self, partition: int) -> MemoryLog:
        return LateLog(partition, self._latency)

    # owners

    def take(self, partition: int) -> None:
        super().take(partition)
        self._loaded.discard(of_partition(partition))

    def restart(self) -> None:
        """As after a start: nothing is loaded but the instance."""
        self._loaded = {INSTANCE}
        self._loading.clear()

    # reads

    def sync(self, logs: Sequence[tuple[int, int]]) -> Pending[None]:
        return self._latency.answer(lambda: None)

    def load(self, scope: Scope) -> Pending[None]:
        if scope in self._loaded:
            return None
        if scope not in self._loading:
            self._loading[scope] = self._latency.answer(lambda: self._load(scope))
        return self._loading[scope]

    def _load(self, scope: Scope) -> None:
        if self._loading.pop(scope, None) is not None:
            self._loaded.add(scope)

    def page(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Pending[list[tuple[bytes, bytes]]]:
        return self._latency.answer(lambda: list(super(LateStore, self).scan(family, prefix, start, limit)))

    def get(self, family: Family, key: bytes) -> bytes | None:
        self._must(of_key(family, key), f"a row of {family}")
        return super().get(family, key)

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        self._must(of_prefix(family, prefix), f"rows of {family}")
        return super().scan(family, prefix, start, limit)

    def log(self, partition: int) -> MemoryLog:
        self._must(of_partition(partition), "a log")
        return super().log(partition)

    def _must(self, scope: Scope | None, what: str) -> None:
        if scope not in self._loaded:
            where = f"of {scope.kind.name.lower()} {scope.id!r}" if scope is not None else "of many scopes"
            fault = f"{what} is read {where}, which is not loaded"
            self.faults.append(fault)
            raise NotLoaded(fault)

    async def close(self) -> None:
        """What is queued is done. What is stored stays, for who opens it again: see `restart`."""
        while self._queue:
            await self.write((), Durability.OS)
