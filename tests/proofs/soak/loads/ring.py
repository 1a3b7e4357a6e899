"""Tokens go round a topic: read by a group, written on in transactions with its offsets; judged by `ring_oracle.py`.

The members of the group come and go, some with the classic protocol and some with KIP-848's: so the group changes its
type under way. Now and then a worker stops in the middle of a transaction, begins anew, and then the old one goes on.
"""

from __future__ import annotations

import itertools
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.books import READING, RECONNECT, Books
from tests.proofs.soak.loads.by_hand import TIMEOUT_MS, Hand, Lost
from tests.proofs.soak.loads.transactions import LOG
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.ring_oracle import Hop, Owners, RingOracle
from tests.proofs.soak.share_wire import ShareWire
from tests.proofs.soak.transaction_wire import Entry, plain_batch
from tests.proofs.soak.wire import Refused, Wire

TOPIC, GROUP, PARTITIONS, WORKERS, TOKENS, MAKER = "ring", "carriers", 4, 3, 40, 99
MOST = 8
"""Tokens of a transaction."""
SESSION_MS = 45_000
"""So long may a member be unheard, with either protocol, as by default: longer than a busy machine keeps it or the
gateway waiting. A group that gives a member up gives away what the member thinks it has."""


class Ring(Books):
    """What all workers know."""

    def __init__(self) -> None:
        super().__init__({TOPIC: PARTITIONS})
        self.ring = RingOracle(self.wrong.append)
        self.owners = Owners(self.wrong.append)

    def prepare(self, world: World) -> None:
        super().prepare(world)
        self.oracle.began(MAKER, 0, TOKENS)
        with ShareWire(world.port) as wire:
            wire.configure(GROUP, {"consumer.session.timeout.ms": SESSION_MS})
            for partition in range(PARTITIONS):
                values = [
                    record(MAKER, 0, token, TOKENS, token, 0, (-1, -1))
                    for token in range(partition, TOKENS, PARTITIONS)
                ]
                wire.produce((TOPIC, partition), plain_batch(values))
        self.oracle.ended(MAKER, 0, True)

    def met(self, place: Place, message: Message) -> None:
        """See `Books`."""
        producer, number, _, _, token, hop, partition, offset = numbers(message)
        self.ring.read(
            (place[1], message.offset() or 0), Hop(token, hop, (partition, offset), (producer, number))
        )

    def verify(self, load: Load, oracle: Oracle, wire: Wire) -> None:
        before = self._committed(wire)
        super().verify(load, oracle, wire)
        deadline = time.monotonic() + READING
        while self.ring.missing(before) and time.monotonic() < deadline:
            self._read(load)
        after = self._committed(wire)
        self.ring.check(before, after)
        with self.lock:
            self.owners.check(time.monotonic())
        if load.world.stop.is_set():
            self.ring.finish()
        self.tell(oracle)
        oracle.seen["hops"] = self.ring.hops
        oracle.seen["assignments"] = self.owners.changes

    def _committed(self, wire: Wire) -> dict[int, int]:
        return {partition: offset for (_, partition), offset in wire.committed(GROUP).items() if offset >= 0}


def record(
    producer: int, number: int, index: int, count: int, token: int, hop: int, source: tuple[int, int]
) -> bytes:
    return b" ".join(b"%d" % each for each in (producer, number, index, count, token, hop, *source))


def numbers(message: Message) -> list[int]:
    return [int(each) for each in (message.value() or b"").split(b" ")]


