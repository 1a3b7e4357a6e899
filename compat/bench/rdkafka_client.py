"""Produce and consume records with librdkafka; prints MB (10^6 bytes) a second as JSON.

Usage: rdkafka_client.py ADDRESS TOPIC RECORDS SIZE. The calls per record are Python's, so the figure is that of
this client rather than librdkafka's ceiling; it is the same for both servers.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


def main() -> None:
    address, topic = sys.argv[1:3]
    records, size = int(sys.argv[3]), int(sys.argv[4])
    megabyte = 1e6 / size  # records
    result = {
        "produce_mb": produce(address, topic, records, size) / megabyte,
        "consume_mb": consume(address, topic, records) / megabyte,
    }
    print(json.dumps(result))


def produce(address: str, topic: str, records: int, size: int) -> float:
    """Records a second, from the first record to the last acknowledgement."""
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, message: failed.append(error),
        }
    )
    # The topic is made by the first record, outside the measured time.
    producer.produce(topic, b"first")
    producer.flush(60)
    value = bytes(i * 7919 % 251 for i in range(size))
    start = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(120)
    seconds = time.perf_counter() - start
    if left or failed:
        raise SystemExit(f"{left} records not sent, {len(failed)} failed: {failed[:1]}")
    return records / seconds


def consume(address: str, topic: str, records: int) -> float:
    """Records a second, from the first messages received to the last."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "bench-clients", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = untimed = 0
    start = 0.0
    last = time.monotonic()
    while seen < records + 1:
        messages = consumer.consume(10_000, 1.0)
        for message in messages:
            error = message.error()
            if error:
                raise KafkaException(error)
        if messages:
            last = time.monotonic()
        elif time.monotonic() - last > 30:
            raise SystemExit(f"{seen} of {records + 1} records came")
        if messages and not seen:
            # Connecting and asking for metadata are not what is measured.
            untimed, start = len(messages), time.perf_counter()
        seen += len(messages)
    rate = (seen - untimed) / (time.perf_counter() - start)
    consumer.close()
    return rate


if __name__ == "__main__":
    main()
