"""The states of a transactional id, and who its producer is."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

LAST_EPOCH = 32_766
"""The highest epoch that a producer has (KIP-360): the one above it is left for the markers that fence it."""


class State(IntEnum):
    """As Kafka numbers and names them.

    2, 3 and 7 are its PrepareCommit, PrepareAbort and PrepareEpochFence. They have no use where the end of a
    transaction is one commit; several nodes would bring them back.
    """

    EMPTY = 0
    """No transaction was begun since the producer got its id and epoch."""
    ONGOING = 1
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """There is no row: not yet, or not any more."""

    @property
    def shown(self) -> str:
        """As ListTransactions and DescribeTransactions show it."""
        return _SHOWN[self]


_SHOWN = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
}


class Producer(NamedTuple):
    """A producer id, and which of the producers that had it."""

    id: int
    epoch: int


class Partition(NamedTuple):
    """A partition of a topic. A topic that is made again under its name has another id."""

    topic_id: bytes
    """16 bytes"""
    number: int