class Carrier(Hand):
    """One worker: a producer by hand, and one consumer of librdkafka at a time.

    (librdkafka's `send_offsets_to_transaction` may wait for ever for a connection once a coordinator was gone.)
    """

    def __init__(self, world: World, ring: Ring, number: int) -> None:
        super().__init__(world, f"carrier-{number}", second=bool(number % 2))
        self.books, self.number = ring, number
        self._next = 1
        self._lives = itertools.count()
        # by partition: grows when it is taken away, so that what was read before is not written on
        self._takings: dict[int, int] = {}

    def prepare(self) -> None:
        if not self.number:
            self.books.prepare(self.world)

    def _work(self) -> None:
        """The life of a consumer. Raises Refused, OSError."""
        me = f"{self.name}-{next(self._lives)}"
        consumer = self._consumer(me)
        try:
            while not self.over and self.chance.random() > 0.002:
                read = self._read(consumer)
                if read and not self._carry(read):
                    self._go_back(consumer, read)
        except KafkaException as error:
            # its partition was taken away; another one begins where the group stands
            LOG.info("%s: %s", me, error)
        finally:
            consumer.close()
            with self.books.lock:
                self.books.owners.gone(me)

    def _consumer(self, me: str) -> Consumer:
        books = self.books
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": self.world.bootstrap,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **RECONNECT,
        }
        if self.chance.random() < 0.5:
            settings["group.protocol"] = "consumer"
        else:
            settings |= {
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "partition.assignment.strategy": "range",
            }
        consumer = Consumer(settings)

        def assigned(_: Consumer, its: list[TopicPartition]) -> None:
            with books.lock:
                books.owners.assigned(me, [each.partition for each in its], time.monotonic())

        def revoked(_: Consumer, its: list[TopicPartition]) -> None:
            for each in its:
                self._takings[each.partition] = self._takings.get(each.partition, 0) + 1
            with books.lock:
                books.owners.revoked(me, [each.partition for each in its])

        consumer.subscribe([TOPIC], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        return consumer

    def _read(self, consumer: Consumer) -> list[Message]:
        found: list[tuple[Message, int]] = []
        for _ in range(self.chance.randint(1, MOST)):
            message = consumer.poll(0.02 if found else 0.1)
            if message is None:
                break
            if (error := message.error()) is not None:
                if error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.fail(f"its place in the ring is not there: {error}")
                continue
            partition = message.partition() or 0
            found.append((message, self._takings.get(partition, 0)))
        return [each for each, takings in found if self._takings.get(each.partition() or 0, 0) == takings]

    def _carry(self, read: list[Message]) -> bool:
        """One transaction; False if it was aborted. Raises Refused, OSError when nobody knows."""
        chance, books = self.chance, self.books
        number = self._next
        self._next += 1
        with books.lock:
            books.oracle.began(self.number, number, len(read))
        ends: dict[Place, tuple[int, str]] = {}
        out: dict[Place, list[Entry]] = {}
        for index, message in enumerate(read):
            *_, token, hop, _, _ = numbers(message)
            source = message.partition() or 0, message.offset() or 0
            ends[TOPIC, source[0]] = source[1] + 1, ""
            value = record(self.number, number, index, len(read), token, hop + 1, source)
            out.setdefault((TOPIC, chance.randrange(PARTITIONS)), []).append((None, value, []))
        told: bool | None = None
        try:
            committed = chance.random() < 0.8
            try:
                self.again(lambda: self.wire.add(self.who, list(out)))
                for place, entries in out.items():
                    self.produce(place, entries)
                self.again(lambda: self.wire.send_offsets(self.who, GROUP, ends))
            except (Lost, Refused):
                committed = False
            if chance.random() < 0.02:
                self._fenced(number)
                told = False
            else:
                self.end(committed=committed)
                told = committed
        finally:
            with books.lock:
                books.oracle.ended(self.number, number, told)
        self.moved += told
        return told

    def _fenced(self, number: int) -> None:
        """Another producer takes its place, and it goes on. Raises Refused, OSError."""
        old = self.who
        new = self.again(lambda: self.wire.init(TIMEOUT_MS))
        self.become(new)
        with self.books.lock:
            self.books.oracle.fenced(self.number, number)
        error = 0
        try:
            self.again(lambda: self.wire.end(old, committed=True))
        except Refused as refused:
            error = refused.code
        with self.books.lock:
            self.books.oracle.served(self.number, number, "an EndTxn", error)

    def _go_back(self, consumer: Consumer, read: list[Message]) -> None:
        """To what was read. Raises KafkaException."""
        first: dict[int, int] = {}
        for each in read:
            first.setdefault(each.partition() or 0, each.offset() or 0)
        for partition, offset in first.items():
            consumer.seek(TopicPartition(TOPIC, partition, offset))

    # the check

    def tell(self, oracle: Oracle) -> None:
        self.books.tell(oracle)

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        if not self.number:
            self.books.verify(self, oracle, wire)


def loads(world: World) -> list[Load]:
    ring = Ring()
    return [Carrier(world, ring, number) for number in range(WORKERS)]
