"""Non-persistent topics: in memory only, for as long as the bounds allow; what is dropped is counted."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.partition import Partition
from gateway.broker.transient import Left
from gateway.coordinators.offsets import encode, key
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from semantics.patterns import Pattern
from store.api import Durability, Family, Put, Refused
from store.transient import FIRST_OFFSETS, is_transient
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.queues.reading import Client, given, queue_of
from tests.gateway.broker.subscriptions.world import REJECT, RELEASE, World, run, said
from tests.gateway.serving import batch

FIRST, SECOND = FIRST_OFFSETS, 2 * FIRST_OFFSETS
"""The first offset of the first start, and of the second."""

SMALL = "non.persistent.partition.max.bytes=20000"
AGE = 60_000


async def memory_topic(world: World, name: str = "t", partitions: int = 1, **configs: str) -> Any:
    return await world.topic(name, partitions, pulsar__persistence="non-persistent", **configs)


def part(world: World, name: str = "t", index: int = 0) -> Partition:
    return world.broker.partition(world.broker.topics.get(name), index)


def left(world: World, name: str = "t", index: int = 0) -> Left:
    return world.broker.transients.left(world.broker.topics.get(name).partitions[index])


def test_the_topic_is_durable_and_its_messages_are_not(folder: Path | None) -> None:
    async def test(world: World) -> None:
        made = await memory_topic(world, partitions=2)
        await world.topic("beside")
        at = await world.subscribe()
        assert await world.produce(b"a", b"b") == FIRST
        await world.produce(b"kept", topic="beside")
        assert await world.fetch(at) == {FIRST: (b"a", 1), FIRST + 1: (b"b", 1)}
        assert not await world.ack(at, FIRST)
        await world.crash()
        assert world.broker.topics.get("t") == made
        assert part(world).high_watermark == part(world).log_start == SECOND
        assert part(world).leader_epoch == 2
        assert [each.value for each in await world.read("beside")] == [b"kept"]
        # the subscription is there, and has missed what was in memory
        at = world.at()
        assert await world.fetch(at) == {}
        assert await world.produce(b"c") == SECOND, "no offset comes twice"
        assert await world.fetch(at) == {SECOND: (b"c", 1)}
        assert at.ready().totals["expired"] == 0

    run(test, folder)


def test_nothing_of_its_messages_is_in_the_durable_store(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        at = await world.subscribe()
        await world.produce(b"a secret", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
        await world.fetch(at)
        assert not await world.ack(at, FIRST)
        number = part(world).id
        assert is_transient(number)
        for family in (Family.LOG, Family.SEGMENT, Family.CURSOR, Family.ACK, Family.COUNT, Family.DEDUP):
            assert list(world.store.scan(family)) == []
        assert list(world.broker.store.scan(Family.CURSOR)), "it is in memory"
        assert not [each for each in (tmp_path / "segments").rglob("*") if each.is_file()]

    run(test, tmp_path)


def test_produce_is_answered_while_the_disk_is_busy_and_when_it_fails() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        await memory_topic(world)
        await world.topic("disk")
        store.holding = True
        for name in ("disk", "t"):
            data = batch(b"v")
            partition = part(world, name)
            partition.append(data, admit(data), world.clock.wall_ms())
        told: list[Any] = []

        class Told:
            def settle(self, outcome: Any) -> None:
                told.append(outcome)

        world.broker.turn.await_commit(Told(), part(world).store)
        world.broker.turn.end()
        assert told == [None], "in the same turn"
        assert (part(world, "disk").high_watermark, part(world).high_watermark) == (0, SECOND + 1)
        store.fail(Refused("no"))
        assert part(world).high_watermark == SECOND + 1
        store.release()

    run(test)


def test_the_oldest_go_first_and_are_counted_for_whom_they_were(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        slow, quick = await world.subscribe("slow"), await world.subscribe("quick")
        slow.attach("c")
        for number in range(50):
            base = await world.produce(b"%d" % number + bytes(900))
            assert list(await world.fetch(quick)) == [base]
            assert not await world.ack(quick, base)
        there = part(world)
        assert 15_000 < there.size <= 20_000
        gone = there.log_start - FIRST
        assert gone > 25
        assert slow.ready().totals["expired"] == slow.ready().start - FIRST == gone
        assert quick.ready().totals["expired"] == 0
        assert left(world) == Left(gone, left(world).size, 0), "somebody had read all of it"
        assert 900 * gone < left(world).size < 1000 * gone
        assert world.broker.metrics.non_persistent_dropped.value == 0
        # it goes on with what there is
        assert min(await world.fetch(slow)) == there.log_start

    run(test, folder, SMALL)


def test_what_nobody_has_read_is_dropped_by_age_and_counted() -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await world.produce(b"a", b"b")
        await world.pass_time(AGE - 1)
        assert part(world).size
        await world.produce(b"c")
        await world.pass_time(1)
        assert part(world).log_start == FIRST + 2
        assert part(world).size == len(batch(b"c"))
        await world.pass_time(AGE)
        assert (part(world).log_start, part(world).size) == (FIRST + 3, 0)
        assert left(world).unread == left(world).messages == 3
        assert world.broker.metrics.non_persistent_dropped.value == 3
        assert world.broker.transients.size == 0
        assert not getattr(world.broker, "timers", []), "nothing is to be looked at any more"

    run(test)


def test_who_was_absent_too_long_has_missed_it_and_hears_how_much() -> None:
    """Also where nobody had the cursor in memory when it happened."""

    async def test(world: World) -> None:
        await memory_topic(world)
        at = await world.subscribe()
        await world.produce(b"a", b"b", b"c")
        await world.fetch(at)
        assert not await world.ack(at, FIRST + 1)
        at.detach("c", _stopped())
        await world.settled()
        for _ in range(3):
            world.broker.subscriptions.release_idle()
            world.broker.in_use.release_idle()
            await world.settled()
        assert not world.broker.in_use.partitions()
        del at
        gc.collect()
        await world.pass_time(AGE)
        await world.produce(b"d")
        at = world.at()
        assert list(await world.fetch(at)) == [FIRST + 3]
        assert at.ready().totals["expired"] == 2
        await world.settled()
        assert world.broker.metrics.share_expired.value == 2

    run(test)


def _stopped() -> Any:
    from semantics.subscriptions.states import Ending

    return Ending.STOPPED


def test_a_subscription_has_not_missed_what_was_dropped_before_it_was_made() -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await world.produce(b"before")
        await world.pass_time(AGE)
        await world.produce(b"there")
        at = await world.subscribe()
        assert list(await world.fetch(at)) == [FIRST + 1]
        assert at.ready().totals["expired"] == 0
        latest = await world.subscribe("late", reset="latest")
        assert await world.fetch(latest) == {}

    run(test)


def test_one_bound_holds_for_all_topics_and_the_oldest_goes_first() -> None:
    async def test(world: World) -> None:
        names = [f"t{number}" for number in range(10)]
        for name in names:
            await memory_topic(world, name)
            await world.subscribe("g", name)
        for round_ in range(5):
            for name in names:
                await world.produce(b"%d" % round_ + bytes(1500), topic=name)
        assert 30_000 < world.broker.transients.size <= 40_000
        starts = [part(world, name).log_start - FIRST for name in names]
        assert max(starts) - min(starts) <= 1
        for name in names:
            cursor = world.at(topic=name).ready()
            assert cursor.start == part(world, name).log_start
            assert cursor.totals["expired"] == cursor.start - FIRST

    run(test, None, "non.persistent.max.bytes=40000")


def test_who_waits_is_told_what_left_memory_before_it_reads() -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        at = await world.subscribe()
        at.attach("c")
        seen: list[int] = []

        class Watcher:
            def wake(self, partition: Any, appended: int) -> None:
                if appended:
                    seen.append(at.ready().start - partition.log_start)

        part(world).watchers.add(Watcher())
        for _ in range(40):
            await world.produce(bytes(900))
        assert len(seen) == 40
        assert set(seen) == {0}

    run(test, None, SMALL)


def test_a_batch_that_would_not_fit_is_refused() -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await memory_topic(world, "less", pulsar__non__persistent__max__bytes="2000")
        await world.produce(bytes(3000))
        for name, size in (("t", 20_001), ("less", 3000)):
            with pytest.raises(KafkaError) as error:
                await world.produce(bytes(size), topic=name)
            assert error.value.code == Error.MESSAGE_TOO_LARGE
        await world.broker.topics.configure(
            "less", lambda old: {**old, "pulsar.non.persistent.max.bytes": "4000"}
        )
        await world.produce(bytes(3000), topic="less")
        await world.produce(bytes(3000), topic="less")
        assert part(world, "less").size <= 4000

    run(test, None, SMALL)


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_subscriptions_work_as_on_disk_until_the_gateway_stops(kind: str) -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await world.configure("g", pulsar__subscription__type=kind, pulsar__nack__delay__ms="1000")
        at = await world.subscribe()
        at.attach("c")
        await world.settled()
        await world.settled()
        await world.produce(b"a", b"b", key=[b"x", b"y"])
        assert await world.fetch(at) == {FIRST: (b"a", 1), FIRST + 1: (b"b", 1)}
        assert not await world.ack(at, FIRST + 1)
        assert not await world.ack(at, FIRST, kind=RELEASE)
        assert await world.fetch(at) == {}
        await world.pass_time(1000)
        assert await world.fetch(at) == {FIRST: (b"a", 2)}
        assert not await world.ack(at, FIRST)
        assert at.ready().start == FIRST + 2
        assert list(world.broker.store.scan(Family.ACK)) == []

    run(test)


def test_dead_letters_go_to_a_topic_that_is_in_memory_as_well(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await memory_topic(world, partitions=2)
        at = await world.subscribe(index=1)
        await world.produce(b"a", b"b", index=1)
        await world.fetch(at)
        assert not await world.ack(at, FIRST, kind=REJECT)
        await until(lambda: world.broker.catalog.get("t-g-DLQ") is not None)
        await until(lambda: at.cursor is not None and at.cursor.totals["buried"] == 1)
        await world.settled()
        made = world.broker.topics.get("t-g-DLQ")
        assert (made.transient, len(made.partitions), made.partitioned) == (True, 2, True)
        (letter,) = await world.read("t-g-DLQ", 1)
        assert letter.value == b"a"
        assert said(letter.headers)["REAL_TOPIC"] == b"non-persistent://public/default/t"
        # the next ones need not wait for the topic
        assert not await world.ack(at, FIRST + 1, kind=REJECT)
        await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ", 1)] == [b"a", b"b"]
        await world.crash()
        assert await world.read("t-g-DLQ", 1) == []

    run(test, folder)


async def until(true: Any) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0)


def test_a_message_stays_open_while_its_dead_letter_would_be_kept_elsewhere() -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await world.topic("letters")
        await world.configure("g", pulsar__dead__letter__topic="letters")
        at = await world.subscribe()
        await world.produce(b"a")
        await world.fetch(at)
        assert not await world.ack(at, FIRST, kind=REJECT)
        await world.settled()
        assert "not kept in the same store" in str(at.ready().look(FIRST))
        assert await world.read("letters") == []

    run(test)


def test_retries_are_in_memory_where_their_topic_is() -> None:
    async def test(world: World) -> None:
        await memory_topic(world, partitions=2)
        await world.broker.subscriptions.make("g", "t", [0, 0], {}, {}, "t-g-RETRY")
        made = world.broker.topics.get("t-g-RETRY")
        assert (made.transient, len(made.partitions)) == (True, 2)
        await world.produce(b"again", topic="t-g-RETRY", index=1)
        at = world.at(topic="t-g-RETRY", index=1)
        assert await world.fetch(at) == {FIRST: (b"again", 1)}

    run(test)


def test_lanes_are_in_memory_where_their_topic_is(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await world.configure("g", share__auto__offset__reset="earliest")
        made = await world.broker.queues.make("t", "g", 2)
        assert made.transient
        await world.produce(b"0", b"1")
        client = Client(world)
        assert client.position == FIRST
        found = await client.read()
        assert (list(found), given(found)) == ([FIRST, FIRST + 1], [0, 1])
        assert await client.commit(offset=FIRST + 1) is None
        assert list(world.store.scan(Family.LANE)) == []
        await world.crash()
        client = Client(world)
        assert client.position == SECOND, "lanes begin anew, above all that they had"
        assert queue_of(world).at[0].high_watermark == SECOND
        await world.produce(b"2")
        assert await client.read() == {SECOND: b"2"}
        assert await client.commit() is None
        assert world.at().ready().start == SECOND + 1

    run(test, folder)


def test_lanes_pass_over_what_has_left_memory() -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await world.configure("g", share__auto__offset__reset="earliest")
        await world.broker.queues.make("t", "g", 1)
        await world.produce(b"0", b"1")
        client = Client(world)
        assert given(await client.poll()) == []
        await world.settled()
        # it has them on the lane, and has not read them
        assert queue_of(world).at[0].high_watermark == FIRST + 2
        await world.pass_time(AGE)
        await world.produce(b"2")
        assert given(await client.read()) == [2]
        assert await client.commit() is None
        assert world.at().ready().start == FIRST + 3
        assert world.at().ready().totals["expired"] == 2

    run(test)


def test_a_pattern_is_over_persistent_topics() -> None:
    async def test(world: World) -> None:
        await memory_topic(world, "a-1")
        disk = await world.topic("a-2")
        made = await world.broker.queues.make_over("g", Pattern("a-.*"), 1, {}, "earliest")
        assert made.queue is not None
        await memory_topic(world, "a-3")
        assert world.broker.queues.patterned.bases(made) == [disk.topic_id]

    run(test)


def test_what_a_group_committed_before_the_start_counts_as_nothing(folder: Path | None) -> None:
    async def test(world: World) -> None:
        made = await memory_topic(world)
        disk = await world.topic("disk")
        await world.produce(b"a")

        async def commit(topic: Any, offset: int) -> None:
            row = encode(offset, -1, world.clock.wall_ms(), -1, topic.topic_id, None)
            await world.broker.write([Put(Family.OFFSET, key("g", topic.name, 0), row)], Durability.OS)

        def committed(topic: Any) -> int | None:
            (found,) = world.broker.groups.committed("g", topic, [0])
            return found.offset if found is not None else None

        await commit(made, FIRST + 1)
        await commit(disk, 5)
        assert (committed(made), committed(disk)) == (FIRST + 1, 5)
        await world.crash()
        made, disk = world.broker.topics.get("t"), world.broker.topics.get("disk")
        assert (committed(made), committed(disk)) == (None, 5)
        assert [topic.name for topic, _ in world.broker.groups.all_committed("g")] == ["disk"]
        await commit(made, SECOND)
        assert committed(made) == SECOND

    run(test, folder)


def test_a_deleted_topic_leaves_nothing(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        at = await world.subscribe()
        await world.produce(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
        await world.fetch(at)
        assert not await world.ack(at, FIRST + 1)
        await world.pass_time(AGE)
        await world.produce(b"c")
        number = part(world).id
        await world.broker.topics.delete("t")
        assert world.broker.transients.size == 0
        assert world.broker.transients.left(number) == Left()
        for family in (Family.SUBSCRIPTION, Family.CURSOR, Family.ACK, Family.COUNT, Family.DEDUP):
            assert list(world.broker.store.scan(family)) == []
        again = await memory_topic(world)
        assert again.partitions == [number + 1]
        # what is too old is not looked for where nothing is any more
        await world.pass_time(AGE)

    run(test, folder)


def test_partitions_that_are_added_are_in_memory_too(folder: Path | None) -> None:
    async def test(world: World) -> None:
        made = await memory_topic(world)
        await world.broker.topics.grow("t", 3)
        await world.crash()
        other = await memory_topic(world, "other")
        numbers = [*world.broker.topics.get("t").partitions, *other.partitions]
        assert numbers == list(range(made.partitions[0], made.partitions[0] + 4)), "none comes twice"
        await world.produce(b"a", index=2)
        assert part(world, index=2).high_watermark == SECOND + 1

    run(test, folder)


@pytest.mark.parametrize(
    ("configs", "word"),
    [
        ({"pulsar.persistence": "sometimes"}, "non-persistent"),
        ({"pulsar.persistence": "non-persistent", "durability": "fsync"}, "durability"),
        ({"pulsar.persistence": "non-persistent", "cleanup.policy": "compact"}, "not compacted"),
        ({"pulsar.persistence": "non-persistent", "cleanup.policy": "compact,delete"}, "not compacted"),
    ],
)
def test_what_makes_no_sense_is_refused(configs: dict[str, str], word: str) -> None:
    async def test(world: World) -> None:
        with pytest.raises(KafkaError, match=word) as error:
            await world.broker.topics.create("t", 1, configs)
        assert error.value.code == Error.INVALID_CONFIG

    run(test)


def test_it_stays_what_it_was_made_as() -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await world.topic("disk")

        async def alter(name: str, **configs: str) -> None:
            named = {key.replace("__", "."): value for key, value in configs.items()}
            await world.broker.topics.configure(name, lambda old: named)

        await alter("t", pulsar__persistence="non-persistent", retention__ms="1")
        await alter("disk", pulsar__persistence="persistent")
        for name, configs in (
            ("t", {"retention__ms": "1"}),
            ("t", {"pulsar__persistence": "persistent"}),
            ("disk", {"pulsar__persistence": "non-persistent"}),
        ):
            with pytest.raises(KafkaError, match="stays as it was made"):
                await alter(name, **configs)
        with pytest.raises(KafkaError, match="durability"):
            await alter("t", pulsar__persistence="non-persistent", durability="fsync")
        with pytest.raises(KafkaError, match="not compacted") as error:
            await alter("t", pulsar__persistence="non-persistent", cleanup__policy="compact")
        assert error.value.code == Error.INVALID_CONFIG

    run(test)


def test_kafkas_clients_could_not_tell_two_of_a_name_apart() -> None:
    async def test(world: World) -> None:
        await memory_topic(world)
        await world.topic("disk")
        with pytest.raises(KafkaError, match=r"non-persistent://public/default/t already") as error:
            await world.topic("t")
        assert error.value.code == Error.TOPIC_ALREADY_EXISTS
        with pytest.raises(KafkaError, match="There is persistent://public/default/disk already"):
            await memory_topic(world, "disk")

    run(test)


def test_a_gateway_without_memory_for_them_makes_none() -> None:
    async def test(world: World) -> None:
        with pytest.raises(KafkaError, match="serves no non-persistent topics"):
            await memory_topic(world)

    run(test, None, "non.persistent.max.bytes=0")


def test_housekeeping_leaves_them_to_their_bounds() -> None:
    async def test(world: World) -> None:
        quota = {"pulsar.backlog.quota.bytes": "1"}
        await world.broker.topics.create(
            "t",
            1,
            {"pulsar.persistence": "non-persistent", "retention.ms": "1", "retention.bytes": "1", **quota},
        )
        at = await world.subscribe()
        for _ in range(20):
            await world.produce(bytes(900))
        world.clock.now += 30_000
        await world.broker.retention.apply()
        assert part(world).log_start == FIRST
        assert part(world).gate is None
        # a time to live that somebody sets is kept, and records can be deleted
        assert await world.broker.message_ttl_job.expire(world.broker.topics.get("t"), 1000) == 20
        assert at.ready().start == FIRST + 20
        assert await world.broker.topics.delete_records(part(world), FIRST + 3) == FIRST + 3

    run(test, None, SMALL)


def test_a_thousand_idle_topics_are_rows_on_the_disk() -> None:
    async def test(world: World) -> None:
        for number in range(1_000):
            await memory_topic(world, f"t{number}")
        for _ in range(3):
            world.broker.in_use.release_idle()
        for number in range(1_000):
            assert world.broker.log_of(world.broker.topics.get(f"t{number}"), 0).size == 0
        gc.collect()
        store = world.broker.store_of(world.broker.topics.get("t0"))
        assert not store._logs  # type: ignore[attr-defined]
        assert not store._empty  # type: ignore[attr-defined]
        assert not world.broker.in_use.runtimes()

    run(test)
