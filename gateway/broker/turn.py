"""What one turn of the event loop brought becomes one commit.

Everything that arrives in a turn (batches of all connections, offsets, catalog changes) is collected here; at the end
of the turn it goes to the store as one group. Work is by group and not by request: that is where the speed is from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from store.api import Append, Durability, Outcome, Refused, StoreError, Unknown, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.cursor import Cursor

log = logging.getLogger("magnetar.broker")

MAX_BYTES = 4 * 1024 * 1024
"""A turn that has collected this much ends before the loop comes round."""


class Slot(Protocol):
    """A request that is answered when its turn's commit is over."""

    def settle(self, outcome: Outcome) -> None: ...


class Turn:
    """The open group. `touch` and `write` fill it; `end` sends it to the store and opens the next one."""

    __slots__ = (
        "_began",
        "_broker",
        "_durability",
        "_partitions",
        "_scheduled",
        "_slots",
        "_subscriptions",
        "_writes",
        "bytes",
        "in_flight",
    )

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._scheduled = False
        # when its first request came, in ns
        self._began = 0
        # groups that the store has not answered yet
        self.in_flight = 0
        self._clear()

    def _clear(self) -> None:
        self._partitions: list[Partition] = []
        self._slots: list[Slot] = []
        self._subscriptions: list[SubscriptionPartition] = []
        self._writes: list[tuple[Sequence[Write], Callable[[Outcome], None]]] = []
        self._durability = Durability.OS
        # bytes of batches in this turn
        self.bytes = 0

    def touch(self, partition: Partition) -> None:
        """A partition has pending batches."""
        self._partitions.append(partition)
        if partition.topic.config.durability == "fsync":
            self._durability = Durability.FSYNC
        if not self._scheduled:
            self.schedule()

    def touch_subscription(self, at: SubscriptionPartition) -> None:
        """A subscription's cursor has changed; to be called once a turn, by the one that changed."""
        self._subscriptions.append(at)
        if at.partition.topic.config.durability == "fsync":
            self._durability = Durability.FSYNC
        if not self._scheduled:
            self.schedule()

    def await_commit(self, slot: Slot) -> None:
        """`slot.settle` is called when everything in the turn, and before it, is committed or has failed."""
        self._slots.append(slot)
        if not self._scheduled:
            self.schedule()

    def write(
        self, writes: Sequence[Write], done: Callable[[Outcome], None], durability: Durability | None = None
    ) -> None:
        """Writes that are not batches; `done` is called with the outcome of the commit."""
        self._writes.append((writes, done))
        if (durability or self._broker.durability) is Durability.FSYNC:
            self._durability = Durability.FSYNC
        if not self._scheduled:
            self.schedule()

    def schedule(self) -> None:
        self._scheduled = True
        self._began = self._broker.clock_ns()
        self._broker.loop.call_soon(self.end)

    def end(self) -> None:
        """Send what was collected to the store."""
        broken = ""
        for at in self._subscriptions:
            # may append dead letters, in this turn
            try:
                at.prepare()
            except Exception as error:
                # A fault of ours: half of what belongs together must not be stored.
                log.exception("dead letters of a subscription failed")
                broken = f"dead letters failed: {error}"
        self._scheduled = False
        partitions, slots, others, durability = self._partitions, self._slots, self._writes, self._durability
        subscriptions = self._subscriptions
        if not (partitions or slots or others or subscriptions):
            return
        self._clear()
        # First what is not batches: a producer that is forgotten and comes back in the same turn has its row again.
        writes: list[Write] = [write for more, _ in others for write in more]
        ends: list[tuple[Partition, int, int]] = []
        cursors: list[tuple[SubscriptionPartition, Cursor | None]] = []
        for at in subscriptions:
            cursors.append((at, at.cursor))
            try:
                writes += at.writes()
            except Exception as error:
                # A fault of ours: what it was to say must not be taken for stored, nor what is stored beside it.
                log.exception("a subscription failed")
                broken = f"a subscription failed: {error}"
        batches = messages = size = 0
        for partition in partitions:
            pending = partition.pending
            if not pending:
                continue
            writes.append(
                Append(
                    partition.id,
                    partition.pending_base,
                    partition.next_offset,
                    partition.pending_max_timestamp,
                    pending,
                    partition.leader_epoch,
                    partition.pending_carried,
                )
            )
            rows = partition.producers.flush()
            if rows:
                writes.extend(rows)
            ends.append((partition, partition.next_offset, partition.pending_bytes))
            batches += len(pending)
            messages += partition.next_offset - partition.pending_base
            size += partition.pending_bytes
            partition.pending = []
            partition.pending_bytes = 0
            partition.pending_carried = False
        if not (writes or slots or others or broken):
            # cursors that had nothing to write
            for at, _ in cursors:
                at.committed()
            return
        broker = self._broker
        clock = broker.clock_ns
        started = clock()
        began = self._began
        self.in_flight += 1

        def done(outcome: Outcome) -> None:
            self.in_flight -= 1
            now = clock()
            broker.observe_commit((now - started) * 1e-9, len(slots), len(ends))
            if outcome is not None:
                self._failed(ends, slots, others, cursors, outcome)
                return
            if broker.failing and writes:
                broker.commit_succeeded()
            if slots:
                # One measure for all of a turn: they came within it, and leave together.
                broker.observe_produce((now - began) * 1e-9, len(slots), batches, messages, size)
            # What is stored is visible before anybody is told, and told before anybody is woken.
            for partition, end, _ in ends:
                partition.high_watermark = end
            for slot in slots:
                slot.settle(None)
            for _, callback in others:
                _tell(callback, None)
            broker.flush_connections()
            for partition, _, grown in ends:
                if partition.waiters:
                    partition.grown(grown)
            for at, _ in cursors:
                at.committed()

        if broken:
            done(Refused(broken))
            return
        try:
            broker.store.commit(writes, durability, done)
        except Exception as error:
            # The store refuses what would break its own rules: nothing of it is written, and nobody may wait for ever.
            log.exception("the store did not take a group")
            done(Refused(f"the group was not taken: {error}"))

    def _failed(
        self,
        ends: list[tuple[Partition, int, int]],
        slots: list[Slot],
        others: list[tuple[Sequence[Write], Callable[[Outcome], None]]],
        cursors: list[tuple[SubscriptionPartition, Cursor | None]],
        outcome: StoreError,
    ) -> None:
        """The one failure path: what the commit touched is thrown away and read again from the store.

        The open turn goes with it: its offsets continue those that were not stored.
        """
        partitions = [partition for partition, _, _ in ends] + self._partitions
        open_slots, open_others, touched = self._slots, self._writes, self._subscriptions
        self._clear()
        self._broker.commit_failed(partitions, outcome)
        for at, cursor in cursors:
            at.failed(cursor, in_flight=True)
        for at in touched:
            at.failed(at.cursor, in_flight=False)
        for slot in slots:
            slot.settle(outcome)
        for _, callback in others:
            _tell(callback, outcome)
        behind = outcome if type(outcome) is not Unknown else StoreError("a write before this one failed")
        for slot in open_slots:
            slot.settle(behind)
        for _, callback in open_others:
            _tell(callback, behind)
        self._broker.flush_connections()


def _tell(callback: Callable[[Outcome], None], outcome: Outcome) -> None:
    """One that breaks must not keep the others of its turn waiting."""
    try:
        callback(outcome)
    except Exception:
        log.exception("a callback of a commit failed")
