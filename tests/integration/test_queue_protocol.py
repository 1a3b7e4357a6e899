"""Queue topics read with group.protocol=consumer (KIP-848): a member that dies, a regular expression, a transaction."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer
from tests.integration.test_queues import Queue, at_least, commit, last, read, values

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

# members are heard of often, so that little time passes
SETTINGS = {
    "group.consumer.min.session.timeout.ms": 2_000,
    "group.consumer.session.timeout.ms": 2_000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
}

DIES = """
import sys
from confluent_kafka import Consumer

consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "billing", "group.protocol": "consumer",
                     "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe([sys.argv[2]])
while True:
    message = consumer.poll(0.2)
    if message is not None and message.error() is None:
        print(message.partition(), message.offset(), flush=True)
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MagnetarPeer]:
    with MagnetarPeer(directory=tmp_path_factory.mktemp("gateway"), settings=SETTINGS) as running:
        yield running


@contextmanager
def member(gateway: MagnetarPeer, *topics: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": "billing",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "logger": None,
        }
    )
    consumer.subscribe(list(topics))
    try:
        yield consumer
    finally:
        consumer.close()


def settle(consumer: Consumer, number: int) -> list[Message]:
    """So many, each committed."""
    found: list[Message] = []
    while len(found) < number:
        some = read(consumer, partial(at_least, 1))
        commit(consumer, *[(message, "") for message in some])
        found += some
    return found


def test_what_a_killed_member_had_goes_to_others_with_its_count(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "protocol-crash", "key_shared", lanes=2, pulsar_nack_delay_ms="0")
    queue.produce(range(30))
    dying = subprocess.Popen(
        [sys.executable, "-c", DIES, gateway.bootstrap, queue.name], stdout=subprocess.PIPE, text=True
    )
    had: set[tuple[int, ...]] = set()
    try:
        assert dying.stdout is not None
        for line in dying.stdout:
            had.add(tuple(map(int, line.split())))
            if len(had) == 30:
                break
    finally:
        dying.kill()
        dying.wait()
    with member(gateway, queue.name) as consumer:
        found = settle(consumer, 30)
    assert sorted(values(found)) == list(range(30))
    assert not had & {(message.partition(), message.offset()) for message in found}, (
        "an offset is one delivery"
    )
    counts = [dict(message.headers() or [])["pulsar-redelivery-count"] for message in found]
    assert counts == [b"1"] * 30


def test_a_regular_expression_finds_them_beside_other_topics(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "protocol-pattern", "shared", lanes=2)
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "logger": None})
    admin.create_topics([NewTopic("protocol-plain", 1, 1)])["protocol-plain"].result(30)
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "logger": None})
    producer.produce("protocol-plain", b"1000")
    assert producer.flush(20) == 0
    queue.produce(range(10))
    with member(gateway, "^protocol-pattern-.*-QUEUE$", "protocol-plain") as consumer:
        found = settle(consumer, 11)
        assert sorted(values(found)) == [*range(10), 1000]
        assert {message.topic() for message in found} == {queue.name, "protocol-plain"}
        # what the subscription has done with is told of the base topic, too
        stands = consumer.committed([TopicPartition(queue.topic, index) for index in range(2)], timeout=20)
        assert sum(place.offset for place in stands) == 10
    queue.produce(range(10, 12))
    with member(gateway, queue.name) as consumer:
        assert sorted(values(settle(consumer, 2))) == [10, 11]


def test_what_a_member_says_in_a_transaction_is_one_fact_with_what_it_makes(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "protocol-transaction", "shared", lanes=1, pulsar_nack_delay_ms="0")
    queue.produce(range(4))
    producer = Producer(
        {"bootstrap.servers": gateway.bootstrap, "transactional.id": "protocol-transaction", "logger": None}
    )
    producer.init_transactions(20)
    with member(gateway, queue.name) as consumer:

        def end(found: list[Message], said: str, *, committed: bool) -> None:
            (behind,) = last(found)
            place = TopicPartition(queue.name, 0, (behind.offset() or 0) + 1, metadata=said)
            producer.begin_transaction()
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 20)
            (producer.commit_transaction if committed else producer.abort_transaction)(20)

        first = read(consumer, partial(at_least, 4))
        end(first, "", committed=False)
        again = read(consumer, partial(at_least, 4))
        assert sorted(values(again)) == [0, 1, 2, 3]
        assert min(message.offset() or 0 for message in again) == 4, "new deliveries"
        bad = next(message for message in again if message.value() == b"2")
        end(again, f"ack1;n:0={bad.offset()}", committed=True)
        (nacked,) = read(consumer, partial(at_least, 1))
        assert nacked.value() == b"2"
        end([nacked], "", committed=True)
        (stands,) = consumer.committed([TopicPartition(queue.name, 0)], timeout=20)
        assert stands.offset == 9


def test_members_go_on_when_the_gateway_was_killed(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "protocol-kill", "key_shared", lanes=4)
    with member(gateway, queue.name) as one, member(gateway, queue.name) as other:
        came: Counter[int] = Counter()

        def until(condition: Callable[[], bool]) -> None:
            end = time.monotonic() + 40
            while not condition():
                assert time.monotonic() < end
                for consumer in (one, other):
                    message = consumer.poll(0.02)
                    if message is not None and message.error() is None:
                        came.update(values([message]))
                        commit(consumer, (message, ""))

        def shared() -> bool:
            return [len(one.assignment()), len(other.assignment())] == [2, 2]

        until(shared)
        queue.produce(range(100))
        until(lambda: len(came) == 100)
        gateway.kill()
        gateway.restart()
        queue.produce(range(100, 200))
        until(lambda: len(came) == 200)
        assert set(came.values()) == {1}, "what was acknowledged stays so"
        assert shared()
