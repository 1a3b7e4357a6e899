"""What a look at dead letters finds; a replay stops when too much of it dies again."""

from __future__ import annotations

import pytest

from semantics.console import replay
from semantics.console.letter_filter import DeadLetter, LetterFilter
from semantics.console.replay import (
    Edit,
    Tally,
    Wanted,
    dies_again,
)


@pytest.mark.parametrize(
    ("replayed", "died", "stops"),
    [(100, 10, False), (100, 11, True), (20, 9, False), (20, 10, True), (0, 0, False)],
)
def test_more_than_a_tenth_stops(replayed: int, died: int, stops: bool) -> None:
    assert dies_again(replayed, died) is stops


def test_a_tally_counts_letters_keys_edits_and_what_is_left_out() -> None:
    wanted = Wanted("replay", LetterFilter(), edits={(0, 1): Edit(True, b"x")})
    found = Tally()
    for offset, (key, replays) in enumerate([(b"a", 0), (b"a", 2), (b"b", 3), (None, 0)]):
        found.add(wanted, DeadLetter(0, offset, 0, key, None, [], "REJECTED", replays), (0, 10 + offset))
    assert (found.letters, found.edited, found.left_out, found.unkeyed) == (3, 1, 1, 1)
    assert found.keys == {b"a": (0, 11)}
    # what is left out was shown, too
    assert list(found.chosen) == [(0, 0, 3)]


def test_a_batch_that_nobody_can_open_goes_only_with_an_edit() -> None:
    broken = DeadLetter(0, 1, 0, None, b"", [], "CORRUPT", 0, whole=True)
    assert not Wanted("replay", LetterFilter()).takes(broken)
    assert Wanted("replay", LetterFilter(), edits={(0, 1): Edit(True, b"x")}).takes(broken)
    assert Wanted("discard", LetterFilter()).takes(broken)


def test_an_edit_takes_headers_away_and_sets_others() -> None:
    edit = Edit(False, None, (("a", None), ("b", b"2")))
    assert edit.apply([("a", b"1"), ("b", b"1"), ("c", b"1"), ("a", b"3")]) == [("c", b"1"), ("b", b"2")]


@pytest.mark.parametrize(
    ("edit", "is_one"),
    [
        (Edit(True, b"x"), False),
        (Edit(True, b"y"), True),
        (Edit(True, None), True),
        (Edit(False, None, (("a", b"1"),)), False),
        (Edit(False, None, (("a", b"2"),)), True),
        (Edit(False, None, (("a", None),)), True),
        (Edit(False, None, (("new", None),)), False),
        (Edit(False, None, (("new", b"1"),)), True),
        (Edit(True, b"x", (("a", b"1"), ("new", None))), False),
        (Edit(False, None, (("twice", b"1"),)), True),
        (Edit(False, None, (("delay", b"5"),)), True),
        (Edit(False, None, (("delay", None),)), False),
    ],
)
def test_an_edit_that_changes_nothing_is_none(edit: Edit, is_one: bool) -> None:
    """A header that the replay would not have is set by the value that it had."""
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("twice", b"1"), ("twice", b"1"), ("delay", b"5")]
    letter = DeadLetter(0, 1, 0, None, b"x", headers, "REJECTED", 0)
    wanted = Wanted("replay", LetterFilter(), edits={(0, 1): edit}, renewed=frozenset({"delay"}))
    assert wanted.edit_of(letter) == (edit if is_one else None)
    found = Tally()
    found.add(wanted, letter, None)
    assert (found.letters, found.edited) == (1, is_one)
    discarded = Wanted("discard", LetterFilter(), edits={(0, 1): edit})
    assert discarded.edit_of(letter) is None


def test_a_tally_tells_which_edits_broke_what_was_json() -> None:
    edits = {(0, 1): Edit(True, b"{"), (0, 2): Edit(True, b"[]"), (0, 3): Edit(False, None, (("a", b"1"),))}
    wanted, found = Wanted("replay", LetterFilter(), edits=edits), Tally()
    for offset in range(4):
        found.add(wanted, DeadLetter(0, offset, 0, None, b"{}", [], "REJECTED", 0), None)
    assert found.edited == 3
    assert list(found.broken) == [(0, 1)]
    assert found.broken[0, 1].startswith("line 1, column 2: ")


@pytest.mark.parametrize(
    ("replayed", "died", "stops"),
    [
        (0, 9, False), (0, 10, True), (99, 10, True), (100, 10, False), (101, 10, False), (109, 11, True),
        (110, 11, False), (90, 9, False), (1000, 100, False), (1000, 101, True),
    ],
)  # fmt: skip
def test_where_a_replay_stops(replayed: int, died: int, stops: bool) -> None:
    assert dies_again(replayed, died) is stops


def of(replays: int, key: bytes | None = b"a", offset: int = 0, *, whole: bool = False) -> DeadLetter:
    return DeadLetter(0, offset, 0, key, b"v", [], "REJECTED", replays, whole=whole)


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_a_letter_is_sent_again_so_often(most: int) -> None:
    wanted = Wanted("replay", LetterFilter(), max_replays=most)
    assert [wanted.takes(of(replays)) for replays in (most - 1, most, most + 1)] == [True, False, False]
    # whatever was said of replays is nothing to a discard
    assert Wanted("discard", LetterFilter(), max_replays=most).takes(of(most + 1))


def test_three_times_unless_somebody_says_otherwise() -> None:
    wanted = Wanted("replay", LetterFilter())
    assert [wanted.takes(of(replays)) for replays in (2, 3)] == [True, False]
    assert (wanted.to, wanted.rate) == ("subscription", 100)


def test_an_edit_mends_the_letter_that_it_names_and_no_other() -> None:
    wanted = Wanted("replay", LetterFilter(), edits={(0, 5): Edit(True, b"x")})
    assert [wanted.takes(of(0, offset=offset, whole=True)) for offset in (4, 5, 6)] == [False, True, False]
    # it was sent often enough all the same
    assert not wanted.takes(of(3, offset=5, whole=True))


@pytest.mark.parametrize(
    ("origins", "latest"),
    [
        ([(0, 1), (0, 2)], (0, 2)),
        ([(0, 2), (0, 1)], (0, 2)),
        ([(0, 2), (0, 2)], (0, 2)),
        ([(1, 0), (0, 9)], (1, 0)),
        ([None, (0, 1)], (0, 1)),
        ([(0, 1), None], (0, 1)),
        ([None, None], None),
        ([(0, 0), None, (0, 1), (0, 0)], (0, 1)),
    ],
)
def test_of_a_key_the_latest_place_is_known(
    origins: list[tuple[int, int] | None], latest: tuple[int, int] | None
) -> None:
    found = Tally()
    for offset, origin in enumerate(origins):
        found.add(Wanted("replay", LetterFilter()), of(0, offset=offset), origin)
    assert found.keys == {b"a": latest}
    assert (found.letters, found.unkeyed, found.at_least) == (len(origins), 0, False)


def test_very_many_keys_are_not_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replay.MOST_KEYS == 100_000
    monkeypatch.setattr(replay, "MOST_KEYS", 2)
    found, wanted = Tally(), Wanted("replay", LetterFilter())
    for offset, key in enumerate((b"a", b"b")):
        found.add(wanted, of(0, key, offset), (0, offset))
    # those that are known are known on
    found.add(wanted, of(0, b"a", 2), (0, 2))
    assert (found.keys, found.at_least) == ({b"a": (0, 2), b"b": (0, 1)}, False)
    found.add(wanted, of(0, b"c", 3), (0, 3))
    assert (len(found.keys), found.at_least, found.letters) == (2, True, 4)
