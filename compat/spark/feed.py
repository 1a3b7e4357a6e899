"""Topics and records for Spark to meet, made and read back by librdkafka: a witness apart from Spark."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
Headers = tuple[tuple[str, bytes | None], ...]

_numbers = itertools.count()


class Record(NamedTuple):
    """One record as a producer means it. `timestamp` in ms since 1970, 0 for the producer's clock."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int = 0
    timestamp: int = 0


class Feed:
    """A broker seen through librdkafka; waits at most `timeout` seconds for anything.

    `login`: what librdkafka is to be told of TLS and who it is.
    """

    def __init__(self, bootstrap: str, timeout: float = 30.0, login: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self.timeout = timeout
        self.settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "broker.address.family": "v4",
            **(login or {}),
        }
        self.admin = AdminClient(self.settings)

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """Create a topic (`config`: `retention_ms="1"` for retention.ms) and wait for its leaders."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        futures = self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])
        futures[topic].result(self.timeout)
        self.wait(
            lambda: self.partitions(topic) == partitions, f"topic {topic} to have {partitions} partitions"
        )
        return topic

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until it is gone."""
        self.admin.delete_topics([topic])[topic].result(self.timeout)
        self.wait(lambda: self.partitions(topic) == 0, f"topic {topic} to be gone")

    def add_partitions(self, topic: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(self.timeout)
        self.wait(lambda: self.partitions(topic) == total, f"topic {topic} to have {total} partitions")

    def partitions(self, topic: str) -> int:
        """How many partitions of the topic have a leader now; 0 when it does not exist."""
        # All topics, since asking for one by name would create it.
        found = self.admin.list_topics(timeout=self.timeout).topics.get(topic)
        if found is None or found.error is not None:
            return 0
        return sum(1 for partition in found.partitions.values() if partition.leader >= 0)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Trim partitions: what lies below the given offset is gone."""
        places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for future in self.admin.delete_records(places).values():
            future.result(self.timeout)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets a group has committed, by (topic, partition)."""
        futures = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        places = futures[group].result(self.timeout).topic_partitions
        return {(place.topic, place.partition): place.offset for place in places}

    def produce(self, topic: str, records: Iterable[Record], compression: str = "none", **config: Any) -> int:
        """Send records in order, wait for every acknowledgement, and return how many there were."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer(
            {
                **self.settings,
                "compression.type": compression,
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": 200_000,
                "message.timeout.ms": int(self.timeout * 1000),
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        count = 0
        for record in records:
            while True:
                try:
                    producer.produce(
                        topic,
                        key=record.key,
                        value=record.value,
                        headers=list(record.headers) or None,
                        partition=record.partition,
                        timestamp=record.timestamp,
                        on_delivery=delivered,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            count += 1
            if count % 5_000 == 0:
                producer.poll(0)
        left = producer.flush(self.timeout)
        if left or failures:
            raise RuntimeError(
                f"{left} of {count} records unacknowledged, {len(failures)} failed: {failures[:1]}"
            )
        return count

    def ends(self, topic: str) -> dict[int, tuple[int, int]]:
        """Log start and log end of each partition."""
        consumer = self._consumer()
        try:
            return {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=self.timeout
                )
                for partition in range(self.partitions(topic))
            }
        finally:
            consumer.close()

    def messages(self, topic: str) -> Iterator[Message]:
        """Every message from the log's start to the end seen now; in order within a partition."""
        ends = {partition: end for partition, (start, end) in self.ends(topic).items() if end > start}
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
            waiting, deadline = set(ends), time.monotonic() + self.timeout
            while waiting:
                for message in consumer.consume(10_000, timeout=0.2):
                    deadline = time.monotonic() + self.timeout
                    error = message.error()
                    if error is None:
                        if message.offset() < ends[message.partition()]:
                            yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        waiting.discard(message.partition())
                    else:
                        raise RuntimeError(error.str())
                if time.monotonic() > deadline:
                    raise TimeoutError(f"partitions {sorted(waiting)} of {topic} were not read to their end")
        finally:
            consumer.close()

    def records(self, topic: str) -> dict[int, list[Record]]:
        """The topic's records by partition."""
        found: dict[int, list[Record]] = {partition: [] for partition in range(self.partitions(topic))}
        for message in self.messages(topic):
            found[message.partition()].append(as_record(message))
        return found

    def wait(self, condition: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Look until `condition` holds, for at most `timeout` seconds (the feed's own by default)."""
        timeout = timeout or self.timeout
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout:.0f} s for {what}")
            time.sleep(0.02)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                **self.settings,
                "group.id": "magnetar-feed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "check.crcs": True,
            }
        )


def as_record(message: Message) -> Record:
    """A consumed message as the record that a producer meant."""
    headers: Sequence[tuple[str, bytes | None]] = message.headers() or ()
    return Record(
        message.key(), message.value(), tuple(headers), message.partition() or 0, message.timestamp()[1]
    )


def topic_name(stem: str) -> str:
    """A name that no other test and no earlier run has used."""
    return f"{stem}-{time.time_ns():x}-{next(_numbers)}"
