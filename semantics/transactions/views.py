"""What tools see of transactional ids: DescribeTransactions and ListTransactions."""

from __future__ import annotations

from typing import NamedTuple

from semantics.transactions.rows import Head
from semantics.transactions.states import Partition, Producer, State

STATE_NAMES = frozenset(
    {state.shown for state in State} | {"PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
)
"""All that Kafka has: a filter that asks for one of them is understood, though nothing may ever be in it."""


class Described(NamedTuple):
    """A transactional id as DescribeTransactions shows it. Times in ms, `start` since 1970 or -1."""

    transactional_id: str
    producer: Producer
    state: str
    timeout_ms: int
    start: int
    partitions: tuple[Partition, ...]
    """sorted"""
    groups: tuple[str, ...]
    """sorted; those whose offsets are in the transaction"""


class Listed(NamedTuple):
    """A transactional id as ListTransactions shows it."""

    transactional_id: str
    producer_id: int
    state: str


class Filter(NamedTuple):
    """What ListTransactions asks for; what is empty or negative asks for all."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1


def listed(transactional_id: str, head: Head) -> Listed:
    return Listed(transactional_id, head.producer.id, head.state.shown)


def selects(wanted: Filter, head: Head, wall: int) -> bool:
    """Whether a filter lets an id through. `wall` is ms since 1970.

    As in Kafka, how long a transaction has lasted counts from its start even if it is over, and one that never began is
    older than any.
    """
    if wanted.producer_ids and head.producer.id not in wanted.producer_ids:
        return False
    if wanted.states and head.state.shown not in wanted.states:
        return False
    return wanted.longer_than_ms < 0 or wall - head.start > wanted.longer_than_ms


def unknown_states(names: frozenset[str]) -> frozenset[str]:
    """Those names of a filter that are no states."""
    return names - STATE_NAMES
