"""What a fetch asks of what it reads. A partition offers it, and so can whatever else has records at dense offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.broker.open_transactions import OpenTransactions
from store.api import Piece, StoreError
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.dispatching import Dispatching


class Watcher(Protocol):
    """Somebody who waits for more to read (or for its end)."""

    def wake(self, partition: Readable, appended: int) -> None:
        """`appended` bytes are newly readable; 0 when something else changed (trimmed, deleted, failed)."""


class Decided:
    """Of a `Readable` that no transaction has anything to do with."""

    __slots__ = ()

    high_watermark: int
    open = OpenTransactions()

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def aborted_from(self, offset: int) -> bool:
        return False

    def aborted_over(self, start: int, end: int) -> tuple[list[tuple[int, int]], int]:
        return [], end

    def size_between(self, start: int, end: int) -> int:
        return 0


class Readable(Protocol):
    """Record batches from `log_start` up to `high_watermark`."""

    bytes_out: int
    """of records that were told, counted by who tells them"""
    watchers: set[Watcher]
    open: OpenTransactions

    @property
    def stale(self) -> bool:
        """Whether another object stands for it by now."""
        ...

    @property
    def dispatching(self) -> Dispatching | None:
        """What the rate of its readers is kept by, if it has one."""
        ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log_start(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int:
        """All below it is decided: who reads what is committed reads up to here."""
        ...

    def aborted_from(self, offset: int) -> bool:
        """Whether records of an aborted transaction may be there or behind. Raises StoreError."""
        ...

    def aborted_over(self, start: int, end: int) -> tuple[list[tuple[int, int]], int]:
        """(aborted transactions with records from `start` to below `end`: producer id, first offset; up to where these
        are all: an answer goes no further). Raises StoreError.
        """
        ...

    def size_between(self, start: int, end: int) -> int:
        """Bytes of the records from `start` to below `end`."""
        ...

    @property
    def size(self) -> int:
        """Bytes stored."""
        ...

    def news_for(self, connection: int) -> bool:
        """Whether a connection that fetches here for the first time, or again after it was `stale`, is to look for
        leaders first. Once told it is not told again.
        """
        ...

    def fetch(
        self, offset: int, max_bytes: int, *, whole_first: bool, least: int | None
    ) -> Pending[list[Piece]]:
        """As `Log.lend` with such a `least`, or as `Log.read` when that is None; past damaged batches where its policy
        is to skip them. Raises IndexError and StoreError, as they do.
        """
        ...

    def spanned(self, offset: int) -> list[Piece]:
        """What leads a client past offsets that have no records any more, up to the high watermark, when the fetch
        before has found nothing there; nothing where that is not so. For fetches that have waited: some clients ask
        again and again at an empty batch.
        """
        ...

    def at_end(self) -> None:
        """A fetch has come to its end, and waits for more."""
        ...

    def unreadable(self, error: StoreError) -> None:
        """A fetch was refused with this: operators are told."""
        ...
