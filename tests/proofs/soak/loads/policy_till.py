"""Topics whose messages expire, are evicted, are held back and refused, while policies change under their clients.

What counts is said of the topic or of its namespace. Two shops. In `goods` librdkafka's idempotent producer waits for
as long as it has to. In `parts` a producer by hand knows of each message what became of it: one that is refused is
nowhere. Members accept what they are given.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, Producer, ShareConsumer

from tests.proofs.soak.admin import Admin, Said
from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.backlog import Backlog
from tests.proofs.soak.loads.policy_desk import make_namespace
from tests.proofs.soak.loads.produce import RECONNECT
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.policy_oracle import LATE_MS, Till, Window
from tests.proofs.soak.share_wire import ShareWire, batch
from tests.proofs.soak.wire import Refused, Wire

PARTITIONS = 2
WAITING = 100
"""So many of the idempotent producer's wait for their answer, at most."""
AGES = (100, 1000, 4000)
"""ms, after which messages may go."""
QUOTA = "backlogQuota?backlogQuotaType=destination_storage"
ACTIONS = {
    "hold": "producer_request_hold",
    "refuse": "producer_exception",
    "evict": "consumer_backlog_eviction",
}
COME_AGAIN, REFUSED = 19, 44
"""NOT_ENOUGH_REPLICAS, POLICY_VIOLATION."""
LOCK_MS = 1500
ANSWER = 20.0


def _value(sender: int, number: int, now: int) -> bytes:
    return b"%d %d %d " % (sender, number, now) + bytes(60 + number % 80)


def _read(value: bytes | None) -> tuple[int, int, int]:
    sender, number, sent = (value or b"").split(b" ", 3)[:3]
    return int(sender), int(number), int(sent)


class Shop:
    """What all that belong together know."""

    def __init__(self, namespace: str, name: str, group: str, ways: tuple[str, ...]) -> None:
        """`ways`: what may be said of it, each with the same chance."""
        self.namespace, self.group, self.ways = namespace, group, ways
        self.topic = f"{namespace.replace('/', '.')}.{name}"
        self.path = f"persistent/{namespace}/{name}"
        self.lock = threading.RLock()
        self.wrong: list[str] = []
        self.till = Till(self.wrong.append)
        # (ms of age, since when) that count, or may count
        self.counting: list[tuple[int, int]] = []
        # until when messages may have been evicted for their size: ms since 1970
        self._evicted = 0
        # of each producer: what was answered to be stored, by its number, and what was refused
        self.acked: dict[tuple[int, int], tuple[int, int]] = {}
        self.refused: set[tuple[int, int]] = set()
        self.backlog = Backlog()
        # nobody publishes any more, and no policy lets anything go; then: nothing is left
        self.quiet = threading.Event()
        self.sending = True
        self.drained = threading.Event()
        self.judged = False

    def stored(self, index: int, offset: int, sender: int, number: int, sent: int) -> None:
        with self.lock:
            self.till.stored(index, offset, sent)
            self.acked[sender, number] = index, offset

    def windows(self) -> None:
        """Take over what may count now."""
        now = int(time.time() * 1000)
        self.till.windows += [Window(age, since, now) for age, since in self.counting]
        if 0 in [age for age, _ in self.counting]:
            self._evicted = now + LATE_MS

    def may_evict(self, since: int) -> bool:
        """Whether messages may have been evicted for their size since then, in ms since 1970."""
        return self._evicted >= since or 0 in [age for age, _ in self.counting]


class Sender(Load):
    """librdkafka's idempotent producer. Nothing of it is given up, and nothing is there twice."""

    def __init__(self, world: World, shop: Shop) -> None:
        super().__init__(world, f"{shop.group}-idempotent")
        self.shop = shop

    def run(self) -> None:
        settings = {
            "bootstrap.servers": self.world.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "linger.ms": 2,
            "log_level": 0,
        }
        producer = Producer(settings | RECONNECT)
        number = 0
        while not self.world.stop.is_set():
            for _ in range(self.chance.randint(1, 8)):
                if len(producer) >= WAITING:
                    break
                now = int(time.time() * 1000)
                producer.produce(
                    self.shop.topic,
                    _value(0, number, now),
                    partition=number % PARTITIONS,
                    timestamp=now,
                    on_delivery=self._told,
                )
                number += 1
            producer.poll(self.chance.random() * 0.2)
        while len(producer) and not self.world.abandoned:
            producer.flush(0.5)
        self.shop.sending = False

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            if not self.world.abandoned:
                self.fail(f"a message was given up: {error}")
            return
        sender, number, sent = _read(message.value())
        self.shop.stored(message.partition() or 0, message.offset() or 0, sender, number, sent)
        self.moved += 1


