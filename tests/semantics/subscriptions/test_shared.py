from __future__ import annotations

import random

from tests.semantics.subscriptions.driving import ACCEPT, RELEASE, WALL, Driver


def test_records_go_round_to_who_asks() -> None:
    driver = Driver()
    driver.feed(10)
    assert driver.poll("a", 3) == [0, 1, 2]
    assert driver.poll("b", 3) == [3, 4, 5]
    assert driver.poll("a", 0) == []
    assert driver.poll("a") == [6, 7, 8, 9]


def test_ranges_are_split_by_count_and_nothing_else() -> None:
    driver = Driver(start=1020)
    driver.feed(12)
    driver.poll()
    driver.acknowledge((1022, 1026, RELEASE))
    driver.poll()
    driver.acknowledge((1020, 1030, RELEASE))
    assert driver.cursor.poll("b", 100, 0, WALL) == [(1020, 1021, 1), (1022, 1026, 2), (1027, 1030, 1)]


def test_what_comes_back_before_the_place_reached_is_found() -> None:
    driver = Driver(max_locks=9_999)
    driver.feed(3_000)
    driver.poll("a", 2_500)
    driver.say(RELEASE, 2_400, 700, 5, 1_024)
    assert driver.poll("b", 3) == [5, 700, 1_024]
    driver.say(RELEASE, 6)
    assert driver.poll("b", 3) == [6, 2_400, 2_500]


def test_chunks_that_are_gone_are_passed_over() -> None:
    driver = Driver()
    driver.feed(5_000)
    driver.poll("a", 1_500)
    driver.say(RELEASE, 3)
    driver.cursor.trimmed(4_000)
    assert driver.poll("b", 2) == [4_000, 4_001]


def test_a_batch_at_a_time_or_many_at_once_is_the_same() -> None:
    dice = random.Random(3)
    one, many = Driver(), Driver()
    for _ in range(50):
        counts = [dice.randrange(1, 90) for _ in range(5)]
        for count in counts:
            one.feed(count)
        many.feed(sum(counts))
        limit = dice.randrange(300)
        offsets = one.poll("a", limit)
        assert offsets == many.poll("a", limit)
        settled = [at for at in offsets if dice.random() < 0.7]
        for driver in (one, many):
            driver.say(ACCEPT, *settled)
            driver.say(RELEASE, *(at for at in offsets if at not in settled and at % 2))
        assert one.cursor.stats() == many.cursor.stats()
