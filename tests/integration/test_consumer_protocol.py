"""Groups of the new protocol (KIP-848) with real clients, when something dies: a member, the gateway in a rebalance."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PARTITIONS = 6
SETTINGS = {
    "group.consumer.min.session.timeout.ms": 3_000,
    "group.consumer.session.timeout.ms": 3_000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[MagnetarPeer]:
    """Members are heard of often, so that little time passes."""
    with MagnetarPeer(directory=tmp_path, settings=SETTINGS) as running:
        # kept until it has its answer
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
        yield running


class Members:
    """Consumers in one thread that take turns; what they have read, by number."""

    def __init__(self, gateway: MagnetarPeer) -> None:
        self._bootstrap = gateway.bootstrap
        self.running: list[Consumer] = []
        self.read: Counter[int] = Counter()

    def add(self, **config: str) -> Consumer:
        member = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
                "reconnect.backoff.max.ms": 200,
                "logger": None,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        member.subscribe(["t"])
        self.running.append(member)
        return member

    def leave(self, member: Consumer) -> None:
        self.running.remove(member)
        member.close()

    def poll(self) -> None:
        for member in self.running:
            message = member.poll(0.02)
            if message is not None and message.error() is None:
                self.read[int(message.value())] += 1

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, what
            self.poll()

    def shared_out(self) -> bool:
        """Whether each partition is somebody's, nobody has two more than another."""
        has = [[each.partition for each in member.assignment()] for member in self.running]
        counts = [len(each) for each in has]
        return (
            sorted(index for each in has for index in each) == list(range(PARTITIONS))
            and max(counts) - min(counts) <= 1
        )


@pytest.fixture
def members(gateway: MagnetarPeer) -> Iterator[Members]:
    members = Members(gateway)
    yield members
    for member in members.running:
        member.close()


def produce(gateway: MagnetarPeer, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    for number in numbers:
        producer.produce("t", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def test_what_a_killed_member_had_goes_to_the_others(gateway: MagnetarPeer, members: Members) -> None:
    members.add()
    members.until(members.shared_out, "alone")
    script = Path(__file__).with_name("consumer_member.py")
    other = subprocess.Popen(
        [sys.executable, str(script), gateway.bootstrap, "g", "t"], stdout=subprocess.PIPE, text=True
    )
    try:
        (mine,) = members.running
        members.until(lambda: len(mine.assignment()) == PARTITIONS // 2, "shared with the other process")
    finally:
        other.kill()
        other.wait()
    members.until(members.shared_out, "alone again")


def test_failover_has_one_active_member_and_a_standby(gateway: MagnetarPeer, members: Members) -> None:
    """Everything is the one's that has the priority, also when it comes later; the other takes over from it."""
    standby = members.add(group_remote_assignor="failover", client_rack="priority=1")
    members.until(lambda: len(standby.assignment()) == PARTITIONS, "alone")
    produce(gateway, range(60))
    members.until(lambda: len(members.read) == 60, "read by the one that is there")
    active = members.add(group_remote_assignor="failover")
    members.until(
        lambda: (len(active.assignment()), len(standby.assignment())) == (PARTITIONS, 0),
        "it has the priority",
    )
    produce(gateway, range(60, 120))
    members.until(lambda: len(members.read) == 120, "read by the one with the priority")
    members.leave(active)
    members.until(lambda: len(standby.assignment()) == PARTITIONS, "alone again")
    produce(gateway, range(120, 180))
    members.until(lambda: len(members.read) == 180, "read by the one that is left")
    assert set(members.read.values()) == {1}


def test_members_come_and_go_while_the_gateway_is_killed(gateway: MagnetarPeer, members: Members) -> None:
    """Nobody has what another has, everything is read, and at the end all is shared out."""
    sent = 0
    for round_ in range(4):
        members.add()
        if round_ >= 2:
            members.leave(members.running[0])
        for _ in range(5):
            members.poll()
        gateway.kill()
        gateway.start()
        produce(gateway, range(sent, sent + 60))
        sent += 60
        members.until(members.shared_out, f"shared out in round {round_}")
        members.until(lambda: len(members.read) == sent, f"everything read in round {round_}")  # noqa: B023


def test_members_notice_nothing_of_a_restart(gateway: MagnetarPeer, members: Members) -> None:
    members.add()
    members.add()
    members.until(members.shared_out, "shared out")
    has = [member.assignment() for member in members.running]
    ids = [member.memberid() for member in members.running]
    gateway.restart()
    produce(gateway, range(60))
    members.until(lambda: len(members.read) == 60, "everything read")
    assert [member.assignment() for member in members.running] == has
    assert [member.memberid() for member in members.running] == ids
    assert set(members.read.values()) == {1}


def test_a_pattern_gets_topics_that_are_made_later(gateway: MagnetarPeer) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": "p",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["^late-.*"])
    consumer.poll(0.1)
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    producer.produce("late-1", b"x")
    assert producer.flush(60) == 0
    end = time.monotonic() + 60
    while (message := consumer.poll(0.1)) is None or message.error():
        assert time.monotonic() < end
    assert (message.topic(), message.value()) == ("late-1", b"x")
    consumer.close()


def test_what_cannot_be_a_pattern_ends_the_client(gateway: MagnetarPeer) -> None:
    consumer = Consumer(
        {"bootstrap.servers": gateway.bootstrap, "group.id": "p", "group.protocol": "consumer"}
    )
    consumer.subscribe([r"^(t)\1.*"])
    message = None
    for _ in range(600):
        message = consumer.poll(0.1)
        if message is not None:
            break
    assert message is not None, "it polled in silence"
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._FATAL
    assert "regular expression" in error.str()
    consumer.close()
