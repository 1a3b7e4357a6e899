"""Cursors that break one promise each. The simulation must find out every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from semantics.subscriptions.acknowledging import RENEW
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import CursorRow, RowKind
from semantics.subscriptions.states import Refusal


class _Changed(Cursor):
    """A cursor that is told another config than the subscription has."""

    __slots__ = ()

    changes: dict[str, Any] = {}

    @classmethod
    def fresh(cls, config: SubscriptionConfig, start: int) -> Cursor:
        return super().fresh(replace(config, **cls.changes), start)

    @classmethod
    def load(
        cls, config: SubscriptionConfig, found: Iterable[CursorRow], log_start: int, log_end: int, wall: int
    ) -> Cursor:
        return super().load(replace(config, **cls.changes), found, log_start, log_end, wall)


class DiesEarly(_Changed):
    """Dead-letters one delivery too soon."""

    __slots__ = ()
    changes = {"delivery_limit": 3}


class NotStrict(_Changed):
    """Gives later records of a key while an earlier one waits."""

    __slots__ = ()
    changes = {"strict": False}


class OutOfOrder(_Changed):
    """Gives a key to its new owner while the old one has records of it."""

    __slots__ = ()
    changes = {"strict": False, "allow_out_of_order": True}


class LongLocks(_Changed):
    """Keeps locks longer than it says."""

    __slots__ = ()
    changes = {"lock_ms": 2500}


class Early(Cursor):
    """Delivers what is delayed too early."""

    __slots__ = ()

    def tick(self, now: int, wall: int) -> None:
        super().tick(now, wall + 100)


class ForgetsRows(Cursor):
    """Does not say in one turn of eight what it changed."""

    __slots__ = ()
    turns = 0

    def writes(self) -> list[CursorRow]:
        found = super().writes()
        ForgetsRows.turns += 1
        return found if ForgetsRows.turns % 8 else [row for row in found if row.kind is RowKind.CURSOR]


class ForgetsCounts(Cursor):
    """Loses acknowledgements and counts in a restart."""

    __slots__ = ()

    @classmethod
    def load(
        cls, config: SubscriptionConfig, found: Iterable[CursorRow], log_start: int, log_end: int, wall: int
    ) -> Cursor:
        rows = [row for row in found if row.kind is not RowKind.COUNT]
        return super().load(config, rows, log_start, log_end, wall)


class ForgetsLetters(Cursor):
    """Buries again, after a restart, what was buried."""

    __slots__ = ()

    def buried(self, ranges: Sequence[tuple[int, int]], *, dropped: bool = False) -> None:
        super().buried([] if len(ranges) % 3 == 1 else ranges, dropped=dropped)


class IgnoresOwners(Cursor):
    """Does not hear of every change of owners."""

    __slots__ = ()
    heard = 0

    def reassign(self, selector: Any, now: int) -> None:
        IgnoresOwners.heard += 1
        if IgnoresOwners.heard % 5:
            super().reassign(selector, now)


class AcksForAll(Cursor):
    """Takes the acknowledgement of whoever sends it."""

    __slots__ = ()

    def acknowledge(
        self, consumer: str, batches: Sequence[tuple[int, int, bytes]], now: int, wall: int, most: int = RENEW
    ) -> Refusal | None:
        super().acknowledge(consumer, batches, now, wall, most)
        return None


class ForgetsToAsk(Cursor):
    """Does not think it worth waking anybody for what came back."""

    __slots__ = ()

    def can_serve(self, consumer: str, log_end: int) -> bool:
        return self.read < log_end


SABOTAGES: dict[str, tuple[type[Cursor], str]] = {
    "dies-early": (DiesEarly, "shared"),
    "not-strict": (NotStrict, "strict"),
    "out-of-order": (OutOfOrder, "not-strict"),
    "long-locks": (LongLocks, "shared"),
    "early": (Early, "shared"),
    "forgets-rows": (ForgetsRows, "shared"),
    "forgets-counts": (ForgetsCounts, "shared"),
    "forgets-letters": (ForgetsLetters, "shared"),
    "ignores-owners": (IgnoresOwners, "strict"),
    "acks-for-all": (AcksForAll, "shared"),
    "forgets-to-ask": (ForgetsToAsk, "shared"),
}
"""Name -> the cursor, and a scenario in which it shows."""
