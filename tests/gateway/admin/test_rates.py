"""Rates of the last minute from counters that are read every ten seconds."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.rates import SAMPLE_EVERY, SPAN, ZERO, Rates


@dataclass
class Fake:
    id: int = 1
    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


def test_the_first_seconds_count_from_the_start() -> None:
    partition = Fake()
    rates = Rates(lambda: [partition], 100.0)
    assert rates.of(partition, 100.0) == ZERO
    partition.messages_in, partition.bytes_in, partition.bytes_out = 20, 400, 200
    assert rates.of(partition, 110.0) == (2.0, 40.0, 20.0)


def test_what_is_older_than_a_minute_does_not_count() -> None:
    partition = Fake()
    rates = Rates(lambda: [partition], 0.0)
    partition.messages_in = 600
    now = 0.0
    while now < 2 * SPAN:
        now += SAMPLE_EVERY
        list(rates.sample(now))
    assert rates.of(partition, now) == ZERO
    partition.messages_in += 60
    assert rates.of(partition, now).messages_in == 1.0


def test_a_partition_that_nobody_had_used_counts_from_zero() -> None:
    known: list[Fake] = []
    rates = Rates(lambda: known, 0.0)
    list(rates.sample(10.0))
    known.append(Fake(id=7, messages_in=40))
    assert rates.of(known[0], 20.0).messages_in == 2.0


def test_counters_that_began_anew_give_no_negative_rate() -> None:
    partition = Fake(messages_in=1000, bytes_in=5)
    rates = Rates(lambda: [partition], 0.0)
    partition.messages_in, partition.bytes_in = 10, 30
    assert rates.of(partition, 10.0) == (1.0, 3.0, 0.0)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_a_rate_never_spans_less_than_what_it_could_nor_more_than_a_sample_over_a_minute(
    steps: list[int],
) -> None:
    partition = Fake()
    rates = Rates(lambda: [partition], 0.0)
    totals = [0]
    for number, step in enumerate(steps, 1):
        partition.messages_in += step
        totals.append(partition.messages_in)
        list(rates.sample(number * SAMPLE_EVERY))
    now = len(steps) * SAMPLE_EVERY
    back = min(len(steps), int(SPAN / SAMPLE_EVERY))
    expected = (totals[-1] - totals[-1 - back]) / (back * SAMPLE_EVERY)
    assert rates.of(partition, now).messages_in == expected
