"""Promises of transactions that a gateway may be made to break."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from gateway.broker.partition import Partition
from gateway.broker.staged_offsets import StagedOffsets
from gateway.broker.transacted_acks import TransactedAcks
from gateway.broker.transacting import ReadsCommitted
from gateway.broker.transactions import Transactions
from semantics.transactions.connections import NewestConnections
from semantics.transactions.events import End
from semantics.transactions.transaction import Transaction

Partitions = Sequence[Partition]


def _ends(change: Callable[[End, Partitions], tuple[End, Partitions]], often: int) -> None:
    """One end in so many is another than was asked for."""
    end = Transactions._end
    ends = 0

    def changed(self: Transactions, name: str, what: End, partitions: Partitions) -> Any:
        nonlocal ends
        ends += 1
        return end(self, name, *(change(what, partitions) if ends % often == 0 else (what, partitions)))

    Transactions._end = changed  # type: ignore[assignment, method-assign]


def tear(often: int = 10) -> None:
    """A transaction ends in all of its partitions but the last one."""
    _ends(lambda what, partitions: (what, partitions[:-1]), often)


def commit_aborted() -> None:
    """What was aborted is committed."""
    _ends(lambda what, partitions: (what._replace(committed=True), partitions), 10)


def late_ends() -> None:
    """An EndTxn of the old protocol counts whenever it comes (KAFKA-17754)."""
    NewestConnections.takes = lambda self, *of: True  # type: ignore[method-assign]


def serve_zombies() -> None:
    """Whoever has the producer id is the producer, whatever its epoch."""
    step = Transaction.step

    def changed(self: Transaction, event: Any, *when: int) -> Any:
        producer = getattr(event, "producer", None)
        if producer is not None and self.head is not None and producer.id == self.head.producer.id:
            event = event._replace(producer=self.head.producer)
        return step(self, event, *when)

    Transaction.step = changed  # type: ignore[assignment, method-assign]


def stable_back() -> None:
    """Now and then the last stable offset is ten less."""
    known = inspect.getattr_static(ReadsCommitted, "last_stable_offset").fget
    asked = itertools.count()
    ReadsCommitted.last_stable_offset = property(  # type: ignore[method-assign, assignment]
        lambda self: max(known(self) - 10 * (next(asked) % 50 == 49), self.log.start_offset)
    )


def offsets_alone() -> None:
    """Offsets are committed although their transaction is aborted."""
    end = StagedOffsets.end
    StagedOffsets.end = lambda self, name, *, committed: end(  # type: ignore[assignment, method-assign]
        self, name, committed=True
    )


def output_alone() -> None:
    """One transaction in ten is committed without its offsets."""
    end, ends = StagedOffsets.end, itertools.count(1)
    StagedOffsets.end = lambda self, name, *, committed: end(  # type: ignore[assignment, method-assign]
        self, name, committed=committed and next(ends) % 10 > 0
    )


def acks_lost() -> None:
    """One transaction in ten is committed without its acknowledgements."""
    end, ends = TransactedAcks.end, itertools.count(1)
    TransactedAcks.end = lambda self, name, *, committed: end(  # type: ignore[assignment, method-assign]
        self, name, committed=committed and next(ends) % 10 > 0
    )


def acks_alone() -> None:
    """Messages are acknowledged although their transaction is aborted."""
    end = TransactedAcks.end
    TransactedAcks.end = lambda self, name, *, committed: end(  # type: ignore[assignment, method-assign]
        self, name, committed=True
    )


TRANSACTIONS = {
    "acks-lost": acks_lost,
    "acks-alone": acks_alone,
    "offsets-alone": offsets_alone,
    "output-alone": output_alone,
    "late-ends": late_ends,
    "serve-zombies": serve_zombies,
    "stable-back": stable_back,
    "tear-transactions": tear,
    "commit-aborted": commit_aborted,
}
