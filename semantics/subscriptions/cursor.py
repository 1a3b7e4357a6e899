"""One subscription on one partition: who gets which record when, and what becomes of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.key_shared import Owners
from semantics.subscriptions.rows import Row
from semantics.subscriptions.states import (
    Acquired,
    Batch,
    Draining,
    DueFrom,
    Dying,
    RecordState,
    Refusal,
)


class Cursor:
    """The machine. `now` is monotonic ms, `wall` ms since 1970."""

    start: int
    read: int

    @classmethod
    def fresh(cls, config: SubscriptionConfig, start: int) -> Cursor:
        """A subscription that begins at offset `start`."""
        raise NotImplementedError

    @classmethod
    def load(
        cls, config: SubscriptionConfig, rows: Iterable[Row], log_start: int, log_end: int, wall: int
    ) -> Cursor:
        """What the rows say. Without its DUE rows `needs_due` asks for them; with them, they must be all there are."""
        raise NotImplementedError

    @property
    def available(self) -> int:
        """Records read and not settled that are in nobody's hands and wait for no time (BLOCKED ones among them)."""
        raise NotImplementedError

    @property
    def acquired(self) -> int:
        raise NotImplementedError

    @property
    def waiting(self) -> int:
        """Records DELAYED or in BACKOFF."""
        raise NotImplementedError

    @property
    def needs_due(self) -> DueFrom | None:
        raise NotImplementedError

    def attach(self, consumer: str, now: int) -> None:
        raise NotImplementedError

    def detach(self, consumer: str, graceful: bool, now: int, wall: int) -> None:
        raise NotImplementedError

    def reassign(self, selector: Owners, now: int) -> None:
        raise NotImplementedError

    def wants_more(self, consumer: str) -> bool:
        raise NotImplementedError

    def feed(self, batches: Sequence[Batch], now: int, wall: int) -> None:
        raise NotImplementedError

    def poll(self, consumer: str, limit: int, now: int, wall: int) -> list[Acquired]:
        raise NotImplementedError

    def give_back(self, consumer: str, ranges: Sequence[tuple[int, int]], now: int) -> None:
        raise NotImplementedError

    def acknowledge(
        self, consumer: str, batches: Sequence[tuple[int, int, bytes]], now: int, wall: int
    ) -> Refusal | None:
        raise NotImplementedError

    def dying(self, limit: int) -> list[Dying]:
        raise NotImplementedError

    def buried(self, ranges: Sequence[tuple[int, int]]) -> None:
        raise NotImplementedError

    def not_buried(self, ranges: Sequence[tuple[int, int]], reason: str, retry_at_wall: int) -> None:
        raise NotImplementedError

    def tick(self, now: int, wall: int) -> None:
        raise NotImplementedError

    def next_due(self, now: int, wall: int) -> tuple[int | None, int | None]:
        raise NotImplementedError

    def due_loaded(self, rows: Iterable[Row], complete: bool) -> None:
        raise NotImplementedError

    def can_serve(self, consumer: str, log_end: int) -> bool:
        raise NotImplementedError

    def trimmed(self, log_start: int) -> None:
        raise NotImplementedError

    def skip(self, count: int, end: int) -> int:
        raise NotImplementedError

    def clear(self, end: int) -> None:
        raise NotImplementedError

    def seek(self, offset: int) -> None:
        raise NotImplementedError

    def reconfigure(self, config: SubscriptionConfig) -> None:
        raise NotImplementedError

    def writes(self) -> list[Row]:
        raise NotImplementedError

    def look(self, offset: int) -> RecordState:
        raise NotImplementedError

    def stats(self) -> dict[str, int]:
        raise NotImplementedError

    def draining(self) -> list[Draining]:
        raise NotImplementedError
