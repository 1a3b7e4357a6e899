"""What was looked at lately is known for some seconds, and of so many names at most."""

from __future__ import annotations

from gateway.admin.lately import Lately


def test_a_look_counts_until_its_time_is_over() -> None:
    lately = Lately[str](10.0, 5)
    assert not lately.had("a", 0.0), "never looked at, however early it is"
    lately.note("a", 1.0)
    assert lately.had("a", 10.9)
    assert not lately.had("a", 11.0)
    lately.note("a", 11.0)
    assert lately.had("a", 20.9)


def test_of_too_many_those_that_were_looked_at_first_are_forgotten() -> None:
    lately = Lately[str](10.0, 2)
    for at, name in enumerate("abac"):
        lately.note(name, float(at))
    assert [lately.had(name, 4.0) for name in "abc"] == [True, False, True]
