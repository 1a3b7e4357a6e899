"""Share groups of librdkafka's consumers, judged as those of `shares.py`: what an application sees through a client.

Two groups. `clerks` is Shared on `files`, with a backoff; `desks` is Key_Shared on `letters`, in strict order. A member
accepts, releases or rejects each record, and says nothing of some until their locks have run out.
"""

from __future__ import annotations

import time

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.shares import (
    LOCK_MS,
    Group,
    Sender,
    due_of,
    fate_of,
    name_of,
)
from tests.proofs.soak.share_oracle import Delivery, Rules, Verdict
from tests.proofs.soak.share_wire import ACCEPT, RELEASE, Place, ShareWire
from tests.proofs.soak.wire import Refused

ANSWER = 20.0
"""So long an acknowledgement may take. The gateway may be away."""


class Member(Load):
    """One consumer at a time; now and then it is closed, and another one takes its place."""

    def __init__(self, world: World, group: Group, number: int) -> None:
        super().__init__(world, f"{group.name}-{number}")
        self.group = group
        # when the last two polls that gave something began: what comes was asked for after the first of them, since
        # the client may have asked before it was polled
        self._polled = (0, 0)

    def run(self) -> None:
        stop = self.world.stop
        while not self._over():
            consumer = self._made()
            try:
                while not self._over():
                    if stop.is_set():
                        if stuck := self.group.backlog.stuck(time.monotonic()):
                            self.fail(stuck)
                            return
                        self._look_at_backlog()
                    elif self.chance.random() < 0.005:
                        break
                    self._step(consumer)
            finally:
                consumer.close()

    def _over(self) -> bool:
        return self.group.drained.is_set() or self.world.abandoned

    def _made(self) -> ShareConsumer:
        settings = {
            "bootstrap.servers": self.world.bootstrap,
            "group.id": self.group.name,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": self.chance.choice((1, 20, 200)),
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        made = ShareConsumer(settings)
        made.subscribe([self.group.topic])
        now = time.monotonic_ns()
        self._polled = (now, now)
        return made

    def _look_at_backlog(self) -> None:
        try:
            with ShareWire(self.world.port) as wire:
                self.group.look(wire)
        except (OSError, Refused):
            time.sleep(0.02)

    def _step(self, consumer: ShareConsumer) -> None:
        began = time.monotonic_ns()
        given = [message for message in consumer.poll(0.1) if message.error() is None]
        if not given:
            return
        for message in given:
            self.group.events.append(self._delivery(message))
        self._polled = (self._polled[1], began)
        calm = self.world.stop.is_set()
        if not calm and self.chance.random() < 0.01:
            # locks run out in its hands
            self.world.stop.wait(LOCK_MS / 1000 * 1.2)
        said = [self._say(consumer, message, calm) for message in given]
        try:
            answers = consumer.commit_sync(ANSWER)
        except KafkaException:
            # of nothing is known what became of it
            return
        at = time.monotonic_ns()
        good = {(where.topic, where.partition) for where, error in answers.items() if error is None}
        for verdict in said:
            if verdict.place in good:
                self.group.events.append(verdict._replace(answered_ns=at))
                self.moved += 1

    def _delivery(self, message: Message) -> Delivery:
        value = message.value() or b""
        headers = [(name, data or b"") for name, data in message.headers() or []]
        return Delivery(
            _place(message),
            message.offset() or 0,
            message.delivery_count(),
            name_of(value),
            message.key(),
            due_of(message.timestamp()[1], headers),
            self._polled[0],
            time.monotonic_ns(),
            int(time.time() * 1000),
        )

    def _say(self, consumer: ShareConsumer, message: Message, calm: bool) -> Verdict:
        kind = fate_of(message.value() or b"")
        if kind is None:
            kind = RELEASE if not calm and self.chance.random() < 0.1 else ACCEPT
        verdict = Verdict(
            _place(message),
            message.offset() or 0,
            message.delivery_count(),
            kind,
            time.monotonic_ns(),
            int(time.time() * 1000),
        )
        self.group.events.append(verdict)
        consumer.acknowledge(message, AcknowledgeType(kind))
        return verdict


def _place(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0


def loads(world: World) -> list[Load]:
    shared = Rules(4, (40, 400, 2.0), behind_library=True)
    keyed = Rules(4, key_shared=True, behind_library=True)
    clerks = Group(world, "clerks", "files", 2, shared, "", retries=False)
    desks = Group(world, "desks", "letters", 2, keyed, "fsync", retries=False)
    found: list[Load] = []
    for number, group in enumerate((clerks, desks), 2):
        found.append(Sender(world, group, number))
        found += [Member(world, group, each) for each in range(2)]
    return found
