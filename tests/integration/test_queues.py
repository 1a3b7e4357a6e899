"""Queue topics: consumers that know only offsets have a Shared or Key_Shared subscription."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

KINDS = pytest.mark.parametrize("kind", ["shared", "key_shared"])
# what takes seconds by itself; of Shared the same is in tests/gateway/broker/queues
ORDERED = pytest.mark.parametrize("kind", ["key_shared"])
DEADLINE = 40.0


class Queue:
    """A topic with a subscription that is served by lanes."""

    def __init__(
        self, gateway: MagnetarPeer, name: str, kind: str, lanes: int = 4, **properties: str
    ) -> None:
        self.gateway = gateway
        self.topic = name
        self.group = "billing"
        self.name = f"{name}-{self.group}-QUEUE"
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "logger": None})
        for made in admin.create_topics([NewTopic(name, 2, 1)]).values():
            made.result()
        said = {key.replace("_", "."): value for key, value in properties.items()}
        self.put(f"type={kind}&lanes={lanes}", {"properties": said})

    def put(self, query: str, body: dict[str, object]) -> None:
        request = urllib.request.Request(
            f"{self.gateway.admin_url}/admin/v2/persistent/public/default/{self.topic}/subscription/{self.group}?{query}",
            data=json.dumps(body).encode(),
            method="PUT",
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 204

    def produce(self, values: range, keys: int = 10) -> None:
        producer = Producer({"bootstrap.servers": self.gateway.bootstrap, "logger": None})
        for number in values:
            producer.produce(self.topic, key=f"k{number % keys}", value=str(number))
        assert producer.flush(20) == 0

    @contextmanager
    def consumer(self, group: str | None = None, topic: str | None = None) -> Iterator[Consumer]:
        with self.reading(self.gateway, group or self.group) as consumer:
            consumer.subscribe([topic or self.name])
            yield consumer

    @staticmethod
    @contextmanager
    def reading(gateway: MagnetarPeer, group: str) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": gateway.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 300,
                "session.timeout.ms": 6_000,
                "reconnect.backoff.max.ms": 200,
                "logger": None,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()


def read(consumer: Consumer, enough: Callable[[list[Message]], bool]) -> list[Message]:
    """What comes until it is enough."""
    found: list[Message] = []
    until = time.monotonic() + DEADLINE
    while not enough(found):
        assert time.monotonic() < until, f"{len(found)} came"
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
    return found


def at_least(number: int, found: list[Message]) -> bool:
    return len(found) >= number


def values(found: list[Message]) -> list[int]:
    return [int(message.value() or b"") for message in found]


def commit(consumer: Consumer, *said: tuple[Message, str]) -> None:
    """Commit behind these messages, each with metadata."""
    consumer.commit(
        offsets=[
            TopicPartition(
                message.topic() or "",
                message.partition() or 0,
                (message.offset() or 0) + 1,
                metadata=metadata,
            )
            for message, metadata in said
        ],
        asynchronous=False,
    )


def last(found: list[Message]) -> list[Message]:
    """Of each lane the last that came."""
    return list({message.partition(): message for message in found}.values())


@KINDS
def test_each_record_comes_once_and_those_of_a_key_in_order(gateway: MagnetarPeer, kind: str) -> None:
    queue = Queue(gateway, f"queue-once-{kind}", kind)
    queue.produce(range(3_000))
    with queue.consumer() as consumer:
        found: list[Message] = []
        while len(found) < 3_000:
            enough = min(100, 3_000 - len(found))
            found += read(consumer, partial(at_least, enough))
            commit(consumer, *[(message, "") for message in last(found)])
        assert consumer.poll(0.5) is None
    assert sorted(values(found)) == list(range(3_000))
    if kind == "key_shared":
        by_key: dict[bytes, list[int]] = {}
        for message in found:
            by_key.setdefault(message.key() or b"", []).append(int(message.value() or b""))
        assert all(those == sorted(those) for those in by_key.values())


@KINDS
def test_what_was_not_committed_comes_again_behind_a_leave(gateway: MagnetarPeer, kind: str) -> None:
    queue = Queue(gateway, f"queue-leave-{kind}", kind, lanes=2)
    queue.produce(range(40))
    with queue.consumer() as consumer:
        first = read(consumer, lambda found: len(found) == 40)
        # of each lane all but the last
        done = [message for message in first if message not in last(first)]
        commit(consumer, *[(message, "") for message in last(done)])
    with queue.consumer() as consumer:
        again = read(consumer, lambda found: len(found) == len(last(first)))
        assert consumer.poll(0.5) is None
    assert {(message.partition(), message.offset()) for message in again} == {
        (message.partition(), message.offset()) for message in last(first)
    }


def test_a_nack_waits_and_the_others_go_on(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "queue-nack", "shared", lanes=1)
    queue.produce(range(10))
    with queue.consumer() as consumer:
        first = read(consumer, lambda found: len(found) == 10)
        (end,) = last(first)
        bad = first[3]
        commit(consumer, (end, f"ack1;n:700={bad.offset()}"))
        begun = time.monotonic()
        (again,) = read(consumer, lambda found: len(found) == 1)
        assert time.monotonic() - begun > 0.5
        assert again.value() == bad.value()
        assert (again.offset() or 0) > (end.offset() or 0)
        commit(consumer, (again, ""))
        assert consumer.poll(0.5) is None


def test_a_record_that_is_nacked_too_often_is_a_dead_letter(gateway: MagnetarPeer) -> None:
    queue = Queue(
        gateway, "queue-dead", "shared", lanes=2, pulsar_max_redeliver_count="2", pulsar_nack_delay_ms="0"
    )
    queue.produce(range(20))
    counts: Counter[int] = Counter()
    with queue.consumer() as consumer:
        while sum(counts.values()) < 22:
            (message,) = read(consumer, lambda found: len(found) == 1)
            counts.update(values([message]))
            poison = message.value() == b"7"
            commit(consumer, (message, f"ack1;n={message.offset()}" if poison else ""))
        assert counts.pop(7) == 3
        assert set(counts.values()) == {1}
    with queue.consumer(group="look", topic=f"{queue.topic}-{queue.group}-DLQ") as consumer:
        (letter,) = read(consumer, lambda found: len(found) == 1)
        assert letter.value() == b"7"


def test_a_record_that_is_named_dead_is_a_dead_letter_at_once(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "queue-reject", "shared", lanes=1)
    queue.produce(range(5))
    with queue.consumer() as consumer:
        found = read(consumer, lambda found: len(found) == 5)
        commit(consumer, (found[-1], f"ack1;d={found[2].offset()}"))
    with queue.consumer(group="look", topic=f"{queue.topic}-{queue.group}-DLQ") as consumer:
        (letter,) = read(consumer, lambda some: len(some) == 1)
        assert letter.value() == found[2].value()


def test_metadata_that_makes_no_sense_is_refused_and_acknowledges_nothing(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "queue-malformed", "shared", lanes=1)
    queue.produce(range(5))
    with queue.consumer() as consumer:
        found = read(consumer, lambda some: len(some) == 5)
        with pytest.raises(KafkaException) as refused:
            commit(consumer, (found[-1], "ack1;n:soon=3"))
        assert refused.value.args[0].code() == 42
    with queue.consumer() as consumer:
        assert len(read(consumer, lambda some: len(some) == 5)) == 5
        commit(consumer, (found[-1], "what a framework keeps for itself"))
        (where,) = consumer.committed([TopicPartition(queue.name, 0)])
        assert (where.offset, where.metadata) == (5, "what a framework keeps for itself")


def test_a_plain_create_topics_makes_one_and_tools_see_where_it_ends(gateway: MagnetarPeer) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "logger": None})
    admin.create_topics([NewTopic("queue-plain", 1, 1)])["queue-plain"].result()
    name = "queue-plain-jobs-QUEUE"
    config = {"pulsar.subscription.type": "key_shared", "pulsar.nack.delay.ms": "50"}
    admin.create_topics([NewTopic(name, 3, 1, config=config)])[name].result()
    wrong = NewTopic("queue-plain-other-QUEUE", 3, 1, config={"pulsar.nack.delay.ms": "soon"})
    with pytest.raises(KafkaException, match=r"pulsar\.nack\.delay\.ms"):
        admin.create_topics([wrong])[wrong.topic].result()
    described = admin.list_topics().topics[name]
    assert len(described.partitions) == 3
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "logger": None})
    for number in range(50):
        producer.produce("queue-plain", key=f"k{number}", value=str(number))
    assert producer.flush(20) == 0
    with Queue.reading(gateway, "jobs") as consumer:
        # nobody reads: who asks where the lanes end is told of what a reader would get
        ends = [consumer.get_watermark_offsets(TopicPartition(name, lane))[1] for lane in range(3)]
        assert sum(ends) == 50
        consumer.subscribe([name])
        assert sorted(values(read(consumer, lambda some: len(some) == 50))) == list(range(50))


def test_a_subscription_goes_with_its_queue_topic_and_not_under_its_consumers(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "queue-gone", "shared", lanes=2)
    queue.produce(range(3))
    path = f"{gateway.admin_url}/admin/v2/persistent/public/default/{queue.topic}/subscription/{queue.group}"
    with queue.consumer() as consumer:
        read(consumer, partial(at_least, 3))
        with pytest.raises(urllib.error.HTTPError, match="412"):
            urllib.request.urlopen(urllib.request.Request(path, method="DELETE"))
    with urllib.request.urlopen(urllib.request.Request(path, method="DELETE")) as answer:
        assert answer.status == 204
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "logger": None})
    assert queue.name not in admin.list_topics().topics
    # and comes anew, with lanes that begin at 0
    queue.put("type=shared&lanes=1", {})
    queue.produce(range(3, 5))
    with queue.consumer() as consumer:
        assert sorted(values(read(consumer, partial(at_least, 2)))) == [3, 4]


def test_tools_see_where_a_subscription_stands_and_move_it(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "queue-tools", "key_shared", lanes=2)
    queue.produce(range(40))
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "logger": None})

    def stands() -> dict[tuple[str, int], int]:
        """Where the group stands, as it is told to who names no topic."""
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(queue.group)])
        found = asked[queue.group].result().topic_partitions
        # other tests have queue topics of the same group
        own = (queue.topic, queue.name)
        return {(each.topic, each.partition): each.offset for each in found if each.topic in own}

    def explained(partition: int) -> dict[str, Any]:
        """Why the first record of a partition of the base topic does not arrive."""
        path = f"{queue.topic}-partition-{partition}/subscription/{queue.group}/explain?offset=0"
        with urllib.request.urlopen(
            f"{gateway.admin_url}/admin/v2/persistent/public/default/{path}"
        ) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    with queue.consumer() as consumer:
        found = read(consumer, partial(at_least, 40))
        for partition in range(2):
            held = explained(partition)
            assert (held["state"], held["delivery"]["sent"]) == ("ACQUIRED", True)
            assert held["lane"]["member"] == consumer.memberid()
        ends = {
            (queue.name, message.partition() or 0): (message.offset() or 0) + 1 for message in last(found)
        }
        assert {where: offset for where, offset in stands().items() if offset} == {}
        commit(consumer, *[(message, "") for message in last(found)])
        there = stands()
        assert {where: offset for where, offset in there.items() if where in ends} == ends
        # mark-delete + 1 of both partitions of the base topic
        assert sum(offset for (topic, _), offset in there.items() if topic == queue.topic) == 40
    back = [TopicPartition(queue.topic, partition, 0) for partition in range(2)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(queue.group, back)])[
        queue.group
    ].result()
    again = stands()
    assert [again[queue.topic, partition] for partition in range(2)] == [0, 0]
    # all of it comes anew, behind what was delivered
    assert {where: offset for where, offset in again.items() if where in ends} == ends
    waits = explained(0)
    assert waits["state"] in ("UNREAD", "ACQUIRED"), (
        "a fetch of the consumer that left may have been there still"
    )
    assert any(said in waits["explanation"] for said in ("No consumer has any lane.", "Nobody has the lane"))


def test_another_group_reads_and_acknowledges_nothing(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "queue-foreign", "shared", lanes=1)
    queue.produce(range(5))
    with queue.consumer(group="audit") as consumer:
        found = read(consumer, lambda some: len(some) == 5)
        commit(consumer, (found[-1], ""))
    with queue.consumer() as consumer:
        assert sorted(values(read(consumer, lambda some: len(some) == 5))) == list(range(5))


def test_producers_are_told_that_it_has_no_records_of_its_own(gateway: MagnetarPeer) -> None:
    queue = Queue(gateway, "queue-produce", "shared", lanes=1)
    said: list[object] = []
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "logger": None, "message.timeout.ms": 5_000})
    producer.produce(queue.name, b"x", on_delivery=lambda error, _: said.append(error.code()))
    producer.flush(10)
    assert said == [17]


CRASHES = """
import sys, time
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "billing", "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 6000, "heartbeat.interval.ms": 300})
consumer.subscribe([sys.argv[2]])
while True:
    message = consumer.poll(0.2)
    if message is not None and message.error() is None:
        print(message.partition(), message.offset(), flush=True)
