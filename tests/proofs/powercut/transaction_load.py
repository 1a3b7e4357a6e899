"""A transactional producer of the old protocol over two topics, with the offsets of a group in its transactions."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from gateway.wire import messages, records
from gateway.wire.api_keys import ApiKey
from tests.proofs.powercut.asking import Connection, check, produce_request
from tests.proofs.powercut.world import Part, Transaction, World

TOPICS = {"books-a": 2, "books-b": 1}
PLACES = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
NAME, GROUP = "clerk", "auditors"
LARGE = 80_000
"""Bytes of a batch that is on the disk before its transaction is committed, and not in the log of the rows."""


async def transact(
    connection: Connection, world: World, chance: random.Random, enough: asyncio.Event
) -> None:
    """One transaction after the other. The topics are there."""
    _, made = await connection.ask(
        ApiKey.INIT_PRODUCER_ID,
        messages.InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000),
    )
    check(made.error_code)
    sequences = dict.fromkeys(PLACES, 0)
    while not enough.is_set():
        await _one(connection, world, chance, made.producer_id, made.producer_epoch, sequences)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.random() * 0.01)


async def _one(
    connection: Connection,
    world: World,
    chance: random.Random,
    producer_id: int,
    epoch: int,
    sequences: dict[tuple[str, int], int],
) -> None:
    it = Transaction(len(world.transactions), chance.random() < 0.7, chance.random() < 0.5)
    world.transactions.append(it)
    who: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch}
    places = sorted(chance.sample(PLACES, chance.randint(1, len(PLACES))))
    await _add(connection, who, places)
    for _ in range(chance.randint(1, 2)):
        parts: list[tuple[str, int, bytes]] = []
        made: list[Part] = []
        for topic, index in places:
            size = LARGE if chance.random() < 0.05 else chance.choice((10, 300))
            data = records.build_batch(
                [records.Record(0, 1_700_000_000_000, None, b"%d/" % it.number + chance.randbytes(size), [])],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequences[topic, index],
                transactional=True,
            )
            sequences[topic, index] += 1
            parts.append((topic, index, data))
            made.append(Part(topic, index, data))
        request = produce_request(parts)
        request.transactional_id = NAME
        _, answer = await connection.ask(ApiKey.PRODUCE, request)
        offsets = {
            (topic.name, part.index): part for topic in answer.responses for part in topic.partition_responses
        }
        for part in made:
            check(offsets[part.topic, part.index].error_code)
            it.parts.append(part._replace(offset=offsets[part.topic, part.index].base_offset))
    if it.with_offset:
        await _offset(connection, who, it.number)
    it.key, ended = await connection.ask(
        ApiKey.END_TXN, messages.EndTxnRequest(transactional_id=NAME, **who, committed=it.committed)
    )
    check(ended.error_code)


async def _add(connection: Connection, who: dict[str, Any], places: list[tuple[str, int]]) -> None:
    request = messages.AddPartitionsToTxnRequest
    topics = sorted({topic for topic, _ in places})
    _, answer = await connection.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        request(
            v3_and_below_transactional_id=NAME,
            v3_and_below_producer_id=who["producer_id"],
            v3_and_below_producer_epoch=who["producer_epoch"],
            v3_and_below_topics=[
                request.AddPartitionsToTxnTopic(
                    name=topic, partitions=[index for its, index in places if its == topic]
                )
                for topic in topics
            ],
        ),
    )
    for topic in answer.results_by_topic_v3_and_below:
        for part in topic.results_by_partition:
            check(part.partition_error_code)


async def _offset(connection: Connection, who: dict[str, Any], number: int) -> None:
    _, answer = await connection.ask(
        ApiKey.ADD_OFFSETS_TO_TXN,
        messages.AddOffsetsToTxnRequest(transactional_id=NAME, **who, group_id=GROUP),
    )
    check(answer.error_code)
    request = messages.TxnOffsetCommitRequest
    place = request.TxnOffsetCommitRequestPartition(
        # an offset that no cut takes back
        partition_index=0,
        committed_offset=0,
        committed_metadata=f"{number}",
    )
    topics = [request.TxnOffsetCommitRequestTopic(name=PLACES[0][0], partitions=[place])]
    _, answer = await connection.ask(
        ApiKey.TXN_OFFSET_COMMIT, request(transactional_id=NAME, group_id=GROUP, **who, topics=topics)
    )
    check(answer.topics[0].partitions[0].error_code)


async def prepare(connection: Connection, settings: dict[str, str]) -> None:
    """Make the topics."""
    request = messages.CreateTopicsRequest
    _, answer = await connection.ask(
        ApiKey.CREATE_TOPICS,
        request(
            topics=[
                request.CreatableTopic(
                    name=name,
                    num_partitions=count,
                    replication_factor=1,
                    assignments=[],
                    configs=[
                        request.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()
                    ],
                )
                for name, count in TOPICS.items()
            ],
            timeout_ms=10_000,
        ),
    )
    for topic in answer.topics:
        check(topic.error_code)
