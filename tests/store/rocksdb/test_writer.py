"""Who executes a group, and when: on the loop before `commit` returns, or in the writer's thread."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from store.api import Durability, Family, Outcome, Put, Refused, StoreError, Unknown
from store.rocksdb.commits import QueuedCommit, Result
from store.rocksdb.group_commit import Executor
from store.rocksdb.writer import GROUP_BYTES, GROUP_COMMITS, SYNCED_GROUP_BYTES, Writer
from tests.store.making import append, content
from tests.store.rocksdb.faults import Faults, open_faulty


def test_a_stall_sends_an_inline_group_to_the_thread(folder: Path) -> None:
    async def main() -> None:
        faults = Faults()
        store = await open_faulty(folder / "data", faults)
        await store.write([append(1, 0)], Durability.OS)
        before = store.stats()
        held = store.log(1)
        faults.arm((1, "stall"))
        outcomes: list[Outcome] = []
        store.commit([append(1, 1, [100] * 3)], Durability.OS, outcomes.append)
        assert outcomes == [], "it did not happen on the loop"
        store.commit([append(1, 4)], Durability.OS, outcomes.append)
        await store.write([Put(Family.META, b"k", b"v")], Durability.OS)
        assert outcomes == [None, None]
        assert faults.struck
        faults.disarm()
        assert store.stats().threaded_groups > before.threaded_groups
        assert not held.stale
        assert held.end_offset == 5
        assert len(await content(held)) == held.size
        await store.close()

    asyncio.run(main())


class Recorded(Executor):
    """Takes down its groups and who asked for them; fails or stalls those that hold a key that is said to."""

    def __init__(self) -> None:
        self.suspect = False
        self.groups: list[list[bytes]] = []
        self.threads: list[str] = []
        self.fails: dict[bytes, Exception] = {}
        self.stalls: set[bytes] = set()
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()

    def execute(self, commits: list[QueuedCommit], *, wait: bool) -> Result:
        self.entered.set()
        assert self.go.wait(30)
        keys = [key_of(commit) for commit in commits]
        result = Result(commits)
        if not wait and self.stalls & set(keys):
            result.stalled = True
            return result
        self.groups.append(keys)
        self.threads.append(threading.current_thread().name)
        for key in keys:
            error = self.fails.get(key)
            if isinstance(error, StoreError):
                result.outcome = error
            elif error is not None:
                raise error
        return result


def key_of(commit: QueuedCommit) -> bytes:
    (write,) = commit.writes
    assert isinstance(write, Put)
    return write.key


class Queue:
    """A writer in front of a recorded executor, and what its commits came to, in order."""

    def __init__(self, loop: Any = None, **options: float) -> None:
        self.executor = Recorded()
        self.told: list[tuple[bytes, Outcome]] = []
        given = {"inline_bytes": 100, "slow_seconds": 1000.0, "thread_seconds": 1000.0, **options}
        self.writer = Writer(
            self.executor,
            loop or asyncio.get_running_loop(),
            lambda result: None,
            inline_bytes=int(given["inline_bytes"]),
            slow_seconds=given["slow_seconds"],
            thread_seconds=given["thread_seconds"],
        )

    def commit(
        self,
        key: bytes,
        size: int = 1,
        durability: Durability = Durability.OS,
        *,
        failed: Outcome = None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        def done(outcome: Outcome) -> None:
            self.told.append((key, outcome))
            then()

        commit = QueuedCommit([Put(Family.META, key, b"")], durability, done, size, self.writer.generation)
        commit.failed = failed
        self.writer.submit(commit)

    async def behind(self, *commits: Callable[[], None]) -> None:
        """Queue all of them while the thread is at work with another; wait until everything is done."""
        self.executor.go.clear()
        self.commit(b"first", durability=Durability.FSYNC)
        await asyncio.to_thread(self.executor.entered.wait, 30)
        for commit in commits:
            commit()
        self.executor.go.set()
        await self.writer.drained()

    @property
    def ends(self) -> list[bytes]:
        return [key for key, _ in self.told]


def queued(test: Callable[[Queue], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            queue = Queue()
            await test(queue)
            await queue.writer.stop()

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


@queued
async def test_a_small_commit_is_done_before_submit_returns(queue: Queue) -> None:
    queue.commit(b"a", 100)
    assert queue.told == [(b"a", None)]
    assert queue.writer.idle
    assert (queue.writer.inline_groups, queue.writer.threaded_groups) == (1, 0)


@pytest.mark.parametrize(
    ("size", "durability", "suspect"),
    [(101, Durability.OS, False), (1, Durability.FSYNC, False), (1, Durability.OS, True)],
    ids=["large", "synced", "after an unknown outcome"],
)
def test_what_may_take_long_goes_to_the_thread(size: int, durability: Durability, suspect: bool) -> None:
    async def main() -> None:
        queue = Queue()
        queue.executor.suspect = suspect
        queue.commit(b"a", size, durability)
        assert queue.told == [], "nobody is told before the loop runs"
        assert not queue.writer.idle
        await queue.writer.drained()
        assert queue.told == [(b"a", None)]
        assert queue.executor.threads == ["store-writer"]
        await queue.writer.stop()

    asyncio.run(main())


def test_behind_a_slow_write_the_thread_takes_over_for_a_while() -> None:
    async def main() -> None:
        here = threading.current_thread().name
        for thread_seconds, second in [(1000.0, "store-writer"), (-1000.0, here)]:
            queue = Queue(slow_seconds=-1.0, thread_seconds=thread_seconds)
            for key in (b"a", b"b"):
                queue.commit(key)
                await queue.writer.drained()
            assert queue.executor.threads == [here, second]
            assert queue.ends == [b"a", b"b"]
            await queue.writer.stop()

    asyncio.run(main())


@queued
async def test_nothing_overtakes_what_is_queued(queue: Queue) -> None:
    await queue.behind(lambda: queue.commit(b"a"), lambda: queue.commit(b"b"))
    assert queue.ends == [b"first", b"a", b"b"]
    assert queue.executor.groups == [[b"first"], [b"a", b"b"]], "what waited is one group"
    queue.commit(b"c")
    assert queue.ends[-1] == b"c"


@pytest.mark.parametrize(
    ("sizes", "durability", "groups"),
    [
        ([GROUP_BYTES, 1, 1], Durability.OS, [1, 2]),
        ([GROUP_BYTES - 1, 1, 1], Durability.OS, [2, 1]),
        ([2 * GROUP_BYTES, 2 * GROUP_BYTES], Durability.OS, [1, 1]),
        ([SYNCED_GROUP_BYTES - 1, 1, 1], Durability.FSYNC, [2, 1]),
        ([0] * (GROUP_COMMITS + 1), Durability.OS, [GROUP_COMMITS, 1]),
    ],
)
def test_groups_are_bounded_and_commits_are_never_split(
    sizes: list[int], durability: Durability, groups: list[int]
) -> None:
    async def main() -> None:
        queue = Queue()
        names = [str(number).encode() for number in range(len(sizes))]
        await queue.behind(
            *(
                functools.partial(queue.commit, name, size, durability)
                for name, size in zip(names, sizes, strict=True)
            )
        )
        assert queue.ends == [b"first", *names]
        assert [len(group) for group in queue.executor.groups[1:]] == groups
        await queue.writer.stop()

    asyncio.run(main())


@queued
async def test_what_was_queued_before_a_failure_was_told_fails_with_it(queue: Queue) -> None:
    queue.executor.fails[b"first"] = Refused("full")
    await queue.behind(lambda: queue.commit(b"a"), lambda: queue.commit(b"b"))
    assert queue.ends == [b"first", b"a", b"b"]
    assert [type(outcome) for _, outcome in queue.told] == [Refused, StoreError, StoreError]
    assert queue.executor.groups == [[b"first"]], "they were not tried"
    queue.commit(b"c")
    queue.commit(b"d", durability=Durability.FSYNC)
    await queue.writer.drained()
    assert queue.told[3:] == [(b"c", None), (b"d", None)], "who knows of it may go on"


class Slow:
    """A loop that hears of the first group of a thread, and of the others when the test says so."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.lock = threading.Lock()  # the writer's thread calls while the test says that it goes on
        self.hears, self.goes_on = True, False
        self.kept: list[tuple[Any, ...]] = []

    def call_soon_threadsafe(self, *call: Any) -> None:
        with self.lock:
            if self.hears:
                self.loop.call_soon_threadsafe(*call)
            else:
                self.kept.append(call)
            self.hears = self.goes_on

    def go_on(self) -> None:
        with self.lock:
            self.hears = self.goes_on = True
            for call in self.kept:
                self.loop.call_soon_threadsafe(*call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)


