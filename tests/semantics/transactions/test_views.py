"""What ListTransactions lets through."""

from __future__ import annotations

import pytest

from semantics.transactions import views
from semantics.transactions.rows import NO_TIME, Head, Last
from semantics.transactions.states import Producer, State
from semantics.transactions.views import Filter, Listed

OPEN = Head(Producer(1, 0), 60_000, State.ONGOING, 1_000, 1_000, None)
DONE = Head(Producer(2, 5), 60_000, State.COMPLETE_COMMIT, 4_000, 5_000, Last(Producer(2, 4), True))
EMPTY = Head(Producer(3, 0), 60_000, State.EMPTY, NO_TIME, 5_000, None)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(), [1, 2, 3]),
        (Filter(states=frozenset({"Ongoing"})), [1]),
        (Filter(states=frozenset({"Ongoing", "Empty", "PrepareCommit"})), [1, 3]),
        (Filter(states=frozenset({"PrepareAbort"})), []),
        (Filter(producer_ids=frozenset({2, 9})), [2]),
        (Filter(states=frozenset({"Ongoing"}), producer_ids=frozenset({2})), []),
        (Filter(longer_than_ms=0), [1, 2, 3]),
        (Filter(longer_than_ms=1_000), [1, 3]),
        (Filter(longer_than_ms=4_000), [3]),
        (Filter(longer_than_ms=3_999, states=frozenset({"Ongoing"})), [1]),
    ],
)
def test_a_filter(wanted: Filter, found: list[int]) -> None:
    heads = [OPEN, DONE, EMPTY]
    assert [head.producer.id for head in heads if views.selects(wanted, head, 5_000)] == found


def test_what_a_list_shows() -> None:
    assert views.listed("payments", OPEN) == Listed("payments", 1, "Ongoing")
    assert views.listed("payments", DONE).state == "CompleteCommit"


def test_a_state_that_nobody_knows_is_named() -> None:
    names = frozenset({"Ongoing", "PrepareCommit", "Dead", "ongoing", "Sleeping"})
    assert views.unknown_states(names) == {"ongoing", "Sleeping"}
