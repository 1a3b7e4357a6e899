"""Byte counters of partitions that are not in memory."""

from __future__ import annotations

from gateway.broker.traffic import PAGE, Traffic


def test_what_several_lives_of_a_partition_counted_is_summed() -> None:
    traffic = Traffic()
    traffic.add(3, 10, 1)
    traffic.add(3, 5, 2)
    traffic.add(4, 1, 0)
    assert traffic.of(3) == (15, 3)
    assert traffic.of(4) == (1, 0)
    assert traffic.of(2) == traffic.of(10**6) == (0, 0)


def test_only_pages_that_are_touched_cost_memory() -> None:
    traffic = Traffic()
    traffic.add(0, 1, 0)
    traffic.add(10**9, 1, 0)
    traffic.add(5 * PAGE, 0, 0)
    assert len(traffic._pages) == 2


def test_deleted_partitions_give_their_pages_back() -> None:
    traffic = Traffic()
    for number in (0, 1):
        traffic.add(number, 2**40, 1)
    traffic.forget(0)
    assert (traffic.of(0), traffic.of(1)) == ((0, 0), (2**40, 1))
    traffic.forget(1)
    traffic.forget(77 * PAGE)
    assert traffic._pages == {}
