"""Requests of the load and their answers, over connections on which they may be pipelined."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any

from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from tests.proofs.powercut.world import Key

VERSIONS = {
    ApiKey.PRODUCE: 7,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.OFFSET_COMMIT: 7,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.FETCH: 11,
    ApiKey.METADATA: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_FETCH: 2,
    ApiKey.ADD_PARTITIONS_TO_TXN: 1,
    ApiKey.ADD_OFFSETS_TO_TXN: 1,
    ApiKey.TXN_OFFSET_COMMIT: 2,
    ApiKey.END_TXN: 1,
}


class Connection:
    """One connection; requests may be pipelined, answers come in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.port: int = writer.get_extra_info("sockname")[1]
        self._correlation = 0
        self._asked: deque[tuple[int, ApiKey]] = deque()

    @classmethod
    async def open(cls, address: str) -> Connection:
        host, port = address.rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 24))

    def send(self, api: ApiKey, body: Any) -> Key:
        self._correlation += 1
        version = VERSIONS[api]
        frame = codec.encode_request_header(api, version, self._correlation, "powercut")
        frame += codec.encode_request(api, version, body)
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        self._asked.append((self._correlation, api))
        return self.port, self._correlation

    async def receive(self) -> Any:
        """The next answer."""
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        correlation, api = self._asked.popleft()
        assert struct.unpack_from(">i", frame)[0] == correlation
        version = VERSIONS[api]
        return codec.decode_response(
            api, version, frame, 5 if codec.response_header_version(api, version) else 4
        )

    async def ask(self, api: ApiKey, body: Any) -> tuple[Key, Any]:
        key = self.send(api, body)
        return key, await self.receive()

    def close(self) -> None:
        self._writer.close()


def check(code: int) -> None:
    assert code == 0, f"the gateway answered error {code}"


def produce_request(parts: list[tuple[str, int, bytes]]) -> Any:
    """One batch for each (topic, partition)."""
    of_topic = messages.ProduceRequest.TopicProduceData
    of_partition = messages.ProduceRequest.PartitionProduceData
    by_topic: dict[str, list[Any]] = {}
    for name, index, data in parts:
        by_topic.setdefault(name, []).append(of_partition(index=index, records=data))
    return messages.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[of_topic(name=name, partition_data=found) for name, found in by_topic.items()],
    )
