from __future__ import annotations

from semantics.lanes.suspects import Suspects


def test_the_one_that_failed_most_makes_the_window() -> None:
    suspects = Suspects()
    suspects.add(1, [(0, 999)], 1)
    assert (suspects.number, suspects.left, suspects.failed, suspects.bound(5)) == (1_000, 1_000, 1, 177)
    suspects.add(1, [(0, 176)], 2)
    assert (suspects.number, suspects.left, suspects.failed, suspects.bound(5)) == (1_000, 1_000, 2, 31)
    # those are done: the others are looked at in larger windows again
    suspects.remove(1, [(0, 176)])
    assert (suspects.number, suspects.left, suspects.failed, suspects.bound(5)) == (1_000, 823, 1, 177)


def test_none_left_and_it_begins_anew() -> None:
    suspects = Suspects()
    suspects.add(1, [(5, 9)], 1)
    suspects.add(2, [(5, 5)], 3)
    assert suspects.has(1, 0, 5)
    assert suspects.has(2, 5, 5)
    assert not suspects.has(1, 10, 20)
    assert not suspects.has(3, 5, 5)
    suspects.remove(1, [(0, 100)])
    assert suspects.number == 6
    suspects.remove(2, [(5, 5)])
    assert (suspects.number, suspects.left, suspects.failed) == (0, 0, 0)
    suspects.add(1, [(7, 7)], 1)
    assert suspects.number == 1
    suspects.clear()
    assert suspects.number == 0
