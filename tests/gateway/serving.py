"""A gateway in the test's own loop on the memory store, and a client that writes frames by hand."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

from gateway.config import Settings
from gateway.server import Gateway, start
from gateway.wire import codec, messages, records
from gateway.wire.api_keys import ApiKey


@contextlib.asynccontextmanager
async def serving(*flags: str, listeners: str = "127.0.0.1:0") -> AsyncIterator[Gateway]:
    """A started gateway; `flags` are name=value."""
    settings = Settings.load(
        ["store.driver=memory", *flags], options={"listeners": listeners, "admin.listen": ""}
    )
    async with contextlib.AsyncExitStack() as stack:
        yield await start(settings, stack)


class Client:
    """One connection; `send` and `receive` are apart, so that requests can be pipelined."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str = "test"
    ) -> None:
        self.client_id = client_id
        self.reader = reader
        self.writer = writer
        self._correlation = 0
        self._asked: dict[int, tuple[int, int]] = {}

    @classmethod
    async def connect(
        cls,
        gateway: Gateway,
        client_id: str = "test",
        listener: str = "PLAINTEXT",
        tls: ssl.SSLContext | None = None,
    ) -> Client:
        host, port = gateway.broker.endpoints[listener]
        return cls(*await asyncio.open_connection(host, port, ssl=tls), client_id)

    def send(self, key: int, version: int, body: bytes | object) -> int:
        """Write a request (a message, or the bytes of its body); its correlation id is the answer."""
        self._correlation += 1
        header = codec.encode_request_header(key, version, self._correlation, self.client_id)
        encoded = body if isinstance(body, bytes) else codec.encode_request(key, version, body)
        frame = header + encoded
        self.writer.write(struct.pack(">i", len(frame)) + frame)
        self._asked[self._correlation] = (key, version)
        return self._correlation

    async def receive(self) -> tuple[int, Any]:
        """(correlation id, message) of the next answer; for Produce and Fetch the message is decoded too."""
        async with asyncio.timeout(10):
            size = struct.unpack(">i", await self.reader.readexactly(4))[0]
            frame = await self.reader.readexactly(size)
        correlation = struct.unpack_from(">i", frame)[0]
        key, version = self._asked.pop(correlation)
        position = 5 if codec.response_header_version(key, version) else 4
        return correlation, codec.decode_response(key, version, frame, position)

    async def ask(self, key: int, version: int, body: bytes | object) -> Any:
        """Send one request and wait for its answer."""
        correlation = self.send(key, version, body)
        answered, message = await self.receive()
        assert answered == correlation
        return message

    async def at_end(self) -> bool:
        """Whether the gateway closes the connection without another byte."""
        async with asyncio.timeout(10):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self.writer.close()


def batch(
    *values: bytes,
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    at: int = 1000,
    **options: Any,
) -> bytes:
    """A record batch of values stamped `at` ms and on; each record has the headers."""
    return records.build_batch(
        [records.Record(i, at + i, key, value, list(headers)) for i, value in enumerate(values)], **options
    )


def produce_body(
    topic: str, *batches: bytes, acks: int = -1, partition: int = 0, timeout_ms: int = 1000
) -> Any:
    """A Produce request (versions 3 to 12) with one batch for each partition from `partition` on."""
    data = messages.ProduceRequest.TopicProduceData
    part = messages.ProduceRequest.PartitionProduceData
    return messages.ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            data(
                name=topic,
                partition_data=[part(index=partition + i, records=each) for i, each in enumerate(batches)],
            )
        ],
    )


def fetch_body(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait: int = 0,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    epoch: int = -1,
) -> Any:
    """A Fetch (versions 4 to 12) of one partition; no partition at all for offset -1."""
    wanted = messages.FetchRequest.FetchTopic
    part = messages.FetchRequest.FetchPartition
    topics = [
        wanted(
            topic=topic,
            partitions=[
                part(
                    partition=partition,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                )
            ],
        )
    ]
    return messages.FetchRequest(
        max_wait_ms=max_wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics if offset >= 0 else [],
    )


async def create(client: Client, topic: str, partitions: int = 1, **configs: str) -> bytes:
    """Make a topic (config names with `__` for dots); its id is the answer."""
    config = messages.CreateTopicsRequest.CreatableTopicConfig
    answer = await client.ask(
        ApiKey.CREATE_TOPICS,
        7,
        messages.CreateTopicsRequest(
            topics=[
                messages.CreateTopicsRequest.CreatableTopic(
                    name=topic,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        config(name=name.replace("__", "."), value=value) for name, value in configs.items()
                    ],
                )
            ],
            timeout_ms=1000,
        ),
    )
    (result,) = answer.topics
    assert result.error_code == 0, result.error_message
    topic_id: bytes = result.topic_id
    return topic_id
