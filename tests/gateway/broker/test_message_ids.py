"""Where records are in Pulsar's words: ids of plain topics, of partitioned ones, and of records of one batch."""

from __future__ import annotations

import pytest

from gateway.broker.message_ids import id_at
from gateway.server import Gateway
from tests.gateway.broker.held import run
from tests.gateway.broker.share_asking import put
from tests.gateway.serving import Client


@pytest.mark.parametrize(("width", "partitioned", "said"), [(1, False, -1), (1, True, 0), (3, True, 2)])
def test_only_a_partitioned_topic_names_the_partition(width: int, partitioned: bool, said: int) -> None:
    """Also when it is the only one: Pulsar's clients tell the kinds of topics apart by it."""

    async def test(gateway: Gateway, client: Client) -> None:
        await gateway.broker.create_topic("t", width, {}, partitioned=partitioned)
        topic = gateway.broker.catalog.get("t")
        assert topic is not None
        index = width - 1
        await put(client, b"a", b"b", partition=index)
        await put(client, b"c", partition=index)
        partition = gateway.broker.partition(topic, index)
        ids = [id_at(partition, offset) for offset in range(3)]
        assert [each.partition for each in ids] == [said] * 3
        # an entry is a batch, and every record has its own place in it
        assert [(each.entry, each.batch_index) for each in ids] == [(0, 0), (0, 1), (1, 0)]
        assert len({each.ledger for each in ids}) == 1
        with pytest.raises(LookupError):
            id_at(partition, 3)

    run(test)


def test_ids_of_two_partitions_never_meet() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await gateway.broker.create_topic("t", 2, {})
        topic = gateway.broker.catalog.get("t")
        assert topic is not None
        found = []
        for index in range(2):
            await put(client, b"a", partition=index)
            found.append(id_at(gateway.broker.partition(topic, index), 0))
        assert found[0].ledger != found[1].ledger

    run(test)
