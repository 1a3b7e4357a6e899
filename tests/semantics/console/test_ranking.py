"""Subscriptions in several orders at once, and pages of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.console.ranking import Order, Place, Ranking, read, written
from semantics.console.standing import NEVER, Part, Standing, joined


def one(topic: str, group: str = "g", unread: int = 0, oldest: int = NEVER, dead: int = 0) -> Standing:
    return Standing(topic, group, "Shared", 1, unread=unread, oldest=oldest, dead_letters=dead)


def pages(ranking: Ranking, order: Order, size: int) -> list[Standing]:
    """All of it, as a caller reads it, page by page."""
    found: list[Standing] = []
    after: Place | None = None
    while page := ranking.behind(order, after, size):
        found += [each for _, each in page]
        after = read(order, written(order, page[-1][0]))
    return found


def test_the_orders() -> None:
    ranking = Ranking()
    for each in (
        one("a", unread=5, oldest=300),
        one("b", unread=9, dead=1),
        one("c", unread=5, oldest=200, dead=7),
    ):
        ranking.put(each)
    by = {order: [each.topic for each in pages(ranking, order, 2)] for order in Order}
    assert by == {
        Order.OLDEST: ["c", "a", "b"],
        Order.OPEN: ["b", "a", "c"],
        Order.DEAD_LETTERS: ["c", "b", "a"],
        Order.NAME: ["a", "b", "c"],
    }


PUT = st.tuples(
    st.sampled_from("abcdefgh"),
    st.sampled_from("xy"),
    st.integers(0, 3),
    st.integers(-1, 3),
    st.integers(0, 2),
)


@given(
    st.lists(st.one_of(PUT, st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xy")))), st.integers(1, 5)
)
def test_each_is_on_one_page_at_its_place_whatever_happened_before(
    steps: list[tuple[str, str, int, int, int] | tuple[str, str]], size: int
) -> None:
    ranking, model = Ranking(), dict[tuple[str, str], Standing]()
    for step in steps:
        if len(step) == 2:
            ranking.drop(*step)
            model.pop(step, None)
        else:
            topic, group, unread, oldest, dead = step
            model[topic, group] = one(topic, group, unread, oldest, dead)
            ranking.put(model[topic, group])
    assert len(ranking) == len(model)
    sorts = {
        Order.OLDEST: lambda each: (each.oldest < 0, each.oldest, each.topic, each.group),
        Order.OPEN: lambda each: (-each.open, each.topic, each.group),
        Order.DEAD_LETTERS: lambda each: (-each.dead_letters, each.topic, each.group),
        Order.NAME: lambda each: (each.topic, each.group),
    }
    for order, key in sorts.items():
        assert pages(ranking, order, size) == sorted(model.values(), key=key)
    for topic in "abcdefgh":
        assert ranking.of_topic(topic) == [model[topic, group] for group in "xy" if (topic, group) in model]


@pytest.mark.parametrize("text", ["", "x", "!!!!", "WzFd", "bnVsbA", written(Order.NAME, (0, "t", "g"))])
def test_a_place_that_no_answer_gave_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="It is"):
        read(Order.OPEN, text)


def test_parts_make_a_whole() -> None:
    parts = [
        Part(unread=1, available=2, in_hand=3, oldest=50, full=True),
        Part(blocked=4, backoff=5, delayed=6, dying=7, next_due=90),
        Part(oldest=40, next_due=80, full=True, at_least=True),
    ]
    found = joined("orders", "billing", "Key_Shared", parts, dead_letters=2, consumers=1)
    assert (found.open, found.ready, found.oldest, found.next_due) == (28, 3, 40, 80)
    assert (found.full, found.at_least, found.partitions) == ((0, 2), True, 3)
    assert joined("orders", "billing", "Shared", [Part()]).oldest == NEVER