class ByHand(Load):
    """A producer without idempotence, one request at a time: it knows of each message what became of it, or that it
    does not.
    """

    def __init__(self, world: World, shop: Shop) -> None:
        super().__init__(world, f"{shop.group}-by-hand")
        self.shop = shop

    def run(self) -> None:
        stop = self.world.stop
        number = 0
        while not stop.is_set():
            try:
                with Wire(self.world.port) as wire:
                    while not stop.is_set():
                        number += 1
                        self._send(wire, number)
                        stop.wait(self.chance.random() * 0.15)
            except OSError:
                stop.wait(0.02)
        self.shop.sending = False

    def _send(self, wire: Wire, number: int) -> None:
        now = int(time.time() * 1000)
        index = number % PARTITIONS
        try:
            offset = wire.produce((self.shop.topic, index), batch([(now, None, _value(1, number, now), [])]))
        except Refused as error:
            if error.code not in (COME_AGAIN, REFUSED):
                self.fail(f"was refused: {error}")
            with self.shop.lock:
                self.shop.refused.add((1, number))
            return
        self.shop.stored(index, offset, 1, number, now)
        self.moved += 1


class Changer(Load):
    """Says another thing of the topic now and then, and nothing when all is over."""

    def __init__(self, world: World, shop: Shop) -> None:
        super().__init__(world, f"{shop.group}-policies")
        self.shop = shop
        # something may be said of it
        self._said = True

    def prepare(self) -> None:
        with self.world.admin().wait() as admin:
            make_namespace(admin, self.shop.namespace)
        with ShareWire(self.world.port) as wire:
            wire.create(self.shop.topic, PARTITIONS, {"internal.segment.bytes": "20000"})
            settings: dict[str, object] = {
                "share.auto.offset.reset": "earliest",
                "pulsar.ack.timeout.ms": LOCK_MS,
                "pulsar.dead.letter.enable": "false",
                "pulsar.max.redeliver.count": -1,
            }
            wire.configure(self.shop.group, settings)

    def run(self) -> None:
        world, shop = self.world, self.shop
        quiet = False
        while not world.abandoned and not quiet:
            quiet = world.stop.is_set() and not shop.sending
            try:
                with world.admin() as admin, ShareWire(world.port) as wire:
                    if self._said:
                        self._nothing(admin)
                    if not world.stop.is_set():
                        self._said = True
                        self._say(admin, wire)
                        world.stop.wait(0.2 + self.chance.random())
                        self._nothing(admin)
                    else:
                        time.sleep(0.05)
            except Said as error:
                self.fail(f"was refused: {error}")
                return
            except OSError:
                # what was said last counts, or not: until it is answered that it does not
                self._said = True
                quiet = False
                time.sleep(0.02)
        shop.quiet.set()

    def _nothing(self, admin: Admin) -> None:
        """Nothing is said any more: what counted does not."""
        admin.ask("DELETE", f"{self.shop.path}/policies")
        for segment in ("messageTTL", QUOTA):
            admin.ask("DELETE", f"namespaces/{self.shop.namespace}/{segment}")
        with self.shop.lock:
            self.shop.windows()
            self.shop.counting = []
        self._said = False

    def _say(self, admin: Admin, wire: ShareWire) -> None:
        chance, shop = self.chance, self.shop
        at_topic, at_namespace = shop.path, f"namespaces/{shop.namespace}"
        where = chance.choice((at_topic, at_namespace))
        way = chance.choice(shop.ways)
        age = chance.choice(AGES)
        if way == "time":
            self._counts(age)
            wire.alter(shop.topic, {"pulsar.message.ttl.ms": age})
        elif way == "seconds":
            self._counts(1000)
            admin.ask("POST", f"{at_namespace}/messageTTL", 1)
        elif way == "age":
            self._counts(age)
            quota = {"pulsar.backlog.quota.ms": age, "pulsar.backlog.quota.ms.policy": ACTIONS["evict"]}
            wire.alter(shop.topic, quota)
        elif way in ACTIONS:
            if way == "evict":
                self._counts(0)
            body = {"limitSize": chance.choice((500, 3000)), "policy": ACTIONS[way]}
            admin.ask("POST", f"{where}/{QUOTA}", body)
        elif way == "rates":
            admin.ask("POST", f"{at_topic}/publishRate", {"publishThrottlingRateInMsg": 100})
            admin.ask("POST", f"{at_topic}/subscriptionDispatchRate", {"dispatchThrottlingRateInMsg": 50})
        self.moved += 1

    def _counts(self, age_ms: int) -> None:
        """From now on messages of that age may go."""
        with self.shop.lock:
            self.shop.counting.append((age_ms, int(time.time() * 1000)))


