"""What several transactional producers were told, and what a reader of committed records finds: one check for all."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.transaction_oracle import Seen, TransactionOracle
from tests.proofs.soak.wire import Wire

READING = 30
"""Seconds that reading what is new may take."""
Take = Callable[[Place, Message], None]
"""Is given a record and where it is."""
RECONNECT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200, "log_level": 0}


def places_of(topics: dict[str, int]) -> list[Place]:
    return [(topic, index) for topic, count in topics.items() for index in range(count)]


def value_of(producer: int, number: int, index: int, count: int, size: int) -> bytes:
    """The record `index` of the `count` records of a transaction; `size`: bytes of filling."""
    return b"%d %d %d %d %s" % (producer, number, index, count, b"." * size)


def producing(bootstrap: str, name: str) -> dict[str, Any]:
    """A transactional producer of this name."""
    return {
        "bootstrap.servers": bootstrap,
        "transactional.id": name,
        "client.id": name,
        "transaction.timeout.ms": 60_000,
        "message.timeout.ms": 50_000,
        "linger.ms": 1,
        # else it now and then waits for ever for a connection that it has not asked for
        "enable.sparse.connections": False,
    }


class Books:
    """What all producers of some topics know together. `verify` is for one of them."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.topics = topics
        self.places = places_of(topics)
        self.lock = threading.Lock()
        self.wrong: deque[str] = deque()
        self.oracle = TransactionOracle(self.wrong.append)
        # where the reader of committed records goes on
        self._positions: dict[Place, int] = dict.fromkeys(self.places, 0)
        # who asks for last stable offsets does so alone: else an earlier answer may be noted later
        self._asking = threading.Lock()

    def prepare(self, world: World) -> None:
        with Wire(world.port) as wire:
            for topic, count in self.topics.items():
                wire.create(topic, count, {"internal.segment.bytes": "300000"})

    def watch(self, wire: Wire) -> None:
        """Look at the last stable offsets, at any time. Raises OSError."""
        with self._asking:
            stable = wire.offsets(self.places, -1, committed=True)
            ends = wire.offsets(self.places, -1)
            with self.lock:
                for place in stable.keys() & ends.keys():
                    self.oracle.stable(place, stable[place], ends[place])

    def tell(self, oracle: Oracle) -> None:
        while self.wrong:
            oracle.wrong(f"transactions: {self.wrong.popleft()}")

    def verify(self, load: Load, oracle: Oracle, wire: Wire) -> None:
        """One check, for all: see `Load.verify`."""
        with self.lock:
            due = self.oracle.due()
        self.watch(wire)
        self._read(load)
        with self.lock:
            partly = self.oracle.partly()
        # what was committed meanwhile may have been met in some partitions only; and what lies behind a transaction of
        # somebody else that is open comes when that is over
        deadline = time.monotonic() + READING
        while True:
            self._read(load)
            with self.lock:
                if not self.oracle.missing(due, partly) or time.monotonic() > deadline:
                    break
        with self.lock:
            self.oracle.check(due, partly)
        self.tell(oracle)

    def met(self, place: Place, message: Message) -> None:
        """A record of a transaction that is committed: whoever knows more of it says so here."""

    def _read(self, load: Load) -> None:
        """All that is committed by now."""
        found: dict[Place, list[Seen]] = {place: [] for place in self.places}

        def take(place: Place, message: Message) -> None:
            found[place].append(Seen(*map(int, (message.value() or b"").split(b" ", 4)[:4])))
            self.met(place, message)

        left = read_committed(load.world, self._positions, take)
        if left:
            load.fail(f"{sorted(left)} were not read to their ends in {READING} s")
        with self.lock:
            for records in found.values():
                self.oracle.read(records)


def read_committed(world: World, positions: dict[Place, int], take: Take) -> set[Place]:
    """All that is committed by now goes to `take`, from `positions` on, which are moved. Places that could not be read
    to their ends are the answer.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": world.bootstrap,
            "group.id": "auditors",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            **RECONNECT,
        }
    )
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in positions.items()])
        left = set(positions)
        deadline = time.monotonic() + READING
        while left and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.1):
                place = message.topic() or "", message.partition() or 0
                if (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        left.discard(place)
                    continue
                take(place, message)
                positions[place] = (message.offset() or 0) + 1
    finally:
        consumer.close()
    return left
