"""A long text in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.text import PIECE_LINES, Lines, Piece


def whole(lines: Lines) -> bytes:
    return b"".join(piece.data() for piece in lines.pieces())


@given(st.lists(st.lists(st.text(), max_size=5), max_size=5))
def test_what_was_added_comes_out_in_order_however_often_it_is_asked_for(rounds: list[list[str]]) -> None:
    lines = Lines()
    expected = b""
    for added in rounds:
        for line in added:
            lines.add(line)
        expected += "".join(f"{line}\n" for line in added).encode()
        assert whole(lines) == expected
        assert lines.empty is (not expected)
        assert sum(piece.size for piece in lines.pieces()) == len(expected)


def test_a_piece_is_closed_when_it_is_full() -> None:
    lines = Lines()
    for number in range(2 * PIECE_LINES + 1):
        lines.add(str(number))
    assert [piece.data().count(b"\n") for piece in lines.pieces()] == [PIECE_LINES, PIECE_LINES, 1]
    assert whole(lines).split() == [b"%d" % number for number in range(2 * PIECE_LINES + 1)]


def test_a_large_piece_is_kept_small_and_a_small_one_as_it_is() -> None:
    small, large = Piece.of(["ü"]), Piece.of(["pulsar_rate_in 0"] * PIECE_LINES)
    assert (small.size, small.kept, small.packed) == (3, "ü\n".encode(), False)
    assert large.size == 17 * PIECE_LINES == len(large.data())
    assert len(large.kept) < large.size / 8
