"""Topics by when the oldest of their messages will be too old."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker import soon_old
from gateway.broker.soon_old import SoonOld

A, B, C = b"a", b"b", b"c"


def test_the_earliest_comes_first_once_and_not_before_its_time() -> None:
    soon = SoonOld()
    for topic_id, at in ((A, 30), (B, 10), (C, 20)):
        soon.say(topic_id, at)
    assert soon.take(9, 10) == []
    assert soon.take(20, 1) == [B]
    assert soon.take(20, 10) == [C]
    assert soon.take(20, 10) == []
    assert soon.take(30, 10) == [A]
    assert len(soon) == 0


def test_what_is_said_last_counts() -> None:
    soon = SoonOld()
    soon.say(A, 10)
    soon.say(A, 30)
    soon.say(B, 10)
    soon.say(B, None)
    soon.say(C, 30)
    soon.say(C, 10)
    assert soon.take(10, 10) == [C]
    assert soon.take(100, 10) == [A]


def test_it_is_bounded_and_those_in_it_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soon_old, "MOST", 2)
    soon = SoonOld()
    for at in range(1_000):
        soon.say(A, at)
        soon.say(B, 2 * at)
        soon.say(C, 5)
    assert len(soon) == 2
    assert len(soon._heap) < 100
    assert soon.take(2_000, 10) == [A, B]


@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 50))))
def test_as_a_dict_does_it(steps: list[tuple[int, int | None, int]]) -> None:
    soon, naive = SoonOld(), dict[bytes, int]()
    for number, at, now in steps:
        topic_id = bytes([number])
        soon.say(topic_id, at)
        naive.pop(topic_id, None)
        if at is not None:
            naive[topic_id] = at
        due = sorted(when for when in naive.values() if when <= now)[:2]
        taken = soon.take(now, 2)
        assert [naive.pop(each) for each in taken] == due
