"""What a crash leaves of a cursor, and what a log that was cut does."""

from __future__ import annotations

import random
from array import array

import pytest

from semantics.subscriptions import rows
from semantics.subscriptions.backoff import Backoff
from semantics.subscriptions.chunks import SIZE
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import CursorRow, RowError, RowKind
from semantics.subscriptions.states import Batch
from tests.semantics.subscriptions.driving import ACCEPT, REJECT, RELEASE, WALL, Driver, all_of


def test_without_the_row_that_says_where_it_begins_nothing_is_loaded() -> None:
    with pytest.raises(RowError, match="where it begins"):
        Cursor.load(Driver().config, [], 0, 10, WALL)


@pytest.mark.parametrize("seed", range(8))
def test_all_comes_back_but_what_was_in_hand(seed: int) -> None:
    """A few thousand offsets, everything done to them at random, and a crash after each of some commits."""
    dice = random.Random(seed)
    driver = Driver(
        start=dice.choice([0, 1000, 2**33]), max_locks=3_000, delivery_limit=4, nack_backoff=Backoff(10, 200)
    )
    for _ in range(25):
        first = driver.cursor.read
        count = dice.randrange(1, 700)
        delayed = [
            (at, driver.wall + dice.randrange(1, 3_000))
            for at in range(first, first + count)
            if dice.random() < 0.1
        ]
        driver.feed(count, delayed=delayed)
        offsets = driver.poll()
        for kind, chance in ((ACCEPT, 0.8), (RELEASE, 0.5), (REJECT, 0.1)):
            chosen = [at for at in offsets if dice.random() < chance]
            assert driver.say(kind, *chosen) is None
            offsets = sorted(set(offsets) - set(chosen))
        driver.pass_time(dice.randrange(100))
        if dice.random() < 0.3:
            driver.commit()
            window = range(driver.cursor.start, driver.cursor.read)
            before = [driver.cursor.look(at) for at in window]
            start = driver.cursor.start
            driver.crash()
            assert driver.cursor.start == start
            assert driver.commit() == []
            # what woke before may have been DELAYED in its row
            driver.pass_time(0)
            for was in before:
                now = driver.cursor.look(was.offset)
                if was.state == "ACQUIRED":
                    assert (now.state, now.count) == ("AVAILABLE", was.count)
                else:
                    assert now == was
    for _ in range(10):
        driver.pass_time(10_000)
        driver.load_due()
        driver.say(ACCEPT, *driver.poll())
        driver.cursor.buried([(dying.first, dying.last) for dying in driver.cursor.dying(10**6)])
    assert driver.cursor.start == driver.cursor.read
    driver.commit()
    assert [row.kind for row in driver.stored()] == [RowKind.CURSOR]


def test_rows_of_whole_chunks_are_ranges() -> None:
    driver = Driver(max_locks=10**6)
    driver.feed(100 * SIZE)
    driver.poll(limit=10**6)
    driver.acknowledge((1, 70 * SIZE + 5, ACCEPT))
    driver.commit()
    assert [row.kind for row in driver.stored()].count(RowKind.COUNT) == 2
    assert len(driver.stored(RowKind.ACK)) == 1
    driver.restart()
    assert driver.cursor.available == 100 * SIZE - 70 * SIZE - 5
    driver.poll()
    driver.say(ACCEPT, 0)
    assert driver.cursor.start == 70 * SIZE + 6
    driver.commit()
    assert driver.stored(RowKind.ACK) == []


def test_what_the_log_trimmed_meanwhile_is_done() -> None:
    driver = Driver(nack_delay_ms=50)
    driver.feed(3_000)
    driver.poll()
    driver.say(RELEASE, 100, 1_700)
    driver.crash(log_start=1_500)
    assert driver.cursor.start == 1_500
    assert driver.cursor.waiting == 1
    driver.pass_time(50)
    driver.commit()
    assert driver.stored(RowKind.DUE) == []
    driver.restart(log_start=9_999)
    assert driver.cursor.start == driver.cursor.read == 9_999
    driver.commit()
    assert [row.kind for row in driver.stored()] == [RowKind.CURSOR]


