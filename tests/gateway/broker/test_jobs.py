"""Jobs: when they run, that one which fails does not stop the others, and that a stop ends them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.broker.jobs import Job, Jobs
from store.api import Refused
from tests.gateway.broker.fake_broker import LOOP, FakeBroker

Work = Callable[[], Coroutine[Any, Any, None] | None]


def started(broker: FakeBroker, *jobs: Job) -> Jobs:
    """These jobs, instead of the broker's own."""
    broker.timers.clear()
    broker.jobs = Jobs(broker, jobs)
    broker.jobs.start()
    return broker.jobs


def times(broker: FakeBroker, *errors: Exception) -> tuple[list[int], Work]:
    """When it was run, and work that notes it; its first runs fail with these errors."""
    seen: list[int] = []
    failing = list(errors)

    def work() -> None:
        seen.append(broker.clock.now)
        if failing:
            raise failing.pop(0)

    return seen, work


def test_a_job_runs_after_each_interval(broker: FakeBroker) -> None:
    begin = broker.clock.now
    seen, work = times(broker)
    started(broker, Job("a", 1000, work))
    broker.advance(999)
    assert seen == []
    broker.advance(2001)
    assert seen == [begin + 1000, begin + 2000, begin + 3000]


def test_the_first_run_may_come_at_another_time(broker: FakeBroker) -> None:
    begin = broker.clock.now
    seen, work = times(broker)
    started(broker, Job("a", 1000, work, first_ms=10))
    broker.advance(1500)
    assert seen == [begin + 10, begin + 1010]


def test_the_interval_begins_when_a_run_is_over(broker: FakeBroker) -> None:
    begin = broker.clock.now
    seen: list[int] = []
    gate: asyncio.Future[None] = LOOP.create_future()

    async def work() -> None:
        seen.append(broker.clock.now)
        await gate

    jobs = started(broker, Job("a", 1000, work))
    broker.clock.now += 1000
    broker.ring()
    assert jobs.running == ["a"]
    broker.clock.now += 5000
    broker.ring()
    assert seen == [begin + 1000], "it never overlaps itself"
    gate.set_result(None)
    broker.advance(1000)
    assert seen == [begin + 1000, begin + 7000]


def test_a_job_that_fails_keeps_neither_itself_nor_others_from_running(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bad, breaks = times(broker, ValueError("a fault"), Refused("the disk is away"))
    good, works = times(broker)
    started(broker, Job("bad", 1000, breaks), Job("good", 1000, works))
    broker.advance(3000)
    assert len(bad) == len(good) == 3
    fault, put_off = caplog.records
    assert (fault.levelname, fault.getMessage(), vars(fault)["job"]) == (
        "ERROR",
        "housekeeping failed",
        "bad",
    )
    assert fault.exc_info is not None
    assert "a fault" in str(fault.exc_info[1])
    assert (put_off.levelname, put_off.getMessage()) == ("WARNING", "housekeeping is put off")
    assert (vars(put_off)["job"], vars(put_off)["reason"]) == ("bad", "the disk is away")


def test_what_is_done_once_is_tried_until_the_store_can(broker: FakeBroker) -> None:
    done, works = times(broker)
    late, waits = times(broker, Refused("no"), Refused("no"))
    never, breaks = times(broker, ValueError("a fault"))
    jobs = [Job(name, 1000, work, once=True) for name, work in (("a", works), ("b", waits), ("c", breaks))]
    started(broker, *jobs)
    broker.advance(10_000)
    assert (len(done), len(late), len(never)) == (1, 3, 1)


def test_a_stop_ends_what_runs_and_begins_nothing_more(broker: FakeBroker) -> None:
    ended: list[str] = []
    seen, work = times(broker)

    async def slow() -> None:
        try:
            await LOOP.create_future()
        finally:
            ended.append("slow")

    async def stubborn() -> None:
        try:
            await LOOP.create_future()
        except asyncio.CancelledError:
            ended.append("stubborn")

    jobs = started(broker, Job("slow", 1000, slow), Job("stubborn", 1000, stubborn), Job("idle", 1500, work))
    broker.clock.now += 1000
    broker.ring()
    assert jobs.running == ["slow", "stubborn"]
    LOOP.run_until_complete(jobs.stop())
    assert sorted(ended) == ["slow", "stubborn"]
    assert jobs.running == []
    broker.advance(10_000)
    assert seen == []
    assert jobs.running == []
    assert ended == ["slow", "stubborn"]


def test_names_are_for_the_log_and_so_differ(broker: FakeBroker) -> None:
    _, work = times(broker)
    with pytest.raises(ValueError, match="one name"):
        Jobs(broker, [Job("a", 1, work), Job("a", 2, work)])
