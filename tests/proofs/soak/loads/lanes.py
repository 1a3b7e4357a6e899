"""A queue topic: consumers of librdkafka, of both protocols, that commit, nack, leave and die, judged by
`queue_oracle.py`.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.queue_oracle import Commit, QueueOracle
from tests.proofs.soak.wire import Wire

BASE, GROUP, PARTITIONS, LANES, KEYS, LIMIT = "parcels", "dock", 2, 4, 23, 3
QUEUE, LETTERS = f"{BASE}-{GROUP}-QUEUE", f"{BASE}-{GROUP}-DLQ"
BAD = 41
"""Of so many records one is nacked each time."""
LOST = 60.0
"""So long nothing may come before what was acknowledged by nobody is lost."""
AHEAD = 2_000
"""Records that wait, at most."""
SESSION_MS = 6_000
"""Of members of the classic protocol; `gateway.py` says the same of the others."""
IDLE = 2 * SESSION_MS / 1000
"""So long nothing may come before what is in doubt is taken for acknowledged."""
RECONNECT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200, "log_level": 0}


class Dock:
    """What all that belong together know."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wrong: list[str] = []
        self.oracle = QueueOracle(LIMIT, self.wrong.append)
        # of each lane the highest offset of a commit that was answered, and the first open one as it was told last
        self.acked: dict[int, int] = {}
        self.opened: dict[int, int] = {}
        # nobody publishes any more
        self.complete = threading.Event()
        self.drained = threading.Event()
        # when something came, or was answered
        self.moved = time.monotonic()
        self.judged = False