class Member(Load):
    """One share consumer at a time, which is slow now and then, and goes now and then."""

    def __init__(self, world: World, shop: Shop, number: int) -> None:
        super().__init__(world, f"{shop.group}-{number}")
        self.shop = shop
        # when the last two polls that gave something began: what comes was asked for after the first of them
        self._polled = (0, 0)
        # when the last three polls began, whatever they gave
        self._begun: deque[int] = deque(maxlen=3)

    def run(self) -> None:
        while not self._over():
            consumer = self._made()
            try:
                while not self._over() and (self.shop.quiet.is_set() or self.chance.random() > 0.005):
                    self._step(consumer)
            finally:
                consumer.close()

    def _over(self) -> bool:
        shop = self.shop
        if shop.quiet.is_set() and not shop.drained.is_set():
            try:
                with ShareWire(self.world.port) as wire:
                    left = sum(lag for _, lag in wire.positions(shop.group).values())
                    if shop.backlog.told(left, time.monotonic()):
                        shop.drained.set()
            except (OSError, Refused):
                time.sleep(0.02)
            if stuck := shop.backlog.stuck(time.monotonic()):
                self.fail(stuck)
                return True
        return shop.drained.is_set() or self.world.abandoned

    def _made(self) -> ShareConsumer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.world.bootstrap,
            "group.id": self.shop.group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": self.chance.choice((1, 20, 200)),
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        made = ShareConsumer(settings)
        made.subscribe([self.shop.topic])
        now = time.monotonic_ns()
        self._polled = (now, now)
        return made

    def _step(self, consumer: ShareConsumer) -> None:
        began = time.monotonic_ns()
        self._begun.append(began)
        given = [message for message in consumer.poll(0.1) if message.error() is None]
        if not given:
            return
        # polls that gave nothing would have given it: it was on its way for two of them at most
        held_ns = max(self._begun[0], self._polled[0])
        shop = self.shop
        # what came may have been acquired long before
        since = int(time.time() * 1000) - (time.monotonic_ns() - self._polled[0]) // 1_000_000
        for message in given:
            sender, number, sent = _read(message.value())
            place = message.partition() or 0, message.offset() or 0
            with shop.lock:
                shop.till.delivered(*place, sent, self._polled[0])
                if shop.acked.get((sender, number), place) != place and sender == 0:
                    shop.wrong.append(f"message {number} is at {shop.acked[sender, number]}, and at {place}")
                if (sender, number) in shop.refused:
                    shop.wrong.append(f"message {number} was refused, and came")
        self._polled = (self._polled[1], began)
        calm = self.world.stop.is_set()
        if not calm and self.chance.random() < 0.1:
            self.world.stop.wait(self.chance.choice((0.3, 1, 4)))
        releases = not calm and self.chance.random() < 0.1
        said: list[tuple[int, int]] = []
        for message in given:
            place = message.partition() or 0, message.offset() or 0
            if not releases:
                with shop.lock:
                    shop.till.says(*place)
                said.append(place)
            consumer.acknowledge(message, AcknowledgeType.RELEASE if releases else AcknowledgeType.ACCEPT)
        try:
            answers = consumer.commit_sync(ANSWER)
        except KafkaException:
            return
        answered = time.monotonic_ns()
        good = {where.partition for where, error in answers.items() if error is None}
        # when its lock had run out it may have expired: what lies below the start is passed over, as in Kafka
        late = answered - held_ns >= LOCK_MS * 1_000_000
        with shop.lock:
            for index, offset in said:
                if index in good:
                    shop.till.accepted(index, offset, answered, gone=late or shop.may_evict(since))
                    self.moved += 1


