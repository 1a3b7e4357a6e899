"""Messages of a share group that are acknowledged in the transactions that write what is made of them."""

from __future__ import annotations

import itertools
import threading
import time
import uuid

from confluent_kafka import KafkaError, Message, Producer

from tests.proofs.soak.acked_oracle import AckedOracle
from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.books import RECONNECT, Books, value_of
from tests.proofs.soak.loads.by_hand import Hand, Lost
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.share_wire import ShareWire
from tests.proofs.soak.transaction_wire import Entry
from tests.proofs.soak.wire import Refused, Wire

OUTPUT, PARTITIONS, KEYS = "stubs", 2, 19
SHARED, TILL = "slips", "till"
AHEAD = 500
"""Messages that wait, at most."""
IDLE = 45.0
"""So long nothing may come before what is left is lost, seconds."""
Found = dict[Place, dict[int, tuple[int, int]]]
"""By partition: offset -> (number of the message, delivery count)."""


class Counter(Books):
    """What all know."""

    def __init__(self) -> None:
        super().__init__({OUTPUT: PARTITIONS})
        self.acked = AckedOracle(SHARED, self.wrong.append)
        self.moved_at = time.monotonic()
        # nobody publishes any more
        self.complete = threading.Event()
        self.judged = False

    def prepare(self, world: World) -> None:
        super().prepare(world)
        with ShareWire(world.port) as wire:
            wire.create(SHARED, PARTITIONS, {"internal.segment.bytes": "200000"})
            configs: dict[str, object] = {
                "share.auto.offset.reset": "earliest",
                "pulsar.max.redeliver.count": "1000",
            }
            configs["pulsar.nack.delay.ms"] = "50"
            wire.configure(TILL, configs)

    def met(self, place: Place, message: Message) -> None:
        """See `Books`."""
        self.acked.output(int((message.value() or b"").split(b" ")[4]))


class Customer(Load):
    """Publishes messages."""

    def __init__(self, world: World, counter: Counter) -> None:
        super().__init__(world, "customer")
        self.books = counter

    def prepare(self) -> None:
        self.books.prepare(self.world)

    def run(self) -> None:
        books = self.books
        settings = {"bootstrap.servers": self.world.bootstrap, "enable.idempotence": True, "linger.ms": 2}
        producer = Producer(settings | {"message.timeout.ms": 0} | RECONNECT)

        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.fail(f"a message was given up: {error}")
                return
            with books.lock:
                books.acked.published(int(message.value() or b"0"))
            self.moved += 1

        for number in itertools.count():
            if self.world.stop.is_set():
                break
            key = number % KEYS
            producer.produce(SHARED, b"%d" % number, b"%d" % key, key % PARTITIONS, on_delivery=told)
            producer.poll(0.002)
            while books.acked.left + len(producer) > AHEAD and not self.world.stop.is_set():
                producer.poll(0.05)
        while len(producer) and not self.world.abandoned:
            producer.flush(0.5)
        books.complete.set()

    # the check

    def tell(self, oracle: Oracle) -> None:
        self.books.tell(oracle)

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        books = self.books
        books.verify(self, oracle, wire)
        if self.world.stop.is_set() and not books.judged:
            books.judged = True
            with books.lock:
                books.acked.finish()
        self.tell(oracle)
        oracle.seen["messages acknowledged in transactions"] = books.acked.seen


class Teller(Hand):
    """A member of the share group, by hand, that does what it is given in transactions."""

    def __init__(self, world: World, counter: Counter, name: str, number: int, *, second: bool) -> None:
        super().__init__(world, name, second=second)
        self.books, self.number = counter, number
        self._next = 1

    @property
    def over(self) -> bool:
        books = self.books
        if self.world.abandoned:
            return True
        if not books.complete.is_set():
            return False
        with books.lock:
            left = books.acked.left
        return not left or time.monotonic() - books.moved_at > IDLE

    def _transact(self, found: Found) -> bool:
        """Write what is made of these and acknowledge them, or abort: whether that was said of them all. Raises
        Refused, OSError when nobody knows how it ended.
        """
        chance, books = self.chance, self.books
        its = [number for each in found.values() for number, _ in each.values()]
        number = self._next
        self._next += 1
        with books.lock:
            books.oracle.began(self.number, number, len(its))
        out: dict[Place, list[Entry]] = {}
        for index, done in enumerate(its):
            head = value_of(self.number, number, index, len(its), 0)
            value = head + b"%d" % done
            out.setdefault((OUTPUT, chance.randrange(PARTITIONS)), []).append((None, value, []))
        told: bool | None = None
        said = False
        try:
            committed = chance.random() < 0.8
            try:
                self.again(lambda: self.wire.add(self.who, list(out)))
                for place, entries in out.items():
                    self.produce(place, entries)
                offsets = {place: (0, _said(each)) for place, each in found.items()}
                self.again(lambda: self.wire.send_offsets(self.who, TILL, offsets))
                said = True
            except (Lost, Refused):
                committed = False
            self.end(committed=committed)
            told = committed
        finally:
            with books.lock:
                books.oracle.ended(self.number, number, told)
                books.acked.ended(its, told, time.monotonic_ns())
        self.moved += len(its)
        return said

    def _given(self, numbers: list[int], asked: int) -> None:
        books = self.books
        with books.lock:
            for number in numbers:
                books.acked.delivered(number, asked)
        if numbers:
            books.moved_at = time.monotonic()

    def _work(self) -> None:
        member = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        places = [(SHARED, partition) for partition in range(PARTITIONS)]
        with ShareWire(self.world.port) as wire:
            epoch = wire.beat(TILL, member, 0, [SHARED])
            wire.positions(TILL)
            try:
                for session in range(self.chance.randint(20, 200)):
                    if self.over:
                        return
                    if session % 20 == 19:
                        epoch = wire.beat(TILL, member, epoch, None)
                    asked = time.monotonic_ns()
                    given, _ = wire.fetch_shared(
                        TILL, member, session, places if not session else (), max_wait=50, max_records=5
                    )
                    self._given([int(each.value) for each in given], asked)
                    found: Found = {}
                    for each in given:
                        found.setdefault(each.place, {})[each.offset] = int(each.value), each.count
                    if found and not self._transact(found):
                        # they are this member's still: another one begins
                        return
            finally:
                wire.beat(TILL, member, -1, None)


def _said(found: dict[int, tuple[int, int]]) -> str:
    return "ack1;a=" + ",".join(f"{offset}@{count}" for offset, (_, count) in sorted(found.items()))


def loads(world: World) -> list[Load]:
    counter = Counter()
    return [
        Customer(world, counter),
        Teller(world, counter, "teller-0", 0, second=True),
        Teller(world, counter, "teller-1", 1, second=False),
    ]