class Sender(Load):
    """Publishes records, a key in one partition."""

    def __init__(self, world: World, dock: Dock) -> None:
        super().__init__(world, "dock-sender")
        self.dock = dock

    def prepare(self) -> None:
        with Wire(self.world.port) as wire:
            wire.create(BASE, PARTITIONS, {"internal.segment.bytes": "200000"})
            configs = {
                "pulsar.subscription.type": "key_shared",
                "pulsar.max.redeliver.count": str(LIMIT - 1),
                "pulsar.nack.delay.ms": "50",
            }
            wire.create(QUEUE, LANES, configs)

    def run(self) -> None:
        settings = {
            "bootstrap.servers": self.world.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": 0,
        }
        producer = Producer(settings | RECONNECT)
        dock, chance = self.dock, self.chance
        while not self.world.stop.is_set():
            for _ in range(chance.randint(1, 20)):
                key = chance.randrange(KEYS)
                with dock.lock:
                    number = dock.oracle.new(key)
                producer.produce(
                    BASE,
                    b"%d" % number,
                    b"%d" % key,
                    key % PARTITIONS,
                    on_delivery=lambda error, message: self._told(error, int(message.value() or b"0")),
                )
            producer.poll(chance.random() * 0.05)
            while dock.oracle.left + len(producer) > AHEAD and not self.world.stop.is_set():
                producer.poll(0.05)
        while len(producer) and not self.world.abandoned:
            producer.flush(0.5)
        dock.complete.set()

    def _told(self, error: KafkaError | None, number: int) -> None:
        if error is not None:
            self.fail(f"record {number} was given up: {error}")
            return
        with self.dock.lock:
            self.dock.oracle.published(number)
        self.moved += 1

    # the check

    def tell(self, oracle: Oracle) -> None:
        with self.dock.lock:
            wrong, self.dock.wrong[:] = list(self.dock.wrong), []
            for name, count in self.dock.oracle.seen.items():
                oracle.seen[name] = count
        for text in wrong:
            oracle.wrong(f"queue topic: {text}")

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        dock = self.dock
        with dock.lock:
            acked = dict(dock.acked)
        found = wire.committed(GROUP)
        for lane in range(LANES):
            # the first open delivery: all below is settled, and stays so
            at, least = found.get((QUEUE, lane), -1), max(acked.get(lane, 0), dock.opened.get(lane, 0))
            dock.opened[lane] = at
            if at < least:
                dock.wrong.append(f"lane {lane} is open at {at}, and was settled below {least}")
        if dock.drained.is_set() and not dock.judged:
            dock.judged = True
            places = [(QUEUE, lane) for lane in range(LANES)]
            starts, ends = wire.offsets(places, -2), wire.offsets(places, -1)
            for place in places:
                log = self._all(*place, starts[place], ends[place])
                dock.oracle.log(place[1], starts[place], log)
            count = wire.metadata()[0].get(LETTERS, 0)
            letters = [(LETTERS, each) for each in range(count)]
            starts, ends = wire.offsets(letters, -2), wire.offsets(letters, -1)
            dead = [
                number
                for place in letters
                for number in self._all(*place, starts[place], ends[place]).values()
            ]
            dock.oracle.finish(dead)
            self.tell(oracle)

    def _all(self, topic: str, partition: int, start: int, end: int) -> dict[int, int]:
        """Offset -> number, from a log's start to its end."""
        found: dict[int, int] = {}
        settings = {
            "bootstrap.servers": self.world.bootstrap,
            "group.id": "dock-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings | RECONNECT)
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            deadline = time.monotonic() + 60
            while start < end:
                if time.monotonic() > deadline:
                    self.fail(f"{topic}-{partition} cannot be read beyond {start}")
                    break
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        break
                    continue
                start = (message.offset() or 0) + 1
                found[start - 1] = int(message.value() or b"-1")
        finally:
            consumer.close()
        return found


def settings_of(world: World, group: str, chance: random.Random, name: str) -> dict[str, Any]:
    """A consumer of lanes, of either protocol, static or not, for a life of this name."""
    settings: dict[str, Any] = {
        "bootstrap.servers": world.bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "max.partition.fetch.bytes": chance.choice((2_000, 1 << 20)),
    }
    if chance.random() < 0.5:
        # its group may change its protocol by that, and again when it goes; `gateway.py` has its session
        settings["group.protocol"] = "consumer"
    else:
        settings |= {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "range",
        }
    if chance.random() < 0.3:
        # a static member says nothing when it goes, and nobody comes in its place: it was lost
        settings["group.instance.id"] = name
    return settings


class Member(Load):
    """One consumer at a time; now and then it leaves, or is gone without a word, and another takes its place."""

    def __init__(self, world: World, dock: Dock, number: int) -> None:
        super().__init__(world, f"dock-{number}")
        self.dock = dock
        self._lives = 0
        # of each lane: what was read and is not answered for, and what is to be said of single offsets
        self._open: dict[int, dict[int, int]] = {}
        self._nacks: dict[int, set[int]] = {}

    def run(self) -> None:
        while not self._over():
            consumer = self._made()
            try:
                while not self._over():
                    if not self.world.stop.is_set() and self.chance.random() < 0.002:
                        break
                    self._step(consumer)
            finally:
                consumer.close()
            with self.dock.lock:
                self.dock.oracle.ended()

    def _over(self) -> bool:
        dock = self.dock
        if dock.complete.is_set():
            with dock.lock:
                left, certain = dock.oracle.left, dock.oracle.certain
            idle = time.monotonic() - dock.moved
            # what may have been acknowledged comes again soon, or never; and what was not, is missed below
            if not left or idle > (LOST if certain else IDLE):
                dock.drained.set()
        return dock.drained.is_set() or self.world.abandoned

    def _made(self) -> Consumer:
        self._lives += 1
        settings = settings_of(self.world, GROUP, self.chance, f"{self.name}-{self._lives}")
        consumer = Consumer(settings | RECONNECT)
        consumer.subscribe([QUEUE], on_assign=self._forget, on_revoke=self._forget, on_lost=self._lost)
        self._open, self._nacks = {}, {}
        return consumer

    def _forget(self, consumer: Consumer, lanes: list[TopicPartition]) -> None:
        for each in lanes:
            self._open.pop(each.partition, None)
            self._nacks.pop(each.partition, None)

    def _lost(self, consumer: Consumer, lanes: list[TopicPartition]) -> None:
        """Its session was over: what was in its hands comes again, and has failed."""
        self._forget(consumer, lanes)
        with self.dock.lock:
            self.dock.oracle.ended()

    def _step(self, consumer: Consumer) -> None:
        calm = self.world.stop.is_set()
        for message in consumer.consume(self.chance.choice((1, 20, 100)), 0.1):
            if (error := message.error()) is not None:
                if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    self.fail(f"its place in a lane is not there: {error}")
                continue
            lane, offset = message.partition() or 0, message.offset() or 0
            number = int(message.value() or b"-1")
            with self.dock.lock:
                self.dock.oracle.read(lane, offset, number)
                self.dock.moved = time.monotonic()
            self._open.setdefault(lane, {})[offset] = number
            if number % BAD == 7 or (not calm and self.chance.random() < 0.03):
                self._nacks.setdefault(lane, set()).add(offset)
        for lane in [lane for lane, found in self._open.items() if found]:
            if self.chance.random() < 0.5:
                self._commit(consumer, lane)

    def _commit(self, consumer: Consumer, lane: int) -> None:
        dock, found = self.dock, self._open[lane]
        nacks = sorted(self._nacks.get(lane, ()))
        offset = max(found) + 1
        commit = Commit(
            lane,
            {at: number for at, number in found.items() if at not in nacks},
            {at: found[at] for at in nacks},
        )
        said = f"ack1;n={','.join(map(str, nacks))}" if nacks else ""
        with dock.lock:
            dock.oracle.sent(commit)
        try:
            (answer,) = consumer.commit(
                offsets=[TopicPartition(QUEUE, lane, offset, metadata=said)], asynchronous=False
            )
            error = answer.error
        except KafkaException as failed:
            error = failed.args[0]
        if error is not None:
            if error.code() == KafkaError.INVALID_REQUEST:
                self.fail(f"lane {lane}, {said!r} at {offset}: {error}")
            # what is open is said again with the next commit
            return
        with dock.lock:
            dock.oracle.answered(commit)
            dock.acked[lane] = max(dock.acked.get(lane, -1), offset)
        self._open[lane] = {}
        self._nacks.pop(lane, None)
        self.moved += 1


def loads(world: World) -> list[Load]:
    dock = Dock()
    return [Sender(world, dock), *(Member(world, dock, number) for number in range(3))]
