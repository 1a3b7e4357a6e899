"""Deliveries of two queue topics that are settled in the transactions that write what is made of them.

Consumers of librdkafka, of both protocols, are members of the queue's group, and their producers commit names with
`consumer_group_metadata()`. Judged by `lane_acks_oracle.py`.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.proofs.soak.lane_acks_oracle import LaneAcksOracle, Place, Said, commit_of
from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.books import RECONNECT, Books, producing, read_committed, value_of
from tests.proofs.soak.loads.lanes import settings_of
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.oracle import Place as Partition
from tests.proofs.soak.wire import Wire

LOG = logging.getLogger("soak.librdkafka")
BASE, PARTITIONS, OUTPUTS, LANES, KEYS, LIMIT = "crates", 2, 2, 4, 29, 5
GROUPS = {"pier": "key_shared", "quay": "shared"}
BAD = 43
"""Of so many records one is nacked each time."""
AHEAD = 600
"""Records that wait, at most."""
LOST = 60.0
"""So long nothing may come before what is left is lost, seconds."""
REFUSED = 121
"""INVALID_RECORD_STATE: a delivery that is named is another's, or comes again under a new offset."""
PATIENCE = 8.0
"""Seconds that a producer has for its offsets, before another takes its place."""


class _Stuck(Exception):
    """A producer waits for ever."""


class Yard(Books):
    """What all of one subscription know."""

    def __init__(self, group: str) -> None:
        self.group, self.kind = group, GROUPS[group]
        self.queue, self.letters = f"{BASE}-{group}-QUEUE", f"{BASE}-{group}-DLQ"
        self.out = f"{BASE}-{group}-done"
        super().__init__({self.out: OUTPUTS})
        self.acks = LaneAcksOracle(
            f"{self.kind} lanes in transactions", LIMIT, self.wrong.append, keyed=self.kind == "key_shared"
        )
        self.drained = threading.Event()
        # when something came
        self.moved_at = time.monotonic()
        self.judged = False
        self._reading = threading.Lock()
        self._dead: dict[Partition, int] = {}

    def prepare(self, world: World) -> None:
        super().prepare(world)
        with Wire(world.port) as wire:
            configs = {
                "pulsar.subscription.type": self.kind,
                "pulsar.max.redeliver.count": str(LIMIT - 1),
                "pulsar.nack.delay.ms": "50",
            }
            if self.kind == "key_shared":
                # else a consumer may work on what it had fetched behind what came to nothing
                configs["pulsar.queue.in.hand.per.key"] = "1"
            wire.create(self.queue, LANES, configs)

    def met(self, place: Partition, message: Message) -> None:
        """See `Books`."""
        with self.lock:
            self.acks.output(int((message.value() or b"").split(b" ")[4]))

    def _read(self, load: Load) -> None:
        with self._reading:
            super()._read(load)

    def bury(self, load: Load, wire: Wire) -> None:
        """Read what is new in the dead letter topic."""

        def take(_: Partition, message: Message) -> None:
            with self.lock:
                self.acks.letter(int(message.value() or b"-1"))

        with self._reading:
            for index in range(wire.metadata()[0].get(self.letters, 0)):
                self._dead.setdefault((self.letters, index), 0)
            if self._dead and (left := read_committed(load.world, self._dead, take)):
                load.fail(f"{sorted(left)} were not read to their ends")

    def over(self) -> bool:
        """Whether all has ended, or nothing comes any more. Nothing is published."""
        with self.lock:
            return not self.acks.left or time.monotonic() - self.moved_at > LOST


class Shipper(Load):
    """Publishes records, a key in one partition; and reads to the end when nobody kills any more."""

    def __init__(self, world: World, yards: list[Yard]) -> None:
        super().__init__(world, "shipper")
        self.yards = yards

    def prepare(self) -> None:
        with Wire(self.world.port) as wire:
            wire.create(BASE, PARTITIONS, {"internal.segment.bytes": "200000"})
        for yard in self.yards:
            yard.prepare(self.world)

    def run(self) -> None:
        settings = {"bootstrap.servers": self.world.bootstrap, "enable.idempotence": True, "linger.ms": 2}
        producer = Producer(settings | {"message.timeout.ms": 0} | RECONNECT)
        for number in itertools.count():
            if self.world.stop.is_set():
                break
            key = self.chance.randrange(KEYS)
            for yard in self.yards:
                with yard.lock:
                    yard.acks.new(number, key)
            producer.produce(
                BASE,
                b"%d" % number,
                b"%d" % key,
                key % PARTITIONS,
                on_delivery=lambda error, message: self._told(error, int(message.value() or b"0")),
            )
            producer.poll(0.002)
            while max(yard.acks.left for yard in self.yards) + len(producer) > AHEAD:
                producer.poll(0.05)
                if self.world.stop.is_set():
                    break
        while len(producer) and not self.world.abandoned:
            producer.flush(0.5)
        self._drain()

    def _told(self, error: KafkaError | None, number: int) -> None:
        if error is not None:
            self.fail(f"record {number} was given up: {error}")
            return
        for yard in self.yards:
            with yard.lock:
                yard.acks.published(number)
        self.moved += 1

    def _drain(self) -> None:
        left = list(self.yards)
        try:
            while left and not self.world.abandoned:
                for yard in list(left):
                    with Wire(self.world.port) as wire:
                        yard._read(self)
                        yard.bury(self, wire)
                    if yard.over():
                        yard.drained.set()
                        left.remove(yard)
                time.sleep(0.5)
        finally:
            for yard in self.yards:
                yard.drained.set()

    # the check

    def tell(self, oracle: Oracle) -> None:
        for yard in self.yards:
            yard.tell(oracle)

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        for yard in self.yards:
            yard.verify(self, oracle, wire)
            yard.bury(self, wire)
            if yard.drained.is_set() and not yard.judged:
                yard.judged = True
                with yard.lock:
                    yard.acks.finish()
        self.tell(oracle)
        for name in ("deliveries", "acknowledgements", "dead letters"):
            oracle.seen[f"lane {name} in transactions"] = sum(yard.acks.seen[name] for yard in self.yards)