def test_whoever_hears_of_a_failure_has_heard_of_all_that_fail_with_it() -> None:
    """One that is queued in between might continue one of them, and would be stored."""

    async def main() -> None:
        loop = Slow()
        queue = Queue(loop)
        queue.executor.fails[b"first"] = Refused("full")
        queue.executor.go.clear()
        told = asyncio.Event()
        queue.commit(b"first", durability=Durability.FSYNC, then=told.set)
        await asyncio.to_thread(queue.executor.entered.wait, 30)
        for key in (b"a", b"b", b"c"):
            queue.commit(key)
        queue.executor.go.set()
        await told.wait()
        assert queue.ends == [b"first", b"a", b"b", b"c"]
        queue.commit(b"next")
        loop.go_on()
        await queue.writer.drained()
        assert queue.told[4:] == [(b"next", None)]
        await queue.writer.stop()

    asyncio.run(main())


@queued
async def test_what_was_refused_beforehand_is_told_in_its_turn_and_fails_what_stood_behind(
    queue: Queue,
) -> None:
    refused = Refused("The log takes no more.")
    await queue.behind(
        lambda: queue.commit(b"a"),
        lambda: queue.commit(b"b", failed=refused),
        lambda: queue.commit(b"c"),
    )
    assert queue.told[:3] == [(b"first", None), (b"a", None), (b"b", refused)]
    assert isinstance(dict(queue.told)[b"c"], StoreError)
    assert [b"b"] not in queue.executor.groups
    queue.commit(b"d", failed=refused)
    queue.commit(b"e")
    assert queue.told[4:] == [(b"d", refused), (b"e", None)]


