"""Backlog quotas on a real broker: when publishers are kept out, when they come in again, what is evicted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.quota_gate import HeldError, Unmeasured
from gateway.broker.subscriptions import positions
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.wire import records
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from semantics.names import DEFAULT
from store.api import StoreError
from tests.gateway.broker.queues.reading import Client, queued
from tests.gateway.broker.subscriptions.world import ACCEPT, RELEASE, World, run

HOLD, REFUSE, EVICT = "producer_request_hold", "producer_exception", "consumer_backlog_eviction"
VALUE = bytes(1000)


def batch(world: World, count: int = 1, **options: Any) -> bytes:
    made = [records.Record(i, world.clock.wall_ms(), None, VALUE, []) for i in range(count)]
    return records.build_batch(made, **options)


async def publish(
    world: World, data: bytes | None = None, topic: str = "t", count: int = 1, index: int = 0
) -> int:
    """One batch, as a producer sends it. Raises KafkaError."""
    found = world.broker.catalog.get(topic)
    assert found is not None
    data = data or batch(world, count)
    while True:
        partition = world.broker.partition(found, index)
        try:
            base = partition.append(data, admit(data), world.clock.wall_ms())
        except Unmeasured as unmeasured:
            await unmeasured.wait()
        else:
            await world.settled()
            return base


async def full(world: World, topic: str = "t") -> int:
    """Batches that are taken until one is refused."""
    taken = 0
    while True:
        try:
            await publish(world, topic=topic)
        except KafkaError as error:
            if error.code != Error.POLICY_VIOLATION:
                raise
            return taken
        taken += 1


def quota(size: int = 10_000, action: str = REFUSE) -> dict[str, str]:
    return {"pulsar__backlog__quota__bytes": str(size), "pulsar__backlog__quota__bytes__policy": action}


def of_age(ms: int, action: str = REFUSE) -> dict[str, str]:
    return {"pulsar__backlog__quota__ms": str(ms), "pulsar__backlog__quota__ms__policy": action}


async def take(world: World, at: SubscriptionPartition, count: int, *, group: str = "c") -> list[int]:
    return list(await world.fetch(at, group, count, strict=True))


async def later(world: World) -> None:
    """A measurement that kept publishers out counts for some milliseconds."""
    await world.pass_time(25)


# -- publishers are kept out -----------------------------------------------------------------------------------------


def test_a_backlog_takes_so_many_bytes_and_more_when_it_is_acknowledged(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota())
        at = await world.subscribe()
        size = len(batch(world))
        fits = -(-10_000 // size)
        assert await full(world) == fits
        with pytest.raises(KafkaError) as error:
            await publish(world)
        assert f"Its backlog has {fits * size} bytes, and its quota is 10000" in str(error.value)
        # what is in somebody's hands still waits
        got = await take(world, at, 3)
        await later(world)
        assert await full(world) == 0
        await world.ack(at, *got)
        await later(world)
        assert await full(world) == 3
        # as a restart finds it, with nobody there that loads the subscription
        await world.crash()
        assert await full(world) == 0
        await world.ack(world.at(), *await take(world, world.at(), 1))
        await later(world)
        assert await full(world) == 1

    run(test, folder)


def test_many_batches_of_one_turn_are_counted(folder: Path | None) -> None:
    async def test(world: World) -> None:
        topic = await world.topic("t", 1, **quota())
        await world.subscribe()
        await publish(world)
        partition = world.broker.partition(topic, 0)
        data = batch(world)
        fits = -(-10_000 // len(data))
        for _ in range(fits - 1):
            partition.append(data, admit(data), world.clock.wall_ms())
        with pytest.raises(Unmeasured) as unmeasured:
            partition.append(data, admit(data), world.clock.wall_ms())
        # none of them is on the disk
        await unmeasured.value.wait()
        with pytest.raises(KafkaError) as error:
            partition.append(data, admit(data), world.clock.wall_ms())
        assert error.value.code == Error.POLICY_VIOLATION

    run(test, folder)


def test_the_slowest_subscription_counts_and_without_one_there_is_no_backlog(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota())
        for _ in range(30):
            await publish(world)
        fast = await world.subscribe("fast", reset="latest")
        await world.subscribe("slow", reset="latest")
        fits = await full(world)
        assert fits > 5
        await world.ack(fast, *await take(world, fast, fits))
        await later(world)
        assert await full(world) == 0
        await world.broker.subscriptions.delete("slow")
        await later(world)
        assert await full(world) == fits

    run(test, folder)


def test_the_oldest_message_may_wait_for_so_long() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **of_age(60_000))
        at = await world.subscribe()
        await publish(world)
        await world.pass_time(30_000)
        await publish(world)
        await world.pass_time(29_999)
        await publish(world)
        await world.pass_time(1)
        with pytest.raises(KafkaError) as error:
            await publish(world)
        assert error.value.code == Error.POLICY_VIOLATION
        assert "is 60000 ms old, and its quota is 60000" in str(error.value)
        await world.ack(at, *await take(world, at, 1))
        await later(world)
        assert await publish(world) == 3
        await world.pass_time(29_975)
        assert await full(world) == 0

    run(test)


def test_ages_mean_nothing_while_the_clock_has_jumped() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **of_age(60_000))
        await world.subscribe()
        world.broker.clock_watch.look()
        await publish(world)
        world.clock.ahead += 86_400_000
        world.broker.clock_watch.look()
        assert not world.broker.clock_watch.trusted
        await publish(world)

    run(test)


def test_who_waits_is_told_to_try_again() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota(action=HOLD))
        await world.subscribe()
        await publish(world, count=20)
        with pytest.raises(HeldError) as error:
            await publish(world)
        assert error.value.code == Error.NOT_ENOUGH_REPLICAS
        assert "Publishers wait" in str(error.value)

    run(test)


def test_what_was_stored_already_is_a_duplicate_though_there_is_no_room() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota())
        await world.subscribe()
        sent = batch(world, producer_id=7, producer_epoch=0, base_sequence=0)
        assert await publish(world, sent) == 0
        await full(world)
        assert await publish(world, sent) == 0
        with pytest.raises(KafkaError) as error:
            await publish(world, batch(world, producer_id=7, producer_epoch=0, base_sequence=1))
        assert error.value.code == Error.POLICY_VIOLATION

    run(test)


def test_dead_letters_and_retries_are_written_in_any_case() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.topic("t-g-DLQ", 1, **quota(100))
        at = await world.subscribe()
        await world.subscribe("letters", "t-g-DLQ")
        for _ in range(3):
            await publish(world)
        assert await world.ack(at, *await take(world, at, 3), kind=b"\3") == Error.NONE
        await world.settled()
        assert len(await world.read("t-g-DLQ")) == 3
        with pytest.raises(KafkaError):
            await publish(world, topic="t-g-DLQ")

    run(test)


# -- levels ----------------------------------------------------------------------------------------------------------


def test_a_quota_holds_for_a_namespace_is_overridden_by_a_topic_and_taken_back(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.topic("u")
        for topic in "tu":
            await world.subscribe("g", topic)
            # it is there before there is a quota
            await publish(world, topic=topic)

        async def say(size: int | None) -> None:
            said = {} if size is None else {
                "pulsar.backlog.quota.bytes": str(size),
                "pulsar.backlog.quota.bytes.policy": REFUSE,
            }  # fmt: skip
            await world.broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=said))

        await say(5_000)
        fits = await full(world)
        assert fits > 2
        await world.broker.topics.configure("u", lambda old: {"pulsar.backlog.quota.bytes": "10000"})
        assert await full(world, "u") > fits
        await world.crash()
        assert await full(world) == await full(world, "u") == 0
        await world.broker.topics.configure("u", lambda old: {})
        assert await full(world, "u") == 0
        await say(None)
        for topic in "tu":
            for _ in range(20):
                await publish(world, topic=topic)

    run(test, folder)


# -- evicted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_the_oldest_messages_of_the_slowest_are_evicted_and_counted(folder: Path | None, kind: str) -> None:
    async def test(world: World) -> None:
        topic = await world.topic("t", 1, **quota(action=EVICT))
        for group in ("slow", "fast"):
            await world.configure(group, pulsar__subscription__type=kind)
        slow = await world.subscribe("slow")
        fast = await world.subscribe("fast")
        size = len(batch(world))
        fits = -(-10_000 // size)
        for _ in range(fits):
            await publish(world)
        fast.attach("c")
        await world.settled()
        got = await take(world, fast, fits - 2)
        await world.ack(fast, *got)
        # one that nobody could have been kept out by
        await publish(world)
        await evicted(world)
        partition = world.broker.partition(topic, 0)
        start = slow.ready().start
        # the last came while they went
        assert partition.log.size_from(start) - size <= 9_000 < partition.log.size_from(start - 1)
        assert slow.ready().stats()["expired"] == start
        assert fast.ready().stats()["expired"] == 0
        assert fast.ready().start == fits - 2
        await world.crash()
        assert world.at("slow").ready().start == start
        assert world.at("slow").ready().stats()["expired"] == start

    run(test, folder)


async def evicted(world: World) -> None:
    """What is being evicted is gone."""
    while world.broker.backlog_quotas.evicting:
        await world.settled()
    await world.settled()


def test_what_a_consumer_has_in_hand_is_evicted_too_and_does_not_come_back() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota(action=EVICT))
        at = await world.subscribe()
        await publish(world)
        await publish(world)
        assert await take(world, at, 2) == [0, 1]
        for _ in range(12):
            await publish(world)
        await evicted(world)
        start = at.ready().start
        assert start > 1
        # it has no lock any more that could be released
        assert at.ready().stats()["acquired"] == 0
        await world.ack(at, 0, kind=RELEASE)
        assert await take(world, at, 100) == list(range(start, 14))

    run(test)


def test_a_backlog_that_lanes_serve_is_evicted() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.broker.topics.configure(
            "t", lambda old: {name.replace("__", "."): value for name, value in quota(action=EVICT).items()}
        )
        client = Client(world)
        for _ in range(2):
            await publish(world)
        assert len(await client.read()) == 2
        for _ in range(14):
            await publish(world)
        await evicted(world)
        start = world.at().ready().start
        assert start > 2
        # what it had is acknowledged without effect; what is left comes
        await client.commit()
        found = await client.read()
        await client.commit()
        assert world.at().ready().start == 16
        assert len(found) >= 16 - start

    run(test)


def test_messages_too_old_are_evicted_when_some_arrive_and_by_time(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **of_age(60_000, EVICT))
        at = await world.subscribe()
        await publish(world)
        await publish(world)
        await world.pass_time(60_001)
        await publish(world)
        await evicted(world)
        assert at.ready().start == 2
        assert at.ready().stats()["expired"] == 2
        await world.pass_time(60_001)
        await world.broker.message_ttl_job.apply()
        assert at.ready().start == 3

    run(test, folder)


def test_each_partition_looks_at_its_own_messages_only() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 2, **of_age(60_000, EVICT))
        await world.subscribe()
        first, second = (world.subscription().partition(index) for index in (0, 1))
        for index in (0, 1):
            await publish(world, index=index)
        await world.pass_time(60_001)
        await publish(world, index=0)
        await evicted(world)
        assert (first.ready().start, second.ready().start) == (1, 0)
        await publish(world, index=1)
        await evicted(world)
        assert (first.ready().start, second.ready().start) == (1, 1)

    run(test)


def test_a_shorter_time_to_live_stays_beside_a_quota_of_age() -> None:
    async def test(world: World) -> None:
        configs = of_age(60_000, EVICT) | {"pulsar__message__ttl__ms": "1000"}
        await world.topic("t", 1, **configs)
        at = await world.subscribe()
        await publish(world)
        await world.pass_time(1001)
        await world.broker.message_ttl_job.apply()
        assert at.ready().start == 1

    run(test)


def test_acknowledged_messages_of_a_reader_are_no_backlog() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota())
        at = await world.subscribe()
        for _ in range(40):
            await publish(world)
            await world.ack(at, *await take(world, at, 1), kind=ACCEPT)
            await later(world)
        assert at.ready().start == 40

    run(test)


# -- what measurements go by changes ---------------------------------------------------------------------------------


def named(configs: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in configs.items()}


def test_a_quota_of_age_counts_again_when_the_clock_is_trusted_again() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **of_age(60_000))
        await world.subscribe()
        world.broker.clock_watch.look()
        world.clock.ahead += 86_400_000
        world.broker.clock_watch.look()
        await publish(world)
        while not world.broker.clock_watch.trusted:
            await world.pass_time(600_000)
            world.broker.clock_watch.look()
        assert await full(world) == 0

    run(test)


def test_a_backlog_that_could_not_be_measured_once_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota(1000))
        await world.subscribe()
        usage = world.broker.backlog_quotas.usage

        async def fails(*arguments: Any, **options: Any) -> Any:
            raise StoreError("not at present")

        monkeypatch.setattr(world.broker.backlog_quotas, "usage", fails)
        for _ in range(3):
            await publish(world)
        monkeypatch.setattr(world.broker.backlog_quotas, "usage", usage)
        await world.pass_time(1001)
        assert await full(world) == 0

    run(test)


def test_a_quota_that_is_set_while_another_is_measured_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota(1_000_000_000))
        await world.subscribe()
        usage = world.broker.backlog_quotas.usage

        async def slow(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(world.broker.backlog_quotas, "usage", usage)
            await world.broker.topics.configure("t", lambda old: named(quota(3000)))
            return await usage(*arguments, **options)

        monkeypatch.setattr(world.broker.backlog_quotas, "usage", slow)
        assert await full(world) == -(-3000 // len(batch(world)))

    run(test)


def test_a_policy_that_is_removed_while_messages_go_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **(quota(20_000, EVICT) | of_age(3_600_000, EVICT)))
        at = await world.subscribe()
        for _ in range(18):
            await publish(world)
        await world.pass_time(3_500_000)
        quotas = world.broker.backlog_quotas
        evict = quotas._evict_size

        async def slow(*arguments: Any) -> None:
            await evict(*arguments)
            await world.broker.topics.configure("t", lambda old: {})

        monkeypatch.setattr(quotas, "_evict_size", slow)
        await publish(world, count=2)
        await world.pass_time(100_001)
        await publish(world)
        await evicted(world)
        taken = at.ready().start
        assert 0 < taken < 18
        assert at.ready().backlog(at.partition.high_watermark) == 21 - taken

    run(test)


def test_a_subscription_that_goes_back_or_begins_at_the_start_is_seen() -> None:
    async def test(world: World) -> None:
        topic = await world.topic("t", 1, **of_age(1_800_000))
        at = await world.subscribe()
        await publish(world)
        await world.ack(at, *await take(world, at, 1))
        await world.pass_time(3_600_000)
        await publish(world)
        await world.ack(at, *await take(world, at, 1))
        await publish(world)
        positions.seek_all([(at, 0)])
        await world.settled()
        assert await full(world) == 0
        positions.move([(at, 3)], lambda cursor, end: cursor.clear(end))
        await world.settled()
        await publish(world)
        assert world.broker.partition(topic, 0).gate is not None
        await world.subscribe("another")
        assert await full(world) == 0

    run(test)


@pytest.mark.parametrize("action", [REFUSE, EVICT])
def test_a_message_without_a_time_is_as_old_as_those_around_it(action: str) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **of_age(60_000, action))
        at = await world.subscribe()
        bare = records.build_batch([records.Record(0, -1, None, b"v", [])])
        await publish(world, bare)
        await publish(world)
        await world.pass_time(60_001)
        if action == REFUSE:
            assert await full(world) == 0
            return
        await publish(world)
        await evicted(world)
        assert at.ready().start == 2

    run(test)


def test_a_quota_of_nothing_is_none_without_a_subscription() -> None:
    async def test(world: World) -> None:
        await world.topic("t", 1, **quota(0))
        await publish(world)
        await world.subscribe()
        assert await full(world) == 0

    run(test)


def test_a_retry_letter_that_a_consumer_writes_is_taken_in_any_case() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.subscribe()
        await world.topic("t-g-RETRY", 1, **quota(100))
        await world.subscribe("g", "t-g-RETRY")
        for _ in range(3):
            await publish(world, topic="t-g-RETRY")

    run(test)
