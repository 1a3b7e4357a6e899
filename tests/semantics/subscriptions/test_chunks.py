from __future__ import annotations

from semantics.subscriptions.chunks import AVAILABLE_RUN, SIZE, Chunk, Window
from semantics.subscriptions.states import ACQUIRED, AVAILABLE, DONE, UNREAD


def window(start: int, end: int) -> Window:
    made = Window(start)
    made.extend(end)
    return made


def finish(made: Window, first: int, end: int) -> None:
    """Settle AVAILABLE ones."""
    for chunk, at, stop in list(made.runs(first, end, AVAILABLE_RUN)):
        made.n[AVAILABLE] -= stop - at
        made.finish(chunk, at, stop)
    made.advance()


def test_a_window_knows_what_lies_in_it_and_nothing_else() -> None:
    made = window(1000, 2100)
    assert sorted(made.chunks) == [0, 1, 2]
    assert made.n[AVAILABLE] == 1100
    first, last = made.chunks[0], made.chunks[2]
    assert first.state.count(DONE) == 1000
    assert last.state.count(UNREAD) == SIZE - (2100 - 2048)
    assert [(chunk.number, at, stop) for chunk, at, stop in made.pieces(0, 9999)] == [
        (0, 1000, 1024),
        (1, 0, 1024),
        (2, 0, 52),
    ]


def test_what_is_done_throughout_takes_no_memory() -> None:
    made = window(0, 100 * SIZE)
    finish(made, 1, 50 * SIZE)
    assert made.start == 0
    assert made.by_start == {1: 50}
    assert len(made.chunks) == 51
    finish(made, 0, 1)
    assert made.start == 50 * SIZE
    assert made.by_start == made.by_end == {}


def test_full_ranges_join_in_any_order() -> None:
    made = window(0, 10 * SIZE)
    for number in (2, 6, 4, 3, 5):
        finish(made, number * SIZE, (number + 1) * SIZE)
    assert made.by_start == {2: 7}
    assert made.by_end == {7: 2}
    finish(made, 0, 2 * SIZE)
    assert made.start == 7 * SIZE
    assert sorted(made.chunks) == [7, 8, 9]


def test_start_goes_to_the_first_open_offset() -> None:
    made = window(10, 40)
    finish(made, 11, 20)
    assert made.start == 10
    finish(made, 10, 11)
    assert made.start == 20
    finish(made, 20, 40)
    assert made.start == made.known == 40


def test_a_trim_takes_the_counters_along() -> None:
    made = window(0, 5 * SIZE)
    finish(made, 2 * SIZE, 3 * SIZE)
    chunk = made.chunks[1]
    chunk.state[5:9] = bytes([ACQUIRED]) * 4
    chunk.held = 4
    made.n[AVAILABLE] -= 4
    made.n[ACQUIRED] += 4
    made.trim(SIZE + 7)
    assert made.n[:2] == [3 * SIZE - 7 - 2, 2]
    assert chunk.held == 2
    made.trim(2 * SIZE + 5)
    assert made.start == 3 * SIZE
    made.trim(9 * SIZE + 9)
    assert made.start == made.known == 9 * SIZE + 9
    assert made.n == [0] * 6
    assert not made.chunks


def test_a_trim_up_to_what_is_done_to_the_end_of_its_chunk_leaves_nothing_of_it() -> None:
    for settled in (SIZE, 3 * SIZE):
        made = window(0, 3 * SIZE + 10)
        finish(made, 700, settled)
        made.chunks[0].stored = True
        made.trim(700)
        assert made.start == settled
        assert min(made.chunks) == settled // SIZE
        assert made.gone == {0}, "its row goes with it"
        assert made.by_start == made.by_end == {}


def test_counts_need_a_byte_until_they_do_not() -> None:
    chunk = Chunk(0)
    assert list(chunk.count_runs(3, 9)) == [(3, 9, 0)]
    chunk.set_count(5, 7, 255)
    assert isinstance(chunk.count, bytearray)
    chunk.set_count(7, 8, 256)
    chunk.set_count(8, 9, 10**9)
    assert list(chunk.count_runs(3, 10)) == [(3, 5, 0), (5, 7, 255), (7, 8, 256), (8, 9, 65_535), (9, 10, 0)]


def test_a_settled_record_has_no_count() -> None:
    made = window(0, 10)
    made.chunks[0].set_count(3, 5, 2)
    finish(made, 3, 4)
    assert list(made.chunks[0].count_runs(3, 5)) == [(3, 4, 0), (4, 5, 2)]


def test_the_plane_of_leases_goes_with_the_last_lock() -> None:
    chunk = Chunk(0)
    chunk.leases()
    chunk.held = 3
    chunk.let_go(2)
    assert chunk.lease is not None
    chunk.let_go(1)
    assert chunk.lease is None
