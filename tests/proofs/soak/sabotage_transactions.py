"""Promises of transactions that a gateway may be made to break."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gateway.broker.partition import Partition
from gateway.broker.transactions import Transactions
from semantics.transactions.events import End

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


TRANSACTIONS = {
    "tear-transactions": tear,
    "commit-aborted": commit_aborted,
}
