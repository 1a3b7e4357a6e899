"""A turn over two stores: topics in memory beside durable ones. Each store's part is done or fails by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.catalog import Topic
from gateway.broker.partition import Partition
from gateway.wire import records
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from store import memory, rocksdb
from store.api import Append, Durability, Refused, Store
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import ACCEPT, REJECT, HeldBroker, Slot, World


class TwoStores(HeldBroker):
    """Topics whose name begins with "fast" are in memory."""

    fast: Store

    def store_of(self, topic: Topic) -> Store:
        return self.fast if topic.name.startswith("fast") else self.durable


class Worlds(World):
    """RocksDB, whose commits may be held, and a store in memory beside it, too."""

    durable: HeldStore
    fast: HeldStore

    async def open(self, folder: Path) -> None:
        # a slow disk must not move its commits to a thread: tests land them one by one
        self.durable = HeldStore(await rocksdb.open(folder, slow_seconds=60.0))  # type: ignore[arg-type]
        self.fast = HeldStore(memory.open(clock=self.clock.wall_ms))
        await self.start(self.durable)
        self.broker.__class__ = TwoStores
        self.broker.fast = self.fast  # type: ignore[attr-defined]
        for name in ("t", "fast"):
            await self.topic(name)

    def part(self, name: str) -> Partition:
        return self.broker.partition(self.broker.topics.get(name), 0)

    def put(self, name: str) -> Partition:
        """One record into the open turn."""
        partition = self.part(name)
        batch = records.build_batch([records.Record(0, self.clock.wall_ms(), None, b"v", [])])
        partition.append(batch, admit(batch), self.clock.wall_ms())
        return partition

    def slot(self, store: HeldStore | None = None) -> Slot:
        slot = Slot()
        self.broker.turn.await_commit(slot, store)
        return slot


def run(body: Callable[[Worlds], Coroutine[Any, Any, None]], folder: Path) -> None:
    async def main() -> None:
        worlds = Worlds()
        await worlds.open(folder)
        try:
            async with asyncio.timeout(60):
                await body(worlds)
        finally:
            worlds.durable.release()
            worlds.fast.release()
            await worlds.close()
            await worlds.durable.inner.close()

    asyncio.run(main())


def test_each_store_gets_its_own_and_an_answer_for_both_waits_for_both(tmp_path: Path) -> None:
    async def test(worlds: Worlds) -> None:
        worlds.durable.holding = True
        slow, fast = worlds.put("t"), worlds.put("fast")
        own, both = worlds.slot(worlds.fast), worlds.slot()
        assert await own.told is None
        assert (slow.high_watermark, fast.high_watermark) == (0, 1), "what is stored shows"
        assert not both.told.done()
        worlds.durable.release()
        assert await both.told is None
        assert slow.high_watermark == 1
        for store, partition in ((worlds.durable, slow), (worlds.fast, fast)):
            appends = [each for writes in store.commits for each in writes if isinstance(each, Append)]
            assert [each.partition for each in appends] == [partition.id]

    run(test, tmp_path)


@pytest.mark.parametrize("failing", ["durable", "fast"])
def test_when_one_store_fails_the_other_has_its_part_and_an_answer_for_both_is_a_failure(
    tmp_path: Path, failing: str
) -> None:
    async def test(worlds: Worlds) -> None:
        worlds.durable.holding = worlds.fast.holding = True
        parts = {"durable": worlds.put("t"), "fast": worlds.put("fast")}
        slots = {"durable": worlds.slot(worlds.durable), "fast": worlds.slot(worlds.fast)}
        both = worlds.slot()
        worlds.broker.turn.end()
        bad: HeldStore = getattr(worlds, failing)
        lost = parts.pop(failing)
        ((name, kept),) = parts.items()
        bad.holding = False
        bad.fail(Refused("no"))
        assert isinstance(await slots[failing].told, Refused)
        assert (lost.stale, kept.stale) == (True, False)
        assert not both.told.done(), "it waits for both"
        good: HeldStore = getattr(worlds, name)
        good.release()
        assert await slots[name].told is None
        assert isinstance(await both.told, Refused)
        assert (kept.high_watermark, worlds.part(lost.topic.name).high_watermark) == (1, 0)
        for each in ("t", "fast"):
            worlds.put(each)
        assert await worlds.settled() is None
        assert (kept.high_watermark, worlds.part(lost.topic.name).high_watermark) == (2, 1)

    run(test, tmp_path)


def test_of_the_open_turn_only_what_goes_to_the_store_that_failed_is_dropped(tmp_path: Path) -> None:
    async def test(worlds: Worlds) -> None:
        worlds.durable.holding = True
        worlds.put("t")
        worlds.broker.turn.end()
        slow, fast = worlds.put("t"), worlds.put("fast")
        told: list[Any] = []
        dropped, kept, both = worlds.slot(worlds.durable), worlds.slot(worlds.fast), worlds.slot()
        worlds.broker.commit([], told.append)
        worlds.durable.holding = False
        worlds.durable.fail(Refused("no"))
        assert dropped.told.done()
        assert not both.told.done(), "it waits for the other store"
        assert not told
        assert isinstance(await dropped.told, Refused)
        assert await kept.told is None
        assert isinstance(await both.told, Refused)
        assert [type(each) for each in told] == [Refused]
        assert (slow.stale, fast.stale, fast.high_watermark) == (True, False, 1)
        # of the next turn nothing is left
        worlds.put("t")
        assert await worlds.settled() is None

    run(test, tmp_path)


def test_who_waits_for_everything_waits_for_what_is_on_its_way_to_another_store(tmp_path: Path) -> None:
    async def test(worlds: Worlds) -> None:
        worlds.durable.holding = True
        worlds.put("t")
        worlds.broker.turn.end()
        worlds.put("fast")
        both = worlds.slot()
        worlds.broker.turn.end()
        assert worlds.part("fast").high_watermark == 1
        assert not both.told.done()
        worlds.durable.release()
        assert await both.told is None

    run(test, tmp_path)


def test_a_fault_of_one_participant_refuses_the_turn_in_all_stores(tmp_path: Path) -> None:
    class Broken:
        stage, prepares = 0, True

        def __init__(self, store: Any, calls: list[str]) -> None:
            self.store = store
            self.calls = calls

        def prepare(self) -> None:
            raise RuntimeError("a fault of ours")

        def writes(self, commit: Any) -> None:
            self.calls.append("writes")

        def failed(self, error: Any) -> None:
            self.calls.append("failed")

    async def test(worlds: Worlds) -> None:
        parts = worlds.put("t"), worlds.put("fast")
        calls: list[str] = []
        worlds.broker.turn.join(Broken(worlds.durable, calls))  # type: ignore[arg-type]
        slots = worlds.slot(worlds.durable), worlds.slot(worlds.fast)
        for slot in slots:
            assert isinstance(await slot.told, Refused)
        assert [each.stale for each in parts] == [True, True]
        assert calls == ["writes", "failed"]
        assert not any(isinstance(each, Append) for writes in worlds.durable.commits for each in writes)

    run(test, tmp_path)


def test_a_subscription_writes_where_its_topic_is(tmp_path: Path) -> None:
    async def test(worlds: Worlds) -> None:
        for name, store in (("t", worlds.durable), ("fast", worlds.fast)):
            at = await worlds.subscribe("g", name)
            worlds.put(name)
            assert await worlds.settled() is None
            assert list(await worlds.fetch(at)) == [0]
            store.commits.clear()
            assert await worlds.ack(at, 0, kind=ACCEPT) == Error.NONE
            written = [each for writes in store.commits for each in writes]
            assert any(getattr(each, "family", None) == "cursor" for each in written)

    run(test, tmp_path)


def test_an_answer_about_cursors_of_two_stores_waits_for_both(tmp_path: Path) -> None:
    async def test(worlds: Worlds) -> None:
        at = [await worlds.subscribe("g", name) for name in ("t", "fast")]
        for name in ("t", "fast"):
            worlds.put(name)
        assert await worlds.settled() is None
        for each in at:
            assert list(await worlds.fetch(each)) == [0]
            assert each.acknowledge("c", [(0, 0, ACCEPT)]) == Error.NONE
        worlds.durable.holding = True
        told: list[Any] = []
        worlds.broker.commit((), told.append, Durability.OS)
        worlds.broker.turn.end()
        assert not told
        worlds.durable.holding = False
        worlds.durable.fail(Refused("no"))
        assert [type(each) for each in told] == [Refused]
        assert [each.cursor is None for each in at] == [True, False], "only that of the store that failed"

    run(test, tmp_path)


@pytest.mark.parametrize("exists", [False, True])
def test_a_dead_letter_is_not_stored_apart_from_the_end_of_its_record(tmp_path: Path, exists: bool) -> None:
    """Its topic would be durable and the cursor is not: the record stays open and says why."""

    async def test(worlds: Worlds) -> None:
        if exists:
            await worlds.topic("graves")
        await worlds.configure("g", pulsar__dead__letter__topic="graves")
        at = await worlds.subscribe("g", "fast")
        worlds.put("fast")
        assert await worlds.settled() is None
        assert list(await worlds.fetch(at)) == [0]
        assert await worlds.ack(at, 0, kind=REJECT) == Error.NONE
        assert "the same store" in (at.ready().look(0).reason or "")
        assert exists == (worlds.broker.catalog.get("graves") is not None)
        assert not any(isinstance(each, Append) for writes in worlds.durable.commits for each in writes)

    run(test, tmp_path)


def test_a_commit_in_memory_does_not_say_that_the_disk_works(tmp_path: Path) -> None:
    async def test(worlds: Worlds) -> None:
        worlds.durable.holding = True
        worlds.put("t")
        worlds.broker.turn.end()
        worlds.durable.holding = False
        worlds.durable.fail(Refused("no"))
        for name, failing in (("fast", True), ("t", False)):
            worlds.put(name)
            assert await worlds.settled() is None
            assert worlds.broker.failing is failing

    run(test, tmp_path)


def test_a_cursor_with_nothing_to_write_is_told_behind_the_commits_before_it(tmp_path: Path) -> None:
    async def test(worlds: Worlds) -> None:
        at = await worlds.subscribe("g", "t")
        worlds.put("t")
        assert await worlds.settled() is None
        assert list(await worlds.fetch(at)) == [0]
        worlds.durable.holding = True
        assert at.acknowledge("c", [(0, 0, ACCEPT)]) == Error.NONE
        worlds.broker.turn.end()
        at.touch()
        worlds.broker.turn.end()
        assert [bool(writes) for writes, _, _ in worlds.durable.queued] == [True, False]
        worlds.durable.land()
        assert at.unsaved
        worlds.durable.land()
        assert not at.unsaved
        # with nothing on its way nobody asks the store
        count = len(worlds.durable.commits)
        at.touch()
        worlds.broker.turn.end()
        assert not at.unsaved
        assert len(worlds.durable.commits) == count

    run(test, tmp_path)