class Stevedore(Load):
    """A member of the group at a time, and the producer of what it makes of its deliveries.

    Of each lane it settles what it read first, first: so whatever lies at its group's offset or behind is open, or is
    named in vain.
    """

    def __init__(self, world: World, yard: Yard, number: int) -> None:
        super().__init__(world, f"{yard.group}-{number}")
        self.yard, self.number = yard, number
        self._producer: Producer | None = None
        self._next = 1
        # of each lane: what was read, and no transaction of it has ended
        self._open: dict[int, dict[int, Message]] = {}
        # below it deliveries of a lane are named one by one, for one of them was refused
        self._careful: dict[int, int] = {}
        # these are somebody else's, for good
        self._refused: set[Place] = set()
        self._lives = 0

    @property
    def _over(self) -> bool:
        return self.yard.drained.is_set() or self.world.abandoned

    def run(self) -> None:
        while not self._over:
            consumer = self._made()
            try:
                while not self._over:
                    if not self.world.stop.is_set() and self.chance.random() < 0.003:
                        break
                    if not self._step(consumer):
                        break
            finally:
                consumer.close()
            with self.yard.lock:
                self.yard.acks.lost()

    # -- its consumer ------------------------------------------------------------------------------------------------

    def _made(self) -> Consumer:
        self._lives += 1
        settings = settings_of(self.world, self.yard.group, self.chance, f"{self.name}-{self._lives}")
        consumer = Consumer(settings | RECONNECT)
        consumer.subscribe(
            [self.yard.queue], on_assign=self._forget, on_revoke=self._forget, on_lost=self._lost
        )
        self._open, self._careful = {}, {}
        return consumer

    def _forget(self, consumer: Consumer, lanes: list[TopicPartition]) -> None:
        for each in lanes:
            self._open.pop(each.partition, None)

    def _lost(self, consumer: Consumer, lanes: list[TopicPartition]) -> None:
        """Its session was over: what was in its hands comes again, and has failed."""
        self._forget(consumer, lanes)
        with self.yard.lock:
            self.yard.acks.lost()

    def _rewind(self, consumer: Consumer, lanes: list[int]) -> bool:
        """Go back to what is open; whether it could."""
        for lane in lanes:
            self._open.pop(lane, None)
        try:
            for each in consumer.committed([TopicPartition(self.yard.queue, lane) for lane in lanes], 5):
                if each.error is not None or each.offset < 0:
                    return False
                consumer.seek(each)
        except KafkaException:
            return False
        return True

    # -- its work ----------------------------------------------------------------------------------------------------

    def _step(self, consumer: Consumer) -> bool:
        """Whether the consumer can go on."""
        yard = self.yard
        for message in consumer.consume(self.chance.choice((1, 10, 40)), 0.1):
            if (error := message.error()) is not None:
                if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    self.fail(f"its place in a lane is not there: {error}")
                continue
            place = message.partition() or 0, message.offset() or 0
            with yard.lock:
                yard.acks.read(place, int(message.value() or b"-1"))
                yard.moved_at = time.monotonic()
            if place not in self._refused:
                self._open.setdefault(place[0], {})[place[1]] = message
        lanes = [lane for lane, found in self._open.items() if found and self.chance.random() < 0.6]
        if not lanes:
            return True
        try:
            if self._producer is None:
                self._producer = self._made_producer()
        except KafkaException:
            return True
        taken = {lane: self._taken(lane) for lane in lanes}
        return self._transact(self._producer, consumer, taken)

    def _taken(self, lane: int) -> list[Message]:
        """The first ones of a lane."""
        found = self._open[lane]
        offsets = sorted(found)
        if offsets[0] < self._careful.get(lane, 0):
            return [found[offsets[0]]]
        return [found[offset] for offset in offsets[: self.chance.randint(1, 50)]]

    def _transact(self, producer: Producer, consumer: Consumer, taken: dict[int, list[Message]]) -> bool:
        """Write what is made of these and say so, or abort. Whether the consumer can go on."""
        chance, books = self.chance, self.yard
        calm = self.world.stop.is_set()
        said, commits = Said(), []
        made: list[Message] = []
        for lane in list(taken):
            verbs: dict[str, list[int]] = {"n": [], "d": [], "a": []}
            for count, message in enumerate(taken[lane]):
                offset, number = message.offset() or 0, int(message.value() or b"-1")
                if number % BAD == 7 or (not calm and chance.random() < 0.03):
                    its, verb = said.failed, "n"
                elif not calm and chance.random() < 0.01:
                    its, verb = said.buried, "d"
                else:
                    its, verb = said.done, "a"
                if verb != "a" and verbs["a"]:
                    # names of these are below the offset, and of those that are done at it or above
                    taken[lane] = taken[lane][:count]
                    break
                if verb == "a":
                    made.append(message)
                its[lane, offset] = number
                verbs[verb].append(offset)
            at = verbs["a"][0] if verbs["a"] else (taken[lane][-1].offset() or 0) + 1
            commits.append(TopicPartition(books.queue, lane, at, commit_of(verbs)))
        number, self._next = self._next, self._next + 1
        with books.lock:
            books.oracle.began(self.number, number, len(made))
            books.acks.sent(said)
        told, refused = self._tried(producer, consumer, number, made, commits)
        with books.lock:
            books.oracle.ended(self.number, number, told)
            books.acks.ended(said, told)
        self.moved += 1
        if told:
            for lane, messages in taken.items():
                for message in messages:
                    self._open[lane].pop(message.offset() or 0, None)
            return True
        if refused:
            several = [lane for lane, messages in taken.items() if len(taken) > 1 or len(messages) > 1]
            for lane in several:
                self._careful[lane] = (taken[lane][-1].offset() or 0) + 1
            if not several:
                ((lane, (message,)),) = taken.items()
                self._refused.add((lane, message.offset() or 0))
        return self._rewind(consumer, list(taken))

    def _tried(
        self,
        producer: Producer,
        consumer: Consumer,
        number: int,
        made: list[Message],
        commits: list[TopicPartition],
    ) -> tuple[bool | None, bool]:
        """(how it ended, None when nobody knows, whether a delivery was refused)."""
        chance = self.chance
        # nobody commits what no commit was asked for
        told: bool | None = False
        refused = False
        try:
            producer.begin_transaction()
            for index, message in enumerate(made):
                key = message.key() or b"0"
                value = value_of(self.number, number, index, len(made), 0) + (message.value() or b"")
                producer.produce(self.yard.out, value, key, int(key) % OUTPUTS)
            self._send_offsets(producer, commits, consumer)
            if chance.random() < 0.15:
                self._finish(producer.abort_transaction)
                return False, False
            told = None
            self._finish(producer.commit_transaction)
            return True, False
        except _Stuck:
            self._producer = None
            return told, refused
        except KafkaException as error:
            refused = error.args[0].code() == REFUSED
            if error.args[0].code() == KafkaError.INVALID_REQUEST:
                self.fail(f"{commits}: {error}")
            if not error.args[0].txn_requires_abort():
                self._producer = None
                return told, refused
        try:
            self._finish(producer.abort_transaction)
            told = False
        except KafkaException:
            self._producer = None
        return told, refused

    def _send_offsets(self, producer: Producer, commits: list[TopicPartition], consumer: Consumer) -> None:
        """Raises KafkaException, and _Stuck when librdkafka does not come back."""
        failed: list[BaseException] = []
        group = consumer.consumer_group_metadata()

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(commits, group, PATIENCE / 2)
            except BaseException as error:
                failed.append(error)

        # it keeps no time where the connection to a coordinator breaks: then it is left alone
        thread = threading.Thread(target=send, name=f"soak-{self.name}-offsets", daemon=True)
        thread.start()
        thread.join(PATIENCE)
        if thread.is_alive():
            raise _Stuck
        if failed:
            raise failed[0]

    def _finish(self, call: Callable[[float], object]) -> None:
        """Ask until it is told. Raises KafkaException for what cannot be tried again."""
        while True:
            try:
                call(5)
                return
            except KafkaException as error:
                if self.world.abandoned or not error.args[0].retriable():
                    raise

    def _made_producer(self) -> Producer:
        """Raises KafkaException."""
        settings = producing(self.world.bootstrap, self.name)
        producer = Producer(settings | RECONNECT, logger=LOG)
        producer.init_transactions(10)
        return producer


def loads(world: World) -> list[Load]:
    yards = [Yard(group) for group in GROUPS]
    members = [Stevedore(world, yard, number) for yard in yards for number in range(2)]
    return [Shipper(world, yards), *members]
