"""What is not persistent: a store that forgets, and one that has such a store beside a durable one.

A number says where a partition is (`is_transient`). So whoever has one needs not know its topic.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple, Protocol

from store.api import (
    Append,
    Delete,
    Durability,
    Family,
    Log,
    Outcome,
    Put,
    Scope,
    ScopeKind,
    Store,
    StoreStats,
    Write,
)
from store.limits import Rollover
from store.pending import Pending
from store.rewriting import Place
from store.scopes import KEY_LAYOUTS, of_key, of_prefix, of_write

log = logging.getLogger("magnetar.store")

FIRST_TRANSIENT = 1 << 31
"""Partitions from this id on are in memory only."""

FIRST_OFFSETS = 1 << 40
"""So many offsets a log in memory has for each start: what it gives lies above what it gave before the gateway died."""


_DURABLE = frozenset(
    family for family, layout in KEY_LAYOUTS.items() if layout.kind is not ScopeKind.PARTITION
)
"""Families whose rows belong to no partition: none of them is ever in memory only."""


def is_transient(partition: int) -> bool:
    return partition >= FIRST_TRANSIENT


def first_offset(epoch: int) -> int:
    """What logs in memory begin with in a start that has this leader epoch."""
    return epoch * FIRST_OFFSETS


class Forgotten(NamedTuple):
    """What left a log, in order of its offsets."""

    partition: int
    messages: int
    size: int
    """Bytes."""
    unread: int
    """Messages of it that nobody has ever read."""


class TransientStore(Store, Protocol):
    """A store that is empty at each start, and has bounds: it forgets its oldest segments."""

    first_offset: int
    """Where logs begin that were never written to."""

    forgot: Callable[[Forgotten], None]
    """Called for each log that has lost something to a bound, before the commit that was too much is told."""

    @property
    def size(self) -> int:
        """Bytes in all logs."""

    def forget_before(self, at: int) -> int | None:
        """Forget what was last written to before `at` (monotonic ms). When the oldest of the rest was, None where there
        is none.
        """

    def bound(self, partition: int, max_bytes: int) -> None:
        """How much a log that somebody holds may have; 0 is no limit but that of all."""


class Fact:
    """Writes of one fact that both stores have a part in: `begin`, then the durable commit, then `end`."""

    __slots__ = ("_after", "_before", "_transient", "_undo", "durable")

    def __init__(
        self, transient: Store, durable: list[Write], before: list[Write], after: list[Write]
    ) -> None:
        """In memory are `before` from the begin on, to be taken back when the durable commit fails, and `after` when it
        is done.
        """
        self._transient = transient
        self._before = before
        self._after = after
        # what takes back what is in memory already
        self._undo: list[Write] = []
        self.durable = durable
        """What the durable store is given."""

    def begin(self) -> None:
        """Do what comes first in memory."""
        if self._before:
            self._undo = [self._back(write) for write in self._before if isinstance(write, Put)]
            self._transient.commit(self._before, Durability.OS, _nothing)

    def _back(self, write: Put) -> Write:
        was = self._transient.get(write.family, write.key)
        return Delete(write.family, write.key) if was is None else Put(write.family, write.key, was)

    def end(self, *, done: bool) -> None:
        """Do what follows in memory. The durable part has ended, whatever becomes of this."""
        writes = self._after if done else self._undo
        if writes:
            try:
                self._transient.commit(writes, Durability.OS, _nothing)
            except Exception:
                log.exception("the store in memory did not take what belongs to a durable commit")


class Beside:
    """One store made of two: what belongs to a transient partition is in memory, all else is durable.

    A commit of both is one fact all the same, since nothing in memory outlives the process: new rows in memory come
    first, the durable commit decides, and what it takes away in memory goes then.
    """

    def __init__(self, durable: Store, transient: TransientStore) -> None:
        self.durable = durable
        self.transient = transient
        self.notices = durable.notices

    @property
    def read_only(self) -> str:
        return self.durable.read_only

    @property
    def rollover(self) -> Rollover:
        return self.durable.rollover

    @rollover.setter
    def rollover(self, rollover: Rollover) -> None:
        self.durable.rollover = self.transient.rollover = rollover

    # -- where things are -----------------------------------------------------------------------------------------

    def _at(self, partition: int) -> Store:
        return self.transient if partition >= FIRST_TRANSIENT else self.durable

    def _of(self, scope: Scope | None) -> Store | None:
        """None for what may be in both."""
        if scope is None:
            return None
        if scope.kind is ScopeKind.PARTITION and is_transient(int(scope.id)):
            return self.transient
        return self.durable

    def home(self, writes: Sequence[Write]) -> Store:
        """Where these go: to one of the two, or to this one, which splits them."""
        first, *others = {self._of(of_write(write)) for write in writes} or {self.durable}
        return self if others or first is None else first

    # -- commits --------------------------------------------------------------------------------------------------

    def fact(self, writes: Sequence[Write]) -> Fact:
        """What each of the two is given, and when. Raises ValueError for appends in memory: they come alone."""
        durable: list[Write] = []
        before: list[Write] = []
        after: list[Write] = []
        for write in writes:
            at = self._of(of_write(write))
            if at is not self.transient:
                durable.append(write)
            if at is not self.durable:
                if isinstance(write, Append):
                    raise ValueError("an append in memory comes with rows of a durable store")
                (before if isinstance(write, Put) else after).append(write)
        return Fact(self.transient, durable, before, after)

    def commit(
        self, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        fact = self.fact(writes)

        def ended(outcome: Outcome) -> None:
            fact.end(done=outcome is None)
            done(outcome)

        fact.begin()
        try:
            self.durable.commit(fact.durable, durability, ended)
        except Exception:
            fact.end(done=False)
            raise

    async def write(self, writes: Sequence[Write], durability: Durability) -> None:
        home = self.home(writes)
        if home is not self:
            await home.write(writes, durability)
            return
        fact = self.fact(writes)
        fact.begin()
        try:
            await self.durable.write(fact.durable, durability)
        except BaseException:
            fact.end(done=False)
            raise
        fact.end(done=True)

    def sync(self, logs: Sequence[tuple[int, int]]) -> Pending[None]:
        durable = [each for each in logs if not is_transient(each[0])]
        return self.durable.sync(durable) if durable else None

    async def reserve(self, partition: int, bases: Sequence[int]) -> list[Place]:
        return await self._at(partition).reserve(partition, bases)

    def unreserve(self, partition: int, places: Sequence[Place]) -> None:
        self._at(partition).unreserve(partition, places)

    # -- reads ----------------------------------------------------------------------------------------------------

    def load(self, scope: Scope) -> Pending[None]:
        at = self._of(scope)
        assert at is not None
        return at.load(scope)

    def get(self, family: Family, key: bytes) -> bytes | None:
        if family in _DURABLE:
            return self.durable.get(family, key)
        at = self._of(of_key(family, key))
        assert at is not None
        return at.get(family, key)

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        if family in _DURABLE:
            return self.durable.scan(family, prefix, start, limit)
        at = self._of(of_prefix(family, prefix))
        if at is not None:
            return at.scan(family, prefix, start, limit)
        both = (each.scan(family, prefix, start, limit) for each in (self.durable, self.transient))
        return islice(merge(*both), limit)

    def page(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Pending[list[tuple[bytes, bytes]]]:
        if family in _DURABLE:
            return self.durable.page(family, prefix, start, limit)
        at = self._of(of_prefix(family, prefix))
        if at is not None:
            return at.page(family, prefix, start, limit)
        found = self.durable.page(family, prefix, start, limit)
        if isinstance(found, Awaitable):
            return self._awaited(found, family, prefix, start, limit)
        return self._with(found, family, prefix, start, limit)

    async def _awaited(
        self,
        found: Awaitable[list[tuple[bytes, bytes]]],
        family: Family,
        prefix: bytes,
        start: bytes | None,
        limit: int | None,
    ) -> list[tuple[bytes, bytes]]:
        return self._with(await found, family, prefix, start, limit)

    def _with(
        self,
        found: list[tuple[bytes, bytes]],
        family: Family,
        prefix: bytes,
        start: bytes | None,
        limit: int | None,
    ) -> list[tuple[bytes, bytes]]:
        """A page of durable rows, and those in memory that belong between or behind them."""
        more = list(self.transient.scan(family, prefix, start, limit))
        return list(islice(merge(found, more), limit)) if more else found

    def log(self, partition: int) -> Log:
        return self._at(partition).log(partition)

    def leader_epoch(self, partition: int) -> int:
        return self._at(partition).leader_epoch(partition)

    # -- about itself ---------------------------------------------------------------------------------------------

    def stats(self) -> StoreStats:
        """Of the durable one."""
        return self.durable.stats()

    async def close(self) -> None:
        await self.transient.close()
        await self.durable.close()


def _nothing(outcome: Outcome) -> None:
    """Memory does not fail."""
