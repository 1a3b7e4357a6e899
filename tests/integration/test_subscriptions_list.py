"""`magnetar-admin subscriptions` and `attention` over a gateway with real members."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from compat.peers.magnetar import MagnetarPeer
from tests.integration.commands import admin
from tests.integration.sharing import (
    RELEASE,
    acknowledge,
    make_group,
    make_topic,
    member,
    send,
    some,
    topics,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def test_members_are_seen_with_address_client_and_version(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, "seen", 2)
    group = make_group(gateway.bootstrap, "seers")
    send(gateway.bootstrap, topic, [(b"%d" % n, b"v") for n in range(20)])
    sharer = member(gateway.bootstrap, group, topic, **{"client.id": "packer"})
    given = some(sharer)

    (one,) = admin(gateway, "subscriptions", "consumers", topic, "-s", group)
    assert (one["address"], one["metadata"]["clientId"]) == ("127.0.0.1", "packer")
    assert one["clientVersion"].split()[0] in ("confluent-kafka-python", "librdkafka")
    assert one["connectedSince"].endswith("Z")
    (told,) = topics(gateway, "partitioned-stats", topic)["subscriptions"][group]["consumers"]
    assert {key: told[key] for key in ("address", "clientVersion")} == {
        key: one[key] for key in ("address", "clientVersion")
    }

    reader = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": "readers-of-seen",
            "client.id": "reader",
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe([topic])
    until(lambda: reader.poll(0.2), "a record")
    reader.commit(asynchronous=False)
    (one,) = admin(gateway, "subscriptions", "consumers", topic, "-s", "readers-of-seen")
    assert (one["address"], one["consumerName"]) == ("127.0.0.1", "reader")
    assert one["clientVersion"].split()[0] in ("confluent-kafka-python", "librdkafka")

    listed = {
        each["subscription"]: each
        for each in admin(gateway, "subscriptions", "list", "-t", topic)["subscriptions"]
    }
    assert set(listed) == {group, "readers-of-seen"}
    states = listed[group]["states"]
    assert (listed[group]["open"], states["inHand"], listed[group]["consumers"]) == (20, states["inHand"], 1)
    assert states["inHand"] >= len(given)
    assert (listed["readers-of-seen"]["type"], listed["readers-of-seen"]["consumers"]) == ("Failover", 1)
    reader.close()
    sharer.close()


def test_sums_follow_what_members_do_and_are_there_after_a_kill(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    gateway = own_gateway()
    topic = make_topic(gateway.bootstrap, "kept")
    group = make_group(gateway.bootstrap, "keepers", pulsar__nack__delay__ms=600_000)
    send(gateway.bootstrap, topic, [(b"%d" % n, b"v") for n in range(10)])
    sharer = member(gateway.bootstrap, group, topic)
    given = some(sharer)
    while len(given) < 10:
        given += some(sharer)
    acknowledge(sharer, given[:4])
    acknowledge(sharer, given[4:7], RELEASE)

    def stands() -> dict[str, int]:
        (one,) = admin(gateway, "subscriptions", "list", "-t", topic)["subscriptions"]
        return {"open": one["open"], **{name: count for name, count in one["states"].items() if count}}

    assert stands() == {"open": 6, "inHand": 3, "backoff": 3}
    gateway.kill()
    gateway.start()
    # what was in hand can be delivered: nobody has loaded the cursor, so its rows say so
    assert stands() == {"open": 6, "available": 3, "backoff": 3}
    sharer.close()
