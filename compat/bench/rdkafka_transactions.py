"""Transactions of one record with librdkafka, one after another; prints figures as JSON.

Usage: rdkafka_transactions.py ADDRESS TOPIC WARM-UP DURATION (seconds).
"""

from __future__ import annotations

import json
import math
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


def main() -> None:
    address, topic = sys.argv[1:3]
    warmup, duration = float(sys.argv[3]), float(sys.argv[4])
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"bench-{topic}", "linger.ms": 0})
    producer.init_transactions(30)
    committed = 0
    end = time.perf_counter() + warmup
    while time.perf_counter() < end:
        once(producer, topic)
        committed += 1
    took: list[float] = []
    begin = time.perf_counter()
    while (now := time.perf_counter()) - begin < duration:
        once(producer, topic)
        took.append(time.perf_counter() - now)
    seconds = time.perf_counter() - begin
    count(address, topic, committed + len(took))
    took.sort()
    print(
        json.dumps(
            {
                "transactions_per_second": len(took) / seconds,
                "latency_ms.p50": 1000 * took[math.ceil(0.5 * len(took)) - 1],
                "latency_ms.p99": 1000 * took[math.ceil(0.99 * len(took)) - 1],
            }
        )
    )


def once(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"x" * 100, partition=0)
    producer.commit_transaction(30)


def count(address: str, topic: str, wanted: int) -> None:
    """Whether a reader of committed records finds so many. Raises SystemExit."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench-transactions",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen, last = 0, time.monotonic()
    while seen < wanted:
        messages = consumer.consume(10_000, 1.0)
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
        seen += len(messages)
        if messages:
            last = time.monotonic()
        elif time.monotonic() - last > 30:
            raise SystemExit(f"{seen} of {wanted} committed records came")
    consumer.close()
    if seen > wanted:
        raise SystemExit(f"{seen} records came, {wanted} were committed")


if __name__ == "__main__":
    main()
