"""The tour's queue topic: a consumer that knows only offsets nacks one order, gets it again, and gives it up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition

from magnetar.queue import Names

LANES = 4
NACK_MS = 300
PATIENCE = 60.0


@dataclass
class Shipped:
    """What the consumer was given."""

    orders: int = 0
    """That it could do."""
    nacked: list[tuple[int, int, float]] = field(default_factory=list)
    """Lane, offset and time of each delivery of the one that it could not."""
    metadata: str = ""
    """Of the first commit that nacked."""


def ship(bootstrap: str, queue: str, group: str, orders: int, damaged: Callable[[Message], bool]) -> Shipped:
    """Do all of so many orders but the damaged one, and nack that one twice. Raises TimeoutError after a minute."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "broker.address.family": "v4",
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    shipped, names = Shipped(), Names()
    try:
        consumer.subscribe([queue])
        deadline = time.monotonic() + PATIENCE
        while shipped.orders < orders - 1 or len(shipped.nacked) < 2:
            if time.monotonic() > deadline:
                raise TimeoutError
            ends: dict[int, int] = {}
            for message in consumer.consume(500, 0.1):
                if message.error() is not None:
                    continue
                lane, offset = message.partition(), message.offset()
                ends[lane] = offset + 1
                if damaged(message):
                    names.nack(queue, lane, offset, delay_ms=NACK_MS)
                    shipped.nacked.append((lane, offset, time.monotonic()))
                else:
                    shipped.orders += 1
            if ends:
                places = [
                    TopicPartition(queue, lane, end, metadata=names.metadata(queue, lane, end))
                    for lane, end in ends.items()
                ]
                shipped.metadata = shipped.metadata or "".join(place.metadata or "" for place in places)
                consumer.commit(offsets=places, asynchronous=False)
                for lane, end in ends.items():
                    names.committed(queue, lane, end)
        return shipped
    finally:
        consumer.close()
