"""What is said too often is written some times, and counted from then on."""

from __future__ import annotations

import io
import logging

import pytest

from gateway import logs
from gateway.log_budget import LINES, LogBudget

log = logging.getLogger("gateway.somewhere")


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(logs, "LogBudget", lambda: LogBudget(clock))
    return clock


def _ours(record: logging.LogRecord) -> bool:
    return record.name.startswith(("gateway", "magnetar"))


@pytest.fixture
def stream(clock: Time) -> io.StringIO:
    stream = io.StringIO()
    logs.setup("debug", "text", stream)
    for handler in logging.getLogger().handlers:
        # clients of other tests in this process may still be looking for their gateways
        handler.filters.insert(0, _ours)
    return stream


def closing(number: int) -> None:
    log.info("closing a connection", extra={"number": number})


def test_one_place_is_heard_some_times_and_then_once_a_second(stream: io.StringIO, clock: Time) -> None:
    for number in range(LINES + 5):
        closing(number)
    assert len(stream.getvalue().splitlines()) == LINES
    clock.now += 1
    for _ in range(3):
        closing(77)
    assert [line[-2:] for line in stream.getvalue().splitlines()[LINES:]] == ["77"]


def test_other_places_are_heard_beside_it(stream: io.StringIO) -> None:
    for number in range(LINES * 2):
        closing(number)
    log.info("closing a connection", extra={"client": "from another line"})
    log.error("trouble")
    assert len(stream.getvalue().splitlines()) == LINES + 2


def test_how_much_was_left_out_is_told_when_there_is_room_again(stream: io.StringIO, clock: Time) -> None:
    for number in range(LINES * 3):
        closing(number)
    before = stream.getvalue()
    logs.tell_untold()
    assert stream.getvalue() == before
    clock.now += LINES // 2
    logs.tell_untold()
    told = stream.getvalue()[len(before) :]
    assert told.endswith(f"closing a connection  number={LINES * 3 - 1} more={LINES * 2}\n")
    assert logs.left_out() == LINES * 2
    logs.tell_untold()
    clock.now += LINES
    logs.tell_untold()
    assert stream.getvalue() == before + told


def test_one_who_goes_on_and_on_is_told_of_now_and_then(stream: io.StringIO, clock: Time) -> None:
    for number in range(1000):
        closing(number)
        clock.now += 0.01
        logs.tell_untold()
    clock.now += LINES
    logs.tell_untold()
    lines = stream.getvalue().splitlines()
    assert len(lines) <= LINES + 12
    told = [line.rpartition("more=")[2] for line in lines if "more=" in line]
    assert len(lines) - len(told) + sum(map(int, told)) == 1000


def test_whoever_wants_to_know_everything_gets_everything(stream: io.StringIO) -> None:
    for _ in range(LINES * 2):
        log.debug("a detail")
    assert len(stream.getvalue().splitlines()) == LINES * 2


def test_what_it_remembers_does_not_grow_with_what_clients_say(clock: Time) -> None:
    budget = LogBudget(clock)
    for number in range(1000):
        record = log.makeRecord(log.name, logging.INFO, "f.py", 7, f"client {number}", (), None)
        budget.filter(record)
    clock.now += LINES
    (told,) = budget.untold()
    assert told.getMessage() == "client 999"
