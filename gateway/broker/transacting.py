"""What a partition has to do with transactions: which batches of them it takes, and how they end there.

What the open turn has of them is kept here until the turn asks for it. Which producer has a transaction open, and with
which partitions, others know (`Transactions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.aborted_transactions import Aborted, AbortedTransactions, cut, put
from gateway.broker.errors import KafkaError
from gateway.broker.open_transactions import OpenTransactions
from gateway.wire.batch import end_marker
from gateway.wire.errors import Error
from semantics.names import dotted
from store.limits import CARRIED_BYTES

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.topic_runtime import Transactions
    from gateway.wire.batch import Header
    from store.api import Log, Write


class ReadsCommitted:
    """What readers of committed records ask of a partition: see `Readable`."""

    __slots__ = ()

    high_watermark: int
    log: Log
    open: OpenTransactions
    transacting: Transacting

    @property
    def last_stable_offset(self) -> int:
        """All below it is decided: committed, aborted, or of no transaction."""
        high = self.high_watermark
        return high if self.open.first >= high else self.open.stable(self.log.start_offset, high)

    def aborted_from(self, offset: int) -> bool:
        """See `Readable`."""
        aborted = self.transacting.aborted
        return offset < aborted.clean_from and aborted.any_from(offset)

    def aborted_over(self, start: int, end: int) -> tuple[list[tuple[int, int]], int]:
        """See `Readable`."""
        found, below = cut(self.transacting.aborted.over(start, end), start)
        return [(each.producer_id, each.first) for each in found], below

    def size_between(self, start: int, end: int) -> int:
        """See `Readable`."""
        return self.log.size_from(start) - self.log.size_from(end)


class Transacting:
    """Of one partition."""

    __slots__ = ("_partition", "_touched", "_writes", "aborted", "open")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.open = OpenTransactions(partition.producers.open())
        self.aborted = AbortedTransactions(partition.store, partition.id)
        # of the open turn: first offsets of transactions that it has batches of, and rows that go with it
        self._touched: set[int] = set()
        self._writes: list[Write] = []

    # -- batches ------------------------------------------------------------------------------------------------------

    def check(self, header: Header) -> None:
        """Whether batches of transactions are taken at all. Raises KafkaError."""
        partition = self._partition
        if not partition.transactional:
            raise KafkaError(
                Error.POLICY_VIOLATION,
                f"Topic {dotted(partition.topic.name)} is not persistent: its messages take no part in transactions.",
            )
        if header.producer_id < 0:
            raise KafkaError(Error.INVALID_TXN_STATE, "A batch of a transaction must have a producer id.")

    def check_plain(self, producer_id: int) -> None:
        """Whether a producer may send a batch of no transaction. Raises KafkaError INVALID_TXN_STATE."""
        if self._partition.producers.open_from(producer_id) >= 0:
            raise KafkaError(
                Error.INVALID_TXN_STATE, "The producer has a transaction open here: this batch is not of it."
            )

    def admit(self, transactions: Transactions, header: Header, implicit: bool) -> None:
        """A batch is taken, unless this raises KafkaError."""
        self._writes += transactions.admit(
            header.producer_id, header.producer_epoch, self._partition, implicit
        )

    def took(self, producer_id: int, base_offset: int) -> None:
        """The table of producers took the batch."""
        first = self._partition.producers.begin(producer_id, base_offset)
        self.open.begin(first, producer_id)
        self._touched.add(first)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def check_end(self, producer_id: int, committed: bool) -> bool:
        """Whether a transaction of this producer has records here, so that it gets a marker.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER; KAFKA_STORAGE_ERROR when nothing can be written;
        TRANSACTION_ABORTABLE when it must not be `committed`, since a power cut may have taken records of it.
        """
        partition = self._partition
        if partition.stale:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        producer = partition.producers.producers.get(producer_id)
        if producer is None or producer.open_from < 0:
            return False
        if partition.log.refuses:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, partition.log.refuses)
        if committed and producer.torn:
            raise KafkaError(
                Error.TRANSACTION_ABORTABLE,
                f"A power cut may have taken records of this transaction from partition {partition.index} of topic "
                f"{dotted(partition.topic.name)}: it can only be aborted.",
            )
        return True

    def end(self, producer_id: int, epoch: int, committed: bool, coordinator_epoch: int, now: int) -> bool:
        """See `Partition.end_transaction`."""
        if not self.check_end(producer_id, committed):
            return False
        partition = self._partition
        marker = partition.next_offset
        first = partition.producers.end(producer_id, epoch, coordinator_epoch, now)
        self.open.end(first, producer_id, marker)
        if not committed:
            self._writes.append(put(partition.id, Aborted(marker, producer_id, first)))
            self.aborted.added(marker)
        batch = end_marker(
            marker, producer_id, epoch, commit=committed, coordinator_epoch=coordinator_epoch, timestamp=now
        )
        partition.append_carried(batch, 1, now)
        return True

    def to_sync(self, producer_id: int) -> tuple[int, int] | None:
        """What `Store.sync` is to be asked for before a producer's open transaction is committed: a power cut may take
        records of it, and leave the commit.
        """
        first = self._partition.producers.open_from(producer_id)
        return (self._partition.id, first) if first in self.open.unsynced else None

    # -- the turn -----------------------------------------------------------------------------------------------------

    def carries(self, size: int) -> bool:
        """Whether the turn's `size` bytes are carried because of what is of transactions in them."""
        touched, self._touched = self._touched, set()
        if not touched or size <= CARRIED_BYTES:
            return bool(touched)
        if self._partition.topic.config.durability != "fsync":
            self.open.unsynced |= touched
        return False

    def take_writes(self) -> list[Write]:
        """Rows that go with the turn."""
        writes, self._writes = self._writes, []
        return writes

    def forget(self) -> None:
        """The turn is dropped."""
        self._touched, self._writes = set(), []
