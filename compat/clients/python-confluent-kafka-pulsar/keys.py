"""Pulsar's subscriptions with confluent-kafka: Key_Shared, its promise checked by the consumers themselves."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict

from base import create, produce
from common import Context, Record, case, check, restart_case, same
from confluent_kafka import Message
from share import ACCEPT, RELEASE, Sharer, nothing_else, refused_config, share_group

STICKY = {"pulsar__subscription__type": "key_shared", "pulsar__key__shared__mode": "sticky"}


class Ledger:
    """What members tell of their records: a key is in one hand at a time, and its records come in order."""

    def __init__(self) -> None:
        self.done: dict[bytes, int] = defaultdict(lambda: -1)
        """Key -> the last of its records that was accepted."""
        self.wrong: list[str] = []
        self.by_member: Counter[str] = Counter()
        self.keys: dict[str, set[bytes]] = defaultdict(set)
        self._hands: dict[bytes, str] = {}
        self._lock = threading.Lock()

    def take(self, member: str, message: Message) -> None:
        key, number = message.key(), int(message.value())
        with self._lock:
            self.by_member[member] += 1
            self.keys[member].add(key)
            holder = self._hands.setdefault(key, member)
            if holder != member:
                self.wrong.append(f"{member} got {key!r} {number} while {holder} holds the key")
            if number != self.done[key] + 1:
                self.wrong.append(f"{member} got {key!r} {number} after {self.done[key]}")

    def accept(self, message: Message) -> None:
        """Before it is sent: the next record may be given before the answer is back."""
        with self._lock:
            self.done[message.key()] = int(message.value())
            self._hands.pop(message.key(), None)

    def give_back(self, message: Message) -> None:
        with self._lock:
            self._hands.pop(message.key(), None)

    @property
    def accepted(self) -> int:
        with self._lock:
            return sum(number + 1 for number in self.done.values())


class Worker(threading.Thread):
    """Accepts what comes, a little of it released first, until all is done. With `restless` it leaves after some
    polls, half of the time with records in hand, and another takes its place."""

    def __init__(
        self, ctx: Context, ledger: Ledger, group: str, topic: str, count: int, restless: int = 0
    ) -> None:
        super().__init__(name=f"{ctx.case}:{restless}", daemon=True)
        self._ctx, self._ledger, self._count, self._restless = ctx, ledger, count, restless
        self._group, self._topic = group, topic
        self._noise = random.Random(restless)
        self.lives = 0
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while self._ledger.accepted < self._count and not self._ledger.wrong and self._ctx.left > 0:
                self.lives += 1
                self._live(Sharer(self._ctx, self._group, self._topic, max_poll_records=20))
        except BaseException as error:
            self.error = error

    def _live(self, sharer: Sharer) -> None:
        name = f"{self.ident}.{self.lives}"
        polls = self._noise.randint(5, 15) if self._restless else 1 << 30
        # librdkafka 2.16 never ends a close() that comes between its first assignment and the metadata of it: it
        # takes the assignment up though it terminates, and waits for that partition. So nobody closes that soon.
        first = True
        while first or (
            polls and self._ledger.accepted < self._count and not self._ledger.wrong and self._ctx.left > 0
        ):
            found = sharer.poll(0.5 if first else 0.1)
            first = False
            polls -= bool(found)
            for message in found:
                self._ledger.take(name, message)
            if not polls and self._noise.random() < 0.5:
                for message in found:
                    self._ledger.give_back(message)
                break
            for message in found:
                again = self._noise.random() < 0.05
                (self._ledger.give_back if again else self._ledger.accept)(message)
                sharer.client.acknowledge(message, RELEASE if again else ACCEPT)
            sharer.commit()
        sharer.close()


def feed(ctx: Context, topic: str, keys: int, each: int, start: int = 0) -> None:
    for number in range(start, start + each):
        produce(ctx, topic, [Record(b"key-%d" % key, b"%d" % number) for key in range(keys)], 0)


def finish(ctx: Context, ledger: Ledger, workers: list[Worker], count: int) -> None:
    for _ in ctx.wait(f"{count} records"):
        for worker in workers:
            if worker.error:
                raise worker.error
        check(not ledger.wrong, "; ".join(ledger.wrong[:5]))
        if ledger.accepted >= count:
            break
    for worker in workers:
        worker.join()
    check(not ledger.wrong, "; ".join(ledger.wrong[:5]))


@case
def pulsar_key_shared(ctx: Context) -> None:
    for mode in ("auto_split", "consistent_hashing"):
        topic = create(ctx)
        settings = {"pulsar__subscription__type": "key_shared", "pulsar__key__shared__mode": mode}
        group, ledger = share_group(ctx, **settings, pulsar__max__redeliver__count=-1), Ledger()
        workers = [Worker(ctx, ledger, group, topic, 500) for _ in range(4)]
        feed(ctx, topic, 50, 10)
        finish(ctx, ledger, workers, 500)
        check(len(ledger.by_member) == 4, f"members that got records in {mode}: {ledger.by_member}")
        nothing_else(ctx, Sharer(ctx, group, topic), topic)


@case
def pulsar_key_shared_joining_and_leaving(ctx: Context) -> None:
    topic, ledger = create(ctx), Ledger()
    group = share_group(ctx, pulsar__subscription__type="key_shared", pulsar__max__redeliver__count=-1)
    workers = [Worker(ctx, ledger, group, topic, 3000, restless=n + 1) for n in range(20)]
    feed(ctx, topic, 100, 30)
    finish(ctx, ledger, workers, 3000)
    check(sum(worker.lives for worker in workers) > 25, f"lives: {[worker.lives for worker in workers]}")
    nothing_else(ctx, Sharer(ctx, group, topic), topic)


@case
def pulsar_key_shared_strict(ctx: Context) -> None:
    topic = create(ctx)
    group = share_group(
        ctx,
        pulsar__subscription__type="key_shared",
        pulsar__nack__delay__ms=500,
        pulsar__max__redeliver__count=2,
    )
    feed(ctx, topic, 2, 3)
    member, order, began = Sharer(ctx, group, topic), defaultdict(list), time.monotonic()
    for _ in ctx.wait("all records"):
        for message in member.poll():
            number = int(message.value())
            order[message.key()].append(number)
            bad = message.key() == b"key-0" and number == 0
            member.acknowledge([message], RELEASE if bad else ACCEPT)
        if sum(map(len, order.values())) == 8:
            break
    same(order[b"key-1"], [0, 1, 2], "a key that nobody refused")
    # The refused record is given three times before it is dead: until then the key's others wait.
    same(order[b"key-0"], [0, 0, 0, 1, 2], "a key whose first record is refused")
    check(time.monotonic() - began > 1.0, "the refused record came before its delay")
    nothing_else(ctx, member, topic)


@case
def pulsar_key_shared_sticky(ctx: Context) -> None:
    topic = create(ctx)
    left, right = ctx.name("left"), ctx.name("right")
    group = share_group(ctx, **STICKY, pulsar__key__shared__ranges=f"{left}:0-32767,{right}:32768-65535")
    feed(ctx, topic, 40, 2)
    one = Sharer(ctx, group, topic, client_id=left)
    mine: set[bytes] = set()
    count = 0
    for _ in ctx.wait("the records of one half"):
        found = one.poll()
        one.acknowledge(found)
        mine |= {message.key() for message in found}
        count += len(found)
        if mine and not found:
            break
    check(0 < len(mine) < 40, f"{len(mine)} of 40 keys lie in one half of the slots")
    # a poll of the first that brought nothing may have been a slow one
    other, others = Sharer(ctx, group, topic, client_id=right), set[bytes]()
    for _ in ctx.wait("all records"):
        for member, keys in ((one, mine), (other, others)):
            found = member.poll()
            member.acknowledge(found)
            keys |= {message.key() for message in found}
            count += len(found)
        if count == 80:
            break
    check(
        others and len(mine) + len(others) == 40,
        f"of 40 keys {len(mine)} went to the left, {len(others)} to the right",
    )
    # "Order-3459134" has slot 6067: it is the left one's.
    produce(ctx, topic, [Record(b"Order-3459134", b"x")])
    same([m.key() for m in one.take(1)], [b"Order-3459134"], "a key of the left half")


@case
def pulsar_key_shared_ordering_key(ctx: Context) -> None:
    topic = create(ctx)
    group = share_group(ctx, pulsar__subscription__type="key_shared")
    records = [Record(b"key-%d" % n, b"%d" % n, [("pulsar-ordering-key", b"same")]) for n in range(10)]
    produce(ctx, topic, records)
    member, seen = Sharer(ctx, group, topic), []
    for _ in ctx.wait("all records"):
        found = member.poll()
        check(len(found) <= 1, f"{len(found)} records of one ordering key at a time")
        seen += [int(message.value()) for message in found]
        member.acknowledge(found)
        if len(seen) == 10:
            break
    same(seen, list(range(10)), "order")


@case
def pulsar_type_of_a_running_group(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    produce(ctx, topic, [Record(b"k", b"v")])
    member = Sharer(ctx, group, topic)
    member.take(1)
    said = refused_config(ctx, group, "pulsar.subscription.type", "key_shared")
    check(said.startswith("INVALID_CONFIG") and "consumers (1)" in said, said)
    for name, value, good in (
        ("pulsar.subscription.type", "queue", "key_shared"),
        ("pulsar.key.shared.mode", "some", "consistent_hashing"),
        ("pulsar.key.shared.ranges", "a:0-9,b:5-20", "slot 5"),
        ("pulsar.nack.delay.ms", "-1", "0"),
        ("pulsar.max.redeliver.count", "many", "pulsar.max.redeliver.count"),
    ):
        said = refused_config(ctx, group, name, value)
        check(said.startswith("INVALID_CONFIG") and good in said, f"{name}={value}: {said}")


@restart_case
def restart_pulsar_key_shared(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx, pulsar__subscription__type="key_shared")
    feed(ctx, topic, 20, 5)
    ledger, member = Ledger(), Sharer(ctx, group, topic)

    def work(sharer: Sharer, count: int) -> None:
        for _ in ctx.wait(f"{count} records"):
            found = sharer.poll()
            for message in found:
                ledger.take("one", message)
                ledger.accept(message)
            sharer.acknowledge(found)
            check(not ledger.wrong, "; ".join(ledger.wrong[:5]))
            if ledger.accepted >= count:
                break

    work(member, 50)
    member.close()
    ctx.restart()
    feed(ctx, topic, 20, 5, start=5)
    other = Sharer(ctx, group, topic)
    work(other, 200)
    nothing_else(ctx, other, topic)
