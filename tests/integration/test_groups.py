"""Groups of real clients over restarts: members go on where they were, and nobody reads twice."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PARTITIONS = 6


class Member(threading.Thread):
    """A consumer in a group until `leave`; what it is assigned and what it reads stands in lists of the test."""

    def __init__(
        self, bootstrap: str, number: int, events: list[tuple[int, str, int]], read: Counter[Any]
    ) -> None:
        super().__init__(daemon=True)
        self._number = number
        self._events = events
        self._read = read
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 300,
                "session.timeout.ms": 30_000,
                "auto.commit.interval.ms": 100,
                "reconnect.backoff.max.ms": 200,
                "logger": None,
            }
        )

    def run(self) -> None:
        def note(what: str) -> Callable[[Consumer, list[Any]], None]:
            return lambda _, parts: self._events.append((self._number, what, len(parts)))

        self._consumer.subscribe(
            ["t"], on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("lost")
        )
        while not self._ended.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._read[message.value()] += 1
        self._consumer.close()

    def leave(self) -> None:
        self._ended.set()
        self.join()


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that comes soon."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def reads(read: Counter[Any], count: int) -> bool:
    return len(read) == count


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_members_go_on_over_a_restart_without_a_rebalance(
    own_gateway: Callable[..., MagnetarPeer], how: str
) -> None:
    gateway = own_gateway()
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result()
    events: list[tuple[int, str, int]] = []
    read: Counter[Any] = Counter()
    members = [Member(gateway.bootstrap, number, events, read) for number in range(3)]
    for member in members:
        member.start()
    until(
        lambda: sum(count for _, what, count in events if what == "assigned") == PARTITIONS,
        "the group settles",
    )
    settled = list(events)

    producer = Producer({"bootstrap.servers": gateway.bootstrap, "enable.idempotence": True})
    expected = 0
    for _ in range(2):
        for _ in range(500):
            producer.produce("t", b"%d" % expected)
            expected += 1
        assert producer.flush(60) == 0
        until(partial(reads, read, expected), "everything is read")
        getattr(gateway, how)()
        gateway.start()
    producer.produce("t", b"last")
    assert producer.flush(60) == 0
    until(partial(reads, read, expected + 1), "the last record is read")
    assert events == settled, "no rebalance"
    assert max(read.values()) == 1, "nothing is read twice"

    members.pop().leave()
    until(lambda: len(events) > len(settled) + 2, "the others take over")
    for member in members:
        member.leave()
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    until(
        lambda: admin.describe_consumer_groups(["g"])["g"].result().state.name == "EMPTY",
        "the group is empty",
    )
    admin.delete_consumer_groups(["g"])["g"].result()


def test_a_group_stands_where_the_last_committed_transaction_left_it(gateway: MagnetarPeer) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "transactional.id": topic, "log_level": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    producer.init_transactions(30)
    for value, offset, end in (
        (b"kept", 1, producer.commit_transaction),
        (b"dropped", 2, producer.abort_transaction),
        (b"kept too", 3, producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        places = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
        end(30)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], 30)
    assert committed.offset == 3
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consumer.consume(2, 30)] == [b"kept", b"kept too"]
    consumer.close()
