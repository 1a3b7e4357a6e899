"""Policies of the load: what was said of a topic and of a namespace, a named producer, topics that end, messages that
expire and are evicted.

Everything that is said at once follows from one number, so that half of it would be seen.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque

from gateway.wire import messages, records
from gateway.wire.api_keys import ApiKey
from tests.proofs.powercut.asking import Connection, check, produce_request
from tests.proofs.powercut.world import Batch, Ended, Key, Saying, Topic, World

NAMESPACE = "shop/eu"
BEFORE = "shop.eu."
RULED = "shop/ruled"
"""A namespace of which much is said; it has no topics, which would go by that."""
NAME = b"ada"
"""Of the producer that names itself."""
ELDERS = "elders"
"""The subscription whose messages expire, and are evicted."""
HOUR_MS = 3_600_000
TTL_MS = 1_800_000
HEAP_BYTES = 20_000
IN_FLIGHT = 4
REFUSED = 44
SAID = ("retention.ms", "retention.bytes", "pulsar.publish.rate.messages", "pulsar.dispatch.rate.bytes")
"""Configs of a topic that are altered together."""


class Http:
    """The admin API on one connection; its answers have their numbers, from 1 on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.port: int = writer.get_extra_info("sockname")[1]
        self._asked = 0

    @classmethod
    async def open(cls, address: str) -> Http:
        host, port = address.removeprefix("http://").rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, method: str, path: str, body: object = None) -> Key:
        """Raises AssertionError for a refusal."""
        key = self.send(method, path, body)
        await self.receive()
        return key

    def send(self, method: str, path: str, body: object = None) -> Key:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} /admin/v2/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        self._asked += 1
        return self.port, self._asked

    async def receive(self) -> None:
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        sizes = [int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")]
        text = await self._reader.readexactly(sizes[0]) if sizes else b""
        assert lines[0].split()[1].startswith("2"), f"{lines[0]}: {text!r}"

    def close(self) -> None:
        self._writer.close()


async def prepare(http: Http) -> None:
    """The namespaces, before their topics."""
    await http.ask("PUT", "tenants/shop", {"adminRoles": [], "allowedClusters": ["standalone"]})
    for namespace in (NAMESPACE, RULED):
        await http.ask("PUT", f"namespaces/{namespace}")


async def say_of_topic(connection: Connection, world: World, topic: Topic, enough: asyncio.Event) -> None:
    """Alter its configs, again and again."""
    alter = messages.IncrementalAlterConfigsRequest
    number = 0
    while not enough.is_set():
        number += 1
        configs = [alter.AlterableConfig(name=name, config_operation=0, value=str(number)) for name in SAID]
        request = alter(
            resources=[
                alter.AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=configs)
            ],
            validate_only=False,
        )
        key = connection.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        world.sayings.append(Saying(topic.name, number, key))
        answer = await connection.receive()
        check(answer.responses[0].error_code)
        await asyncio.sleep(0.003)


async def say_of_namespace(http: Http, world: World, enough: asyncio.Event) -> None:
    """Its rate of dispatch, again and again."""
    number = 0
    while not enough.is_set():
        number += 1
        body = {
            "dispatchThrottlingRateInMsg": number,
            "dispatchThrottlingRateInByte": number,
            "ratePeriodInSecond": number,
            "relativeToPublishRate": number % 2 == 0,
        }
        key = http.send("POST", f"namespaces/{RULED}/dispatchRate", body)
        world.sayings.append(Saying(RULED, number, key))
        await http.receive()
        await asyncio.sleep(0.003)


