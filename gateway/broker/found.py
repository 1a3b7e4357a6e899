"""What a look at one partition gave to a fetch, and how much of it its client may have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from gateway.broker.open_transactions import NEVER
from gateway.wire.delivery import before, up_to
from gateway.wire.errors import Error
from store.api import Buffer, Corrupt, Piece, Stored, StoreError

if TYPE_CHECKING:
    from gateway.broker.dispatching import Dispatching
    from gateway.broker.fetch_sessions import Wanted
    from gateway.broker.loading import Loading
    from gateway.broker.readable import Readable

NOTHING: Sequence[Piece] = ()


class Found:
    """What a look at one partition gave."""

    __slots__ = (
        "aborted",
        "buffers",
        "careful",
        "committed",
        "error",
        "high",
        "limit",
        "loading",
        "most",
        "pace",
        "partition",
        "records",
        "size",
        "stable",
        "start",
        "unsaid",
        "waits",
        "wanted",
        "whole_first",
    )

    def __init__(self, wanted: Wanted, error: int) -> None:
        self.wanted = wanted
        self.error = error
        self.high = self.stable = self.start = -1
        # whether it goes up to the last stable offset only; of which aborted transactions it has records
        self.committed = False
        # whether transactions may have to do with what is read for that
        self.careful = False
        self.aborted: Sequence[tuple[int, int]] = ()
        # what was lent says not enough about transactions: it must be read here
        self.unsaid = False
        self.buffers: Sequence[Piece] = NOTHING
        self.size = 0
        self.waits: Awaitable[Sequence[Piece]] | None = None
        self.loading: Loading | None = None
        # of whom how much was asked for
        self.partition: Readable | None = None
        self.limit = 0
        self.whole_first = False
        # what bounds it, to how many records, and how many it has
        self.pace: Dispatching | None = None
        self.most = self.records = 0

    def drop(self) -> None:
        """It is looked for again."""
        if self.waits is not None:
            asyncio.ensure_future(self.waits).cancel()
        for each in self.buffers:
            if isinstance(each, Stored):
                each.release()

    @property
    def end(self) -> int:
        """Up to where its client reads."""
        return self.stable if self.committed else self.high

    def coming(self) -> int:
        """Bytes that a disk may give at most."""
        return min(self.limit, self.partition.size) if self.partition is not None else 0

    def take(self, buffers: Sequence[Piece]) -> None:
        self.unsaid = False
        if self.careful and self.partition is not None and buffers:
            try:
                told = committed_of(self.partition, self.wanted.offset, self.stable, buffers)
                self.unsaid = told is None
                buffers, self.aborted = told or (NOTHING, ())
            except StoreError as error:
                buffers = NOTHING
                self.fail(self.partition, error)
        if self.pace is not None:
            # nothing of it was lent
            read = [each for each in buffers if not isinstance(each, Stored)]
            buffers, self.records = up_to(read, self.wanted.offset, self.most)
        self.buffers = buffers
        self.size = sum(map(len, buffers))

    def fail(self, partition: Readable | None, error: Exception) -> None:
        """Nothing can be read there."""
        self.error = _told(partition, error)


def committed_of(
    partition: Readable, offset: int, stable: int, buffers: Sequence[Piece]
) -> tuple[Sequence[Piece], Sequence[tuple[int, int]]] | None:
    """(what there is from `offset` to below the last stable offset, of which aborted transactions it may have
    records), of what was read. All of it as it is where no transaction has anything to do with it. None where it was
    lent and must be read for that: it is released. Raises StoreError.
    """
    if partition.open.first == NEVER and not partition.aborted_from(offset):
        return buffers, ()
    read: list[Buffer] = []
    lent: list[Stored] = []
    for each in buffers:
        if isinstance(each, Stored):
            lent.append(each)
        else:
            read.append(each)
    if lent:
        said = _of_lent(partition, offset, stable, lent)
        if said is None:
            for other in lent:
                other.release()
            return None
        return buffers, said
    whole, end = before(read, stable)
    aborted, told = partition.aborted_over(offset, end)
    if told < end:
        # the first batch in any case
        whole, _ = before(whole, told)
    return whole, aborted


def _of_lent(
    partition: Readable, offset: int, stable: int, lent: Sequence[Stored]
) -> Sequence[tuple[int, int]] | None:
    """Of which aborted transactions bytes may have records that nobody has read; None where that is not known, or not
    all of it is decided.
    """
    below = max([each.below for each in lent])
    if below > stable:
        return None
    aborted, told = partition.aborted_over(offset, below)
    return aborted if told >= below else None


def moved(partition: Readable | None, seen: Found) -> bool:
    """Whether a partition has changed since it was looked at, while a disk was asked for others. Who watches it was
    told then, and would not look at it again. Where it is stable moves only with one of these.
    """
    return partition is not None and (
        partition.stale or partition.high_watermark != seen.high or partition.log_start != seen.start
    )


async def read_in_memory(
    partition: Readable, offset: int, limit: int, whole_first: bool
) -> tuple[Sequence[Piece], int]:
    """(bytes that lie in memory, error code)"""
    try:
        data = partition.fetch(offset, limit, whole_first=whole_first, least=None)
        return data if isinstance(data, list) else await data, Error.NONE
    except (IndexError, StoreError) as error:
        return NOTHING, _told(partition, error)


def _told(partition: Readable | None, error: Exception) -> int:
    """The code of what was said when it was read; operators are told too."""
    if partition is not None and isinstance(error, StoreError):
        # an IndexError is no fault: a failed commit, or a trim, took the log back under this fetch
        partition.unreadable(error)
    return Error.CORRUPT_MESSAGE if isinstance(error, Corrupt) else Error.KAFKA_STORAGE_ERROR
