"""librdkafka's producers: idempotent and plain, with different batches and compressions."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.proofs.soak import oracle, records
from tests.proofs.soak.loads import Acked, Load, World, hand_over
from tests.proofs.soak.oracle import Oracle

OUTSTANDING = 1500
UNJUDGED = 3000
"""Of one producer's acknowledged records so many may wait for the check. A gateway takes more in a second than the
check judges in one: with no bound each check would take longer than the one before, and kills would become rare.
"""

RECONNECT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 150, "retry.backoff.ms": 20}


class Producing(Load):
    """One producer. Its records carry its number and count up from 0 over all partitions."""

    def __init__(
        self,
        world: World,
        number: int,
        name: str,
        topic: str,
        *,
        idempotent: bool,
        large: int = 0,
        **conf: Any,
    ) -> None:
        super().__init__(world, name)
        self.number, self.topic, self.large = number, topic, large
        self.sent = 0
        self.acks: Acked = Acked()
        self.conf = conf
        self.idempotent = idempotent
        world.producers[number] = oracle.Producer(name, idempotent)

    def next(self) -> records.Record:
        sequence = self.sent
        self.sent += 1
        return records.make(self.number, sequence, records.size(self.number, sequence, self.large))

    def tell(self, oracle: Oracle) -> None:
        hand_over(self.acks, oracle.acknowledged)


class Librdkafka(Producing):
    def run(self) -> None:
        conf: dict[str, Any] = {
            "bootstrap.servers": self.world.bootstrap,
            "message.timeout.ms": 300_000,
            "topic.metadata.refresh.interval.ms": 10_000,
            "enable.idempotence": self.idempotent,
            "log_level": 0,
            **RECONNECT,
            **self.conf,
        }
        if not self.idempotent:
            # one at a time: a retry behind a later batch would be out of order by right
            conf["max.in.flight"] = 1
        producer = Producer(conf)
        chance, stop = self.chance, self.world.stop
        most = 12 if self.large else OUTSTANDING
        while not stop.is_set():
            burst = chance.choice((1, 4) if self.large else (1, 3, 20, 60))
            for _ in range(burst):
                if len(producer) >= most or len(self.acks) >= UNJUDGED:
                    break
                record = self.next()
                producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    headers=record.headers or None,
                    timestamp=record.timestamp,
                    on_delivery=self._delivered,
                )
            producer.poll(chance.random() * (0.3 if self.large else 0.06))
        if self.world.abandoned:
            producer.purge()
            return
        left = producer.flush(60)
        if left:
            self.fail(f"{left} records were never acknowledged")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            if self.world.abandoned:
                return
            self.fail(f"a record was given up: {KafkaException(error)}")
            return
        parsed = records.parse(message.value())
        assert parsed is not None
        place = message.topic() or "", message.partition() or 0
        self.acks.append((place, message.offset() or 0, self.number, parsed[1]))
        self.moved += 1


def loads(world: World) -> list[Load]:
    kinds: list[tuple[str, str, bool, int, dict[str, Any]]] = [
        ("idempotent-lz4", "orders", True, 0, {"compression.type": "lz4", "linger.ms": 5}),
        ("idempotent-alone", "orders", True, 0, {"linger.ms": 0, "batch.num.messages": 1}),
        ("plain-snappy", "orders", False, 0, {"compression.type": "snappy", "linger.ms": 3}),
        ("idempotent-gzip", "steady", True, 0, {"compression.type": "gzip", "linger.ms": 10}),
        ("plain-zstd", "steady", False, 0, {"compression.type": "zstd", "linger.ms": 1}),
        ("idempotent-large", "steady", True, 50_000, {"linger.ms": 20, "batch.size": 900_000}),
        ("plain-acks-1", "bulk", False, 0, {"acks": 1, "linger.ms": 2}),
    ]
    return [
        Librdkafka(world, number, name, topic, idempotent=idempotent, large=large, **conf)
        for number, (name, topic, idempotent, large, conf) in enumerate(kinds)
    ]
