"""Who executes a group, and when: the loop itself while groups are small and quick, else one writer thread.

The GIL must be taken again after each system call; against a busy loop each time may cost the switch interval
(5 ms). So a small group under `os` is written inline, before `commit` returns, when nothing is queued. Large
groups, `fsync`, and everything for a while after a slow write go to the thread. Order is kept because nothing
runs inline while something is queued, and a failure fails everything that was queued before the loop learnt
of it. All of these are told together: whoever queues a commit by then knows what it must not continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from store.api import Durability, Outcome, Refused, StoreError, Unknown
from store.rocksdb.commits import QueuedCommit, Result
from store.rocksdb.group_commit import Executor

log = logging.getLogger("magnetar.store")

GROUP_BYTES = 4 << 20
"""Commits are merged into groups of at most this payload (a commit is never split)."""

SYNCED_GROUP_BYTES = 1 << 20
"""The same under `fsync`, where most of it goes through the journal."""

GROUP_COMMITS = 1000

BEHIND = "A write that was queued before this one failed."


class Writer:
    """The queue in front of an `Executor`. All methods are the loop's; `_run` is the thread's."""

    def __init__(
        self,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
        finished: Callable[[Result], None],
        *,
        inline_bytes: int,
        slow_seconds: float,
        thread_seconds: float,
    ) -> None:
        self._executor = executor
        self._loop = loop
        # takes over what a group changed, before its `done` callbacks
        self._finished = finished
        self._inline_bytes = inline_bytes
        self._slow_seconds = slow_seconds
        self._thread_seconds = thread_seconds
        self._thread_until = 0.0
        self._queue: SimpleQueue[QueuedCommit | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # commits that the thread has not reported, in their order
        self._queued: deque[QueuedCommit] = deque()
        # counts failures that the loop has seen
        self.generation = 0
        # callbacks of a group are running: a commit from one of them waits until all are through
        self._completing = False
        self._deferred: deque[QueuedCommit] = deque()
        self._idle: asyncio.Event | None = None
        self.inline_groups = 0
        self.threaded_groups = 0
        self.commits = 0

    @property
    def idle(self) -> bool:
        """Nothing is queued: the executor may be used on the loop."""
        return not (self._queued or self._completing or self._deferred)

    def submit(self, commit: QueuedCommit) -> None:
        """Queue a commit; small ones are done before this returns when nothing is in their way."""
        if self._completing:
            self._deferred.append(commit)
        elif (
            not self._queued
            and commit.durability is Durability.OS
            and commit.size <= self._inline_bytes
            and not commit.alone
            and not self._executor.suspect
            and (not self._thread_until or time.perf_counter() >= self._thread_until)
        ):
            self._inline(commit)
        else:
            self._enqueue(commit)

    def task(self, work: Callable[[], None], done: Callable[[Outcome], None]) -> None:
        """Run something where groups run, between two of them."""
        commit = QueuedCommit((), Durability.OS, done, 0, self.generation)
        commit.task = work
        self.submit(commit)

    def _enqueue(self, commit: QueuedCommit) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
            self._thread.start()
        self._queued.append(commit)
        self._queue.put(commit)

    def _inline(self, commit: QueuedCommit) -> None:
        if commit.failed is not None or commit.task is not None:
            self._complete(_special(commit))
            return
        began = time.perf_counter()
        self._thread_until = 0.0
        try:
            result = self._executor.execute([commit], wait=False)
        except Exception as error:
            result = _broken([commit], error)
        took = time.perf_counter() - began
        if took > self._slow_seconds:
            self._thread_until = began + took + self._thread_seconds
        if result.stalled:
            # RocksDB would rather wait: not here
            self._enqueue(commit)
            return
        self.inline_groups += 1
        self._complete(result)

    def _complete(self, result: Result) -> None:
        """On the loop: publish, then tell."""
        self._completing = True
        last = result.commits[-1]
        if result.outcome is not None or (last.failed is not None and last.task is None):
            self.generation = max(self.generation, last.generation + 1)
            self._tell(result)
            # The thread refuses what was queued by now. Were it told later, one that is queued in between might
            # continue it, and would be stored.
            for commit in [each for each in self._queued if each.task is None and not each.told]:
                if commit.generation <= last.generation:
                    commit.failed = commit.failed or StoreError(BEHIND)
                    self._tell(_special(commit))
        else:
            self._tell(result)
        self._completing = False
        while self._deferred and not self._completing:
            self.submit(self._deferred.popleft())
        if self._idle is not None and self.idle:
            self._idle.set()

    def _tell(self, result: Result) -> None:
        self._finished(result)
        for commit in result.commits:
            self.commits += 1
            commit.told = True
            try:
                commit.done(commit.failed or result.declined or result.outcome)
            except Exception:
                log.exception("a callback of a commit failed")

    def _complete_queued(self, result: Result) -> None:
        self.threaded_groups += 1
        for _ in result.commits:
            self._queued.popleft()
        if not result.commits[0].told:
            # not idle before the callbacks have run, whatever they queue
            self._complete(result)
        elif self._idle is not None and self.idle:
            self._idle.set()

    async def drained(self) -> None:
        """Wait until nothing is queued."""
        while not self.idle:
            self._idle = asyncio.Event()
            await self._idle.wait()
        self._idle = None

    async def stop(self) -> None:
        """Finish the queue and the thread."""
        await self.drained()
        if self._thread is not None:
            self._queue.put(None)
            await self._loop.run_in_executor(None, self._thread.join)
            self._thread = None

    # the thread

    def _run(self) -> None:
        first_good = 0
        held: QueuedCommit | None = None
        while True:
            commit = held if held is not None else self._queue.get()
            held = None
            if commit is None:
                return
            if commit.generation < first_good and commit.failed is None:
                commit.failed = StoreError(BEHIND)
            if commit.failed is not None and commit.task is None:
                # refused before it was queued: what stands behind it may continue it
                first_good = max(first_good, commit.generation + 1)
            if commit.failed is not None or commit.task is not None:
                result = _special(commit)
            else:
                group, held, ended = self._gather(commit)
                try:
                    result = self._executor.execute(group, wait=True)
                except Exception as error:
                    result = _broken(group, error)
                if result.outcome is not None:
                    first_good = max(each.generation for each in group) + 1
                if ended:
                    self._queue.put(None)
            # a closed loop: the process is going down and nobody waits for the answer
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._complete_queued, result)

    def _gather(self, first: QueuedCommit) -> tuple[list[QueuedCommit], QueuedCommit | None, bool]:
        """What is queued behind a commit and may share its group, the one that did not fit, and whether to
        stop.
        """
        group = [first]
        size = first.size
        synced = first.durability is Durability.FSYNC
        while len(group) < GROUP_COMMITS and not first.alone:
            try:
                commit = self._queue.get_nowait()
            except Empty:
                break
            if commit is None:
                return group, None, True
            synced = synced or commit.durability is Durability.FSYNC
            size += commit.size
            if (
                commit.failed is not None
                or commit.task is not None
                or commit.alone
                or commit.generation != first.generation
                or size > (SYNCED_GROUP_BYTES if synced else GROUP_BYTES)
            ):
                return group, commit, False
            group.append(commit)
        return group, None, False


def _special(commit: QueuedCommit) -> Result:
    """A commit that is no group: its outcome is known, or it is a task to run."""
    result = Result([commit])
    if commit.failed is None and commit.task is not None:
        try:
            commit.task()
        except StoreError as error:
            commit.failed = error
        except OSError as error:
            commit.failed = Refused(str(error))
    return result


def _broken(commits: list[QueuedCommit], error: Exception) -> Result:
    """The executor itself failed: nothing can be said of the group."""
    log.error("a group failed in an unforeseen way", exc_info=error)
    result = Result(commits)
    result.outcome = Unknown(f"The store failed in a way that was not foreseen: {error}.")
    return result