@pytest.mark.parametrize("end", [0, 1, 500, 1_024, 1_500, 2_048, 3_000, 5_120, 5_121, 9_000])
def test_a_log_that_lost_its_end_gives_its_offsets_to_others(end: int) -> None:
    """Nothing that was known of the lost offsets holds for the records that get them next."""
    driver = Driver(max_locks=10**6, nack_delay_ms=5_000, delivery_limit=3)
    driver.feed(9_000, delayed=[(at, WALL + 300) for at in range(8_000, 8_100)])
    driver.poll()
    driver.acknowledge((1_024, 5_200, ACCEPT), (5_500, 5_600, ACCEPT))
    driver.say(RELEASE, *range(500, 9_000 - 1_000, 700))
    driver.say(REJECT, 5_300, 7_000)
    driver.pass_time(1)
    driver.commit()
    before = {at: driver.cursor.look(at) for at in range(min(end, 9_000))}
    driver.restart(log_end=end)
    assert driver.cursor.read == end
    if end < 9_000:
        with pytest.raises(RuntimeError, match="mended"):
            driver.feed(1)
        assert not driver.cursor.wants_more("a")
        driver.commit()
        driver.restart(log_end=end)  # it dies again in the middle of that
        assert not driver.cursor.can_serve("a", 10**6)
    driver.load_due()
    assert [driver.cursor.look(at).state for at in before] == [
        "AVAILABLE" if was.state == "ACQUIRED" else was.state for was in before.values()
    ]
    driver.feed(9_500 - end, delayed=[(at, WALL + 10_000) for at in range(max(end, 8_000), 9_500)])
    late = range(max(end, 8_000), 9_500)
    assert set(driver.state(*late)) == {"DELAYED"}
    assert all(driver.cursor.look(at).count == 0 for at in range(end, 9_500))
    driver.pass_time(9_000)
    assert set(driver.state(*late)) == {"DELAYED"}
    driver.crash()
    driver.pass_time(1_000)
    assert set(driver.state(*late)) == {"AVAILABLE"}
    open_before = [at for at, was in before.items() if was.state not in ("DONE", "DYING")]
    assert driver.poll() == [*open_before, *range(end, 9_500)]


def test_key_shared_reads_again_and_what_is_known_stays() -> None:
    driver = Driver(type="key_shared", nack_delay_ms=50)
    driver.cursor.reassign(all_of("a"), 0)
    slots = list(range(3_000))
    driver.feed(3_000, slots, delayed=[(5, WALL + 300), (2_999, WALL + 300)])
    driver.poll()
    driver.acknowledge((0, 2, ACCEPT), (1_000, 1_500, ACCEPT))
    driver.say(RELEASE, 7)
    driver.crash()
    driver.cursor.reassign(all_of("a"), 0)
    assert (driver.cursor.start, driver.cursor.read) == (3, 3)
    assert driver.poll() == []
    assert driver.cursor.wants_more("a")
    driver.pass_time(100)  # 7 is due before anybody knows its slot
    driver.cursor.feed(
        [Batch(0, 2_000, array("H", slots[:2_000]), delayed=[(5, WALL + 300)])], driver.now, driver.wall
    )
    assert driver.poll() == [3, 4, 6, *range(7, 1_000), *range(1_501, 2_000)]
    assert driver.count(7) == [1]
    driver.cursor.feed([Batch(2_000, 3_100, array("H", [9] * 1_100))], driver.now, driver.wall)
    assert driver.state(2_999, 3_000) == ["DELAYED", "BLOCKED"]
    driver.pass_time(200)
    assert driver.poll() == [5]
    assert driver.state(2_999) == ["BLOCKED"]


def test_key_shared_need_not_read_what_is_done() -> None:
    driver = Driver(type="key_shared", strict=False, max_locks=10**6)
    driver.cursor.reassign(all_of("a"), 0)
    driver.feed(6_000)
    driver.poll()
    driver.acknowledge((1, 5_000, ACCEPT))
    driver.crash()
    driver.cursor.reassign(all_of("a"), 0)
    driver.feed(1)
    assert driver.cursor.read == 5_001


