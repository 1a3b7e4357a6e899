"""Commits that are refused: who stands ahead of them is told first, and nothing behind them is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.participant import Gathered, Stage
from gateway.broker.partition import Partition
from gateway.wire import letters
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from store import rocksdb
from store.api import Family, Log, Put, Refused, Store, StoreError
from store.rocksdb.log import RocksLog
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import ACCEPT, REJECT, Slot, World, run
from tests.gateway.serving import batch


class Broken:
    """A participant that cannot prepare."""

    stage, prepares = Stage.ROWS, True

    def __init__(self, store: Store) -> None:
        self.store = store

    def prepare(self) -> None:
        raise RuntimeError("on purpose")

    def writes(self, commit: Gathered) -> None:
        pass

    def committed(self) -> None:
        pass

    def failed(self, error: StoreError) -> None:
        pass

    def dropped(self, error: StoreError) -> None:
        pass


def partition_of(world: World, index: int = 0) -> Partition:
    topic = world.broker.catalog.get("t")
    assert topic is not None
    return world.broker.partition(topic, index)


def put(world: World, value: bytes, index: int = 0) -> Slot:
    """A record, and who waits for it."""
    partition, data = partition_of(world, index), batch(value)
    partition.append(data, admit(data), world.clock.wall_ms())
    slot = Slot()
    world.broker.turn.await_commit(slot, partition.store)
    return slot


def test_a_turn_that_is_refused_overtakes_none() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await world.topic()
        reader = partition_of(world)
        store.holding = True
        first = put(world, b"a")
        await store.has(1)
        second = put(world, b"b")
        world.broker.turn.join(Broken(reader.store))
        await store.has(2)
        third = put(world, b"c")
        await store.has(3)
        assert not second.told.done()
        store.release()
        assert await first.told is None
        assert isinstance(await second.told, StoreError)
        assert isinstance(await third.told, StoreError), "its offset continued those of the second"
        assert reader.high_watermark == 1
        assert await put(world, b"d").told is None
        assert [each.value for each in await world.read("t")] == [b"a", b"d"]

    run(test)


@pytest.mark.parametrize("fails", [False, True])
def test_a_turn_that_the_store_is_done_with_early_waits_for_those_before_it(fails: bool) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await world.topic(partitions=2)
        first, second = partition_of(world, 0), partition_of(world, 1)
        store.holding = True
        slow = put(world, b"a", 0)
        await store.has(1)
        early = put(world, b"b", 1)
        rows, nothing = Slot(), Slot()
        world.broker.commit([Put(Family.META, b"k", b"v")], rows.settle)
        # without writes of its own: it waits for whatever is on its way
        world.broker.commit((), nothing.settle)
        await store.has(2)
        # the store does not keep the order of what has nothing in common
        store.inner.commit(*store.queued.pop())
        assert (second.high_watermark, early.told.done(), rows.told.done()) == (0, False, False)
        if fails:
            store.fail(Refused("no"))
            assert isinstance(await slow.told, StoreError)
            assert isinstance(await early.told, StoreError), "it may have waited for the other"
            assert isinstance(await nothing.told, StoreError)
        else:
            store.land()
            assert await slow.told is await early.told is await nothing.told is None
        assert await rows.told is None
        assert (first.high_watermark, second.high_watermark) == (int(not fails), 1), "what is stored shows"
        store.release()

    run(test)


class Breaking(Slot):
    """One whose answer cannot be made."""

    def settle(self, outcome: Any) -> None:
        raise RuntimeError("on purpose")


@pytest.mark.parametrize("fails", [False, True])
def test_an_answer_that_breaks_keeps_no_other_waiting(fails: bool) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await world.topic()
        store.holding = True
        world.broker.turn.await_commit(Breaking(), partition_of(world).store)
        slot = put(world, b"a")
        rows = asyncio.ensure_future(world.broker.write([Put(Family.META, b"k", b"v")]))
        await store.has(1)
        if fails:
            store.fail(Refused("no"))
            assert isinstance(await slot.told, StoreError)
            with pytest.raises(StoreError):
                await rows
        else:
            store.release()
            assert await slot.told is None
            await rows

    run(test)


def test_a_turn_that_is_refused_is_told_though_the_store_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await world.topic()
        store.holding = True
        first = put(world, b"a")
        await store.has(1)

        def closed(self: HeldStore, *_: object) -> None:
            raise RuntimeError("closed")

        with monkeypatch.context() as patch:
            patch.setattr(HeldStore, "commit", closed)
            second = put(world, b"b")
            assert isinstance(await second.told, StoreError)
        store.release()
        assert await first.told is None

    run(test)


def test_an_acknowledgement_ahead_of_a_turn_that_is_refused_holds() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        at = await world.subscribed(b"x", b"y")
        await world.fetch(at)
        store.holding = True
        assert at.acknowledge("c", [(0, 0, ACCEPT)]) == 0
        slot = Slot()
        world.broker.turn.await_commit(slot)
        await store.has(1)
        at.touch()
        world.broker.turn.join(Broken(at.store))
        await store.has(2)
        store.release()
        assert await slot.told is None
        await world.settled()
        assert 0 not in await world.fetch(at)

    run(test)


def test_what_is_queued_behind_a_refused_append_is_not_stored(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        # nothing is executed on the loop, so that the second commit is queued before the first is answered
        store = await rocksdb.open(tmp_path / "data", inline_bytes=-1)
        await world.start(store)
        await world.topic(partitions=2)
        log = partition_of(world, 0).log
        assert isinstance(log, RocksLog)
        first = put(world, b"one", 1)
        put(world, b"x", 0)
        # it is found while the turn is open
        log.refuses = "damaged"
        world.broker.turn.end()
        second = put(world, b"two", 1)
        world.broker.turn.end()
        assert isinstance(await first.told, StoreError)
        assert isinstance(await second.told, StoreError)
        assert await put(world, b"three", 1).told is None
        assert [(each.offset, each.value) for each in await world.read("t", 1)] == [(0, b"three")]
        await store.close()

    run(test)


def test_a_producer_to_a_log_that_refuses_is_told_and_costs_nobody_the_turn(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        store = await rocksdb.open(tmp_path / "data")
        await world.start(store)
        await world.topic(partitions=2)
        log = partition_of(world, 0).log
        assert isinstance(log, RocksLog)
        log.refuses = "damaged"
        first = put(world, b"one", 1)
        with pytest.raises(KafkaError, match="damaged") as told:
            put(world, b"x", 0)
        assert told.value.code == Error.KAFKA_STORAGE_ERROR
        world.broker.turn.end()
        assert await first.told is None
        assert [(each.offset, each.value) for each in await world.read("t", 1)] == [(0, b"one")]
        await store.close()

    run(test)


def test_a_burial_that_waited_is_of_a_partition_in_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's own commit failed meanwhile: a letter would be stored without its acknowledgement, and twice."""

    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await world.topic("t-g-DLQ")
        at = await world.subscribed(b"bad")
        await world.fetch(at)
        gate = asyncio.Event()
        log = at.partition.log
        read = type(log).read

        def slow(self: Log, *given: Any, **named: Any) -> Any:
            async def later() -> Any:
                await gate.wait()
                return read(self, *given, **named)

            return later() if self is log and not gate.is_set() else read(self, *given, **named)

        monkeypatch.setattr(type(log), "read", slow)
        assert not await world.ack(at, 0, kind=REJECT)
        assert at.burying
        store.holding = True
        put(world, b"a")
        await store.has(1)
        store.holding = False
        store.fail(Refused("no"))
        gate.set()
        async with asyncio.timeout(10):
            while at.burying:
                await asyncio.sleep(0)
        await world.settled()
        await world.crash()
        world.at().ready()
        await world.settled()
        await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"bad"]

    run(test)


def test_a_burial_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        await world.start(HeldStore())
        await world.topic("t-g-DLQ")
        at = await world.subscribed(b"bad")
        await world.fetch(at)

        def failing(*_: object) -> Any:
            raise RuntimeError("on purpose")

        with monkeypatch.context() as patch:
            patch.setattr(letters, "build", failing)
            assert await world.ack(at, 0, kind=REJECT) == Error.KAFKA_STORAGE_ERROR
        assert not at.burying
        at = world.at()
        at.ready()
        await world.fetch(at)
        await world.ack(at, 0, kind=REJECT)
        await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"bad"]

    run(test)
