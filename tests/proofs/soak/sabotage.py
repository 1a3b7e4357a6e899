"""Promises that a gateway may be made to break, each of which the proof must notice."""

from __future__ import annotations

from typing import Any

from gateway.apis.produce import ProduceSlot
from gateway.broker.turn import Turn
from store.api import Family
from store.rocksdb import opening, rows


def answer_early() -> None:
    """Answers leave before the commit, and the commit never happens for a turn in twenty."""
    end = Turn.end
    turns = 0

    def early(self: Turn) -> None:
        nonlocal turns
        turns += 1
        if turns % 20 == 0 and self._slots and not self._writes:
            slots: list[Any] = self._slots
            for each in self._partitions:
                each.pending, each.pending_bytes = [], 0
                each.next_offset = each.high_watermark
            self._clear()
            self._scheduled = False
            for slot in slots:
                assert isinstance(slot, ProduceSlot)
                slot.settle(None)
            self._broker.flush_connections()
            return
        end(self)

    Turn.end = early  # type: ignore[method-assign]


def _at_start(change: Any) -> None:
    opened = opening._open

    def changed(path: Any, database: Any, *rest: Any) -> Any:
        batch = database.batch()
        change(database, batch)
        database.write(batch)
        return opened(path, database, *rest)

    opening._open = changed  # type: ignore[assignment]


def forget_producers() -> None:
    """A start drops what is known of idempotent producers: their retries are stored twice."""

    def change(database: Any, batch: Any) -> None:
        for key, _ in database.scan(Family.DEDUP):
            batch.delete(key, database.handles["dedup"])

    _at_start(change)


def forget_offsets() -> None:
    """A start drops committed offsets."""

    def change(database: Any, batch: Any) -> None:
        for key, _ in database.scan(Family.OFFSET):
            batch.delete(key, database.handles["offset"])

    _at_start(change)


def same_epoch() -> None:
    """A start takes the epoch of the one before it."""

    def change(database: Any, batch: Any) -> None:
        last = int(database.get(Family.META, rows.EPOCH_COUNTER) or b"0")
        if last:
            batch.put(rows.EPOCH_COUNTER, str(last - 1).encode(), database.handles["meta"])

    _at_start(change)


def cut_logs() -> None:
    """A start takes the last ten records of each log away."""

    def change(database: Any, batch: Any) -> None:
        for key, value in database.scan(Family.LOG):
            row = rows.log_row(value)
            if row.end > row.start + 10:
                batch.put(key, rows.LOG.pack(*row._replace(end=row.end - 10)), database.handles["log"])

    _at_start(change)


SABOTAGES = {
    "answer-early": answer_early,
    "forget-producers": forget_producers,
    "forget-offsets": forget_offsets,
    "same-epoch": same_epoch,
    "cut-logs": cut_logs,
}