class Judge(Load):
    """Nothing that runs: it looks."""

    def __init__(self, world: World, shop: Shop) -> None:
        super().__init__(world, f"{shop.group}-judge")
        self.shop = shop

    def run(self) -> None:
        self.moved += 1

    def tell(self, oracle: Oracle) -> None:
        with self.shop.lock:
            wrong, self.shop.wrong[:] = list(self.shop.wrong), []
            oracle.seen.update(self.shop.till.seen)
            self.shop.till.seen.clear()
        for text in wrong:
            oracle.wrong(f"{self.shop.topic}: {text}")

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        with self.shop.lock:
            accepted = {index: part.accepted for index, part in self.shop.till.parts.items()}
        with self.world.admin().wait() as admin, ShareWire(self.world.port) as asking:
            try:
                starts = {place[1]: start for place, (start, _) in asking.positions(self.shop.group).items()}
            except Refused:
                # nobody has joined yet
                return
            expired = {index: self._expired(admin, index) for index in range(PARTITIONS)}
            known = time.monotonic_ns()
            # stored behind all that was seen: when this is answered, so is that
            asking.commit("till-judge", {(self.shop.topic, index): 0 for index in range(PARTITIONS)})
            places = [(self.shop.topic, index) for index in range(PARTITIONS)]
            ends = asking.offsets(places, -1)
            with self.shop.lock:
                for index in range(PARTITIONS):
                    self.shop.till.settled(
                        index,
                        starts.get(index, 0),
                        expired[index],
                        accepted.get(index, 0),
                        ends[self.shop.topic, index],
                        known,
                    )
            if self.shop.drained.is_set() and not self.shop.judged:
                self.shop.judged = True
                self._finish(asking, ends, expired)
        self.tell(oracle)

    def _expired(self, admin: Admin, index: int) -> int:
        stats = admin.ask("GET", f"{self.shop.path}-partition-{index}/stats")
        of_group = stats["subscriptions"].get(self.shop.group)
        return int(of_group["totalMsgExpired"]) if of_group is not None else 0

    def _finish(self, wire: ShareWire, ends: dict[tuple[str, int], int], expired: dict[int, int]) -> None:
        """All that is there is read, and nothing is open."""
        shop = self.shop
        with shop.lock:
            found: dict[tuple[int, int], tuple[int, int]] = {}
            for index in range(PARTITIONS):
                at, end = 0, ends[self.shop.topic, index]
                newest = -1
                while at < end:
                    for each in wire.fetch((shop.topic, index), at):
                        sender, number, sent = _read(each.value)
                        shop.till.stored(index, each.offset, sent)
                        if (sender, number) in found:
                            shop.wrong.append(f"message {number} of {sender} is there twice")
                        if (sender, number) in shop.refused:
                            shop.wrong.append(f"message {number} of {sender} was refused, and is there")
                        found[sender, number] = index, each.offset
                        if sender == 0:
                            if number <= newest:
                                shop.wrong.append(f"message {number} is behind {newest}, out of order")
                            newest = number
                        at = each.offset + 1
            for of, place in shop.acked.items():
                if found.get(of) != place:
                    shop.wrong.append(f"message {of} was acknowledged at {place}, and is at {found.get(of)}")
            for index in range(PARTITIONS):
                shop.till.finish(index, ends[self.shop.topic, index], expired[index])


def loads(world: World) -> list[Load]:
    shared = ("time", "seconds", "age", "hold", "evict", "rates", "nothing")
    goods = Shop("soak/till", "goods", "cashiers", shared)
    # the idempotent producer would give up what is refused
    parts = Shop("soak/counter", "parts", "porters", (*shared, "refuse", "evict", "evict", "evict"))
    found: list[Load] = []
    for shop, sender in ((goods, Sender(world, goods)), (parts, ByHand(world, parts))):
        found += [Changer(world, shop), sender, *[Member(world, shop, each) for each in range(2)]]
        found.append(Judge(world, shop))
    return found
