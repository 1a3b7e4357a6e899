"""What a Fetch gives: limits, order, offsets and epochs out of place, topics that go away."""

from __future__ import annotations

import asyncio

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.asking import delete_records, delete_topic, errors, fetch, offsets, told
from tests.gateway.broker.held import HeldStore, part, run, run_held, until
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body


async def put(client: Client, topic: str, *batches: bytes, partition: int = 0) -> None:
    """Each batch in a request of its own."""
    for each in batches:
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, each, partition=partition))
        assert part(answer).error_code == 0


def test_the_first_batch_comes_whole_however_small_the_limits() -> None:
    big = batch(b"x" * 5000)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        await put(client, "t", big, big)
        await put(client, "t", big, partition=1)
        for limits in [
            {"max_bytes": 1},
            {"partition_max_bytes": 1},
            {"max_bytes": 0},
            {"partition_max_bytes": 0},
        ]:
            answer = told(await fetch(client, {"t": {0: 0, 1: 0}}, **limits))  # type: ignore[arg-type]
            assert len(answer[0].records) == len(big), limits
            assert len(answer[1].records or b"") == 0, "only the first one of all"
            assert (answer[1].error_code, answer[1].high_watermark) == (0, 1)

    run(test)


def test_partition_and_request_limits_cut_where_kafka_cuts() -> None:
    small = batch(b"x" * 100)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 3)
        for index in range(3):
            await put(client, "t", *[small] * 4, partition=index)
        size = len(small)
        answer = told(await fetch(client, {"t": dict.fromkeys(range(3), 0)}, partition_max_bytes=2 * size))
        assert [len(answer[index].records) for index in range(3)] == [2 * size] * 3
        answer = told(await fetch(client, {"t": dict.fromkeys(range(3), 0)}, max_bytes=5 * size))
        assert [len(answer[index].records or b"") for index in range(3)] == [4 * size, size, 0]
        answer = told(await fetch(client, {"t": {0: 0}}, partition_max_bytes=size + 10))
        assert offsets(answer[0].records) == [0]

    run(test)


def test_fetch_max_bytes_of_the_broker_is_a_limit_too() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", *[batch(b"x" * 400)] * 10)
        answer = told(await fetch(client, {"t": {0: 0}}))
        assert len(answer[0].records) <= 1024

    run(test, "fetch.max.bytes=1024")


def test_an_offset_within_a_batch_gets_the_whole_batch() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", batch(b"0", b"1", b"2", b"3"), batch(b"4", b"5"))
        for offset in range(4):
            assert offsets(told(await fetch(client, {"t": {0: offset}}))[0].records) == [0, 1, 2, 3, 4, 5]
        for offset in (4, 5):
            assert offsets(told(await fetch(client, {"t": {0: offset}}))[0].records) == [4, 5]

    run(test)


def test_who_was_served_waits_behind_those_that_were_not() -> None:
    """A session whose partitions never fit into one answer serves them in turn."""
    one = batch(b"x" * 500)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 3)
        for index in range(3):
            await put(client, "t", *[one] * 3, partition=index)
        position = dict.fromkeys(range(3), 0)
        answer = await fetch(client, {"t": position}, session=(0, 0), max_bytes=len(one))
        session = answer.session_id
        served = []
        for epoch in range(1, 9):
            (index,) = [i for i, each in told(answer).items() if each.records]
            served.append(index)
            position[index] += 1
            answer = await fetch(
                client, {"t": {index: position[index]}}, session=(session, epoch), max_bytes=len(one)
            )
        assert sorted(served[:3]) == sorted(served[3:6]) == [0, 1, 2]

    run(test)


@pytest.mark.parametrize("offset", [-2, 6, 2**62])
def test_an_offset_outside_the_log(offset: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", batch(*[b"v"] * 5))
        answer = told(await fetch(client, {"t": {0: offset}}, max_wait=60_000))[0]
        assert answer.error_code == Error.OFFSET_OUT_OF_RANGE
        assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)

    run(test)


def test_below_a_log_start_that_moved() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", batch(*[b"v"] * 5), batch(b"w"))
        assert await delete_records(client, "t", {0: 2}) == {0: (0, 2)}
        assert errors(await fetch(client, {"t": {0: 1}})) == {0: Error.OFFSET_OUT_OF_RANGE}
        answer = told(await fetch(client, {"t": {0: 2}}))[0]
        assert (answer.log_start_offset, offsets(answer.records)) == (2, [0, 1, 2, 3, 4, 5])

    run(test)


def test_the_log_start_moves_under_a_parked_fetch() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", batch(*[b"v"] * 5))
        other = await Client.connect(gateway)
        first = await fetch(client, {"t": {0: 5}}, session=(0, 0))
        client.send(ApiKey.FETCH, 11, fetch_body("t", -1, max_wait=60_000, session=(first.session_id, 1)))
        await delete_records(other, "t", {0: -1})
        _, answer = await client.receive()
        assert told(answer)[0].log_start_offset == 5
        other.close()

    run(test)


def test_leader_epochs() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        epoch = gateway.broker.store.leader_epoch(gateway.broker.topics.get("t").partitions[0])
        assert errors(await fetch(client, {"t": {0: 0}}, epoch=epoch)) == {0: 0}
        assert errors(await fetch(client, {"t": {0: 0}}, epoch=epoch - 1)) == {0: Error.FENCED_LEADER_EPOCH}
        assert errors(await fetch(client, {"t": {0: 0}}, epoch=epoch + 1)) == {0: Error.UNKNOWN_LEADER_EPOCH}

    run(test)