@pytest.mark.parametrize("durability", Durability)
def test_a_failure_that_nobody_foresaw_is_an_unknown_outcome(durability: Durability) -> None:
    async def main() -> None:
        queue = Queue()
        queue.executor.fails[b"a"] = RuntimeError("a bug")
        queue.commit(b"a", durability=durability)
        await queue.writer.drained()
        ((_, outcome),) = queue.told
        assert isinstance(outcome, Unknown)
        assert "a bug" in str(outcome)
        queue.commit(b"b", durability=durability)
        await queue.writer.drained()
        assert queue.told[1:] == [(b"b", None)], "the thread lives on"
        await queue.writer.stop()

    asyncio.run(main())


@queued
async def test_a_commit_from_a_callback_waits_until_all_callbacks_of_the_group_have_run(queue: Queue) -> None:
    await queue.behind(
        lambda: queue.commit(b"a", then=lambda: queue.commit(b"late")), lambda: queue.commit(b"b")
    )
    assert queue.ends == [b"first", b"a", b"b", b"late"]


@queued
async def test_a_task_runs_between_two_groups(queue: Queue) -> None:
    seen: list[int] = []
    outcomes: list[Outcome] = []
    await queue.behind(
        lambda: queue.commit(b"a"),
        lambda: queue.writer.task(lambda: seen.append(len(queue.executor.groups)), outcomes.append),
        lambda: queue.commit(b"b"),
    )
    assert seen == [2]
    assert queue.executor.groups == [[b"first"], [b"a"], [b"b"]]
    assert outcomes == [None]


@pytest.mark.parametrize("error", [OSError(5, "the disk"), Refused("the disk")])
def test_a_task_that_fails_is_refused_and_ends_nothing(error: Exception) -> None:
    async def main() -> None:
        queue = Queue()

        def fails() -> None:
            raise error

        outcomes: list[Outcome] = []
        queue.writer.task(fails, outcomes.append)
        (outcome,) = outcomes
        assert isinstance(outcome, Refused)
        assert "the disk" in str(outcome)
        queue.commit(b"a")
        assert queue.told == [(b"a", None)]
        await queue.writer.stop()

    asyncio.run(main())


@queued
async def test_stop_finishes_what_is_queued(queue: Queue) -> None:
    before = set(threading.enumerate())
    for number in range(5):
        queue.commit(b"%d" % number, durability=Durability.FSYNC)
    (thread,) = set(threading.enumerate()) - before
    await queue.writer.stop()
    assert queue.told == [(b"%d" % number, None) for number in range(5)]
    assert not thread.is_alive()