def test_a_row_that_cannot_be_read_is_refused() -> None:
    driver = Driver()
    driver.commit()
    for wrong in (
        CursorRow(RowKind.ACK, bytes(8), (5).to_bytes(8, "big")),
        CursorRow(RowKind.ACK, bytes(8), bytes(8)),
        CursorRow(RowKind.COUNT, b"x", b"\0"),
        CursorRow(RowKind.CURSOR, b"", None),
    ):
        with pytest.raises(RowError):
            Cursor.load(driver.config, [*driver.stored(), wrong], 0, 10, WALL)


def test_what_is_buried_before_it_is_read_again_moves_the_place_to_read() -> None:
    driver = Driver(type="key_shared")
    driver.cursor.reassign(all_of("a"), 0)
    driver.feed(3, [1, 2, 3])
    driver.poll()
    driver.say(REJECT, 0, 1)
    driver.crash()
    driver.cursor.dying(9)
    driver.cursor.buried([(0, 1)])
    assert driver.cursor.start == driver.cursor.read == 2


def test_a_delay_that_is_over_does_not_begin_again_when_key_shared_reads_again() -> None:
    driver = Driver(type="key_shared")
    driver.cursor.reassign(all_of("a"), 0)
    driver.feed(2, delayed=[(0, WALL + 1_000)])
    driver.pass_time(1_000)
    driver.crash()
    driver.cursor.reassign(all_of("a"), 0)
    driver.feed(2, [1, 2], delayed=[(0, WALL + 1_000)])
    assert driver.poll() == [0, 1]


def test_ranges_that_join_leave_one_row() -> None:
    driver = Driver(max_locks=10**6)
    driver.feed(8 * SIZE)
    driver.poll()
    for number in (3, 5, 4, 2):
        driver.acknowledge((number * SIZE, (number + 1) * SIZE - 1, ACCEPT))
        driver.commit()
    assert [(row.key, row.value) for row in driver.stored(RowKind.ACK)] == [
        ((2 * SIZE).to_bytes(8, "big"), (6 * SIZE).to_bytes(8, "big"))
    ]
    driver.restart()
    assert driver.poll() == [*range(2 * SIZE), *range(6 * SIZE, 8 * SIZE)]


def test_the_row_of_a_cursor_says_how_many_records_wait_for_what() -> None:
    """So that nobody need load it to count them."""
    cursor = Cursor.fresh(SubscriptionConfig(delivery_limit=2, nack_delay_ms=50), 0)
    cursor.attach("a", 0)
    cursor.feed([Batch(0, 20, None, [(18, 900), (19, 900)])], 0, 1)
    cursor.poll("a", 10, 0, 1)
    assert cursor.acknowledge("a", [(0, 1, b"\1"), (2, 4, b"\2"), (5, 5, b"\3"), (6, 6, b"\1")], 0, 1) is None
    (row,) = [row for row in cursor.writes() if row.kind is RowKind.CURSOR]
    assert row.value is not None
    # 2 to 4 wait, 5 is dying, 7 to 9 are in somebody's hands, 18 and 19 are delayed
    assert rows.stands(row.value) == (2, 20, rows.Counts(open=17, delayed=2, backoff=3, dying=1), 0)
    cursor.dying(10)
    cursor.buried([(5, 5)])
    (row,) = [row for row in cursor.writes() if row.kind is RowKind.CURSOR]
    assert row.value is not None
    assert rows.stands(row.value).counts == rows.Counts(open=16, delayed=2, backoff=3, dying=0)


def test_logs_go_when_few_of_their_chunks_are_left() -> None:
    """The chunk in which reading goes on may stay as it is for long: no log has to stay for its sake."""
    driver = Driver(max_locks=20_000)
    driver.feed(10 * SIZE + 10)
    offsets = driver.poll(limit=20_000)
    driver.say(ACCEPT, *[at for at in offsets if at % SIZE or at == 10 * SIZE])
    driver.commit()
    assert len(driver.stored(RowKind.ACK)) == 1
    driver.say(ACCEPT, *[at for at in offsets if not at % SIZE and at != 10 * SIZE])
    driver.commit()
    assert driver.cursor.start == driver.cursor.read
    assert driver.stored(RowKind.ACK, RowKind.COUNT) == []
