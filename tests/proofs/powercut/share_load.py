"""A share group of the load: what it said of each record, and what it was answered.

What becomes of a record follows from its offset: one in ten is always rejected, one always released until it is dead,
one in twenty is delayed; of the others some are released once.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from gateway.wire import messages, records
from gateway.wire.api_keys import ApiKey
from tests.proofs.powercut.asking import Connection, check, produce_request
from tests.proofs.powercut.world import Batch, Topic, Verdict, World

GROUP = "workers"
MEMBER = "powercut-member"
ACCEPT, RELEASE, REJECT = 1, 2, 3
LEFT = 0
"""No acknowledgement: the member left while it held the record, which counts as a delivery that failed."""
REDELIVERIES = 2
ANSWERS = 20
CONFIGS = {
    "share.auto.offset.reset": "earliest",
    "pulsar.max.redeliver.count": str(REDELIVERIES),
    "pulsar.nack.backoff.min.ms": "10",
    "pulsar.nack.backoff.max.ms": "40",
}

Fetch = messages.ShareFetchRequest
Acks = dict[int, list[tuple[int, int]]]
"""Partition to (offset, type), ascending."""


async def share(
    connection: Connection,
    producing: Connection,
    world: World,
    topic: Topic,
    enough: asyncio.Event,
    buried: asyncio.Event,
) -> None:
    """Configure the group, join it, and work until it is enough. `buried` is set so many answers after the first
    rejection that records have surely died.
    """
    await _configure(connection)
    key, answer = await connection.ask(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        messages.ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=MEMBER,
            member_epoch=0,
            rack_id=None,
            subscribed_topic_names=[topic.name],
        ),
    )
    check(answer.error_code)
    world.shared = topic
    world.subscribed = key
    sending = asyncio.ensure_future(_send(producing, topic, enough))
    chance = random.Random(topic.topic_id)
    epoch = 0
    said: Acks = {}
    since = 0
    while not enough.is_set():
        key = connection.send(ApiKey.SHARE_FETCH, _fetch(topic, epoch, said))
        for index, each in said.items():
            for offset, kind in each:
                known = world.verdicts[index].setdefault(offset, [])
                known[-1] = known[-1]._replace(kind=kind, key=key)
        answer = await connection.receive()
        check(answer.error_code)
        epoch += 1
        if since or any(kind == REJECT for each in said.values() for _, kind in each):
            since += 1
        if since > ANSWERS:
            buried.set()
        said = {}
        for part in answer.responses[0].partitions if answer.responses else ():
            check(part.error_code)
            check(part.acknowledge_error_code)
            for run in part.acquired_records:
                for offset in range(run.first_offset, run.last_offset + 1):
                    kind = _kind(offset, run.delivery_count, chance)
                    given = Verdict(offset, run.delivery_count)
                    world.verdicts[part.partition_index].setdefault(offset, []).append(given)
                    said.setdefault(part.partition_index, []).append((offset, kind))
        await asyncio.sleep(0.002)
    # what is in hand goes back, and counts one delivery
    key = connection.send(ApiKey.SHARE_FETCH, _fetch(topic, -1, {}))
    for index, each in said.items():
        for offset, _ in each:
            known = world.verdicts[index][offset]
            known[-1] = known[-1]._replace(kind=LEFT, key=key)
    check((await connection.receive()).error_code)
    await sending


def _kind(offset: int, count: int, chance: random.Random) -> int:
    if offset % 10 == 3:
        return REJECT
    if offset % 10 == 5 or (count == 1 and chance.random() < 0.2):
        return RELEASE
    return ACCEPT


async def _configure(connection: Connection) -> None:
    request = messages.IncrementalAlterConfigsRequest
    _, answer = await connection.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        request(
            resources=[
                request.AlterConfigsResource(
                    resource_type=32,
                    resource_name=GROUP,
                    configs=[
                        request.AlterableConfig(name=name, config_operation=0, value=value)
                        for name, value in CONFIGS.items()
                    ],
                )
            ],
            validate_only=False,
        ),
    )
    check(answer.responses[0].error_code)


def _fetch(topic: Topic, epoch: int, said: Acks) -> Any:
    """Acknowledge and fetch in one; the topic is named with all its partitions."""
    return Fetch(
        group_id=GROUP,
        member_id=MEMBER,
        share_session_epoch=epoch,
        max_wait_ms=5,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=20,
        batch_size=20,
        share_acquire_mode=1,
        is_renew_ack=False,
        topics=[
            Fetch.FetchTopic(
                topic_id=topic.topic_id,
                partitions=[
                    Fetch.FetchPartition(
                        partition_index=index,
                        acknowledgement_batches=[
                            Fetch.AcknowledgementBatch(
                                first_offset=offset, last_offset=offset, acknowledge_types=[kind]
                            )
                            for offset, kind in said.get(index, ())
                        ],
                    )
                    for index in range(topic.partitions)
                ],
            )
        ],
        forgotten_topics_data=[],
    )


async def _send(connection: Connection, topic: Topic, enough: asyncio.Event) -> None:
    number = 0
    while not enough.is_set():
        for index in range(topic.partitions):
            now = int(time.time() * 1000)
            listed = []
            for each in range(5):
                number += 1
                headers: records.Headers = (
                    [("pulsar-deliver-after", b"%d" % (number % 300))] if number % 20 == 0 else []
                )
                listed.append(
                    records.Record(each, now, None, b"task %d " % number + bytes(number % 200), headers)
                )
            data = records.build_batch(listed)
            key = connection.send(ApiKey.PRODUCE, produce_request([(topic.name, index, data)]))
            answer = await connection.receive()
            part = answer.responses[0].partition_responses[0]
            check(part.error_code)
            topic.batches[index].append(Batch(data, 5, key, offset=part.base_offset))
        await asyncio.sleep(0.01)
