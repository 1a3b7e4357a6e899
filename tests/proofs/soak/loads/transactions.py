"""Transactions of librdkafka's producers over several topics, judged by `transaction_oracle.py`.

They commit no offsets: where the connection to the coordinator of a group breaks, librdkafka's
`send_offsets_to_transaction` may wait for another one that it never asks for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka import KafkaException, Producer

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.books import RECONNECT, Books, producing, value_of
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.wire import Wire

LOG = logging.getLogger("soak.librdkafka")
TOPICS = {"debits": 3, "credits": 2}
PRODUCERS = 2
LARGE = 90_000
"""Bytes of a record that is on the disk before its transaction is committed."""


class Clerk(Load):
    """One transactional producer: one transaction after another, of which some are aborted."""

    settings: dict[str, int] = {}
    """What its producer has beside the usual."""

    def __init__(self, world: World, books: Books, number: int, name: str = "clerk") -> None:
        super().__init__(world, f"{name}-{number}")
        self.books, self.number = books, number
        self._next = 1

    @property
    def bootstrap(self) -> str:
        return self.world.bootstrap

    def prepare(self) -> None:
        if not self.number:
            self.books.prepare(self.world)

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
                **producing(self.bootstrap, self.name),
                **RECONNECT,
                **self.settings,
            },
            logger=LOG,
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
        places = chance.sample(books.places, chance.randint(1, len(books.places)))
        count = chance.randint(len(places), 2 * len(places))
        with books.lock:
            books.oracle.began(self.number, number, count)
        commits = chance.random() < 0.7
        producer.begin_transaction()
        try:
            for index in range(count):
                topic, partition = places[index % len(places)]
                size = LARGE if chance.random() < 0.03 else chance.randint(0, 300)
                value = value_of(self.number, number, index, count, size)
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
        self.books.tell(oracle)

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        if self.number:
            return
        self.books.verify(self, oracle, wire)
        for name, figure in (("whole", self.books.oracle.whole), ("aborted", self.books.oracle.aborted)):
            oracle.seen[f"transactions {name}"] = figure


class _Aborted(Exception):
    pass


def loads(world: World) -> list[Load]:
    books = Books(TOPICS)
    return [Clerk(world, books, number) for number in range(PRODUCERS)]
