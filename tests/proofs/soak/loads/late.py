"""Transactional producers behind the proxy that holds EndTxn and Produce back: librdkafka's, and by hand in both
protocols.

Each goes on with its next transaction, and what it did before comes late. None of it may be part of another one, or
end it. Those by hand also come back as zombies: one that was fenced by a newer producer goes on as if nothing were.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.books import Books, value_of
from tests.proofs.soak.loads.by_hand import TIMEOUT_MS, Hand, Lost
from tests.proofs.soak.loads.transactions import Clerk
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.transaction_wire import transactional_batch
from tests.proofs.soak.wire import Refused, Wire

TOPICS = {"late-debits": 2, "late-credits": 1}


class Scribe(Hand):
    """One transaction after another, of which some are aborted."""

    def __init__(self, world: World, books: Books, number: int, *, second: bool) -> None:
        super().__init__(world, f"late-v{1 + second}", second=second)
        self.books, self.number = books, number
        self._next = 1
        self._came_back = False

    def prepare(self) -> None:
        if not self.number:
            self.books.prepare(self.world)

    def _work(self) -> None:
        self._one()
        if self.number == 0 and self.chance.random() < 0.1:
            with Wire(self.world.port) as wire:
                self.books.watch(wire)
        # once in any case: chance alone makes none in a short run on a slow machine
        if self.chance.random() < 0.03 or not self._came_back:
            self._zombie()
            self._came_back = True

    def _one(self) -> None:
        """One transaction, to its end. Raises Refused, OSError when nobody knows how it ended."""
        number, places, count = self._begin()
        told: bool | None = None
        try:
            committed = self.chance.random() < 0.7
            try:
                for index in range(count):
                    if index in (0, count // 2):
                        # again in the middle, as if it had a partition more by then
                        self.again(lambda: self.wire.add(self.who, places))
                    self._put(places[index % len(places)], number, index, count)
            except (Lost, Refused):
                committed = False
            self.end(committed=committed)
            told = committed
            self.moved += count
        finally:
            with self.books.lock:
                self.books.oracle.ended(self.number, number, told)

    def _begin(self) -> tuple[int, list[Place], int]:
        chance = self.chance
        number = self._next
        self._next += 1
        places = chance.sample(self.books.places, chance.randint(1, len(self.books.places)))
        count = chance.randint(len(places), 2 * len(places) + 2)
        with self.books.lock:
            self.books.oracle.began(self.number, number, count)
        return number, places, count

    def _put(self, place: Place, number: int, index: int, count: int) -> None:
        """One record. Raises Lost, Refused."""
        value = value_of(self.number, number, index, count, self.chance.randint(0, 300))
        self.produce(place, [(None, value, [])])

    def _zombie(self) -> None:
        """Begin a transaction; another producer begins with the same transactional id; then go on. Raises Refused,
        OSError.
        """
        number, places, count = self._begin()
        old = self.who
        try:
            self.again(lambda: self.wire.add(old, places))
            self._put(places[0], number, 0, count)
        except (Lost, Refused):
            with self.books.lock:
                self.books.oracle.ended(self.number, number, None)
            raise Refused(-1) from None
        sequence = self.sequence(places[0])
        new = self.again(lambda: self.wire.init(TIMEOUT_MS))
        with self.books.lock:
            self.books.oracle.fenced(self.number, number)
        self.become(new)
        value = value_of(self.number, number, 1, count, 9)
        batch = transactional_batch([(None, value, [])], old, sequence)
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


def loads(world: World) -> list[Load]:
    books = Books(TOPICS)
    return [
        *(Scribe(world, books, number, second=bool(number)) for number in range(2)),
        Librdkafka(world, books, 2, "late-librdkafka"),
    ]
