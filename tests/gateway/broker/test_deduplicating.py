"""Deduplication at work: what is sent again is stored once, across crashes, and nothing else is left out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.partition import Partition
from gateway.server import Gateway
from gateway.wire import records
from gateway.wire.api_keys import ApiKey
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from semantics.names import DEFAULT
from tests.gateway.apis.transacting import Tx
from tests.gateway.broker.held import part
from tests.gateway.broker.held import run as serve
from tests.gateway.broker.subscriptions.world import World, run
from tests.gateway.serving import Client, create, produce_body

ON: Mapping[str, str] = {"pulsar.deduplication": "true"}


def batch(*numbers: int, name: str | None = "p", **options: Any) -> bytes:
    """A message of each number, which is its sequence id and its value; below 0 it has none."""
    return records.build_batch(
        [
            records.Record(
                at,
                1000,
                None,
                b"%d" % number,
                [
                    *([("pulsar-sequence-id", b"%d" % number)] if number >= 0 else []),
                    *([("pulsar-producer-name", name.encode())] if name else []),
                ],
            )
            for at, number in enumerate(numbers)
        ],
        **options,
    )


def partition_of(world: World, topic: str = "t") -> Partition:
    found = world.broker.catalog.get(topic)
    assert found is not None
    return world.broker.partition(found, 0)


async def send(world: World, data: bytes, topic: str = "t", client: str = "c") -> int:
    partition = partition_of(world, topic)
    base = partition.append(data, admit(data), world.clock.wall_ms(), client=client)
    assert await world.settled() is None
    return base


async def values(world: World, topic: str = "t") -> list[int]:
    return [int(each.value or b"-1") for each in await world.read(topic)]


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("level", ["topic", "namespace", "broker"])
def test_what_is_sent_again_is_stored_once(folder: Path | None, level: str, codec: int) -> None:
    async def test(world: World) -> None:
        await world.topic()
        broker = world.broker
        if level == "topic":
            await broker.topics.configure("t", lambda old: dict(ON))
        elif level == "namespace":
            await broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=dict(ON)))
        else:
            await broker.broker_configs.alter("", lambda old: {"brokerDeduplicationEnabled": "true"})
        assert await send(world, batch(0, 1, 2, codec=codec)) == 0
        assert await send(world, batch(0, 1, 2, codec=codec)) == -1
        await world.crash()
        assert await send(world, batch(2, codec=codec)) == -1
        # it begins again before where it was: the new ones have the offsets that their client computes
        assert await send(world, batch(1, 2, 3, 4, codec=codec)) == 1
        assert await send(world, batch(5, codec=codec)) == 5
        assert await values(world) == [0, 1, 2, 3, 4, 5]
        assert partition_of(world).high_watermark == 6
        assert world.broker.metrics.produced_duplicates.value == 2

    run(test, folder)


def test_each_producer_has_its_own_numbers_and_who_says_none_is_its_client() -> None:
    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        await send(world, batch(7))
        await send(world, batch(7, name="q"))
        await send(world, batch(7, name=None))
        await send(world, batch(7, name=None, codec=1), client="d")
        assert await send(world, batch(7, name="c")) == -1
        assert await send(world, batch(7, name=None, codec=1), client="d") == -1
        # nobody's are nobody's duplicates, nor is what has no sequence id
        for _ in range(2):
            await send(world, batch(7, name=None), client="")
            await send(world, batch(-1, -1))
        assert len(await values(world)) == 4 + 2 + 4

    run(test)


def test_batches_that_are_sent_again_in_another_order_are_all_stored(folder: Path | None) -> None:
    """A client that is not idempotent has several requests under way, and sends those that failed again as it likes."""

    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        await send(world, batch(0, 1))
        # the one with 2 and 3 was refused, and comes again behind those that were sent after it
        await send(world, batch(4, 5))
        await send(world, batch(8))
        await world.crash()
        assert await send(world, batch(2, 3)) == 5
        assert await send(world, batch(6, 7)) == 7
        for again in ((2, 3), (4, 5), (6, 7), (0, 1, 8)):
            assert await send(world, batch(*again)) == -1
        assert sorted(await values(world)) == list(range(9))

    run(test, folder)


def test_long_names_are_told_apart() -> None:
    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        for _ in range(2):
            for end in "ab":
                await send(world, batch(1, name="n" * 5_000 + end))
        assert await values(world) == [1, 1]

    run(test)


def test_duplicates_within_a_batch_are_left_out_and_headers_stay() -> None:
    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        await send(world, batch(1, -1, 1, 3, 1))
        found = await world.read("t")
        assert [each.value for each in found] == [b"1", b"-1", b"3"]
        assert [each.offset for each in found] == [0, 1, 2]
        assert dict(found[2].headers) == {"pulsar-sequence-id": b"3", "pulsar-producer-name": b"p"}

    run(test)


def test_an_idempotent_producer_goes_on_behind_its_duplicates(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        await send(world, batch(0, 1))
        its: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
        assert await send(world, batch(0, 1, base_sequence=0, **its)) == -1
        await world.crash()
        # the sequence number of Kafka's went on though nothing was stored
        assert await send(world, batch(1, 2, base_sequence=2, **its)) == 1
        # the same batch again is Kafka's duplicate
        assert await send(world, batch(1, 2, base_sequence=2, **its)) == 2
        assert await send(world, batch(3, base_sequence=4, **its)) == 3
        assert await values(world) == [0, 1, 2, 3]

    run(test, folder)


def test_duplicates_and_others_in_one_turn(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        partition = partition_of(world)
        its: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
        now = world.clock.wall_ms()
        for sequence, numbers in enumerate([(0,), (0,), (1,)]):
            data = batch(*numbers, base_sequence=sequence, **its)
            partition.append(data, admit(data), now)
        await world.settled()
        for sequence, numbers in enumerate([(0,), (2,)], 3):
            data = batch(*numbers, base_sequence=sequence, **its)
            partition.append(data, admit(data), now)
        await world.settled()
        assert partition.high_watermark == partition.next_offset == 3
        await world.crash()
        assert await values(world) == [0, 1, 2]
        assert await send(world, batch(3, base_sequence=5, **its)) == 3

    run(test, folder)


def test_what_was_taken_while_it_was_off_is_no_duplicate_later(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        await send(world, batch(5))
        await world.broker.topics.configure("t", lambda old: {})
        await world.crash()
        # nothing was taken meanwhile: what is known still holds
        await world.broker.topics.configure("t", lambda old: dict(ON))
        assert await send(world, batch(5)) == -1
        await world.broker.topics.configure("t", lambda old: {})
        await world.crash()
        await send(world, batch(1))
        await world.crash()
        await world.broker.topics.configure("t", lambda old: dict(ON))
        assert await send(world, batch(2)) == 2
        assert await values(world) == [5, 1, 2]

    run(test, folder)


def test_retry_letters_have_the_headers_of_their_message_each_time() -> None:
    async def test(world: World) -> None:
        await world.subscribed()
        await world.topic("t-g-RETRY", pulsar__deduplication="true")
        for _ in range(2):
            await send(world, batch(5), "t-g-RETRY")
        assert await values(world, "t-g-RETRY") == [5, 5]

    run(test)


def test_a_failed_commit_leaves_nothing_known() -> None:
    from tests.gateway.broker.queues.test_lane_waits import failing

    async def test(world: World) -> None:
        store = await failing(world)
        await world.topic(pulsar__deduplication="true")
        store.failing = True
        data = batch(1)
        partition_of(world).append(data, admit(data), world.clock.wall_ms())
        assert await world.settled() is not None
        store.failing = False
        assert await send(world, batch(1)) == 0

    run(test)


def test_one_that_comes_again_and_was_there_holds_nobody_up() -> None:
    """It was told to come again, for want of room; meanwhile the same messages came by another connection."""

    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true", pulsar__backlog__quota__bytes="100000")
        partition = partition_of(world)
        its: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0}
        data = batch(0, 1, base_sequence=0, **its)
        world.broker.refusals.note(partition.topic_id, 0, admit(data))
        assert partition.gate is not None
        await world.broker.measure_backlog(partition, partition.gate)
        await send(world, batch(0, 1))
        assert await send(world, data) == -1
        assert await send(world, batch(2, base_sequence=2, **its)) == 2

    run(test)


def test_a_partition_with_something_to_say_of_producers_stays(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        its: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
        await send(world, batch(0, 1))
        partition = partition_of(world)
        data = batch(0, 1, base_sequence=0, **its)
        assert partition.append(data, admit(data), world.clock.wall_ms()) == -1
        for _ in range(3):
            world.broker.in_use.release_idle()
        assert partition_of(world) is partition
        await world.settled()
        await world.crash()
        assert await send(world, batch(2, base_sequence=2, **its)) == 2

    run(test, folder)


def test_a_batch_with_too_many_messages_to_look_at_is_refused() -> None:
    async def test(world: World) -> None:
        await world.topic(pulsar__deduplication="true")
        with pytest.raises(KafkaError, match="20000 of them at most") as error:
            await send(world, batch(*range(20_001), codec=4))
        assert error.value.code == Error.RECORD_LIST_TOO_LARGE
        await send(world, batch(*[-1] * 20_001, codec=4))

    run(test)


@pytest.mark.parametrize("new", [False, True], ids=["V1", "V2"])
def test_messages_of_a_transaction_are_no_duplicates_and_have_none(new: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", pulsar__deduplication="true")
        tx = Tx(client, new=new)
        await tx.init()

        async def put(*numbers: int, base_sequence: int) -> int:
            if not new:
                assert await tx.add() == 0
            its: dict[str, Any] = {"producer_id": tx.id, "producer_epoch": tx.epoch, "transactional": True}
            body = produce_body("t", batch(*numbers, base_sequence=base_sequence, **its))
            body.transactional_id = tx.name
            return int(part(await client.ask(ApiKey.PRODUCE, 12 if new else 10, body)).base_offset)

        async def put_alone(*numbers: int) -> int:
            body = produce_body("t", batch(*numbers))
            return int(part(await client.ask(ApiKey.PRODUCE, 10, body)).base_offset)

        assert await put(1, 2, base_sequence=0) == 0
        assert await tx.end(committed=False) == 0
        # behind the marker
        assert await put(1, 2, base_sequence=0 if new else 2) == 3
        assert await tx.end() == 0
        assert await put_alone(1, 2) == 6
        assert await put_alone(1, 2) == -1
        # known by name, and stored all the same
        assert await put(2, 3, base_sequence=0 if new else 4) == 8

    serve(test)
