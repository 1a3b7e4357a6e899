"""What the console remembers between two pages of one browser."""

from __future__ import annotations

from gateway.console.kept import MOST, MOST_OF_ONE, SECONDS, Kept


def test_only_who_it_was_kept_for_finds_it_and_for_an_hour() -> None:
    now = [0.0]
    kept = Kept[str](lambda: now[0])
    name = kept.keep("ada", "x")
    assert (kept.find("ada", name), kept.find("eve", name), kept.find("ada", "x")) == ("x", None, None)
    now[0] = SECONDS - 1
    assert kept.find("ada", name) == "x"
    now[0] = SECONDS
    assert kept.find("ada", name) is None
    kept.keep("ada", "y")
    assert len(kept) == 1, "what is too old takes no room"


def test_who_keeps_much_makes_room_of_its_own() -> None:
    kept = Kept[int](lambda: 0.0)
    other = kept.keep("ada", -1)
    names = [kept.keep("eve", number) for number in range(MOST_OF_ONE * 20)]
    assert kept.find("ada", other) == -1
    assert [kept.find("eve", name) for name in names[-MOST_OF_ONE:]] == list(range(len(names)))[-MOST_OF_ONE:]
    assert len(kept) == MOST_OF_ONE + 1


def test_there_is_a_bound_of_all() -> None:
    kept = Kept[int](lambda: 0.0)
    first = kept.keep("0", 0)
    for number in range(1, MOST):
        kept.keep(str(number), number)
    assert kept.find("0", first) == 0
    last = kept.keep("last", -1)
    assert (kept.find("0", first), kept.find("last", last), len(kept)) == (None, -1, MOST)


def test_what_is_dropped_is_gone() -> None:
    kept = Kept[int](lambda: 0.0)
    name = kept.keep("ada", 1)
    kept.drop(name)
    kept.drop(name)
    assert kept.find("ada", name) is None
