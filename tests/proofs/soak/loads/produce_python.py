"""kafka-python's and aiokafka's producers.

One kafka-python a process: with two, the client now and then meets a class of its own that is gone already (a
ReferenceError in its reading of answers), and stands still for its 30 s of request.timeout.ms.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from tests.proofs.soak.loads import Load, World, unless_abandoned
from tests.proofs.soak.loads.produce import Producing


class KafkaPython(Producing):
    def run(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.world.bootstrap,
            enable_idempotence=self.idempotent,
            acks="all",
            delivery_timeout_ms=300_000,
            max_block_ms=300_000,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            retry_backoff_ms=20,
            request_timeout_ms=10_000,
            **self.conf,
        )
        try:
            self._produce(producer)
            if not self.world.abandoned:
                producer.flush(60)
        finally:
            self._close(producer)
        if self.sent != self.moved and not self.world.abandoned:
            self.fail(f"{self.sent - self.moved} records were never acknowledged")

    def _produce(self, producer: KafkaProducer) -> None:
        while not self.world.stop.is_set():
            for _ in range(self.chance.choice((1, 3, 10))):
                if self.sent - self.moved > 200:
                    break
                sequence = self.sent
                record = self.next()
                sent = producer.send(
                    self.topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers,
                    timestamp_ms=record.timestamp,
                )
                sent.add_callback(functools.partial(self._delivered, sequence))
                sent.add_errback(self._given_up)
            self.world.stop.wait(self.chance.random() * 0.1)

    def _close(self, producer: KafkaProducer) -> None:
        """Its own `close` waits for what is unacknowledged, and leaves everything running when that does not come."""
        if self.sent != self.moved:
            producer._sender.force_close()
            producer._sender.join(10)
        producer.close(10)

    def _given_up(self, error: BaseException) -> None:
        if not self.world.abandoned:
            self.fail(f"a record was given up: {error!r}")

    def _delivered(self, sequence: int, told: Any) -> None:
        self.acks.append(((told.topic, told.partition), told.offset, self.number, sequence))
        self.moved += 1


class Aiokafka(Producing):
    def run(self) -> None:
        asyncio.run(unless_abandoned(self.world, self._run()))

    async def _run(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.world.bootstrap,
            enable_idempotence=self.idempotent,
            acks="all",
            request_timeout_ms=300_000,
            retry_backoff_ms=20,
            **self.conf,
        )
        while True:
            try:
                await producer.start()
                break
            except Exception:
                # killed while it began: aiokafka's first connection does not try again
                await asyncio.sleep(0.1)
        waiting: set[asyncio.Future[Any]] = set()
        while not self.world.stop.is_set():
            for _ in range(self.chance.choice((1, 3, 10))):
                if len(waiting) > 200:
                    break
                sequence = self.sent
                record = self.next()
                future = await producer.send(
                    self.topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers,
                    timestamp_ms=record.timestamp,
                )
                waiting.add(future)
                future.add_done_callback(functools.partial(self._delivered, sequence))
                future.add_done_callback(waiting.discard)
            await asyncio.sleep(self.chance.random() * 0.1)
        if self.world.abandoned:
            return
        if waiting:
            await asyncio.wait(waiting, timeout=60)
        if waiting:
            self.fail(f"{len(waiting)} records were never acknowledged")
        await producer.stop()

    def _delivered(self, sequence: int, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            if self.world.abandoned:
                return
            self.fail(f"a record was given up: {None if future.cancelled() else future.exception()!r}")
            return
        told = future.result()
        self.acks.append(((told.topic, told.partition), told.offset, self.number, sequence))
        self.moved += 1


def loads(world: World) -> list[Load]:
    return [
        KafkaPython(world, 20, "kafka-python-idempotent", "orders", idempotent=True, compression_type="gzip"),
        Aiokafka(world, 22, "aiokafka-idempotent", "bulk", idempotent=True, linger_ms=5),
    ]
