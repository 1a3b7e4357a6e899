"""The memory driver: every commit is done before `commit` returns, or has changed nothing.

It owns all its partitions, unless a test takes one away (`fence`) and gives it back (`take`). `late.py` is the
same, with answers that come later. `forgetting.py` is one with bounds, for
topics that are not persistent.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import tempfile
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from store.api import (
    Append,
    Delete,
    DeleteRange,
    DropLog,
    Durability,
    Family,
    Fenced,
    Outcome,
    Put,
    Refused,
    Roll,
    Scope,
    StoreStats,
    Swap,
    Trim,
    Write,
    of_partition,
)
from store.limits import Rollover
from store.memory.log import MemoryLog
from store.pending import Pending
from store.rewriting import Place
from store.scopes import of_write

log = logging.getLogger("magnetar.store")

OF_A_LOG = (Family.DEDUP, Family.ABORTED, Family.COMPACTION, Family.LETTER)
"""Families of other owners whose keys begin with the partition: they go with DropLog."""


class MemoryStore:
    """See `store.api.Store`. Rows are a dict and a sorted list of keys for each family."""

    def __init__(self, clock: Callable[[], int], epoch: int) -> None:
        self.epoch = epoch
        self.notices: list[str] = []
        self.read_only = ""
        self.rollover = Rollover()
        self._clock = clock
        self._rows: dict[Family, dict[bytes, bytes]] = {family: {} for family in Family}
        self._keys: dict[Family, list[bytes]] = {family: [] for family in Family}
        self._logs: dict[int, MemoryLog] = {}
        # of logs that had another owner: the leader epoch, and which of them still have
        self._epochs: dict[int, int] = {}
        self._fenced: set[int] = set()
        self._next_ledger = 1
        self._untold: deque[tuple[Callable[[Outcome], None], Outcome]] = deque()
        # logs that commits have dropped which nobody was told of yet
        self._dropping: set[int] = set()
        self._commits = 0
        self._bytes = 0
        self._places = 0

    # commits

    def commit(
        self, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        self._check(writes)
        done = self._drops(writes, done)
        outcome = self._happen(writes)
        # a commit from within a callback is told after that callback
        self._untold.append((done, outcome))
        if len(self._untold) == 1:
            while self._untold:
                first, told = self._untold[0]
                try:
                    first(told)
                except Exception:
                    log.exception("a callback of a commit failed")
                self._untold.popleft()

    def _happen(self, writes: Sequence[Write]) -> Outcome:
        """All of them or none."""
        outcome = self._fence(writes) if self._epochs else None
        outcome = outcome or self._decline(writes)
        if outcome is None:
            now = self._clock()
            for write in writes:
                self._apply(write, now)
            self._commits += 1
        return outcome

    def _decline(self, writes: Sequence[Write]) -> Outcome:
        """Why a swap does not happen."""
        for write in writes:
            if isinstance(write, Swap):
                log = self._logs.get(write.partition)
                if log is None or log.declines(write.old, write.new):
                    return Refused(f"The segments of log {write.partition} are others by now.")
        return None

    def _drops(self, writes: Sequence[Write], done: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
        """What to call for a commit that may drop logs: until it is told they are neither there nor made anew."""
        dropped = [write.partition for write in writes if isinstance(write, DropLog)]
        if not dropped:
            return done
        self._dropping.update(dropped)
        return functools.partial(self._dropped, dropped, done)

    def _dropped(self, partitions: list[int], done: Callable[[Outcome], None], outcome: Outcome) -> None:
        """Tell of a commit that drops logs."""
        try:
            done(outcome)
        finally:
            self._dropping.difference_update(partitions)

    async def write(self, writes: Sequence[Write], durability: Durability) -> None:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.commit(writes, durability, future.set_result)
        outcome = await future
        if outcome is not None:
            raise outcome

    def _check(self, writes: Sequence[Write]) -> None:
        """Raise what `commit` must raise before anything has changed."""
        ends: dict[int, int] = {}
        dropped: set[int] = set()

        def end(partition: int) -> int:
            if partition in self._dropping or partition in dropped:
                raise KeyError(partition)
            return ends[partition] if partition in ends else self._end(partition)

        for write in writes:
            if isinstance(write, Append):
                if write.base_offset < end(write.partition):
                    raise ValueError(f"append at {write.base_offset} below the end of log {write.partition}")
                ends[write.partition] = write.next_offset
            elif isinstance(write, Trim):
                if write.offset > end(write.partition):
                    raise ValueError(f"trim at {write.offset} beyond the end of log {write.partition}")
            elif isinstance(write, DropLog):
                end(write.partition)
                dropped.add(write.partition)
            elif isinstance(write, Roll | Swap):
                end(write.partition)
        if any(isinstance(write, Swap) for write in writes) and any(
            isinstance(write, Append | Trim | Roll | DropLog) for write in writes
        ):
            raise ValueError("a swap comes with nothing but rows")

    def _end(self, partition: int) -> int:
        """Where a log ends for the next commit."""
        log = self._logs.get(partition)
        return 0 if log is None else log.end_offset

    # owners

    def fence(self, partition: int) -> None:
        """As if another owner had taken this partition: commits that write to its log or its rows end with Fenced."""
        self._epochs[partition] = self.leader_epoch(partition)
        self._fenced.add(partition)

    def take(self, partition: int) -> None:
        """This store has the partition again, two leader epochs on: what still comes under an older one is fenced."""
        self._epochs[partition] = self.leader_epoch(partition) + 2
        self._fenced.discard(partition)
        self._reopen(partition)

    def _fence(self, writes: Sequence[Write]) -> Outcome:
        """Why another owner's partition is not written to."""
        written = {write.partition for write in writes if not isinstance(write, Put | Delete | DeleteRange)}
        scopes = {of_write(write) for write in writes}
        late = {
            write.partition
            for write in writes
            if isinstance(write, Append) and write.leader_epoch < self._epochs.get(write.partition, 0)
        }
        fenced = sorted({each for each in self._fenced if of_partition(each) in scopes} | late)
        if not fenced:
            return None
        for partition in written:
            self._reopen(partition)
        return Fenced(f"another owner has log {fenced[0]}")

    def _reopen(self, partition: int) -> None:
        if partition in self._logs:
            self._logs[partition] = self._logs[partition].again()

    def _apply(self, write: Write, now: int) -> None:
        if isinstance(write, Append):
            self._append(write, now)
            self._bytes += sum(map(len, write.batches))
        elif isinstance(write, Put):
            rows = self._rows[write.family]
            if write.key not in rows:
                insort(self._keys[write.family], write.key)
            rows[write.key] = write.value
        elif isinstance(write, Delete):
            self._delete(write.family, write.key, write.key + b"\0")
        elif isinstance(write, DeleteRange):
            self._delete(write.family, write.start, write.end)
        elif isinstance(write, DropLog):
            self._drop(write.partition)
            start, end = write.partition.to_bytes(4, "big"), (write.partition + 1).to_bytes(5, "big")[-4:]
            for family in OF_A_LOG:
                self._delete(family, start, end)
        elif isinstance(write, Roll):
            self._made(write.partition).roll()
        elif isinstance(write, Swap):
            self._made(write.partition).swap(write.old, write.new)
        else:
            self._trim(write.partition, write.offset)

    def _append(self, write: Append, now: int) -> None:
        self._next_ledger = self._made(write.partition).append(
            write, now, self._next_ledger, now, self.rollover
        )

    def _trim(self, partition: int, offset: int) -> None:
        self._made(partition).trim(offset)

    def _drop(self, partition: int) -> None:
        if partition in self._logs:
            self._logs.pop(partition).stale = True

    def _made(self, partition: int) -> MemoryLog:
        found = self._logs.get(partition)
        if found is None:
            found = self._logs[partition] = self._new_log(partition)
        return found

    def _new_log(self, partition: int) -> MemoryLog:
        return MemoryLog(partition)

    def _delete(self, family: Family, start: bytes, end: bytes) -> None:
        keys, rows = self._keys[family], self._rows[family]
        first, last = bisect_left(keys, start), bisect_left(keys, end)
        for key in keys[first:last]:
            del rows[key]
        del keys[first:last]

    def sync(self, logs: Sequence[tuple[int, int]]) -> Pending[None]:
        return None

    async def reserve(self, partition: int, bases: Sequence[int]) -> list[Place]:
        """In a folder for what is not kept."""
        places = []
        for base in bases:
            self._places += 1
            descriptor, path = tempfile.mkstemp(suffix=".seg")
            os.close(descriptor)
            places.append(Place(path, base, (1 << 31) + self._places))
        return places

    def unreserve(self, partition: int, places: Sequence[Place]) -> None:
        for each in places:
            os.unlink(each.path)

    # reads

    def load(self, scope: Scope) -> Pending[None]:
        return None

    def page(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Pending[list[tuple[bytes, bytes]]]:
        return list(self.scan(family, prefix, start, limit))

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._rows[family].get(key)

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        keys, rows = self._keys[family], self._rows[family]
        first = bisect_left(keys, prefix if start is None else max(prefix, start))
        found: list[tuple[bytes, bytes]] = []
        for index in range(first, len(keys)):
            if not keys[index].startswith(prefix) or len(found) == limit:
                break
            found.append((keys[index], rows[keys[index]]))
        return iter(found)

    def log(self, partition: int) -> MemoryLog:
        if partition in self._dropping:
            raise KeyError(partition)
        return self._made(partition)

    def leader_epoch(self, partition: int) -> int:
        return self._epochs.get(partition, self.epoch)

    def stats(self) -> StoreStats:
        size = sum(log.size for log in self._logs.values())
        return StoreStats(self._commits, self._commits, self._bytes, 0, 0.0, size, 0, 0, 0, self._commits, 0)

    async def close(self) -> None:
        self._logs.clear()
