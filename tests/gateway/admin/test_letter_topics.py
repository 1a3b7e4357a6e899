"""Whose letters go where, and whom it concerns when somebody chooses another topic."""

from __future__ import annotations

from gateway.admin.letter_topics import LetterTopics

BILLING, MAIL, STOCK = ("orders", "billing"), ("orders", "mail"), ("goods", "stock")


def test_who_chooses_a_topic_concerns_those_that_have_it_and_those_that_had_the_same() -> None:
    letters = LetterTopics()
    assert letters.choose(BILLING, "bin") == set()
    assert letters.choose(MAIL, "bin") == {BILLING}
    assert letters.choose(STOCK, "own") == set()
    assert letters.whose("bin") == {BILLING, MAIL}
    assert letters.choose(MAIL, "own") == {BILLING, STOCK}
    assert letters.whose("bin") == {BILLING}
    assert letters.whose("own") == {MAIL, STOCK}


def test_to_choose_the_same_again_concerns_nobody() -> None:
    letters = LetterTopics()
    letters.choose(BILLING, "bin")
    letters.choose(MAIL, "bin")
    assert letters.choose(MAIL, "bin") == set()
    assert letters.whose("bin") == {BILLING, MAIL}


def test_who_leaves_concerns_those_that_stay() -> None:
    letters = LetterTopics()
    letters.choose(BILLING, "bin")
    letters.choose(MAIL, "bin")
    assert letters.leave(MAIL) == {BILLING}
    assert letters.leave(MAIL) == set(), "it is not there any more"
    assert letters.leave(BILLING) == set()
    assert letters.whose("bin") == set()