@pytest.mark.parametrize("version", [4, 5, 7, 9, 11, 12])
def test_missing_topics_and_partitions_by_name(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", batch(b"v"))
        answer = await fetch(
            client, {"missing": {0: 0}, "t": {0: 0, 1: 0, -1: 0}}, version=version, max_wait=60_000
        )
        missing, known = answer.responses
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert [each.error_code for each in missing.partitions] == [unknown]
        assert [each.error_code for each in known.partitions] == [0, unknown, unknown]
        assert offsets(known.partitions[0].records) == [0]

    run(test)


@pytest.mark.parametrize("version", [13, 15, 17, 18])
def test_topics_by_id(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "t")
        await put(client, "t", batch(b"v"))
        answer = await fetch(client, {topic_id: {0: 0}, b"?" * 16: {0: 0}}, version=version)
        known, unknown = answer.responses
        assert offsets(known.partitions[0].records) == [0]
        assert (unknown.topic_id, unknown.partitions[0].error_code) == (b"?" * 16, Error.UNKNOWN_TOPIC_ID)

    run(test)


def test_a_recreated_topic_is_another_one() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        old = await create(client, "t")
        await put(client, "t", batch(b"old", b"old"))
        first = await fetch(client, {old: {0: 2}}, version=13, session=(0, 0))
        assert await delete_topic(client, "t") == 0
        answer = await fetch(client, version=13, session=(first.session_id, 1))
        assert errors(answer) == {0: Error.UNKNOWN_TOPIC_ID}
        new = await create(client, "t")
        assert new != old
        answer = await fetch(client, version=13, session=(first.session_id, 2), max_wait=60_000)
        assert errors(answer) == {0: Error.UNKNOWN_TOPIC_ID}, "told until it is over"
        await put(client, "t", batch(b"new"))
        answer = await fetch(
            client, {new: {0: 0}}, version=13, session=(first.session_id, 3), forget={old: [0]}
        )
        assert (errors(answer), offsets(told(answer)[0].records)) == ({0: 0}, [0])
        by_name = told(await fetch(client, {"t": {0: 2}}))[0]
        assert by_name.error_code == Error.OFFSET_OUT_OF_RANGE

    run(test)


def test_a_topic_deleted_under_a_parked_fetch() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        store.holding = True
        deleting = asyncio.ensure_future(delete_topic(other, "t"))
        await store.has(1)
        _, answer = await client.receive()
        assert errors(answer) == {0: Error.NOT_LEADER_OR_FOLLOWER}
        late = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"late")))
        assert part(late).error_code == Error.NOT_LEADER_OR_FOLLOWER
        store.release()
        assert await deleting == 0
        assert errors(await fetch(client, {"t": {0: 0}})) == {0: Error.UNKNOWN_TOPIC_OR_PARTITION}
        other.close()

    run_held(test)


def test_isolation_level_tells_aborted_transactions_only_to_read_committed() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", batch(b"v"))
        for version in (4, 11, 12):
            plain = told(await fetch(client, {"t": {0: 0}}, version=version))[0]
            committed = told(await fetch(client, {"t": {0: 0}}, version=version, isolation=1))[0]
            assert plain.aborted_transactions is None
            assert committed.aborted_transactions == []
            assert committed.last_stable_offset == committed.high_watermark == 1
            assert offsets(committed.records) == offsets(plain.records) == [0]

    run(test)


def test_max_wait_is_not_waited_for_when_there_is_an_error_or_nothing_to_wait_for() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await fetch(client, {"t": {0: 0, 1: 0}}, max_wait=60_000)
        await fetch(client, {}, max_wait=60_000)
        await fetch(client, {"t": {0: 0}}, max_wait=60_000, min_bytes=0)
        await fetch(client, {"t": {0: 0}}, max_wait=-1)

    run(test)


def test_max_wait_ends_a_fetch() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", batch(b"v"))
        answer = told(await fetch(client, {"t": {0: 0}}, max_wait=1, min_bytes=1 << 20))[0]
        assert offsets(answer.records) == [0], "what there is, though it is less than min_bytes"
        assert gateway.broker.metrics.fetches_parked.value == 0

    run(test)


def test_a_client_that_goes_away_leaves_no_parked_fetch_behind() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        other = await Client.connect(gateway)
        other.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        runtime = gateway.broker.topic(b"t")
        assert runtime is not None
        partition = gateway.broker.partition_of(runtime, 0)
        await until(lambda: partition.watchers)
        other.close()
        await until(lambda: not partition.watchers)
        assert gateway.broker.metrics.fetches_parked.value == 0

    run(test)


def test_an_answer_is_small_while_clients_leave_too_much_unread() -> None:
    one = batch(b"x" * 10_000)

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await put(client, "t", *[one] * 20)
        assert len(told(await fetch(client, {"t": {0: 0}}))[0].records) == 20 * len(one)
        gateway.broker.unsent_bytes += gateway.broker.memory_limit + 1
        assert len(told(await fetch(client, {"t": {0: 0}}))[0].records) <= 65536
        gateway.broker.unsent_bytes -= gateway.broker.memory_limit + 1

    run(test)
