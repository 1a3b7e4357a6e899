"""Consumer groups: members read, then commit what they read and wait for the answer."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

import aiokafka
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.proofs.soak import records
from tests.proofs.soak.loads import TOPICS, Load, World, unless_abandoned
from tests.proofs.soak.loads.produce import RECONNECT
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.wire import Wire


class Group:
    """What the members of a group were told together."""

    def __init__(self, name: str, topics: list[str]) -> None:
        self.name = name
        self.topics = topics
        self.places = [(topic, each) for topic in topics for each in range(TOPICS[topic][0])]
        # (place, offset, producer, sequence) in the order of the deliveries
        self.given: deque[tuple[Place, int, int, int]] = deque()
        self.lock = threading.Lock()
        self.sent: dict[Place, int] = {}
        self.acked: dict[Place, int] = {}

    def sending(self, offsets: dict[Place, int]) -> None:
        self._raise(self.sent, offsets)

    def answered(self, offsets: dict[Place, int]) -> None:
        self._raise(self.acked, offsets)

    def _raise(self, known: dict[Place, int], offsets: dict[Place, int]) -> None:
        with self.lock:
            for place, offset in offsets.items():
                known[place] = max(known.get(place, -1), offset)

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        with self.lock:
            acked = dict(self.acked)
        found = wire.committed(self.name)
        with self.lock:
            sent = dict(self.sent)
        for place in self.places:
            oracle.committed(
                self.name, place, found.get(place, -1), acked.get(place, -1), sent.get(place, -1)
            )


class Member(Load):
    """One member. The first of a group speaks for the group in checks."""

    def __init__(self, world: World, group: Group, number: int) -> None:
        super().__init__(world, f"{group.name}-{number}")
        self.group = group
        self.first = number == 0

    def gave(self, place: Place, offset: int, value: bytes | None) -> None:
        parsed = records.parse(value)
        if parsed is None:
            self.fail(f"was given what nobody sent at {place}@{offset}: {(value or b'')[:60]!r}")
        else:
            self.group.given.append((place, offset, parsed[0], parsed[1]))

    def tell(self, oracle: Oracle) -> None:
        if self.first:
            for _ in range(len(self.group.given)):
                oracle.delivered(self.group.name, *self.group.given.popleft())

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        if self.first:
            self.group.verify(oracle, wire)

    def trimmable(self, place: Place) -> int | None:
        if not self.first or place not in self.group.places:
            return None
        with self.group.lock:
            return self.group.acked.get(place, 0)


class Librdkafka(Member):
    # what became of the last commit: each partition with its offset or error; None while it is under way
    _answer: list[TopicPartition] | None = None

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.world.bootstrap,
                "group.id": self.group.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                "session.timeout.ms": 20_000,
                "heartbeat.interval.ms": 500,
                "log_level": 0,
                "on_commit": self._committed,
                **RECONNECT,
            }
        )
        consumer.subscribe(self.group.topics)
        read: dict[Place, int] = {}
        while not self.world.stop.is_set():
            read |= self._read(consumer, self.chance.choice((5, 50, 500)), 0.1)
            if read:
                read = self._commit(consumer, read)
        if not self.world.abandoned:
            consumer.close()

    def _read(self, consumer: Consumer, count: int, seconds: float) -> dict[Place, int]:
        """Where the next records end, by partition."""
        read: dict[Place, int] = {}
        for message in consumer.consume(count, seconds):
            error = message.error()
            if error is not None:
                if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.fail(str(KafkaException(error)))
                continue
            place = message.topic() or "", message.partition() or 0
            offset = message.offset() or 0
            self.gave(place, offset, message.value())
            read[place] = offset + 1
        return read

    def _done(self) -> dict[Place, int]:
        """What the last commit's answer says is committed, by partition."""
        return {
            (each.topic, each.partition): each.offset for each in self._answer or () if each.error is None
        }

    def _commit(self, consumer: Consumer, read: dict[Place, int]) -> dict[Place, int]:
        """Commit and wait for the answer; what was read meanwhile. (A synchronous commit waits for ever.)"""
        self.group.sending(read)
        self._answer = None
        offsets = [TopicPartition(*place, offset) for place, offset in read.items()]
        meanwhile: dict[Place, int] = {}
        try:
            consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            return meanwhile
        while self._answer is None and not self.world.abandoned:
            meanwhile |= self._read(consumer, 1, 0.05)
        done = self._done()
        if done:
            self.group.answered(
                {place: offset for place, offset in done.items() if offset == read.get(place)}
            )
            self.moved += 1
        return meanwhile

    def _committed(self, error: KafkaError | None, answers: list[TopicPartition]) -> None:
        # failed: killed, or the group is on its way to another generation; what was read comes again or not
        self._answer = answers if error is None else []


class Aiokafka(Member):
    def run(self) -> None:
        asyncio.run(unless_abandoned(self.world, self._run()))

    async def _run(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            *self.group.topics,
            bootstrap_servers=self.world.bootstrap,
            group_id=self.group.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            session_timeout_ms=20_000,
            heartbeat_interval_ms=500,
            retry_backoff_ms=20,
        )
        while True:
            try:
                await consumer.start()
                break
            except Exception:
                await asyncio.sleep(0.1)
        while not self.world.stop.is_set():
            try:
                batches = await consumer.getmany(timeout_ms=100, max_records=self.chance.choice((5, 50, 500)))
            except aiokafka.errors.KafkaError:
                continue
            read: dict[Place, int] = {}
            for place, messages in batches.items():
                for message in messages:
                    self.gave((place.topic, place.partition), message.offset, message.value)
                    read[place.topic, place.partition] = message.offset + 1
            if read:
                self.group.sending(read)
                try:
                    await consumer.commit(
                        {aiokafka.TopicPartition(*place): offset for place, offset in read.items()}
                    )
                except aiokafka.errors.KafkaError:
                    continue
                self.group.answered(read)
                self.moved += 1
        if not self.world.abandoned:
            await consumer.stop()


def loads(world: World) -> list[Load]:
    readers = Group("readers", list(TOPICS))
    alone = Group("alone", ["orders"])
    return [
        *(Librdkafka(world, readers, number) for number in range(2)),
        Aiokafka(world, alone, 0),
    ]
