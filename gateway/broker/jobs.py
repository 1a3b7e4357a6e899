"""Work that is done again and again without being asked for. What the jobs are is in `housekeeping.py`.

A job that fails is logged and does not keep the others from running. It is tried again after its interval, which begins
when the run before it is over: a job never overlaps itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.broker.node import Node, Timer
from store.api import StoreError

log = logging.getLogger("magnetar.housekeeping")


@dataclass(frozen=True, slots=True)
class Job:
    """One kind of work."""

    name: str
    """For the log."""
    interval_ms: int
    run: Callable[[], Coroutine[Any, Any, None] | None]
    """Returns a coroutine if it takes more than one turn of the loop. What it raises is logged."""
    first_ms: int | None = None
    """When it first runs, counted from the start: 0 for at once, None for after one interval."""
    once: bool = False
    """Done with the first run that ends. The store may fail it: then it is tried again."""


class Jobs:
    """Runs jobs on timers from `start` until `stop`."""

    def __init__(self, node: Node, jobs: Sequence[Job]) -> None:
        self._node = node
        self.jobs = tuple(jobs)
        self._timers: dict[str, Timer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped = False
        if len({job.name for job in jobs}) < len(jobs):
            raise ValueError("two jobs have one name")

    @property
    def running(self) -> list[str]:
        """The names of those that are at work now."""
        return list(self._tasks)

    def start(self) -> None:
        for job in self.jobs:
            if job.first_ms == 0:
                self._begin(job)
            else:
                self._after(job.first_ms or job.interval_ms, job)

    async def stop(self) -> None:
        """Begin no more runs, and end those that are under way."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def _after(self, ms: int, job: Job) -> None:
        at = self._node.clock.monotonic_ms() + ms
        self._timers[job.name] = self._node.call_at(at, lambda: self._begin(job))

    def _begin(self, job: Job) -> None:
        self._timers.pop(job.name, None)
        self._tasks[job.name] = self._node.loop.create_task(self._run(job))

    async def _run(self, job: Job) -> None:
        again = not job.once
        try:
            if (rest := job.run()) is not None:
                await rest
        except StoreError as error:
            log.warning("housekeeping is put off", extra={"job": job.name, "reason": str(error)})
            again = True
        except Exception:
            log.exception("housekeeping failed", extra={"job": job.name})
        del self._tasks[job.name]
        if again and not self._stopped:
            self._after(job.interval_ms, job)
