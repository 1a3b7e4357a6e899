"""Transactions of librdkafka's producers over several topics, judged by `transaction_oracle.py`.

They commit no offsets: where the connection to the coordinator of a group breaks, librdkafka's
`send_offsets_to_transaction` may wait for another one that it never asks for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.transaction_oracle import Seen, TransactionOracle
from tests.proofs.soak.wire import Wire

TOPICS = {"debits": 3, "credits": 2}
PLACES = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
PRODUCERS = 2
READING = 30
"""Seconds that reading what is new may take."""
LARGE = 90_000
"""Bytes of a record that is on the disk before its transaction is committed."""
RECONNECT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200, "log_level": 0}


class Books:
    """What all that belong together know."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wrong: deque[str] = deque()
        self.oracle = TransactionOracle(self.wrong.append)
        # where the reader of committed records goes on
        self.positions: dict[tuple[str, int], int] = dict.fromkeys(PLACES, 0)


class Clerk(Load):
    """One transactional producer: one transaction after another, of which some are aborted."""

    def __init__(self, world: World, books: Books, number: int) -> None:
        super().__init__(world, f"clerk-{number}")
        self.books, self.number = books, number
        self._next = 1

    def prepare(self) -> None:
        if self.number:
            return
        with Wire(self.world.port) as wire:
            for topic, count in TOPICS.items():
                wire.create(topic, count, {"internal.segment.bytes": "300000"})

    def run(self) -> None:
        producer: Producer | None = None
        while not self.world.stop.is_set():
            try:
                if producer is None:
                    producer = self._producer()
                if not self._one(producer):
                    # who is fenced begins anew
                    producer = None
            except KafkaException as error:
                if self.world.abandoned:
                    return
                if not error.args[0].retriable() and not error.args[0].txn_requires_abort():
                    producer = None
        if producer is not None and not self.world.abandoned:
            producer.flush(10)

    def _producer(self) -> Producer:
        """Raises KafkaException."""
        producer = Producer(
            {
                "bootstrap.servers": self.world.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": 60_000,
                "message.timeout.ms": 50_000,
                "linger.ms": 1,
                # else it now and then waits for ever for a connection that it has not asked for
                "enable.sparse.connections": False,
                **RECONNECT,
            }
        )
        while True:
            try:
                producer.init_transactions(10)
            except KafkaException as error:
                if self.world.stop.is_set() or not error.args[0].retriable():
                    raise
            else:
                return producer

    def _one(self, producer: Producer) -> bool:
        """A transaction, to its end; False if the producer cannot go on."""
        chance, books = self.chance, self.books
        number = self._next
        self._next += 1
        places = chance.sample(PLACES, chance.randint(1, len(PLACES)))
        count = chance.randint(len(places), 2 * len(places))
        with books.lock:
            books.oracle.began(self.number, number, count)
        commits = chance.random() < 0.7
        producer.begin_transaction()
        try:
            for index in range(count):
                topic, partition = places[index % len(places)]
                size = LARGE if chance.random() < 0.03 else chance.randint(0, 300)
                value = b"%d %d %d %d %s" % (self.number, number, index, count, b"." * size)
                producer.produce(topic, value, partition=partition)
            if chance.random() < 0.3:
                producer.flush(chance.random())
            if not commits:
                raise _Aborted
            told = self._finish(producer.commit_transaction)
        except _Aborted:
            told = not self._finish(producer.abort_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                self._told(number, None)
                return False
            told = not self._finish(producer.abort_transaction)
        self._told(number, told)
        self.moved += 1
        return True

    def _finish(self, call: Callable[[float], object]) -> bool:
        """Ask until it is told. Raises KafkaException for what cannot be tried again."""
        while True:
            try:
                call(5)
            except KafkaException as error:
                if self.world.abandoned or not error.args[0].retriable():
                    raise
            else:
                return True

    def _told(self, number: int, committed: bool | None) -> None:
        with self.books.lock:
            self.books.oracle.ended(self.number, number, committed)

    # the check

    def tell(self, oracle: Oracle) -> None:
        while self.books.wrong:
            oracle.wrong(f"transactions: {self.books.wrong.popleft()}")

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        if self.number:
            return
        books = self.books
        with books.lock:
            due = books.oracle.due()
        self._read()
        with books.lock:
            partly = books.oracle.partly()
        # what was committed meanwhile may have been met in some partitions only; and what lies behind a transaction of
        # somebody else that is open comes when that is over
        deadline = time.monotonic() + READING
        while True:
            self._read()
            with books.lock:
                if not books.oracle.missing(due, partly) or time.monotonic() > deadline:
                    break
        with books.lock:
            books.oracle.check(due, partly)
            for name, figure in (("whole", books.oracle.whole), ("aborted", books.oracle.aborted)):
                oracle.seen[f"transactions {name}"] = figure
        self.tell(oracle)

    def _read(self) -> None:
        """All that is committed by now."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.world.bootstrap,
                "group.id": "auditors",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                **RECONNECT,
            }
        )
        positions = self.books.positions
        consumer.assign([TopicPartition(*place, positions[place]) for place in PLACES])
        found: dict[tuple[str, int], list[Seen]] = {place: [] for place in PLACES}
        left = set(PLACES)
        deadline = time.monotonic() + READING
        while left and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            place = message.topic() or "", message.partition() or 0
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    left.discard(place)
                continue
            value = message.value() or b""
            found[place].append(Seen(*map(int, value.split(b" ", 4)[:4])))
            positions[place] = (message.offset() or 0) + 1
        consumer.close()
        if left:
            self.fail(f"{sorted(left)} were not read to their ends in {READING} s")
        with self.books.lock:
            for records in found.values():
                self.books.oracle.read(records)


class _Aborted(Exception):
    pass


def loads(world: World) -> list[Load]:
    books = Books()
    return [Clerk(world, books, number) for number in range(PRODUCERS)]
