"""What a reader of committed records is given of the outputs, while things are killed and after it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, TopicPartition

Place = tuple[str, int]


class Reader:
    """Reads the outputs from their beginning, through any number of kills. `committed`: read_committed, or all."""

    def __init__(self, bootstrap: str, places: Sequence[Place], committed: bool = True) -> None:
        self.seen: dict[str, dict[str, list[str]]] = {}
        self.counts: dict[str, int] = {}
        self._ended: set[Place] = set()
        self._places = places
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "reconnect.backoff.max.ms": 500,
                "broker.address.family": "v4",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for topic, number in places])

    def read(self, seconds: float) -> None:
        """Take what comes for so long. Raises RuntimeError for an offset that is not there."""
        for message in self._consumer.consume(2_000, seconds):
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._ended.add((message.topic(), message.partition()))
                elif error.code() == KafkaError._AUTO_OFFSET_RESET or error.fatal():
                    raise RuntimeError(f"the reader lost its place: {error}")
                # all else: the gateway is away
                continue
            topic = message.topic()
            key, value = (message.key() or b"").decode(), message.value() or b""
            # the example's counts are eight bytes
            text = str(int.from_bytes(value, "big")) if topic.endswith("wordcount-output") else value.decode()
            self.seen.setdefault(topic, {}).setdefault(key, []).append(text)
            self.counts[topic] = self.counts.get(topic, 0) + 1

    def read_all(self, seconds: float) -> None:
        """Up to the ends that there are; nobody writes any more. Raises `TimeoutError`."""
        until = time.monotonic() + seconds
        while self._ended != set(self._places):
            if time.monotonic() > until:
                raise TimeoutError(f"the ends of the outputs were not reached within {seconds:.0f} s")
            self.read(0.2)

    def close(self) -> None:
        self._consumer.close()
