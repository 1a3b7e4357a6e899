"""Groups of type Exclusive and Failover with real consumers: who is refused, and who is active."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import (
    RELEASE,
    acknowledge,
    make_group,
    make_topic,
    member,
    poll,
    send,
    some,
    topics,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]

SETTINGS = {"group.consumer.min.heartbeat.interval.ms": 200, "group.consumer.heartbeat.interval.ms": 200}
CLASSIC = {"partition.assignment.strategy": "range", "session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
COOPERATIVE = {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"}
NEW = {"group.protocol": "consumer"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MagnetarPeer]:
    """Members of the new protocol are heard of often, so that little time passes."""
    with MagnetarPeer(directory=tmp_path_factory.mktemp("gateway"), settings=SETTINGS) as running:
        yield running


def consumer(bootstrap: str, group: str, topic: str, name: str, config: dict[str, object]) -> Consumer:
    said = {
        "bootstrap.servers": bootstrap, "group.id": group, "client.id": name, "auto.offset.reset": "earliest",
        "logger": None, **config,
    }  # fmt: skip
    found = Consumer(said)
    found.subscribe([topic])
    return found


def has(*members: Consumer) -> list[list[int]]:
    """The partitions of each, which are polled meanwhile."""
    for each in members:
        each.poll(0.02)
    return [sorted(place.partition for place in each.assignment()) for each in members]


def shared_out(*members: Consumer) -> Callable[[list[list[int]]], None]:
    def as_in(expected: list[list[int]]) -> None:
        until(lambda: has(*members) == expected, f"{expected}")

    return as_in


def refusal(found: Consumer) -> KafkaError | None:
    """What it was told, if it was told anything."""
    try:
        message = found.poll(0.1)
    except KafkaException as error:
        return error.args[0]
    return message.error() if message is not None else None


@pytest.mark.parametrize("config", [CLASSIC, NEW], ids=["classic", "new"])
def test_the_second_consumer_of_an_exclusive_group_is_refused(
    gateway: MagnetarPeer, config: dict[str, object]
) -> None:
    topic = make_topic(gateway.bootstrap, f"exclusive-{uuid.uuid4().hex}", 2)
    topics(gateway, "create-subscription", topic, "-s", topic, "-m", "earliest", "--type", "exclusive")
    first = consumer(gateway.bootstrap, topic, topic, "a", config)
    shared_out(first)([[0, 1]])
    second = consumer(gateway.bootstrap, topic, topic, "b", config)
    errors: list[KafkaError] = []

    def refused() -> bool:
        error = refusal(second)
        if error is not None:
            errors.append(error)
        # librdkafka says of the new protocol that it is fatal, and why in a sentence
        return any("Consumer group has reached maximum size" in each.str() for each in errors)

    until(refused, "the second is refused")
    second.close()
    stats = topics(gateway, "partitioned-stats", topic)["subscriptions"][topic]
    assert (stats["type"], stats["activeConsumerName"]) == ("Exclusive", "a")
    assert [one["consumerName"] for one in stats["consumers"]] == ["a"]
    first.close()
    third = consumer(gateway.bootstrap, topic, topic, "c", config)
    shared_out(third)([[0, 1]])
    third.close()


@pytest.mark.parametrize("config", [CLASSIC, COOPERATIVE, NEW], ids=["eager", "cooperative", "new"])
def test_who_is_active_in_a_failover_group(gateway: MagnetarPeer, config: dict[str, object]) -> None:
    topic = make_topic(gateway.bootstrap, f"failover-{uuid.uuid4().hex}", 5)
    topics(gateway, "create-subscription", topic, "-s", topic, "-m", "earliest", "--type", "failover")
    make_group(gateway.bootstrap, topic, pulsar__failover__priorities="d=1")
    b, d = (consumer(gateway.bootstrap, topic, topic, name, config) for name in "bd")
    shared_out(b, d)([[0, 1, 2, 3, 4], []])
    a = consumer(gateway.bootstrap, topic, topic, "a", config)
    shared_out(a, b, d)([[0, 2, 4], [1, 3], []])
    # others have the first priority from now on
    make_group(gateway.bootstrap, topic, pulsar__failover__priorities="a=1,b=2")
    shared_out(a, b, d)([[], [], [0, 1, 2, 3, 4]])
    d.close()
    shared_out(a, b)([[0, 1, 2, 3, 4], []])
    for each in (a, b):
        each.close()


def test_share_consumers_of_a_failover_group_stand_by(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, f"standby-{uuid.uuid4().hex}")
    group = make_group(
        gateway.bootstrap, topic, pulsar__subscription__type="failover", share__auto__offset__reset="earliest"
    )
    b = member(gateway.bootstrap, group, topic, **{"client.id": "b"})
    send(gateway.bootstrap, topic, [(None, b"1")])
    (first,) = some(b)
    assert acknowledge(b, [first]) == {(topic, 0)}
    c = member(gateway.bootstrap, group, topic, **{"client.id": "c"})
    send(gateway.bootstrap, topic, [(None, b"2")])
    assert poll(c) == []
    (second,) = some(b)
    assert (first.value(), second.value()) == (b"1", b"2")
    assert poll(c) == []
    acknowledge(b, [second], RELEASE)
    b.close()
    assert [each.value() for each in some(c)] == [b"2"]
    c.close()


def test_the_type_is_shown_by_stock_tools(gateway: MagnetarPeer) -> None:
    group = make_group(gateway.bootstrap, f"shown-{uuid.uuid4().hex}", pulsar__subscription__type="exclusive")
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    resource = ConfigResource(ConfigResource.Type.GROUP, group)
    (found,) = admin.describe_configs([resource]).values()
    assert found.result()["pulsar.subscription.type"].value == "exclusive"
