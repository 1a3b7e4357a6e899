"""Share groups when something dies: the gateway by SIGKILL under load, members of a Key_Shared group one by one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, ShareConsumer, TopicPartition

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import (
    ACCEPT,
    PATIENCE,
    REJECT,
    RELEASE,
    acknowledge,
    make_group,
    make_topic,
    member,
    poll,
    send,
    some,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Place = tuple[int, int]
"""Partition and offset."""


class Ledger:
    """What was confirmed, and what must never happen after it."""

    def __init__(self) -> None:
        self.settled: dict[Place, str] = {}
        """Places whose acceptance or rejection was confirmed."""
        self.least: dict[Place, int] = defaultdict(lambda: 1)
        """The least that the next delivery may count."""
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def delivered(self, message: Message) -> None:
        place = message.partition(), message.offset()
        with self._lock:
            if place in self.settled:
                self.wrong.append(f"{place} came back after it was {self.settled[place]}")
            if message.delivery_count() < self.least[place]:
                self.wrong.append(
                    f"{place} counts {message.delivery_count()}, it was {self.least[place]} before"
                )

    def confirmed(self, message: Message, kind: Any) -> None:
        place = message.partition(), message.offset()
        with self._lock:
            if kind is RELEASE:
                self.least[place] = message.delivery_count() + 1
            else:
                self.settled[place] = kind.name


class Worker(threading.Thread):
    """A member that rejects poison, now and then releases, accepts the rest, and tells the ledger."""

    def __init__(self, bootstrap: str, ledger: Ledger, number: int, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self._consumer = member(bootstrap, "g", "t", **{"max.poll.records": 50})
        self._ledger, self._ended = ledger, ended
        self._noise = random.Random(number)
        self.start()

    def run(self) -> None:
        while not self._ended.is_set():
            found = poll(self._consumer)
            kinds = [(message, self._kind(message)) for message in found]
            for message, kind in kinds:
                self._ledger.delivered(message)
                self._consumer.acknowledge(message, kind)
            try:
                answers = self._consumer.commit_sync(PATIENCE)
            except KafkaException:
                continue  # nothing of it is confirmed
            good = {where.partition for where, error in answers.items() if error is None}
            for message, kind in kinds:
                if message.partition() in good:
                    self._ledger.confirmed(message, kind)
        self._consumer.close()

    def _kind(self, message: Message) -> Any:
        if message.value().startswith(b"poison"):
            return REJECT
        return RELEASE if self._noise.random() < 0.1 else ACCEPT


def read_all(bootstrap: str, topic: str, partitions: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=PATIENCE)[1]
        for p in range(partitions)
    ]
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    found: list[Message] = []
    size: int = sum(ends)

    def all_read() -> bool:
        found.extend(consumer.consume(1000, 0.1))
        return len(found) >= size

    until(all_read, f"{size} records")
    consumer.close()
    return found


def test_confirmed_acknowledgements_counts_and_dead_letters_survive_sigkill(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    """Never a confirmed record again, never a lower count; at the end all are settled and each poison is dead once."""
    gateway = own_gateway()
    make_topic(gateway.bootstrap, "t", 3)
    make_group(gateway.bootstrap, "g", pulsar__max__redeliver__count=-1)
    total = 3000
    values = [b"poison %d" % n if n % 20 == 0 else b"good %d" % n for n in range(total)]
    for partition in range(3):
        send(gateway.bootstrap, "t", [(None, value) for value in values[partition::3]], partition=partition)
    ledger, ended = Ledger(), threading.Event()
    workers = [Worker(gateway.bootstrap, ledger, number, ended) for number in range(4)]
    for part in range(1, 5):

        def enough(least: int = part * total // 5) -> bool:
            return bool(ledger.wrong) or len(ledger.settled) >= least

        until(enough, f"part {part} of the records")
        gateway.kill()
        gateway.start()
    # The backlog tells the end: what the gateway settled and no member heard of never comes again.
    until(lambda: ledger.wrong or backlog(gateway) == 0, "an empty backlog")
    ended.set()
    for worker in workers:
        worker.join()
    assert ledger.wrong == []
    dead = read_all(gateway.bootstrap, "t-g-DLQ", 3)
    assert Counter(message.value() for message in dead) == Counter(values[::20])
    assert len(ledger.settled) > total * 0.8, "the members did the work"


def backlog(gateway: MagnetarPeer) -> int:
    """Of the group, as `magnetar-admin topics partitioned-stats` shows it."""
    url = f"{gateway.admin_url}/admin/v2/persistent/public/default/t/partitioned-stats"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        stats = json.load(answer)
    return int(stats["subscriptions"]["g"]["msgBacklog"])


MEMBER = Path(__file__).with_name("share_member.py")


class MemberProcess:
    """A member in a process of its own, that prints what it takes and settles: `share_member.py`."""

    def __init__(self, bootstrap: str, name: str, events: list[tuple[int, str, str, str, int]]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, str(MEMBER), bootstrap, "g", "t"], stdout=subprocess.PIPE, text=True
        )
        self.taken = 0

        def read() -> None:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                words = line.split()
                if len(words) == 4:  # it is killed while it writes
                    at, what, key, number = words
                    events.append((int(at), name, what, key, int(number)))
                    self.taken += what == "take"

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    def kill(self) -> int:
        """SIGKILL; when, in ns of the monotonic clock."""
        at = time.monotonic_ns()
        self._process.kill()
        self._process.wait()
        self._reader.join()
        return at


class Keys:
    """Members of a Key_Shared group over thirty keys; each tells what it takes and settles."""

    KEYS, EACH = 30, 40

    def __init__(self, gateway: MagnetarPeer, size: int) -> None:
        self._bootstrap = gateway.bootstrap
        make_topic(gateway.bootstrap, "t")
        strict = {"pulsar__subscription__type": "key_shared", "pulsar__max__redeliver__count": -1}
        make_group(gateway.bootstrap, "g", **strict)
        numbered = [
            (b"key-%d" % key, b"%d" % number) for number in range(self.EACH) for key in range(self.KEYS)
        ]
        send(gateway.bootstrap, "t", numbered)
        self.events: list[tuple[int, str, str, str, int]] = []
        self.signalled: dict[str, int] = {}
        """Member -> when it was killed."""
        self.members: list[MemberProcess] = []
        self._made = 0
        for _ in range(size):
            self.join()

    def join(self) -> None:
        self.members.append(MemberProcess(self._bootstrap, f"m{self._made}", self.events))
        self._made += 1

    def kill_oldest(self) -> None:
        oldest = self.members.pop(0)
        self.signalled[oldest.name] = oldest.kill()

    def work(self, taken: int) -> None:
        """Wait until so many more were taken."""
        least = len(self.events) + 2 * taken
        until(lambda: len(self.events) >= least, "the members to work")

    def finish(self) -> None:
        """Wait until all is settled; then each key's records came in order, and were in one hand at a time."""
        total = self.KEYS * self.EACH
        until(lambda: len({each[3:] for each in self.events if each[2] == "done"}) == total, "all records")
        for one in self.members:
            one.kill()
        done: dict[str, int] = defaultdict(lambda: -1)
        hands: dict[str, str] = {}
        for at, name, what, key, number in sorted(self.events):
            if what == "done":
                done[key] = max(done[key], number)
                hands.pop(key, None)
                continue
            holder = hands.get(key, name)
            # The gateway may know of a death before the test does, but not before the signal.
            freed = holder == name or self.signalled.get(holder, at) < at
            assert freed, f"{name} took {key} {number} while {holder} held the key"
            assert number in (done[key], done[key] + 1), f"{name} took {key} {number} after {done[key]}"
            hands[key] = name
        assert set(done.values()) == {self.EACH - 1}


