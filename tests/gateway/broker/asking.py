"""Requests of several partitions and versions, in a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.records import records
from tests.gateway.serving import Client

Fetch = messages.FetchRequest


async def fetch(
    client: Client,
    wanted: Mapping[str | bytes, Mapping[int, int]] | None = None,
    *,
    version: int = 11,
    session: tuple[int, int] = (0, -1),
    forget: Mapping[str | bytes, Sequence[int]] | None = None,
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation: int = 0,
    epoch: int = -1,
) -> Any:
    """Fetch `wanted`: topic name (id from version 13 on) to partition to offset. The message of the answer."""
    return await client.ask(
        ApiKey.FETCH,
        version,
        Fetch(
            max_wait_ms=max_wait,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=[
                Fetch.FetchTopic(
                    **named(topic),
                    partitions=[
                        Fetch.FetchPartition(
                            partition=index,
                            current_leader_epoch=epoch,
                            fetch_offset=offset,
                            partition_max_bytes=partition_max_bytes,
                        )
                        for index, offset in partitions.items()
                    ],
                )
                for topic, partitions in (wanted or {}).items()
            ],
            forgotten_topics_data=[
                Fetch.ForgottenTopic(**named(topic), partitions=list(indexes))
                for topic, indexes in (forget or {}).items()
            ],
        ),
    )


def named(topic: str | bytes) -> dict[str, Any]:
    return {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}


def told(answer: Any) -> dict[int, Any]:
    """The partitions that a Fetch answer tells of, by index, in the order of the answer."""
    return {
        partition.partition_index: partition for topic in answer.responses for partition in topic.partitions
    }


def errors(answer: Any) -> dict[int, int]:
    return {index: partition.error_code for index, partition in told(answer).items()}


def offsets(data: Any) -> list[int]:
    """Offsets of the records of all whole batches."""
    found = []
    left = bytes(data or b"")
    while len(left) > 12 and len(left) >= (size := int.from_bytes(left[8:12], "big") + 12):
        base = int.from_bytes(left[:8], "big")
        found += [base + record.offset_delta for record in records(left[:size])]
        left = left[size:]
    return found


async def list_offsets(
    client: Client,
    topic: str,
    *asked: tuple[int, int],
    version: int = 7,
    epoch: int = -1,
    isolation: int = 0,
) -> list[Any]:
    """`asked`: (partition, timestamp). The partitions of the answer."""
    request = messages.ListOffsetsRequest
    answer = await client.ask(
        ApiKey.LIST_OFFSETS,
        version,
        request(
            replica_id=-1,
            isolation_level=isolation,
            topics=[
                request.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        request.ListOffsetsPartition(
                            partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
                        )
                        for index, timestamp in asked
                    ],
                )
            ],
        ),
    )
    (found,) = answer.topics
    assert found.name == topic
    return list(found.partitions)


async def delete_topic(client: Client, topic: str) -> int:
    answer = await client.ask(
        ApiKey.DELETE_TOPICS, 5, messages.DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
    )
    code: int = answer.responses[0].error_code
    return code


async def delete_records(client: Client, topic: str, wanted: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """`wanted`: partition to offset. Partition to (error, low watermark)."""
    request = messages.DeleteRecordsRequest
    answer = await client.ask(
        ApiKey.DELETE_RECORDS,
        2,
        request(
            timeout_ms=1000,
            topics=[
                request.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        request.DeleteRecordsPartition(partition_index=index, offset=offset)
                        for index, offset in wanted.items()
                    ],
                )
            ],
        ),
    )
    return {
        each.partition_index: (each.error_code, each.low_watermark) for each in answer.topics[0].partitions
    }