"""


@ORDERED
def test_what_a_consumer_had_that_was_killed_goes_to_others_with_its_count(
    gateway: MagnetarPeer, kind: str
) -> None:
    queue = Queue(gateway, f"queue-crash-{kind}", kind, lanes=2)
    queue.produce(range(30))
    dying = subprocess.Popen(
        [sys.executable, "-c", CRASHES, gateway.bootstrap, queue.name], stdout=subprocess.PIPE, text=True
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
    with queue.consumer() as consumer:
        found: list[Message] = []
        while len(found) < 30:
            found += read(consumer, partial(at_least, 1))
            commit(consumer, *[(message, "") for message in last(found)])
        assert sorted(values(found)) == list(range(30))
        # an offset is one delivery: all of them are new ones
        assert not had & {(message.partition(), message.offset()) for message in found}


@ORDERED
def test_a_gateway_that_is_killed_forgets_nothing(
    own_gateway: Callable[..., MagnetarPeer], kind: str
) -> None:
    gateway = own_gateway()
    queue = Queue(gateway, "queue-kill", kind, lanes=3)
    queue.produce(range(600))
    with queue.consumer() as consumer:
        first = read(consumer, lambda found: len(found) >= 100)
        commit(consumer, *[(message, "") for message in last(first)])
        acknowledged = set(values(first))
        held = read(consumer, lambda found: len(found) >= 20)
        gateway.kill()
        gateway.restart()
        again: list[Message] = []
        while not acknowledged | set(values(held)) | set(values(again)) >= set(range(600)):
            again += read(consumer, lambda found: len(found) >= 1)
            commit(consumer, *[(message, "") for message in last(held + again)])
        assert not acknowledged & set(values(again))


def test_topics_that_match_a_pattern_are_read_also_those_that_come_later(gateway: MagnetarPeer) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "logger": None})
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "logger": None})

    def make(name: str, **configs: str) -> None:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        for made in admin.create_topics([NewTopic(name, 2, 1, config=named)]).values():
            made.result()

    def produce(topic: str, value: str = "") -> None:
        producer.produce(topic, key="k", value=value or topic)
        assert producer.flush(20) == 0

    make("matched-eu")
    produce("matched-eu", "old")
    make("matching-QUEUE", pulsar_queue_pattern="matched-.*", pulsar_subscription_type="key_shared")
    produce("matched-eu")
    with Queue.reading(gateway, "matching") as consumer:
        consumer.subscribe(["matching-QUEUE"])
        (first,) = read(consumer, partial(at_least, 1))
        # it has begun at the end of what was there
        assert first.value() == b"matched-eu"
        make("matched-us")
        produce("matched-us")
        (second,) = read(consumer, partial(at_least, 1))
        assert second.value() == b"matched-us"
        commit(consumer, (first, ""))
        commit(consumer, (second, f"ack1;d={second.offset()}"))
    with Queue.reading(gateway, "other") as consumer:
        consumer.subscribe(["matched-us-matching-DLQ"])
        (dead,) = read(consumer, partial(at_least, 1))
        assert dead.value() == b"matched-us"
