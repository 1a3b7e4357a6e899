"""Promises that a gateway may be made to break, each of which the proof must notice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gateway.apis.produce_slots import ProduceSlot
from gateway.broker.acknowledging import Acknowledging
from gateway.broker.partition import Partition
from gateway.broker.subscriptions.collecting import Collected
from gateway.broker.subscriptions.letter_kinds import Dead
from gateway.broker.subscriptions.letters import Burial, Letters
from gateway.broker.turn import Turn
from gateway.promise import Promise
from semantics.lanes.lane import Lane
from semantics.subscriptions import rows as cursor_rows
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import AVAILABLE, BACKOFF, DELAYED, DONE
from store.api import Family
from store.rocksdb import rows
from store.rocksdb.database import Database
from tests.proofs.soak.at_start import at_start
from tests.proofs.soak.sabotage_compaction import COMPACTION
from tests.proofs.soak.sabotage_policies import POLICIES
from tests.proofs.soak.sabotage_transactions import TRANSACTIONS


def answer_early() -> None:
    """Answers leave before the commit, and the commit never happens for a turn in twenty."""
    end = Turn.end
    turns = 0

    def early(self: Turn) -> None:
        nonlocal turns
        turns += 1
        opened = list(self._open.values())
        slots = [slot for each in opened for slot in each.slots] + self._slots
        if turns % 20 == 0 and slots and not self._callbacks and not any(each.rows for each in opened):
            for each in opened:
                for partition in each.records:
                    assert isinstance(partition, Partition)
                    partition._batches, partition._size = [], 0
                    partition.next_offset = partition.high_watermark
            self._open.clear()
            self._slots, self._preparing, self.bytes, self._scheduled = [], [], 0, False
            for slot in slots:
                assert isinstance(slot, ProduceSlot)
                slot.settle(None)
            self.flush()
            return
        end(self)

    Turn.end = early  # type: ignore[method-assign]


def forget_producers() -> None:
    """A start drops what is known of idempotent producers: their retries are stored twice."""

    def change(database: Database, batch: Any) -> None:
        for key, _ in database.scan(Family.DEDUP):
            batch.delete(key, database.handles["dedup"])

    at_start(change)


def forget_offsets() -> None:
    """A start drops committed offsets."""

    def change(database: Database, batch: Any) -> None:
        for key, _ in database.scan(Family.OFFSET):
            batch.delete(key, database.handles["offset"])

    at_start(change)


def same_epoch() -> None:
    """A start takes the epoch of the one before it."""

    def change(database: Database, batch: Any) -> None:
        last = int(database.get(Family.META, rows.EPOCH_COUNTER) or b"0")
        if last:
            batch.put(rows.EPOCH_COUNTER, str(last - 1).encode(), database.handles["meta"])

    at_start(change)


def cut_logs() -> None:
    """A start takes the last ten records of each log away."""

    def change(database: Database, batch: Any) -> None:
        for key, value in database.scan(Family.LOG):
            row = rows.log_row(value)
            if row.end > row.start + 10:
                batch.put(key, rows.LOG.pack(*row._replace(end=row.end - 10)), database.handles["log"])

    at_start(change)


# -- share groups ------------------------------------------------------------------------------------------------------


def _chunks(change: Any) -> None:
    """A start finds other chunks of cursors than were stored."""
    read = cursor_rows.read_chunk

    def changed(number: int, value: bytes) -> Any:
        chunk = read(number, value)
        change(chunk)
        return chunk

    cursor_rows.read_chunk = changed


def forget_acks() -> None:
    """A start takes what is settled above the first open record for open."""
    table = bytes.maketrans(bytes([DONE]), bytes([AVAILABLE]))

    def change(chunk: Any) -> None:
        chunk.state = chunk.state.translate(table)

    _chunks(change)


def forget_open() -> None:
    """A start takes an open record for settled."""

    def change(chunk: Any) -> None:
        chunk.state = chunk.state.replace(bytes([AVAILABLE]), bytes([DONE]), 1)

    _chunks(change)


def forget_counts() -> None:
    """A start begins to count deliveries anew."""

    def change(chunk: Any) -> None:
        chunk.count = None

    _chunks(change)


def forget_due() -> None:
    """A start takes what is delayed or backed off for due."""
    table = bytes.maketrans(bytes([DELAYED, BACKOFF]), bytes([AVAILABLE, AVAILABLE]))

    def change(chunk: Any) -> None:
        chunk.state = chunk.state.translate(table)

    _chunks(change)


def ack_early() -> None:
    """Acknowledgements are answered before they are stored."""
    Acknowledging._when_durable = lambda self, answer: answer  # type: ignore[method-assign]


def _configured(**changes: Any) -> None:
    """Cursors go by other rules than the group's."""
    load, fresh = Cursor.load, Cursor.fresh

    def other(config: Any) -> Any:
        found = {name: value(config) if callable(value) else value for name, value in changes.items()}
        return replace(config, **found)

    Cursor.load = classmethod(  # type: ignore[assignment, method-assign]
        lambda cls, config, *rest: load(other(config), *rest)
    )
    Cursor.fresh = classmethod(  # type: ignore[assignment, method-assign]
        lambda cls, config, start: fresh(other(config), start)
    )


def die_early() -> None:
    """A record is dead one delivery too early."""
    _configured(delivery_limit=lambda config: config.delivery_limit - 1)


def loose_keys() -> None:
    """Records of one key go to whoever asks."""
    _configured(strict=False, allow_out_of_order=True)


def bury_in_two(seconds: float = 1.0) -> None:
    """A dead letter and the end of the record that it was are two commits, so far apart."""
    settle = Dead.settle

    def later(self: Dead, cursor: Cursor, ranges: Sequence[tuple[int, int]]) -> None:
        asyncio.get_running_loop().call_later(seconds, settle, self, cursor, list(ranges))

    Dead.settle = later  # type: ignore[method-assign]


def bury_nothing() -> None:
    """One burial in ten forgets the dead letter."""
    append = Letters._append
    burials = 0

    def some(self: Letters, burial: Burial, base: str, collected: Collected) -> Promise[None] | None:
        nonlocal burials
        burials += 1
        if burials % 10 == 0:
            burial.kind.settle(burial.cursor, collected.ranges)
            burial.at.touch()
            return None
        return append(self, burial, base, collected)

    Letters._append = some  # type: ignore[method-assign]


def ack_one_more() -> None:
    """A commit of a queue topic acknowledges the record behind what it says, too."""
    commit = Lane.commit
    Lane.commit = lambda self, offset, *rest, **more: commit(  # type: ignore[method-assign]
        self, min(offset + 1, self.end), *rest, **more
    )


def forget_lanes() -> None:
    """A start drops what is known of lanes: their offsets begin anew."""

    def change(database: Database, batch: Any) -> None:
        for key, _ in database.scan(Family.LANE):
            batch.delete(key, database.handles["lane"])

    at_start(change)


SABOTAGES = {
    **POLICIES,
    **TRANSACTIONS,
    **COMPACTION,
    "answer-early": answer_early,
    "ack-one-more": ack_one_more,
    "forget-lanes": forget_lanes,
    "forget-producers": forget_producers,
    "forget-offsets": forget_offsets,
    "same-epoch": same_epoch,
    "cut-logs": cut_logs,
    "forget-acks": forget_acks,
    "forget-open": forget_open,
    "forget-counts": forget_counts,
    "forget-due": forget_due,
    "ack-early": ack_early,
    "die-early": die_early,
    "loose-keys": loose_keys,
    "bury-in-two": bury_in_two,
    "bury-nothing": bury_nothing,
}
