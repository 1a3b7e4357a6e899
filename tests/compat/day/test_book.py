"""What is known while the day goes on."""

from __future__ import annotations

from compat.day.book import Book
from tests.compat.day.scenes import acked, held, killed, took


def test_who_has_which_lane() -> None:
    book = Book(4)
    for event in (held(1, 1, 0, 1), held(1, 2, 2, 3), held(2, 1, 0), killed(3, 2)):
        book.write(event)

    assert book.holders == [1, 0, 0, 0]


def test_a_record_is_done_once_and_not_by_a_nack() -> None:
    book = Book(1)
    for event in (took(1, 0), took(2, 0, member=2), took(3, 1, nacked=True)):
        book.write(event)

    assert book.done == 1
    assert len(book.events) == 3


def test_what_a_member_has_in_hand_ends_with_its_commit() -> None:
    book = Book(1)
    for event in (took(1, 0), took(2, 1), took(3, 0, key="bob", member=2)):
        book.write(event)
    assert (book.in_hand(1), book.in_hand(2)) == (2, 1)

    book.write(acked(4, 2))

    assert (book.in_hand(1), book.in_hand(2)) == (0, 1)


def test_a_key_on_one_of_these_lanes() -> None:
    book = Book(8)
    for event in (
        took(1, 0, key="eve", lane=3),
        took(1, 0, key="bob", lane=3),
        took(1, 0, key="ada", lane=1),
    ):
        book.write(event)

    assert book.key_on([2, 3]) == "bob"
    assert book.key_on([7]) is None
