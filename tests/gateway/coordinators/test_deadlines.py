"""Deadlines against a plain dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.coordinators.deadlines import Deadlines

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "take"]), st.sampled_from("abc"), st.integers(0, 20))
)


@given(STEPS)
def test_as_a_dict(steps: list[tuple[str, str, int]]) -> None:
    deadlines, plain = Deadlines(), dict[str, int]()
    for kind, name, at in steps:
        if kind == "put":
            deadlines.put(name, at)
            plain[name] = at
        elif kind == "drop":
            deadlines.drop(name)
            plain.pop(name, None)
        else:
            ended = sorted(name for name, due in plain.items() if due <= at)
            assert sorted(deadlines.take(at)) == ended
            for each in ended:
                del plain[each]
        assert deadlines.first() == min(plain.values(), default=None)
        assert (name in deadlines) == (name in plain)


def test_one_that_is_put_off_again_and_again_stands_in_the_heap_once() -> None:
    deadlines = Deadlines()
    for at in range(1_000):
        deadlines.put("a", at)
        deadlines.first()
    assert len(deadlines._heap) == 1
