"""Transactional ids in each state, by each way that leads there."""

from __future__ import annotations

from collections.abc import Callable

from semantics.transactions.events import (
    AddOffsets,
    EndTxn,
    Init,
    Plain,
    ProducerAnswer,
    Tick,
)
from semantics.transactions.states import Producer, State
from tests.semantics.transactions.driving import (
    EXPIRATION,
    GROUP,
    ID,
    ORDERS,
    TIMEOUT,
    Driven,
)

Give = Callable[[], Driven]


def dead() -> Driven:
    return Driven()


def expired() -> Driven:
    driven = empty()
    driven.wall += EXPIRATION
    driven.step(Tick())
    return driven


def empty() -> Driven:
    driven = Driven()
    assert driven.step(Init("t", TIMEOUT, None, ID)) == ProducerAnswer(0, Producer(ID, 0))
    return driven


def renewed() -> Driven:
    driven = empty()
    assert driven.step(Init("t", TIMEOUT, driven.producer)) == ProducerAnswer(0, Producer(ID, 1))
    return driven


def ongoing() -> Driven:
    driven = renewed()
    driven.begin()
    return driven


def ongoing_by_offsets() -> Driven:
    driven = empty()
    assert driven.step(AddOffsets("t", driven.producer, GROUP)) == Plain(0)
    return driven


def ended(committed: bool, bumps: bool) -> Driven:
    driven = ongoing()
    driven.step(EndTxn("t", driven.producer, committed, bumps))
    driven.ends.clear()
    return driven


def timed_out() -> Driven:
    driven = ongoing()
    driven.wall += TIMEOUT
    driven.step(Tick())
    driven.ends.clear()
    return driven


def begun_by_produce() -> Driven:
    driven = ended(True, True)
    given = driven.machine.admit(*driven.producer, *ORDERS, implicit=True, wall=driven.wall)
    driven.disk.take(list(given.rows))
    return driven


GIVEN: dict[State, list[Give]] = {
    State.DEAD: [dead, expired],
    State.EMPTY: [empty, renewed],
    State.ONGOING: [ongoing, ongoing_by_offsets, begun_by_produce],
    State.COMPLETE_COMMIT: [lambda: ended(True, False), lambda: ended(True, True)],
    State.COMPLETE_ABORT: [lambda: ended(False, False), lambda: ended(False, True), timed_out],
}
