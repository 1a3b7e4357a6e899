"""A queue topic of the load: what a member of a consumer group read of its lanes, said, and was answered.

What becomes of a record follows from its offset: one in ten is nacked until it is dead, one in seven is nacked once,
and all others are acknowledged with the lane's committed offset.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any

from gateway.wire import delivery, messages, records
from gateway.wire.api_keys import ApiKey
from tests.proofs.powercut.asking import Connection, check, produce_request
from tests.proofs.powercut.world import Batch, Given, Said, Topic, World

GROUP = "crew"
LANES = 2
NACK_MS = 20
REDELIVERIES = 2
CONFIGS = {
    "pulsar.subscription.type": "shared",
    "pulsar.max.redeliver.count": str(REDELIVERIES),
    "pulsar.nack.delay.ms": str(NACK_MS),
}


def queue_of(topic: str) -> str:
    return f"{topic}-{GROUP}-QUEUE"


async def lanes(
    connection: Connection, producing: Connection, world: World, topic: Topic, enough: asyncio.Event
) -> None:
    """Make the queue topic, be the only member of its group, and work until it is enough."""
    name = queue_of(topic.name)
    create = messages.CreateTopicsRequest
    key, answer = await connection.ask(
        ApiKey.CREATE_TOPICS,
        create(
            topics=[
                create.CreatableTopic(
                    name=name,
                    num_partitions=LANES,
                    replication_factor=1,
                    configs=[
                        create.CreatableTopicConfig(name=each, value=value) for each, value in CONFIGS.items()
                    ],
                )
            ],
            timeout_ms=10_000,
        ),
    )
    assert not answer.topics[0].error_code, answer.topics[0].error_message
    world.laned = topic
    world.queued = key
    sending = asyncio.ensure_future(_send(producing, topic, enough))
    member, generation = await _join(connection, name)
    positions = [0] * LANES
    # records that came before, by where they lie
    known: dict[tuple[int, int], int] = {}
    while not enough.is_set():
        for lane in range(LANES):
            key = connection.send(ApiKey.FETCH, _fetch(name, lane, positions[lane]))
            answer = await connection.receive()
            part = answer.responses[0].partitions[0]
            check(part.error_code)
            acked: list[tuple[int, int]] = []
            nacked: list[tuple[int, int]] = []
            names: list[int] = []
            for at, place in _read(bytes(part.records or b""), positions[lane]):
                world.given.append(Given(lane, at, place, key))
                times = known[place] = known.get(place, 0) + 1
                if place[1] % 10 == 3 or (place[1] % 7 == 2 and times == 1):
                    nacked.append(place)
                    names.append(at)
                else:
                    acked.append(place)
                positions[lane] = at + 1
            if acked or nacked:
                metadata = f"ack1;n={','.join(map(str, names))}" if names else ""
                key = connection.send(
                    ApiKey.OFFSET_COMMIT, _commit(name, lane, positions[lane], metadata, member, generation)
                )
                world.said.append(Said(lane, positions[lane], tuple(acked), tuple(nacked), key))
                answer = await connection.receive()
                check(answer.topics[0].partitions[0].error_code)
        await asyncio.sleep(0.002)
    await sending


def _read(data: bytes, begin: int) -> list[tuple[int, tuple[int, int]]]:
    """Offsets of a lane from `begin` on, and (partition, offset) of the record there, as its value says."""
    found: list[tuple[int, tuple[int, int]]] = []
    for buffer, position, header in delivery.headers_of([data]):
        batch = bytes(buffer[position : position + header.size])
        for each in delivery.records_at(batch, [(header.base_offset, header.last_offset)]):
            if each.offset >= begin:
                _, index, offset = (each.value or b"").split()[:3]
                found.append((each.offset, (int(index), int(offset))))
    return found


async def _join(connection: Connection, name: str) -> tuple[str, int]:
    """Become the only member, with all lanes: (member id, generation)."""
    asked = messages.JoinGroupRequest
    topic = struct.pack(">h", len(name)) + name.encode()
    subscribed = b"\0\0\0\0\0\1" + topic
    _, joined = await connection.ask(
        ApiKey.JOIN_GROUP,
        asked(
            group_id=GROUP,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=[asked.JoinGroupRequestProtocol(name="range", metadata=subscribed + b"\xff" * 4)],
        ),
    )
    check(joined.error_code)
    given = subscribed + struct.pack(f">i{LANES}i", LANES, *range(LANES)) + b"\xff" * 4
    sync = messages.SyncGroupRequest
    _, synced = await connection.ask(
        ApiKey.SYNC_GROUP,
        sync(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[sync.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=given)],
        ),
    )
    check(synced.error_code)
    return joined.member_id, joined.generation_id


def _fetch(name: str, lane: int, offset: int) -> Any:
    of = messages.FetchRequest
    return of(
        max_wait_ms=5,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[
            of.FetchTopic(
                topic=name,
                partitions=[
                    of.FetchPartition(partition=lane, fetch_offset=offset, partition_max_bytes=4_000)
                ],
            )
        ],
    )


def _commit(name: str, lane: int, offset: int, metadata: str, member: str, generation: int) -> Any:
    of = messages.OffsetCommitRequest
    return of(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            of.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    of.OffsetCommitRequestPartition(
                        partition_index=lane, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
        ],
    )


async def _send(connection: Connection, topic: Topic, enough: asyncio.Event) -> None:
    """Records whose values say where they lie: nobody else writes to these partitions."""
    ends = [0] * topic.partitions
    while not enough.is_set():
        for index in range(topic.partitions):
            now = int(time.time() * 1000)
            listed = [
                records.Record(each, now, None, b"part %d %d " % (index, ends[index] + each) + bytes(100), [])
                for each in range(6)
            ]
            ends[index] += len(listed)
            data = records.build_batch(listed)
            key = connection.send(ApiKey.PRODUCE, produce_request([(topic.name, index, data)]))
            answer = await connection.receive()
            part = answer.responses[0].partition_responses[0]
            check(part.error_code)
            topic.batches[index].append(Batch(data, len(listed), key, offset=part.base_offset))
        await asyncio.sleep(0.01)
