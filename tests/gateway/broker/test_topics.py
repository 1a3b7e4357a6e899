"""Topics made, grown, changed and deleted, one commit each, whatever happens beside it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.catalog import Topic
from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from semantics.names import DEFAULT
from store.api import DropLog, Durability, Family, Outcome, Refused, Trim, Write
from store.rocksdb.removal import OF_A_LOG
from tests.gateway.broker.asking import delete_records, delete_topic, errors, fetch, list_offsets
from tests.gateway.broker.held import HeldStore, part, run, run_held, until
from tests.gateway.broker.subscriptions.world import World
from tests.gateway.broker.subscriptions.world import run as run_world
from tests.gateway.serving import Client, batch, create, produce_body


def test_no_more_partitions_beside_a_topic_that_is_called_like_one() -> None:
    """A store of an older version may have both."""

    async def test(gateway: Gateway, client: Client) -> None:
        catalog = gateway.broker.catalog
        await gateway.broker.create_topic("orders", -1, {}, partitioned=False)
        old = Topic("orders-partition-0", b"o" * 16, catalog.allocate(1), 0)
        await gateway.broker.write(catalog.writes_create(old))
        for validate_only in (True, False):
            with pytest.raises(KafkaError, match="orders-partition-0") as caught:
                await gateway.broker.topics.grow("orders", 2, validate_only=validate_only)
            assert caught.value.code == Error.INVALID_PARTITIONS
        produced = await client.ask(ApiKey.PRODUCE, 9, produce_body("orders-partition-0", batch(b"1")))
        assert part(produced).error_code == 0
        await gateway.broker.delete_topic("orders-partition-0")
        await gateway.broker.create_partitions("orders", 2)
        assert gateway.broker.topics.get("orders").partitioned

    run(test)


def test_partition_ids_are_never_used_twice() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        seen: list[int] = []
        for _ in range(3):
            topic = await gateway.broker.create_topic("t", 2, {})
            await gateway.broker.create_partitions("t", 3)
            seen += [*topic.partitions, gateway.broker.topics.get("t").partitions[2]]
            await gateway.broker.delete_topic("t")
        assert len(set(seen)) == 9

    run(test)


def test_batches_in_flight_when_a_topic_is_deleted_are_stored_or_refused_never_lost_in_the_group() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        await create(client, "other")
        second = await Client.connect(gateway)
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1")))
        await store.has(1)
        deleting = asyncio.ensure_future(delete_topic(second, "t"))
        await store.has(2)
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"2")))
        client.send(ApiKey.PRODUCE, 9, produce_body("other", batch(b"3")))
        await store.has(3)
        store.release()
        got = [part((await client.receive())[1]).error_code for _ in range(3)]
        assert got == [0, Error.NOT_LEADER_OR_FOLLOWER, 0]
        assert await deleting == 0
        late = part(await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"4"))))
        assert late.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        second.close()

    run_held(test)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crashing", [False, True])
def test_nothing_is_left_of_topics_that_were_deleted_while_producers_wrote_to_them(
    tmp_path: Path, seed: int, crashing: bool
) -> None:
    chance = random.Random(seed)
    taken: list[int] = []

    async def some_turns(most: int) -> None:
        for _ in range(chance.randint(1, most)):
            await asyncio.sleep(0)

    async def produce(world: World, producer: int) -> None:
        sequences: dict[int, int] = {}
        while True:
            await some_turns(2)
            found = world.broker.catalog.get(chance.choice("abc"))
            if found is None:
                continue
            # he may ask with what he knew earlier
            await some_turns(2)
            number = found.partitions[0]
            with contextlib.suppress(KafkaError):
                target = world.broker.partition(found, 0)
                data = batch(
                    b"v" * 100, producer_id=producer, producer_epoch=0, base_sequence=sequences.get(number, 0)
                )
                target.append(data, admit(data), world.clock.wall_ms())
                sequences[number] = sequences.get(number, 0) + 1
                taken.append(number)

    async def test(world: World) -> None:
        await world.subscribe("g", (await world.topic("a")).name)
        producers = [asyncio.ensure_future(produce(world, number)) for number in range(1, 5)]
        for _ in range(60):
            name = chance.choice("abc")
            if world.broker.catalog.get(name) is None:
                await world.topic(name, chance.choice((1, 3)))
            else:
                await world.broker.delete_topic(name)
            await some_turns(12)
            world.broker.in_use.release_idle()
            if chance.random() < 0.2:
                await world.broker.retention.apply()
        assert not any(each.done() for each in producers)
        for each in producers:
            each.cancel()
        assert len({*taken}) > 2
        if crashing:
            await world.crash()
        else:
            await world.settled()
        known = {
            number.to_bytes(4, "big")
            for topic in world.broker.catalog.topics()
            for number in topic.partitions
        }
        for family in (Family.LOG, *OF_A_LOG):
            assert {key[:4] for key, _ in world.store.scan(family)} <= known, family
        if not crashing:
            await world.store.checkpoint()
        assert world.folder is not None
        assert {bytes.fromhex(each.name[:8]) for each in world.folder.rglob("*.seg")} <= known

    run_world(test, tmp_path / "data")


def test_a_partition_that_nobody_used_is_not_opened_behind_the_deletion() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        await create(client, "other")
        second = await Client.connect(gateway)
        store.holding = True
        deleting = asyncio.ensure_future(delete_topic(second, "t"))
        await store.has(1)
        late = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1"), partition=1))
        assert part(late).error_code == Error.NOT_LEADER_OR_FOLLOWER
        assert errors(await fetch(client, {"t": {0: 0, 1: 0}})) == dict.fromkeys(
            (0, 1), Error.NOT_LEADER_OR_FOLLOWER
        )
        store.release()
        assert await deleting == 0
        second.close()

    run_held(test)


def test_a_deletion_that_fails_leaves_the_topic_as_it_was() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1")))
        store.holding = True
        deleting = asyncio.ensure_future(gateway.broker.delete_topic("t"))
        await store.has(1)
        store.fail(Refused("no"))
        with pytest.raises(KafkaError):
            await deleting
        store.release()
        for partition, offset in ((0, 1), (1, 0)):
            answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"2"), partition=partition))
            assert (part(answer).error_code, part(answer).base_offset) == (0, offset)

    run_held(test)


def test_a_change_counts_once_also_when_nobody_waits_for_it() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topics, catalog = gateway.broker.topics, gateway.broker.catalog
        await create(client, "t", 2)
        assert await catalog.partition_counts() == {DEFAULT: 2}
        for change, have in (
            (lambda: topics.create("u", 3, {}), 5),
            (lambda: topics.grow("t", 4), 7),
            (lambda: topics.delete("u"), 4),
        ):
            store.holding = True
            asked = asyncio.ensure_future(change())
            await store.has(1)
            asked.cancel()
            store.release()
            await asyncio.wait([asked])
            assert asked.cancelled()
            assert await catalog.partition_counts() == {DEFAULT: have}
            assert not catalog._underway

    run_held(test)


class SeenStore(HeldStore):
    """While `holding`, commits happen at once, and are told later: their rows are found before."""

    def commit(
        self, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        if not self.holding:
            self.inner.commit(writes, durability, done)
            return
        self.inner.commit(writes, durability, self.untold.append)
        self.queued.append(([], durability, done))
        self._arrived.set()

    def __init__(self) -> None:
        super().__init__()
        self.untold: list[Outcome] = []

    def release(self) -> None:
        self.holding = False
        while self.queued:
            _, _, done = self.queued.popleft()
            done(self.untold.pop(0))


def run_seen(body: Callable[[Gateway, Client, SeenStore], Awaitable[None]]) -> None:
    store = SeenStore()

    async def test(gateway: Gateway, client: Client) -> None:
        # who waits for what is held waits for ever, also when cancelled
        given_up = asyncio.get_running_loop().call_later(20, store.release)
        try:
            await body(gateway, client, store)
        finally:
            given_up.cancel()
            store.release()

    run(test, store=store)


def test_a_topic_is_nobodys_to_change_before_its_creation_is_told() -> None:
    async def test(gateway: Gateway, client: Client, store: SeenStore) -> None:
        topics, catalog = gateway.broker.topics, gateway.broker.catalog
        await create(client, "other")
        store.holding = True
        creating = asyncio.ensure_future(topics.create("t", 2, {}))
        await store.has(1)
        assert store.inner.get(Family.CATALOG, b"t/t") is not None
        assert [each.name for each in catalog.topics()] == ["other"]
        for change in (
            topics.delete("t"),
            topics.grow("t", 5),
            topics.configure("t", lambda old: {**old, "retention.ms": "-1"}),
        ):
            with pytest.raises(KafkaError) as told:
                await change
            assert told.value.code == Error.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError) as told:
            await topics.create("t", 2, {})
        assert told.value.code == Error.TOPIC_ALREADY_EXISTS
        store.release()
        made = await creating
        assert catalog.get("t") == made
        await topics.grow("t", 5)
        await topics.delete("t")
        assert [each.name for each in catalog.topics()] == ["other"]

    run_seen(test)


def test_a_row_of_before_counts_until_a_change_is_told() -> None:
    async def test(gateway: Gateway, client: Client, store: SeenStore) -> None:
        topics, catalog = gateway.broker.topics, gateway.broker.catalog
        await create(client, "t", 2)
        store.holding = True
        growing = asyncio.ensure_future(topics.grow("t", 5))
        await store.has(1)
        # as if many others had been looked at since
        catalog._by_name.clear()
        found = catalog.get("t")
        assert found is not None
        assert len(found.partitions) == 2
        deleting = asyncio.ensure_future(topics.delete("t"))
        store.release()
        await growing
        await deleting
        assert catalog.get("t") is None
        assert await catalog.partition_counts() == {}

    run_seen(test)


def test_who_is_cancelled_keeps_a_name_until_its_commit_is_told() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topics = gateway.broker.topics
        store.holding = True
        creating = asyncio.ensure_future(topics.create("t", 2, {}))
        await store.has(1)
        creating.cancel()
        await asyncio.sleep(0)
        with pytest.raises(KafkaError) as told:
            async with asyncio.timeout(20):
                await topics.create("t", 3, {})
        assert told.value.code == Error.TOPIC_ALREADY_EXISTS
        store.release()
        with pytest.raises(asyncio.CancelledError):
            await creating
        assert len(topics.get("t").partitions) == 2

    run_held(test)


@pytest.mark.parametrize("first", ["the base is deleted", "the queue topic grows", "it is deleted"])
def test_a_queue_topic_that_is_changed_goes_with_its_base(first: str) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        broker = gateway.broker
        await create(client, "t")
        queue = await broker.queues.make("t", "g", 2)
        store.holding = True
        changes: list[Callable[[], Coroutine[Any, Any, object]]] = [lambda: broker.topics.delete("t")]
        if first == "it is deleted":
            changes.insert(0, lambda: broker.topics.delete(queue.name))
        else:
            changes.insert(first == "the base is deleted", lambda: broker.topics.grow(queue.name, 6))
        asked = [asyncio.ensure_future(change()) for change in changes]
        await store.has(1)
        store.release()
        for each in asked:
            with contextlib.suppress(KafkaError):
                await each
        assert list(broker.catalog.topics()) == []
        assert list(store.inner.scan(Family.CATALOG)) == []
        assert await broker.catalog.partition_counts() == {}

    run_held(test)


def test_a_change_that_fails_does_not_count() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topics, catalog = gateway.broker.topics, gateway.broker.catalog
        await create(client, "t", 2)
        assert await catalog.partition_counts() == {DEFAULT: 2}
        store.holding = True
        asked = asyncio.ensure_future(topics.create("u", 3, {}))
        await store.has(1)
        store.fail(Refused("no"))
        with pytest.raises(KafkaError):
            await asked
        store.release()
        assert await catalog.partition_counts() == {DEFAULT: 2}
        assert not catalog._underway
        await topics.create("u", 3, {})
        assert await catalog.partition_counts() == {DEFAULT: 5}

    run_held(test)


def test_records_deleted_behind_a_deletion_harm_nobody_else() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        await create(client, "other")
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1")))
        runtime = gateway.broker.topic(b"t")
        assert runtime is not None
        partition = gateway.broker.partition_of(runtime, 0)
        store.holding = True
        deleting = asyncio.ensure_future(gateway.broker.delete_topic("t"))
        await store.has(1)
        with pytest.raises(KafkaError) as caught:
            await gateway.broker.topics.delete_records(partition, 1)
        assert caught.value.code == Error.NOT_LEADER_OR_FOLLOWER
        store.release()
        await deleting
        drops = [
            i for i, writes in enumerate(store.commits) for write in writes if isinstance(write, DropLog)
        ]
        trims = [i for i, writes in enumerate(store.commits) for write in writes if isinstance(write, Trim)]
        assert (len(drops), trims) == (1, [])

    run_held(test)


def test_changes_of_a_topic_follow_one_another() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        topics = gateway.broker.topics

        def adding(name: str) -> asyncio.Future[None]:
            return asyncio.ensure_future(topics.configure("t", lambda old: {**old, name: "1"}))

        store.holding = True
        changes = [adding("retention.ms"), adding("retention.bytes")]
        await store.has(1)
        changes.append(asyncio.ensure_future(topics.grow("t", 2)))
        store.land()
        await store.has(1)
        # one ends, one is at work, one waits: a fourth must wait behind them
        changes.append(adding("segment.ms"))
        await asyncio.sleep(0)
        assert len(store.queued) == 1
        store.release()
        await until(lambda: all(each.done() for each in changes))
        topic = topics.get("t")
        assert topic.configs == {"retention.ms": "1", "retention.bytes": "1", "segment.ms": "1"}
        assert len(topic.partitions) == 2
        assert not topics._locks, "nothing is kept for topics that nobody changes"

    run_held(test)


def test_new_partitions_and_configs_are_in_force_at_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        missing = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1"), partition=1))
        assert part(missing).error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        await gateway.broker.create_partitions("t", 2)
        there = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1"), partition=1))
        assert part(there).error_code == 0
        await gateway.broker.topics.configure("t", lambda old: {"max.message.bytes": "10"})
        refused = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1")))
        assert part(refused).error_code == Error.MESSAGE_TOO_LARGE

    run(test)


def test_records_are_deleted_forward_only() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(*[b"v"] * 5), batch(b"w")))
        assert await delete_records(client, "t", {0: 2, 1: 1}) == {0: (0, 2), 1: (0, 1)}
        assert await delete_records(client, "t", {0: 1}) == {0: (0, 2)}
        out = Error.OFFSET_OUT_OF_RANGE
        assert await delete_records(client, "t", {0: 6, 1: -2}) == {0: (out, -1), 1: (out, -1)}
        assert await delete_records(client, "t", {0: -1, 7: 0}) == {0: (0, 5), 7: (3, -1)}
        (earliest,) = await list_offsets(client, "t", (0, -2))
        assert earliest.offset == 5
        await create(client, "compacted", cleanup__policy="compact")
        assert await delete_records(client, "compacted", {0: 0}) == {0: (Error.POLICY_VIOLATION, -1)}

    run(test)


def test_records_of_many_partitions_are_deleted_in_one_commit() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 20)
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", *[batch(b"v")] * 20))
        count = len(store.commits)
        deleted = await delete_records(client, "t", dict.fromkeys(range(20), -1))
        assert set(deleted.values()) == {(0, 1)}
        assert len(store.commits) == count + 1

    run_held(test)


def test_deletion_can_be_forbidden() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        assert await delete_topic(client, "t") == Error.TOPIC_DELETION_DISABLED
        await client.ask(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))

    run(test, "delete.topic.enable=false")
