from __future__ import annotations

from array import array

from semantics.console.blocking import Heads
from semantics.console.causes import Held, held_up
from semantics.subscriptions.states import Ordering, Piece
from tests.semantics.console.test_strip import done

STRICT = Ordering(in_hand=True, failed=True, draining=False)


def test_slots_that_hold_up_most_come_first() -> None:
    # slot 5: in hand, and 3 wait; slot 6: in backoff, and 1 waits; slot 7: nobody's; slot 8: one that may go
    pieces = [
        Piece(0, bytes([1, 0, 4, 0, 0]), array("H", [5, 5, 6, 7, 8])),
        Piece(1_024, bytes([0, 0, 0, 2]), array("H", [5, 6, 5, 5])),
        # of what was not read again since a start no slot is known
        Piece(2_048, bytes([0, 0]), None),
    ]
    heads = Heads(STRICT, (), [(0, 7, "c1"), (8, 65_536, "c1")])
    for piece in pieces:
        heads.see(piece)
    found = done(held_up(pieces, heads, 2))
    assert (found.slots, found.number) == (3, 5)
    assert found.most == [Held(5, 3, 1, 0), Held(6, 1, 1_025, 2)]
    assert done(held_up(pieces, heads, 9)).most[2] == Held(7, 1, 3, None)


def test_counts_of_many_pieces_are_one() -> None:
    pieces = [
        Piece(base, bytes([base % 4_096 == 0]) + bytes(1_023), array("H", [base >> 12] * 1_024))
        for base in range(0, 40 * 1_024, 1_024)
    ]
    heads = Heads(STRICT, (), [(0, 65_536, "c1")])
    for piece in pieces:
        heads.see(piece)
    found = done(held_up(pieces, heads, 100))
    # the first of each slot is in hand
    assert (found.slots, found.number) == (10, 40 * 1_024 - 10)
    assert [(each.slot, each.number, each.oldest, each.head) for each in found.most[:2]] == [
        (0, 4_095, 1, 0), (1, 4_095, 4_097, 4_096),
    ]  # fmt: skip
