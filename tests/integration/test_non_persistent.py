"""Non-persistent topics with real clients: over a restart, for slow readers, within the bounds of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import acknowledge, make_group, member, poll, send, some, topics, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

Start = Callable[..., MagnetarPeer]

NAME = "non-persistent://public/default/x"


def reader(bootstrap: str, group: str, reset: str = "earliest") -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": reset,
        "enable.auto.commit": False,
        "session.timeout.ms": 6_000,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    return Consumer(settings)


def read(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []

    def more() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return len(found) >= count

    until(more, f"{count} messages, not {len(found)}")
    return found


def last(more: Callable[[], list[Message]], value: bytes) -> Message:
    """The message that says this, and that none comes twice until then."""
    found: list[Message] = []
    while not found or found[-1].value() != value:
        found += more()
    values = [each.value() for each in found]
    assert values in ([value], [b"lost", value])
    return found[-1]


@pytest.fixture
def consumers() -> Iterator[list[Consumer]]:
    found: list[Consumer] = []
    yield found
    for each in found:
        each.close()


def test_after_a_restart_the_topic_is_empty_and_everybody_goes_on(
    own_gateway: Start, consumers: list[Consumer]
) -> None:
    gateway = own_gateway()
    bootstrap = gateway.bootstrap
    topics(gateway, "create", NAME)
    make_group(bootstrap, "share")
    sharing, reading = member(bootstrap, "share", "x"), reader(bootstrap, "g")
    consumers += [sharing, reading]
    reading.subscribe(["x"])
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "reconnect.backoff.max.ms": 200}
    )

    def put(value: bytes) -> None:
        producer.produce("x", value)
        assert producer.flush(60) == 0

    put(b"before")
    (first,) = read(reading, 1)
    reading.commit(first)
    (shared,) = some(sharing)
    assert acknowledge(sharing, [shared])
    put(b"lost")
    offset = first.offset()
    assert shared.offset() == offset

    gateway.restart()
    assert topics(gateway, "list") == [NAME]
    until(lambda: topics(gateway, "stats", NAME)["msgInCounter"] == 0, "an empty topic")
    # the same producer, with its sequence numbers; the same consumers, with their positions
    put(b"after")
    # what was on its way to a client when the gateway stopped may come, too
    found = last(lambda: read(reading, 1), b"after")
    assert found.offset() > offset + 1_000_000
    reading.commit(found)
    last(lambda: some(sharing), b"after")

    # and a group that comes back, to whom its old place means nothing
    gateway.restart()
    put(b"third")
    reading.close()
    again = reader(bootstrap, "g")
    consumers[1] = again
    (place,) = again.committed([TopicPartition("x", 0)], 30)
    assert place.offset < 0
    again.subscribe(["x"])
    assert [each.value() for each in read(again, 1)] == [b"third"]


def test_who_is_slow_misses_the_oldest_and_memory_stays_bounded(
    own_gateway: Start, consumers: list[Consumer]
) -> None:
    gateway = own_gateway("--set", "non.persistent.partition.max.bytes=1000000")
    bootstrap = gateway.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("x", 1, 1, config={"pulsar.persistence": "non-persistent"})
    admin.create_topics([topic])["x"].result(30)
    make_group(bootstrap, "slow")
    sharing = member(bootstrap, "slow", "x", **{"max.poll.records": 1})
    consumers.append(sharing)
    send(bootstrap, "x", [(None, b"first")])
    assert [each.value() for each in some(sharing)] == [b"first"]
    reading = reader(bootstrap, "g")
    consumers.append(reading)
    strict = reader(bootstrap, "strict", "error")
    consumers.append(strict)
    low, _ = reading.get_watermark_offsets(TopicPartition("x", 0), 30)

    for number in range(30):
        send(bootstrap, "x", [(None, b"%d " % number + bytes(100_000))])
    told = topics(gateway, "stats", NAME)
    assert 700_000 < told["storageSize"] <= 1_000_000
    memory = told["magnetar"]["memory"]
    assert memory["forgottenMessages"] >= 21
    # the first one was in its hands, and how much its client fetches ahead of that is the client's affair
    dropped, delivered = (
        memory["droppedMessages"],
        told["subscriptions"]["slow"]["magnetar"]["states"]["delivered"],
    )
    assert delivered >= 1
    assert memory["forgottenMessages"] - delivered <= dropped < memory["forgottenMessages"]
    assert told["subscriptions"]["slow"]["totalMsgExpired"] == told["magnetar"]["logStartOffset"] - low
    assert told["subscriptions"]["slow"]["totalMsgExpired"] >= dropped

    # one that was there goes on with the oldest there is; one that takes no less than all is told
    reading.assign([TopicPartition("x", 0, low)])
    found = read(reading, 31 - (told["magnetar"]["logStartOffset"] - low))
    assert [each.offset() for each in found] == list(range(found[0].offset(), low + 31))
    assert found[0].offset() == told["magnetar"]["logStartOffset"]
    strict.assign([TopicPartition("x", 0, low)])
    errors: list[int] = []

    def refused() -> bool:
        try:
            message = strict.poll(0.2)
        except KafkaException as error:
            errors.append(error.args[0].code())
        else:
            if message is not None and (failed := message.error()) is not None:
                errors.append(failed.code())
        return bool(errors)

    until(refused, "an error")
    assert errors[0] in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


def test_who_was_absent_finds_what_came_lately(own_gateway: Start, consumers: list[Consumer]) -> None:
    gateway = own_gateway("--set", "non.persistent.max.ms=500")
    bootstrap = gateway.bootstrap
    topics(gateway, "create-partitioned-topic", NAME, "-p", "1")
    topics(gateway, "create-subscription", NAME, "-s", "away", "-m", "earliest")
    send(bootstrap, "x", [(None, b"old")] * 3)
    name = f"{NAME}-partition-0"

    def away() -> Any:
        return topics(gateway, "stats", name)["subscriptions"]["away"]

    until(lambda: away()["totalMsgExpired"] == 3, "all to be too old")
    assert topics(gateway, "stats", name)["storageSize"] == 0
    sharing = member(bootstrap, "away", "x")
    consumers.append(sharing)
    until(lambda: poll(sharing) or away()["consumers"], "it to be there")
    send(bootstrap, "x", [(None, b"new")])
    assert [each.value() for each in some(sharing)] == [b"new"]
    topics(gateway, "delete-partitioned-topic", NAME, "--force")
    assert topics(gateway, "list") == []
