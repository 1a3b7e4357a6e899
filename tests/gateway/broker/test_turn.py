"""Commits that are late, fail, or cannot be judged: what clients see of it, and what the broker does after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.broker.commit_watch import CommitWatch
from gateway.broker.turn import Turn
from gateway.metrics_catalog import GatewayMetrics
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.batch import admit
from gateway.wire.errors import Error, retriable
from gateway.wire.records import records
from store.api import (
    Append,
    Delete,
    DiskFull,
    Durability,
    Family,
    Outcome,
    Put,
    Refused,
    StoreError,
    Unknown,
    Write,
)
from tests.gateway.broker.held import HeldStore, part, run_held, until
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body

PRODUCER = {"producer_id": 77, "producer_epoch": 0}


def numbered(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 77) -> bytes:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def values(client: Client, topic: str) -> list[bytes | None]:
    """All that can be read."""
    answer = await client.ask(ApiKey.FETCH, 11, fetch_body(topic, 0))
    data = bytes(part(answer).records or b"")
    found: list[bytes | None] = []
    while data:
        size = int.from_bytes(data[8:12], "big") + 12
        found += [record.value for record in records(data[:size])]
        data = data[size:]
    return found


def test_nothing_is_visible_or_answered_before_its_commit() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        reader = await Client.connect(gateway)
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        await store.has(1)
        before = part(await reader.ask(ApiKey.FETCH, 11, fetch_body("t", 0)))
        assert (before.error_code, before.high_watermark, bytes(before.records)) == (0, 0, b"")
        answered = asyncio.ensure_future(client.receive())
        await reader.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert not answered.done()
        store.land()
        _, answer = await answered
        assert part(answer).base_offset == 0
        assert await values(reader, "t") == [b"v"]
        reader.close()

    run_held(test)


def test_a_parked_fetch_is_answered_after_the_commit_not_before() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        reader = await Client.connect(gateway)
        reader.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        await store.has(1)
        fetched = asyncio.ensure_future(reader.receive())
        await (await Client.connect(gateway)).ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert not fetched.done()
        store.land()
        assert part((await fetched)[1]).high_watermark == 1
        reader.close()

    run_held(test)


@pytest.mark.parametrize(
    "outcome", [Refused("no"), DiskFull("full"), Unknown("who knows"), StoreError("broken")]
)
def test_a_failed_commit_is_answered_retriably_in_order_and_its_offsets_are_used_again(
    outcome: StoreError,
) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        store.holding = True
        asked = [client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"%d" % n))) for n in range(3)]
        await store.has(1)
        asked.append(client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"behind"))))
        await store.has(2)
        store.fail(outcome)
        got = [await client.receive() for _ in asked]
        assert [correlation for correlation, _ in got] == asked
        assert all(part(answer).error_code == Error.KAFKA_STORAGE_ERROR for _, answer in got)
        assert retriable(Error.KAFKA_STORAGE_ERROR)
        store.release()
        again = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"again")))
        assert part(again).base_offset == 0
        assert await values(client, "t") == [b"again"]

    run_held(test)


def test_the_open_turn_fails_with_the_commit_before_it() -> None:
    """Its offsets continue those that were not stored."""

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 2)
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1")))
        await store.has(1)
        runtime = gateway.broker.topic(b"t")
        assert runtime is not None
        first, second = (gateway.broker.partition_of(runtime, index) for index in (0, 1))
        told: list[Any] = []

        class Slot:
            def settle(self, outcome: Any) -> None:
                told.append(outcome)

        assert first.append(batch(b"2"), admit(batch(b"2")), 5000) == 1
        assert second.append(batch(b"3"), admit(batch(b"3")), 5000) == 0
        gateway.broker.turn.await_commit(Slot())
        gateway.broker.commit([], lambda outcome: told.append(outcome))
        store.fail(Unknown("the disk went away"))
        assert len(told) == 2
        assert all(isinstance(outcome, StoreError) for outcome in told)
        assert first.stale
        assert second.stale
        store.release()
        assert part((await client.receive())[1]).error_code == Error.KAFKA_STORAGE_ERROR
        assert await values(client, "t") == []
        again = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"4"), batch(b"5")))
        assert [part(again, index).base_offset for index in (0, 1)] == [0, 0]

    run_held(test)


def test_sequences_retried_after_a_failed_commit_are_neither_lost_nor_doubled() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", numbered(0, b"a")))
        store.holding = True
        sent = [numbered(1, b"b"), numbered(2, b"c", b"d"), numbered(4, b"e")]
        for count, each in enumerate(sent, 1):
            client.send(ApiKey.PRODUCE, 9, produce_body("t", each))
            await store.has(count)
        store.fail(Refused("no"))
        for _ in sent:
            assert part((await client.receive())[1]).error_code == Error.KAFKA_STORAGE_ERROR
        store.release()
        late = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", sent[1]))
        assert part(late).error_code == Error.OUT_OF_ORDER_SEQUENCE_NUMBER, (
            "the one before it is still missing"
        )
        for each, offset in zip(sent, (1, 2, 4), strict=True):
            answer = part(await client.ask(ApiKey.PRODUCE, 9, produce_body("t", each)))
            assert (answer.error_code, answer.base_offset) == (0, offset)
        assert await values(client, "t") == [b"a", b"b", b"c", b"d", b"e"]

    run_held(test)


def test_a_duplicate_of_a_batch_in_flight_shares_the_outcome_of_its_commit() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, produce_body("t", numbered(0, b"a")))
        await store.has(1)
        other.send(ApiKey.PRODUCE, 9, produce_body("t", numbered(0, b"a")))
        await store.has(2)
        store.land()
        assert part((await client.receive())[1]).base_offset == 0
        store.land()
        assert part((await other.receive())[1]).base_offset == 0

        client.send(ApiKey.PRODUCE, 9, produce_body("t", numbered(1, b"b")))
        await store.has(1)
        other.send(ApiKey.PRODUCE, 9, produce_body("t", numbered(1, b"b")))
        await store.has(2)
        store.fail(Refused("no"))
        for each in (client, other):
            assert part((await each.receive())[1]).error_code == Error.KAFKA_STORAGE_ERROR
        store.release()
        assert part(await other.ask(ApiKey.PRODUCE, 9, produce_body("t", numbered(1, b"b")))).base_offset == 1
        assert await values(client, "t") == [b"a", b"b"]
        other.close()

    run_held(test)


def test_a_fetch_parked_on_a_partition_whose_commit_fails_is_answered() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        reader = await Client.connect(gateway)
        await reader.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1")))
        reader.send(ApiKey.FETCH, 11, fetch_body("t", 1, max_wait=60_000, session=(0, 0)))
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"2")))
        await store.has(1)
        store.fail(Refused("no"))
        store.release()
        _, answer = await reader.receive()
        assert part(answer).error_code in (0, Error.NOT_LEADER_OR_FOLLOWER)
        await client.receive()
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"3")))
        again = await reader.ask(ApiKey.FETCH, 11, fetch_body("t", -1, session=(answer.session_id, 1)))
        assert part(again).error_code == 0
        assert part(again).high_watermark == 2
        reader.close()

    run_held(test)


def test_what_a_turn_brings_is_one_commit() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", 3)
        count = len(store.commits)
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1"), batch(b"2"), batch(b"3")))
        client.send(ApiKey.PRODUCE, 9, produce_body("t", numbered(0, b"4"), partition=1))
        for _ in range(2):
            await client.receive()
        made = store.commits[count:]
        appends = [write for writes in made for write in writes if isinstance(write, Append)]
        assert sorted(append.next_offset for append in appends)[-1] >= 1
        assert len(made) <= 2
        assert any(isinstance(write, Put) for writes in made for write in writes), "the sequences go along"

    run_held(test)


def test_a_group_that_the_store_does_not_take_is_answered_and_harms_nobody_later() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        outcomes: list[Any] = []
        gateway.broker.commit([Append(4711, 0, 1, 0, [b""])], outcomes.append)
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"1")))
        assert part(answer).error_code in (0, Error.KAFKA_STORAGE_ERROR)
        assert isinstance(outcomes[0], Refused)
        again = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"2")))
        assert part(again).error_code == 0

    run_held(test)


def test_one_that_breaks_keeps_nobody_else_waiting() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        outcomes: list[Any] = []

        def broken(outcome: Any) -> None:
            outcomes.append(outcome)
            raise RuntimeError("a bug of whoever waits")

        class Broken:
            def wake(self, partition: Any, appended: int) -> None:
                outcomes.append(appended > 0)
                raise RuntimeError("a bug of whoever waits")

        runtime = gateway.broker.topic(b"t")
        assert runtime is not None
        partition = gateway.broker.partition_of(runtime, 0)
        partition.watchers.add(Broken())
        reader = await Client.connect(gateway)
        reader.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        await until(lambda: len(partition.watchers) == 2)
        gateway.broker.commit([], broken)
        gateway.broker.commit([], outcomes.append)
        assert part(await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))).error_code == 0
        assert part((await reader.receive())[1]).high_watermark == 1
        assert outcomes == [None, None, True], "told once, and the truth"
        store.holding = True
        gateway.broker.commit([], broken)
        gateway.broker.commit([], outcomes.append)
        gateway.broker.turn.end()
        store.fail(Refused("no"))
        assert len(outcomes) == 5
        reader.close()

    run_held(test)


def test_a_producer_forgotten_in_the_turn_in_which_it_comes_back_keeps_its_new_row() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", numbered(0, b"a")))
        row = next(
            write
            for writes in store.commits
            for write in writes
            if isinstance(write, Put) and write.family == "dedup"
        )
        gateway.broker.commit([Delete(row.family, row.key)], lambda outcome: None)
        runtime = gateway.broker.topic(b"t")
        assert runtime is not None
        partition = runtime.partitions[0]
        assert partition is not None
        again = numbered(1, b"b")
        partition.append(again, admit(again), 5000)
        gateway.broker.turn.end()
        assert store.get(row.family, row.key) is not None

    run_held(test)


class Recorded:
    """A store that notes how safe commits are to be."""

    def __init__(self) -> None:
        self.durabilities: list[Durability] = []

    def commit(
        self, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        self.durabilities.append(durability)
        done(None)


class Host:
    """As much of a node as a turn needs."""

    durability = Durability.OS
    clock_ns = staticmethod(lambda: 0)

    def __init__(self) -> None:
        self.store: Any = Recorded()
        self.durable: Any = self.store
        self.loop = self

    def store_for(self, writes: Sequence[Write]) -> Any:
        return self.store

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.ends = callback


def test_a_turn_is_as_safe_as_the_most_careful_of_it_wants_and_the_next_one_is_not() -> None:
    host = Host()
    turn = Turn(host, CommitWatch(GatewayMetrics()), lambda: None)
    told: list[Outcome] = []
    for careful in (False, True, False):
        turn.write([Put(Family.META, b"k", b"v")], told.append, Durability.OS)
        turn.write((), told.append, Durability.FSYNC if careful else Durability.OS)
        turn.end()
    assert host.store.durabilities == [Durability.OS, Durability.FSYNC, Durability.OS]
    assert told == [None] * 6
