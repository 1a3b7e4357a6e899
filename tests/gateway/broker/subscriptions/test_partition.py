"""One partition of a subscription: what consumers are given, what verdicts do, what a crash or a failure leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.stood_still import HEARD_MS, STOOD_STILL_MS
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from store.api import Refused, StoreError, Unknown
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import ACCEPT, REJECT, RELEASE, Taker, Waiter, World, run


def test_records_are_delivered_once_each_and_never_again_when_acknowledged(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b", b"c")
        await world.produce(b"d")
        first = await world.fetch(at, "one", 2)
        assert first == {0: (b"a", 1), 1: (b"b", 1), 2: (b"c", 1)}, "to the end of the batch"
        assert await world.fetch(at, "two") == {3: (b"d", 1)}
        assert await world.fetch(at, "one") == {}
        assert not await world.ack(at, 0, 1, 2, consumer="one")
        assert not await world.ack(at, 3, consumer="two")
        await world.crash()
        assert await world.fetch(world.at(), "one") == {}

    run(test, folder)


def test_what_was_not_acknowledged_comes_back_after_a_crash_and_its_count_survives(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b", b"c")
        await world.fetch(at)
        assert not await world.ack(at, 1)
        assert not await world.ack(at, 2, kind=RELEASE)
        await world.crash()
        at = world.at()
        # in hand when the gateway died: not counted
        assert await world.fetch(at) == {0: (b"a", 1), 2: (b"c", 2)}
        assert not await world.ack(at, 0, 2)
        await world.crash()
        assert await world.fetch(world.at()) == {}
        assert world.at().ready().start == 3

    run(test, folder)


def test_acknowledgements_of_what_one_does_not_hold_are_refused_and_change_nothing(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b")
        await world.fetch(at, "one", 1, strict=True)
        at.attach("two")
        assert await world.ack(at, 0, consumer="two") == Error.INVALID_RECORD_STATE
        assert await world.ack(at, 0, 1, consumer="one") == Error.INVALID_RECORD_STATE
        assert not await world.ack(at, 0, consumer="one")

    run(test, folder)


def test_a_consumer_that_crashes_counts_and_one_that_leaves_does_not(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a")
        await world.fetch(at, "one")
        at.detach("one", Ending.STOPPED)
        assert await world.fetch(at, "two") == {0: (b"a", 1)}
        at.detach("two", Ending.CRASHED)
        assert await world.fetch(at, "three") == {0: (b"a", 2)}
        await world.settled()
        await world.crash()
        assert await world.fetch(world.at(), "four") == {0: (b"a", 2)}

    run(test, folder)


def test_what_was_acknowledged_while_the_process_stood_still_is_heard_before_locks_run_out() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b")
        assert await world.fetch(at) == {0: (b"a", 1), 1: (b"b", 1)}
        lock_ms = at.subscription.config.subscription.lock_ms
        # nothing runs for longer than a lock; then timers ring before connections are read
        world.clock.now += lock_ms + STOOD_STILL_MS
        await world.pass_time(0)
        assert await world.ack(at, 0) == Error.NONE
        # of the other one nothing was said
        await world.pass_time(HEARD_MS)
        assert await world.ack(at, 1) == Error.INVALID_RECORD_STATE
        assert await world.fetch(at, "d") == {1: (b"b", 2)}

    run(test)


def test_a_lock_that_runs_out_gives_the_record_to_the_next(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a")
        await world.fetch(at, "one")
        at.attach("two")
        woken = Waiter("two")
        at.parked.add(woken)
        await world.pass_time(29_999)
        assert woken.times == 0
        await world.pass_time(1)
        assert woken.times == 1
        assert await world.fetch(at, "two") == {0: (b"a", 2)}
        assert await world.ack(at, 0, consumer="one") == Error.INVALID_RECORD_STATE

    run(test, folder)


def test_records_below_the_start_of_the_log_are_gone(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        for value in (b"a", b"b", b"c"):
            await world.produce(value)
        assert list(await world.fetch(at, "one", 1)) == [0]
        topic = world.broker.catalog.get("t")
        assert topic is not None
        await world.broker.topics.delete_records(world.broker.partition(topic, 0), 2)
        assert await world.fetch(at, "two") == {2: (b"c", 1)}
        # as Kafka: it does not matter any more
        assert not await world.ack(at, 0, consumer="one")
        await world.ack(at, 2, consumer="two")
        assert at.ready().start == 3
        # also when nobody was there to see it
        await world.produce(b"d", b"e")
        await world.crash()
        topic = world.broker.catalog.get("t")
        assert topic is not None
        await world.broker.topics.delete_records(world.broker.partition(topic, 0), 4)
        assert list(await world.fetch(world.at())) == [4]

    run(test, folder)


@pytest.mark.parametrize("outcome", [Refused("no"), Unknown("who knows"), StoreError("broken")])
def test_after_a_commit_that_failed_the_cursor_says_what_is_stored(outcome: StoreError) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        at = await world.subscribed(b"a", b"b", b"c")
        await world.fetch(at)
        assert not await world.ack(at, 0)
        store.holding = True
        assert at.acknowledge("c", [(1, 1, ACCEPT)]) == 0
        parked = Taker("p")
        at.attach("p")
        at.parked.add(parked)
        await store.has(1)
        # one turn further, behind the one that fails
        assert at.acknowledge("c", [(2, 2, RELEASE)]) == 0
        store.holding = False
        store.fail(outcome)
        await world.settled()
        await world.settled()
        # neither counts; who waited has them, and the consumers are still there
        assert parked.got == [1, 2]
        assert [each.count for each in [at.ready().look(2)]] == [0]
        assert not await world.ack(at, 1, 2, consumer="p")
        await world.crash()
        assert await world.fetch(world.at()) == {}

    run(test)


def test_what_was_counted_in_a_turn_that_is_lost_stays_counted() -> None:
    """For stats and metrics alike, and once: what was seen of it does not go back."""

    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        at = await world.subscribed(b"a", b"b", b"c")
        await world.fetch(at)
        timeouts = world.broker.metrics.share_timeouts
        store.holding = True
        assert at.acknowledge("c", [(0, 0, ACCEPT)]) == 0
        await store.has(1)
        # the turn behind the one that fails is not sent any more
        world.clock.now += 30_000
        at.tick()
        seen = dict(at.ready().totals)
        assert (seen["delivered"], seen["acknowledged"], seen["timed_out"]) == (3, 1, 2)
        store.holding = False
        store.fail(Refused("no"))
        assert at.cursor is None
        for _ in range(2):
            assert timeouts.value == 2
            assert at.ready().totals == seen
            await world.settled()

    run(test)


def test_many_cursors_of_a_turn_are_one_commit_with_a_row_each(folder: Path | None) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await world.topic(partitions=3)
        at = [await world.subscribe(index=index) for index in range(3)]
        for index in range(3):
            await world.produce(b"a", b"b", b"c", index=index)
            await world.fetch(at[index])
        store.commits.clear()
        for each in at:
            for offset in range(3):
                each.acknowledge("c", [(offset, offset, ACCEPT)])
        await world.settled()
        assert [len(writes) for writes in store.commits] == [3]

    if folder is None:
        run(test)


def test_a_clean_stop_counts_nothing(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a")
        await world.fetch(at)
        world.broker.subscriptions.stop()
        at.detach("c", Ending.CRASHED)
        await world.close()
        await world.start()
        assert await world.fetch(world.at()) == {0: (b"a", 1)}

    run(test, folder)


def test_rejected_records_are_dropped_where_dead_letters_are_switched_off(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure("g", pulsar__dead__letter__enable="false")
        at = await world.subscribe()
        await world.produce(b"a", b"b")
        await world.fetch(at)
        assert not await world.ack(at, 0, kind=REJECT)
        await world.ack(at, 1)
        assert world.broker.catalog.get("t-g-DLQ") is None
        assert at.ready().start == 2
        assert world.broker.metrics.share_dropped.value == 1

    run(test, folder)


def test_what_happens_to_deliveries_is_counted(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b", b"c", b"d")
        await world.fetch(at, "one")
        await world.ack(at, 0, 1, consumer="one")
        await world.ack(at, 2, consumer="one", kind=RELEASE)
        await world.fetch(at, "two")
        await world.pass_time(30_000)
        await world.fetch(at, "two")
        at.detach("two", Ending.CRASHED)
        await world.settled()
        metrics = world.broker.metrics
        counted = (metrics.deliveries, metrics.share_acks, metrics.share_nacks, metrics.share_timeouts)
        assert [each.value for each in counted] == [7, 2, 1, 2]
        assert metrics.share_crashes.value == 2

    run(test, folder)


def test_a_fault_in_one_subscription_stores_nothing_by_halves(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who acknowledged is told that it was not stored, and the next try finds everything as it was."""

    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    async def test(world: World) -> None:
        at = await world.subscribed(b"a", b"b")
        await world.fetch(at)
        with monkeypatch.context() as patched:
            patched.setattr(type(at.ready()), "writes", broken)
            assert await world.ack(at, 0) == Error.KAFKA_STORAGE_ERROR
        assert list(await world.fetch(at)) == [0, 1]
        with monkeypatch.context() as patched:
            patched.setattr(type(world.broker.subscriptions.letters), "bury", broken)
            assert await world.ack(at, 0, kind=REJECT) == Error.KAFKA_STORAGE_ERROR
        assert list(await world.fetch(at)) == [0, 1]
        assert not await world.ack(at, 0, 1)
        await world.crash()
        assert await world.fetch(world.at()) == {}

    run(test, folder)


def test_a_cursor_is_not_read_again_while_what_the_one_before_it_said_is_being_written() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        at = await world.subscribed(b"a", b"b")
        await world.fetch(at)
        at.detach("c", Ending.STOPPED)
        await world.fetch(at)
        store.holding = True
        assert not at.acknowledge("c", [(0, 0, ACCEPT)])
        at.detach("c", Ending.STOPPED)
        at.retype()
        await store.has(1)
        with pytest.raises(KafkaError) as told:
            at.ready()
        assert told.value.code == Error.NOT_LEADER_OR_FOLLOWER
        store.release()
        assert await world.fetch(at) == {1: (b"b", 1)}
        assert not await world.ack(at, 1)
        assert at.ready().start == 2

    run(test)
