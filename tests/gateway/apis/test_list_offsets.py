"""ListOffsets and OffsetForLeaderEpoch over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages, records
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from tests.gateway.broker.asking import delete_records, list_offsets
from tests.gateway.broker.held import part, run
from tests.gateway.serving import Client, batch, create, produce_body


def stamped(*timestamps: int, codec: int = 0) -> bytes:
    made = [records.Record(i, timestamp, None, b"v" * 20, []) for i, timestamp in enumerate(timestamps)]
    return records.build_batch(made, codec=codec)


async def filled(client: Client, codec: int = 0) -> None:
    await create(client, "t", 2)
    for each in (
        stamped(100, 110, 120, codec=codec),
        stamped(115, 105, codec=codec),
        stamped(130, codec=codec),
    ):
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", each))
        assert part(answer).error_code == 0


def seen(found: Any) -> tuple[int, int, int]:
    return found.error_code, found.timestamp, found.offset


SUPPORTED = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99}


@pytest.mark.parametrize("version", range(1, 12))
def test_special_timestamps_by_version(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        expected = {
            -1: (0, -1, 6),
            -2: (0, -1, 0),
            -3: (0, 130, 5),
            -4: (0, -1, 0),
            -5: (0, -1, -1),
            -6: (0, -1, -1),
        }
        for special, since in SUPPORTED.items():
            (found,) = await list_offsets(client, "t", (0, special), version=version)
            refused = (Error.UNSUPPORTED_VERSION, -1, -1)
            assert seen(found) == (expected[special] if version >= since else refused), special

    run(test)


@pytest.mark.parametrize("codec", range(5))
def test_by_timestamp_inside_batches(codec: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client, codec)
        for timestamp, expected in [
            (0, (0, 100, 0)),
            (100, (0, 100, 0)),
            (101, (0, 110, 1)),
            (120, (0, 120, 2)),
            (121, (0, 130, 5)),
            (131, (0, -1, -1)),
        ]:
            (found,) = await list_offsets(client, "t", (0, timestamp))
            assert seen(found) == expected

    run(test)


def test_an_empty_log() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        epoch = gateway.broker.store.leader_epoch(gateway.broker.topics.get("t").partitions[0])
        found = [(await list_offsets(client, "t", (1, each), version=8))[0] for each in (-1, -2, -3, 5)]
        assert [seen(each) for each in found] == [(0, -1, 0), (0, -1, 0), (0, -1, -1), (0, -1, -1)]
        assert [each.leader_epoch for each in found] == [epoch, epoch, -1, -1]

    run(test)


def test_several_partitions_errors_and_one_twice() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        found = await list_offsets(client, "t", (0, -1), (7, -1), (1, -1), (0, -2), (-1, -1))
        assert [(each.partition_index, each.error_code) for each in found] == [
            (0, Error.INVALID_REQUEST),
            (7, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (1, 0),
            (-1, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        (missing,) = await list_offsets(client, "missing", (0, -1))
        assert seen(missing) == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)

    run(test)


def test_leader_epochs_and_isolation() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        for epoch, error in ((6, Error.FENCED_LEADER_EPOCH), (7, 0), (8, Error.UNKNOWN_LEADER_EPOCH)):
            (found,) = await list_offsets(client, "t", (0, -1), epoch=epoch)
            assert found.error_code == error
        (committed,) = await list_offsets(client, "t", (0, -1), isolation=1)
        assert (committed.offset, committed.leader_epoch) == (6, 7)
        (timed,) = await list_offsets(client, "t", (0, 121))
        assert timed.leader_epoch == 7

    run(test, store=memory.open(epoch=7))


def test_a_log_start_inside_a_batch() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        await delete_records(client, "t", {0: 3})
        answers = [seen((await list_offsets(client, "t", (0, each)))[0]) for each in (-2, 0, 116)]
        assert answers == [(0, -1, 3), (0, 115, 3), (0, 130, 5)]

    run(test)


async def epoch_end(
    client: Client, *asked: tuple[int, int, int], topic: str = "t", version: int = 4
) -> list[Any]:
    request = messages.OffsetForLeaderEpochRequest
    answer = await client.ask(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        version,
        request(
            replica_id=-1,
            topics=[
                request.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        request.OffsetForLeaderPartition(
                            partition=index, current_leader_epoch=current, leader_epoch=epoch
                        )
                        for index, current, epoch in asked
                    ],
                )
            ],
        ),
    )
    return [(each.error_code, each.leader_epoch, each.end_offset) for each in answer.topics[0].partitions]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_epochs_ended(version: int) -> None:
    """A log that was written by three starts: 2, 5 and now 7."""
    import asyncio

    from tests.gateway.broker.held import serving_on

    async def main() -> None:
        rows = None
        for epoch in (2, 5, 7):
            store = memory.open(epoch=epoch)
            if rows is not None:
                store._rows, store._keys, store._logs = rows
            async with serving_on(store) as gateway:
                client = await Client.connect(gateway)
                if rows is None:
                    await create(client, "t")
                await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"a", b"b")))
                rows = store._rows, store._keys, dict(store._logs)
                if epoch == 7:
                    asked = [(0, -1, each) for each in (1, 2, 3, 5, 6, 7, 8, -1)]
                    found = [(await epoch_end(client, each, version=version))[0] for each in asked]
                    assert found == [
                        (0, 1, 0),
                        (0, 2, 2),
                        (0, 2, 2),
                        (0, 5, 4),
                        (0, 5, 4),
                        (0, 7, 6),
                        (0, -1, -1),
                        (0, -1, -1),
                    ]
                    errors = await epoch_end(client, (0, 6, 2), (0, 8, 2), (7, -1, 2), version=version)
                    assert [each[0] for each in errors] == [
                        Error.FENCED_LEADER_EPOCH,
                        Error.UNKNOWN_LEADER_EPOCH,
                        Error.UNKNOWN_TOPIC_OR_PARTITION,
                    ]
                    missing = await epoch_end(client, (0, -1, 2), topic="missing", version=version)
                    assert missing == [(Error.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)]
                client.close()

    asyncio.run(main())


def test_an_epoch_of_which_nothing_is_left_ended_where_the_log_begins() -> None:
    """Who waits at the end of a topic over a restart has lost nothing, also where nothing was ever written."""
    import asyncio

    from tests.gateway.broker.held import serving_on

    async def main() -> None:
        before = memory.open(epoch=2)
        async with serving_on(before) as gateway:
            client = await Client.connect(gateway)
            await create(client, "empty")
            await filled(client)
            client.close()
            logs = dict(before._logs)
        store = memory.open(epoch=5)
        store._rows, store._keys, store._logs = before._rows, before._keys, logs
        async with serving_on(store) as gateway:
            client = await Client.connect(gateway)
            assert await epoch_end(client, (0, 5, 2), topic="empty") == [(0, 2, 0)]
            await client.ask(ApiKey.PRODUCE, 9, produce_body("empty", batch(b"a")))
            assert await epoch_end(client, (0, 5, 2), topic="empty") == [(0, 2, 0)]
            assert await delete_records(client, "t", {0: 6}) == {0: (0, 6)}
            assert await epoch_end(client, (0, 5, 1), topic="t") == [(0, 1, 6)]
            client.close()

    asyncio.run(main())
