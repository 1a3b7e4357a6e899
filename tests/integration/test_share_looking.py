"""`magnetar-admin` looks into topics of a running gateway while real members of a share group read them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import (
    ACCEPT,
    REJECT,
    acknowledge,
    make_group,
    make_topic,
    member,
    some,
    topics,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]


def test_a_key_is_watched_its_records_found_and_a_dead_one_traced(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, "looked-into")
    group = make_group(gateway.bootstrap, "looking", pulsar__subscription__type="shared")
    # the subscription is there when somebody has read
    consumer = member(gateway.bootstrap, group, topic)
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    producer.produce(topic, b"first", b"other")
    assert producer.flush(30) == 0
    acknowledge(consumer, some(consumer))
    topics(gateway, "watch", topic, "-s", group, "--key", "ada", "--once")
    for value in (b'{"id": 1}', b'{"id": 2}'):
        producer.produce(topic, value, b"ada")
    assert producer.flush(30) == 0
    given = some(consumer)
    while len(given) < 2:
        given += some(consumer)
    good, bad = given
    consumer.acknowledge(good, ACCEPT)
    assert acknowledge(consumer, [bad], REJECT) == {(topic, 0)}

    def told() -> list[tuple[str, int]]:
        found = topics(gateway, "watch", topic, "-s", group, "--key", "ada", "--once")
        return [(each["what"], each["offset"]) for each in found["events"]]

    until(lambda: ("dead letter", 2) in told(), "the dead letter")
    assert sorted(told()) == [
        ("acknowledged", 1), ("dead letter", 2), ("delivered", 1), ("delivered", 2), ("rejected", 2),
    ]  # fmt: skip

    records = topics(gateway, "records", topic, "--key", "ada")["records"]
    assert [(each["offset"], each["value"]["decoded"]) for each in records] == [
        (2, {"id": 2}),
        (1, {"id": 1}),
    ]
    traced = topics(gateway, "trace", topic, records[0]["messageId"])
    assert [each["what"] for each in traced["events"]] == ["published", "dead letter"]
    assert traced["events"][1]["reason"] == "REJECTED"
    consumer.close()
