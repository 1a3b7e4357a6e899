"""Progress for a log, and stopping in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pipeline.progress import Progress, Stop


@pytest.fixture
def stop() -> Iterator[Stop]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stop = Stop()
    stop.listen()
    yield stop
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_ends(stop: Stop, number: signal.Signals) -> None:
    signal.raise_signal(number)
    assert stop.asked

    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_stop_cuts_a_sleep_short(stop: Stop) -> None:
    stop.asked = True

    stop.sleep(3_600)


def test_a_line_names_rows_speed_and_note() -> None:
    progress = Progress("archived")
    progress.expect(5_000)
    progress.add(1_200, "lag 3,800")

    line = progress.line("lag 3,800")

    assert line.startswith("archived 1,200 of 5,000 rows, ")
    assert line.endswith(" rows/s, lag 3,800")
