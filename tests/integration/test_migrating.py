"""A group that is rolled from the classic protocol to the new one and back, member by member, while it works."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PARTITIONS = 6
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.min.session.timeout.ms": 1_000,
}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[MagnetarPeer]:
    with MagnetarPeer(directory=tmp_path, settings=SETTINGS) as running:
        # kept until it has its answer
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
        yield running


class Application:
    """Consumers in one thread that take turns, each of which commits what it has read before it reads on."""

    def __init__(self, gateway: MagnetarPeer, assignor: str) -> None:
        self._gateway = gateway
        self._assignor = assignor
        self._admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        self._producer = Producer({"bootstrap.servers": gateway.bootstrap})
        self.members: list[Consumer] = []
        self.read: Counter[int] = Counter()
        # the coordinator has not taken the commit: somebody else may read them again
        self.uncommitted: set[int] = set()
        self.sent = 0

    def start(self, protocol: str) -> None:
        config = {
            "bootstrap.servers": self._gateway.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "logger": None,
            "group.protocol": protocol,
        }
        if protocol == "classic":
            config |= {
                "partition.assignment.strategy": self._assignor,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 200,
            }
        member = Consumer(config)
        member.subscribe(["t"])
        self.members.append(member)

    def stop(self, index: int) -> None:
        self.members.pop(index).close()

    def produce(self, count: int = 60) -> None:
        for number in range(self.sent, self.sent + count):
            self._producer.produce("t", b"%d" % number, partition=number % PARTITIONS)
        assert self._producer.flush(60) == 0
        self.sent += count

    def poll(self) -> None:
        for member in self.members:
            message = member.poll(0.02)
            if message is not None and message.error() is None:
                number = int(message.value())
                self.read[number] += 1
                try:
                    member.commit(message, asynchronous=False)
                except KafkaException:
                    self.uncommitted.add(number)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, what
            self.poll()

    def settled(self) -> bool:
        has = sorted(each.partition for member in self.members for each in member.assignment())
        return has == list(range(PARTITIONS)) and all(member.assignment() for member in self.members)

    def kind(self) -> ConsumerGroupType:
        found = self._admin.list_consumer_groups().result(30)
        (group,) = [each for each in found.valid if each.group_id == "g"]
        kind: ConsumerGroupType = group.type
        return kind


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_is_rolled_to_the_new_protocol_and_back(gateway: MagnetarPeer, assignor: str) -> None:
    """None is missed, and none is read twice but those whose commit a member was late with."""
    app = Application(gateway, assignor)
    for _ in range(3):
        app.start("classic")
    app.produce()
    app.until(lambda: app.settled() and len(app.read) == app.sent, "before")
    assert app.kind() is ConsumerGroupType.CLASSIC
    for protocol in ("consumer", "classic"):
        for index in range(3):
            app.stop(0)
            app.start(protocol)
            app.produce()
            what = f"{protocol}, member {index}"
            app.until(app.settled, f"shared out: {what}")
            app.until(lambda: len(app.read) == app.sent, f"read: {what}")
            if protocol == "consumer" or index < 2:
                assert app.kind() is ConsumerGroupType.CONSUMER, what
    app.until(lambda: app.kind() is ConsumerGroupType.CLASSIC, "classic again")
    app.produce()
    app.until(lambda: app.settled() and len(app.read) == app.sent, "after")
    assert {number for number, times in app.read.items() if times > 1} <= app.uncommitted
    assert len(app.uncommitted) < app.sent // 20
    for member in app.members:
        member.close()


def test_the_gateway_dies_in_the_middle(gateway: MagnetarPeer) -> None:
    """Members of both protocols go on."""
    app = Application(gateway, "cooperative-sticky")
    for protocol in ("classic", "classic", "consumer"):
        app.start(protocol)
        app.poll()
    app.produce()
    app.until(lambda: app.settled() and len(app.read) == app.sent, "before")
    for round_ in range(3):
        app.stop(0)
        app.start("consumer" if round_ % 2 else "classic")
        for _ in range(5):
            app.poll()
        gateway.kill()
        gateway.start()
        app.produce()
        app.until(app.settled, f"shared out in round {round_}")
        app.until(lambda: len(app.read) == app.sent, f"read in round {round_}")
    for member in app.members:
        member.close()
