"""`magnetar-admin` answers "why does this message not arrive?" while real consumers hold, refuse and wait."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import (
    ACCEPT,
    RELEASE,
    acknowledge,
    make_group,
    make_topic,
    member,
    some,
    topics,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]


def explain(gateway: MagnetarPeer, topic: str, group: str, offset: int) -> Any:
    return topics(gateway, "explain", topic, "--subscription", group, "--offset", str(offset))


def test_each_state_of_a_record_is_explained(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, "explained")
    group = make_group(
        gateway.bootstrap,
        "explaining",
        pulsar__subscription__type="key_shared",
        pulsar__nack__delay__ms=600_000,
    )
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    for key in (b"accepted", b"refused", b"held", b"held", b"delayed"):
        delay = [("pulsar-deliver-after", b"600000")] if key == b"delayed" else []
        producer.produce(topic, b"v", key, headers=delay)
    assert producer.flush(30) == 0
    consumer = member(gateway.bootstrap, group, topic)
    accepted, refused, held = some(consumer)
    consumer.acknowledge(accepted, ACCEPT)
    assert acknowledge(consumer, [refused], RELEASE) == {(topic, 0)}
    assert held.offset() == 2

    told = [explain(gateway, topic, group, offset) for offset in range(5)]
    states = [(one["state"], one.get("failedDeliveries")) for one in told]
    assert states == [("DONE", None), ("BACKOFF", 1), ("ACQUIRED", 0), ("BLOCKED", 0), ("DELAYED", 0)]
    for n in (1, 4):
        assert told[n]["due"] in told[n]["explanation"]
    assert told[2]["lockedUntil"] in told[2]["explanation"]
    assert told[2]["consumer"] in told[2]["explanation"]
    # of the key that is in hand: who holds it
    assert told[2]["consumer"] in told[3]["explanation"], told[3]

    acknowledge(consumer, [held])
    (following,) = some(consumer)
    assert following.offset() == 3
    consumer.close()