async def named(connection: Connection, world: World, topic: Topic, enough: asyncio.Event) -> None:
    """A producer that says its name and counts its messages; now and then it sends an old batch again."""
    world.named = topic
    ends = [0] * topic.partitions
    flying: deque[tuple[int, Batch | None]] = deque()
    sent: list[bytes] = []
    count = 0
    while flying or not enough.is_set():
        if enough.is_set() or len(flying) >= IN_FLIGHT:
            index, batch = flying.popleft()
            answer = await connection.receive()
            part = answer.responses[0].partition_responses[0]
            check(part.error_code)
            if batch is not None:
                batch.offset = part.base_offset
            continue
        count += 1
        index = count % topic.partitions
        if count % 7 == 0 and sent and not [1 for _, each in flying if each is None]:
            # it is there already, and nothing becomes of it
            connection.send(ApiKey.PRODUCE, produce_request([(topic.name, 0, sent[-1])]))
            flying.append((0, None))
            continue
        size = 1 + count % 3
        data = named_batch(ends[index], size)
        key = connection.send(ApiKey.PRODUCE, produce_request([(topic.name, index, data)]))
        batch = Batch(data, size, key, named=True)
        topic.batches[index].append(batch)
        ends[index] += size
        if index == 0:
            sent.append(data)
        flying.append((index, batch))
        await asyncio.sleep(0.002)


def named_batch(first: int, count: int) -> bytes:
    """So many messages from a sequence id on."""
    listed = [
        records.Record(
            at,
            1_700_000_000_000,
            None,
            b"%d " % (first + at) + bytes(80),
            [("pulsar-producer-name", NAME), ("pulsar-sequence-id", b"%d" % (first + at))],
        )
        for at in range(count)
    ]
    return records.build_batch(listed)


async def ends(connection: Connection, http: Http, world: World, topic: Topic, name: str) -> None:
    """A topic of one partition is written to until it has ended."""
    ending = asyncio.ensure_future(_end(http, name))
    flying: deque[Batch] = deque()
    refused = False
    count = 0
    while flying or not refused:
        if not refused and len(flying) < IN_FLIGHT:
            count += 1
            data = records.build_batch(
                [records.Record(0, 1_700_000_000_000, None, b"%d " % count + bytes(50), [])]
            )
            key = connection.send(ApiKey.PRODUCE, produce_request([(topic.name, 0, data)]))
            flying.append(Batch(data, 1, key))
            await asyncio.sleep(0.001)
            continue
        batch = flying.popleft()
        code = (answer := await connection.receive()).responses[0].partition_responses[0].error_code
        if code == REFUSED:
            refused = True
            continue
        check(code)
        assert not refused, "a message was taken behind one that was refused"
        batch.offset = answer.responses[0].partition_responses[0].base_offset
        topic.batches[0].append(batch)
    end = max((batch.next_offset for batch in topic.batches[0]), default=0)
    world.ended[topic.name] = Ended(end, await ending)


async def _end(http: Http, name: str) -> Key:
    await asyncio.sleep(0.02)
    return await http.ask("POST", f"persistent/{NAMESPACE}/{name}/terminate/partitions")


async def stale(
    connection: Connection, http: Http, world: World, old: Topic, heap: Topic, enough: asyncio.Event
) -> None:
    """Messages of `old` that have lived for too long, and in its other partition some that have not; those of `heap`
    become too many. Nobody reads them.
    """
    for topic in (old, heap):
        path = f"persistent/{NAMESPACE}/{topic.name.removeprefix(BEFORE)}/subscription/{ELDERS}"
        # the earliest message
        await http.ask("PUT", path, {"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
    world.old, world.heap = old, heap
    while not enough.is_set():
        now = int(time.time() * 1000)
        for topic, index, age in ((old, 0, HOUR_MS), (old, 1, 0), (heap, 0, 0)):
            listed = [records.Record(at, now - age, None, bytes(300), []) for at in range(3)]
            data = records.build_batch(listed)
            key = connection.send(ApiKey.PRODUCE, produce_request([(topic.name, index, data)]))
            answer = await connection.receive()
            part = answer.responses[0].partition_responses[0]
            check(part.error_code)
            topic.batches[index].append(Batch(data, len(listed), key, offset=part.base_offset))
        await asyncio.sleep(0.005)
