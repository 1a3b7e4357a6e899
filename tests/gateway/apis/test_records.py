"""DescribeProducers, and DeleteRecords as clients see it."""

from __future__ import annotations

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import Clock, run
from tests.gateway.serving import Client, batch, create, produce_body


def test_topics_without_records_of_their_own_have_no_producers() -> None:
    """kafka-transactions.sh find-hanging asks every partition there is, and ends at the first error."""

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        await create(client, "t-g-QUEUE", 3)
        request = messages.DescribeProducersRequest
        names = ("t-g-QUEUE", "__consumer_offsets", "__transaction_state")
        topics = [request.TopicRequest(name=name, partition_indexes=[0, 2, 1_000]) for name in names]
        answer = await client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request(topics=topics))
        for topic in answer.topics:
            first, third, none = topic.partitions
            for each in (first, third):
                assert (each.error_code, each.active_producers) == (0, [])
            assert none.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


def test_describe_producers() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", 2)
        for producer, epoch, sequence in ((7, 0, 0), (8, 3, 41), (7, 1, 0)):
            each = batch(b"v", b"w", producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", each))
        request = messages.DescribeProducersRequest
        answer = await client.ask(
            ApiKey.DESCRIBE_PRODUCERS,
            0,
            request(
                topics=[
                    request.TopicRequest(name="t", partition_indexes=[0, 1, 7]),
                    request.TopicRequest(name="missing", partition_indexes=[0]),
                ]
            ),
        )
        first, empty, none = answer.topics[0].partitions
        assert [
            (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
            for each in first.active_producers
        ] == [(7, 1, 1, clock.now), (8, 3, 42, clock.now)]
        assert {each.current_txn_start_offset for each in first.active_producers} == {-1}
        assert (empty.error_code, empty.active_producers) == (0, [])
        (missing,) = answer.topics[1].partitions
        for each in (none, missing):
            assert each.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
            assert each.error_message

    run(test, clock=clock)
