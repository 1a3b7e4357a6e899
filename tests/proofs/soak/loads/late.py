"""Transactional producers behind the proxy that holds EndTxn and Produce back: librdkafka's, and by hand in both
protocols.

Each goes on with its next transaction, and what it did before comes late. None of it may be part of another one, or
end it. Those by hand also come back as zombies: one that was fenced by a newer producer goes on as if nothing were.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.books import Books, value_of
from tests.proofs.soak.loads.transactions import Clerk
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.transaction_wire import TransactionWire, transactional_batch
from tests.proofs.soak.wire import Refused, Wire

T = TypeVar("T")
TOPICS = {"late-debits": 2, "late-credits": 1}
TIMEOUT_MS = 60_000
ANSWER = 0.5
"""Seconds that an answer is waited for before the connection is given up."""


class Scribe(Load):
    """A producer by hand. What was not answered is asked for again on a new connection, as clients do."""

    def __init__(self, world: World, books: Books, number: int, *, second: bool) -> None:
        super().__init__(world, f"late-v{1 + second}")
        self.books, self.number, self.second = books, number, second
        self._next = 1
        self._who = -1, -1
        self._wire: TransactionWire | None = None
        # a batch is on its way on a connection that was given up
        self._lost = False
        self._sequences: dict[Place, int] = {}

    def prepare(self) -> None:
        if not self.number:
            self.books.prepare(self.world)

    def run(self) -> None:
        while not self._over:
            try:
                self._work()
            except OSError:
                self._close()
                time.sleep(0.02)
            except Refused:
                # begin with a new producer
                self._who = -1, -1
                time.sleep(0.01)
        self._close()

    @property
    def _over(self) -> bool:
        return self.world.stop.is_set() or self.world.abandoned

    def _close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    @property
    def wire(self) -> TransactionWire:
        """A connection over the proxy. Raises OSError."""
        if self._wire is None:
            self._wire = TransactionWire(self.world.proxy_port, self.name, second=self.second, timeout=ANSWER)
        return self._wire

    def _work(self) -> None:
        if self._who[0] < 0:
            self._become(self.wire.init(TIMEOUT_MS))
        self._one()
        if self.number == 0 and self.chance.random() < 0.1:
            with Wire(self.world.port) as wire:
                self.books.watch(wire)
        if self.chance.random() < 0.03:
            self._zombie()

    def _become(self, who: tuple[int, int]) -> None:
        if who != self._who:
            self._who = who
            self._sequences = {}
        self._lost = False

    def _one(self) -> None:
        """One transaction, to its end. Raises Refused, OSError when nobody knows how it ended."""
        number, places, count = self._begin()
        committed: bool | None = None
        try:
            wanted = self.chance.random() < 0.7
            try:
                for index in range(count):
                    if index in (0, count // 2):
                        # again in the middle, as if it had a partition more by then
                        self._again(lambda: self.wire.add(self._who, places))
                    self._produce(places[index % len(places)], number, index, count)
            except (_Lost, Refused):
                wanted = False
            self._become_next(self._again(lambda: self.wire.end(self._who, committed=wanted)))
            committed = wanted
            self.moved += count
        finally:
            with self.books.lock:
                self.books.oracle.ended(self.number, number, committed)

    def _begin(self) -> tuple[int, list[Place], int]:
        chance = self.chance
        number = self._next
        self._next += 1
        places = chance.sample(self.books.places, chance.randint(1, len(self.books.places)))
        count = chance.randint(len(places), 2 * len(places) + 2)
        with self.books.lock:
            self.books.oracle.began(self.number, number, count)
        return number, places, count

    def _become_next(self, who: tuple[int, int]) -> None:
        """After the end: V2 has a new epoch; V1 asks for one if a batch of its may still come."""
        if self._lost and not self.second:
            who = self._again(lambda: self.wire.init(TIMEOUT_MS, self._who))
        self._become(who)

    def _produce(self, place: Place, number: int, index: int, count: int) -> None:
        """One record. Raises _Lost when it is given up, Refused."""
        sequence = self._sequences.get(place, 0)
        size = self.chance.randint(0, 300)
        batch = transactional_batch([value_of(self.number, number, index, count, size)], self._who, sequence)
        while True:
            try:
                self.wire.produce_in(place, batch)
            except OSError:
                self._close()
                self._lost = True
                if self._over or self.chance.random() < 0.3:
                    raise _Lost from None
                time.sleep(0.02)
            else:
                self._sequences[place] = sequence + 1
                return

    def _again(self, ask: Callable[[], T]) -> T:
        """Until it is answered. Raises Refused; OSError when the run is over."""
        while True:
            try:
                return ask()
            except OSError:
                self._close()
                if self.world.abandoned:
                    raise
                time.sleep(0.02)

    def _zombie(self) -> None:
        """Begin a transaction; another producer begins with the same transactional id; then go on. Raises Refused,
        OSError.
        """
        number, places, count = self._begin()
        old, sequences = self._who, self._sequences
        try:
            self._again(lambda: self.wire.add(old, places))
            self._produce(places[0], number, 0, count)
        except (_Lost, Refused):
            with self.books.lock:
                self.books.oracle.ended(self.number, number, None)
            raise Refused(-1) from None
        new = self._again(lambda: self.wire.init(TIMEOUT_MS))
        with self.books.lock:
            self.books.oracle.fenced(self.number, number)
        self._who = new
        self._sequences, self._lost = {}, False
        batch = transactional_batch(
            [value_of(self.number, number, 1, count, 9)], old, sequences.get(places[0], 0)
        )
        steps: list[tuple[str, Callable[[], object]]] = [
            ("a batch", lambda: self.wire.produce_in(places[0], batch)),
            ("an EndTxn", lambda: self.wire.end(old, committed=True)),
        ]
        if not self.second:
            steps.insert(0, ("AddPartitionsToTxn", lambda: self.wire.add(old, places)))
        for what, ask in steps:
            error = 0
            try:
                ask()
            except Refused as refused:
                error = refused.code
            with self.books.lock:
                self.books.oracle.served(self.number, number, what, error)

    # the check

    def tell(self, oracle: Oracle) -> None:
        self.books.tell(oracle)

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        if self.number:
            return
        self.books.verify(self, oracle, wire)
        oracle.seen["zombies"] = self.books.oracle.zombies
        oracle.seen["late transactions whole"] = self.books.oracle.whole


class Librdkafka(Clerk):
    """Gives an answer up after a second."""

    settings = {"socket.timeout.ms": 1_000}

    def prepare(self) -> None:
        pass

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.world.proxy_port}"


class _Lost(Exception):
    """A record is given up: nobody knows whether it will be there."""


def loads(world: World) -> list[Load]:
    books = Books(TOPICS)
    return [
        *(Scribe(world, books, number, second=bool(number)) for number in range(2)),
        Librdkafka(world, books, 2, "late-librdkafka"),
    ]
