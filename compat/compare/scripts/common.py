"""What several scripts need: batches, topics that are ready, the bodies of Produce and Fetch."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from compat.compare.server import Answer, Connection, Server, wait_until

UNKNOWN_ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
NO_ID = uuid.UUID(int=0)
BASE = 1_700_000_000_000
"""The time of the first record of a batch."""
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    codec: int = NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    first: int = BASE,
    step: int = 1,
) -> bytes:
    """A record batch; `producer` is (id, epoch, first sequence), timestamps go up by `step` ms."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, 1 << 24)
    for offset, value in enumerate(values):
        builder.append(offset, first + offset * step, key, value, [])
    return bytes(builder.build())


def message_set(magic: int, *values: bytes, codec: int = NONE) -> bytes:
    """Messages as they were before record batches: magic 0 or 1."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, BASE, None, value)
    return bytes(builder.build())


def patched(data: bytes, position: int, new: bytes, *, keep_crc: bool = False) -> bytes:
    """A batch with other bytes at `position`, its CRC made right again unless `keep_crc`."""
    import google_crc32c

    out = data[:position] + new + data[position + len(new) :]
    if keep_crc:
        return out
    return out[:17] + struct.pack(">I", google_crc32c.value(out[21:])) + out[21:]


def create(server: Server, name: str, partitions: int = 1, **configs: str) -> None:
    """A topic that is ready, not compared; config names with `__` for dots."""
    server.quietly(
        "CreateTopics",
        7,
        {
            "topics": [
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [{"name": k.replace("__", "."), "value": v} for k, v in configs.items()],
                }
            ],
            "timeout_ms": 30_000,
        },
    )
    ready(server, name, partitions)


def ready(server: Server, name: str, partitions: int = 1) -> None:
    """Wait until the topic is served: Kafka answers before its broker knows it."""
    asked = [{"partition_index": i, "timestamp": -1, "current_leader_epoch": -1} for i in range(partitions)]

    def served() -> bool:
        told = server.quietly(
            "Metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        )
        known = told["topics"][0]["partitions"]
        if len(known) != partitions or any(each["leader_id"] < 0 for each in known):
            return False
        server.names.epoch = max(server.names.epoch, known[0]["leader_epoch"])
        probe = server.quietly(
            "ListOffsets", 7, {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]}
        )
        return all(each["error_code"] == 0 for each in probe["topics"][0]["partitions"])

    wait_until(served)


def gone(server: Server, name: str) -> None:
    """Wait until a deleted topic is not served any more."""

    def missing() -> bool:
        told = server.quietly(
            "Metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        )
        return bool(told["topics"][0]["error_code"] == 3)

    wait_until(missing)


def produce_body(
    server: Server,
    topic: str,
    *batches: bytes | None,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
    timeout: int = 30_000,
) -> dict[str, Any]:
    """A Produce of one topic, each batch to the next partition."""
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": timeout,
        "topic_data": [
            {
                "name": topic,
                "topic_id": server.topic_ids.get(topic, UNKNOWN_ID),
                "partition_data": [
                    {"index": partition + i, "records": each} for i, each in enumerate(batches)
                ],
            }
        ],
    }


def produce(
    server: Server,
    label: str,
    topic: str,
    *batches: bytes | None,
    version: int | None = 9,
    acks: int = -1,
    partition: int = 0,
    on: Connection | None = None,
) -> Answer:
    """Ask a Produce."""
    body = produce_body(server, topic, *batches, acks=acks, partition=partition)
    return server.ask(label, "Produce", version, body, on=on)


def store(server: Server, topic: str, *batches: bytes, partition: int = 0) -> None:
    """Produce one batch after the other; not compared."""
    for each in batches:
        server.quietly("Produce", 9, produce_body(server, topic, each, partition=partition))


def fetch_body(topics: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """A Fetch outside any session, which does not wait."""
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": topics,
        "forgotten_topics_data": [],
        "rack_id": "",
        **options,
    }


def fetch(
    server: Server, label: str, version: int | None, topics: list[dict[str, Any]], **options: Any
) -> Answer:
    """Ask a Fetch."""
    return server.ask(label, "Fetch", version, fetch_body(topics, **options))


def wanted(
    topic: str, partition: int = 0, offset: int = 0, *, topic_id: uuid.UUID = UNKNOWN_ID, **options: Any
) -> dict[str, Any]:
    """One partition of a Fetch; the version decides whether its topic's name or id is sent."""
    part = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
        **options,
    }
    return {"topic": topic, "topic_id": topic_id, "partitions": [part]}