def test_keys_keep_their_order_while_their_holders_are_killed(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    keys = Keys(own_gateway(), 3)
    for _ in range(4):
        until(lambda: keys.members[0].taken >= 20, "the oldest member to work")
        keys.kill_oldest()
        keys.join()
    keys.finish()


def test_keys_keep_their_order_while_the_gateway_is_killed(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    """What a member has in hand comes back to it and to nobody else."""
    gateway = own_gateway()
    keys = Keys(gateway, 3)
    for _ in range(2):
        keys.work(200)
        gateway.kill()
        gateway.start()
    keys.finish()


def test_what_a_member_holds_of_its_keys_waits_for_it_over_a_kill(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    """Slots are durable: whoever asks first after the gateway was killed gets its own keys and not another's."""
    gateway = own_gateway()
    make_topic(gateway.bootstrap, "t")
    make_group(gateway.bootstrap, "g", pulsar__subscription__type="key_shared")
    one, other = member(gateway.bootstrap, "g", "t"), member(gateway.bootstrap, "g", "t")
    # Both have joined once each was given something.
    seen: dict[ShareConsumer, set[bytes]] = {one: set(), other: set()}
    number = 0

    def shared() -> bool:
        nonlocal number
        number += 1
        send(gateway.bootstrap, "t", [(b"key-%d" % key, b"joining") for key in range(20)])
        for consumer, keys in seen.items():
            found = poll(consumer)
            keys |= {message.key() for message in found}
            acknowledge(consumer, found)
        return all(seen.values())

    until(shared, "both members to get records")
    consumers = [one, other]
    while any(found := [poll(consumer) for consumer in consumers]):
        for consumer, messages in zip(consumers, found, strict=True):
            acknowledge(consumer, messages)
    # Nobody comes or goes from here on: whose keys are whose is settled.
    send(gateway.bootstrap, "t", [(b"key-%d" % key, b"whose") for key in range(20)])
    whose: dict[ShareConsumer, set[bytes | None]] = {one: set(), other: set()}

    def told() -> bool:
        for consumer, keys in whose.items():
            found = poll(consumer)
            keys |= {message.key() for message in found}
            acknowledge(consumer, found)
        return sum(map(len, whose.values())) == 20

    until(told, "one record of each key")
    mine = whose[one]
    assert mine, "the first member has keys"
    send(gateway.bootstrap, "t", [(b"key-%d" % key, b"0") for key in range(20)])
    held = some(one)  # at least the first of them
    assert {message.key() for message in held} <= mine
    gateway.kill()
    gateway.start()
    send(gateway.bootstrap, "t", [(b"key-%d" % key, b"1") for key in range(20)])
    theirs: set[tuple[bytes, bytes]] = set()

    def rest() -> bool:
        found = poll(other)
        acknowledge(other, found)
        theirs.update((message.key(), message.value()) for message in found)
        return len(theirs) >= 2 * (20 - len(mine))

    until(rest, "the other member's keys")
    assert not mine & {key for key, _ in theirs}
    acknowledge(one, held)  # refused: the gateway that gave them is gone
    again: dict[bytes, list[bytes]] = defaultdict(list)

    def back() -> bool:
        found = poll(one)
        acknowledge(one, found)
        for message in found:
            again[message.key()].append(message.value())
        return sum(map(len, again.values())) >= 2 * len(mine)

    until(back, "the first member's keys")
    assert dict(again) == {key: [b"0", b"1"] for key in mine}
    one.close()
    other.close()
