"""Tenants and namespaces as Kafka clients and magnetar-admin meet them: one name in two places, subscriptions,
letters, queue topics, and what a SIGKILL leaves of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer
from tests.integration.commands import admin
from tests.integration.sharing import REJECT, acknowledge, make_group, member, send, some, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

EU = "persistent://shop/eu/"


def read(gateway: MagnetarPeer, topic: str, group: str, count: int) -> list[bytes]:
    """So many values of a topic, by a consumer of a group that commits them."""
    consumer = Consumer(
        {"bootstrap.servers": gateway.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Message] = []

    def more() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return len(found) >= count

    until(more, f"{count} records of {topic}")
    consumer.commit(asynchronous=False)
    consumer.close()
    return [message.value() or b"" for message in found]


def names(gateway: MagnetarPeer, namespace: str) -> list[str]:
    listed: list[str] = admin(gateway, "topics", "list", namespace)
    return listed


def test_a_namespace_is_a_place_of_its_own_for_every_client(own_gateway: Callable[..., MagnetarPeer]) -> None:
    gateway = own_gateway()
    admin(gateway, "tenants", "create", "shop", "-r", "ada")
    admin(gateway, "namespaces", "create", "shop/eu")
    for topic, value in (("orders", b"home"), ("shop.eu.orders", b"eu")):
        # made by the producer that asks for it
        send(gateway.bootstrap, topic, [(b"k", value)])
    assert names(gateway, "public/default") == ["persistent://public/default/orders"]
    assert names(gateway, "shop/eu") == [f"{EU}orders"]
    assert read(gateway, "shop.eu.orders", "reader", 1) == [b"eu"]
    assert read(gateway, "orders", "reader", 1) == [b"home"]

    group = make_group(gateway.bootstrap, "billing", pulsar__dead__letter__enable="true")
    consumer = member(gateway.bootstrap, group, "shop.eu.orders")
    (message,) = some(consumer)
    assert acknowledge(consumer, [message], REJECT) == {("shop.eu.orders", 0)}
    consumer.close()
    letters = "shop.eu.orders-billing-DLQ"
    (letter,) = read(gateway, letters, "undertaker", 1)
    assert letter == b"eu"
    assert f"{EU}orders-billing-DLQ" in names(gateway, "shop/eu")

    client = AdminClient({"bootstrap.servers": gateway.bootstrap})
    queue = "shop.eu.parts-billing-QUEUE"
    for wanted in (NewTopic("shop.eu.parts", 1, 1), NewTopic(queue, 2, 1)):
        client.create_topics([wanted])[wanted.topic].result(30)
    send(gateway.bootstrap, "shop.eu.parts", [(b"k", b"1"), (b"k", b"2")])
    assert sorted(read(gateway, queue, "billing", 2)) == [b"1", b"2"]
    before = admin(gateway, "namespaces", "topics", "shop/eu", "-ist")

    gateway.kill()
    gateway.start()
    assert admin(gateway, "tenants", "get", "shop")["adminRoles"] == ["ada"]
    assert admin(gateway, "namespaces", "list", "shop") == ["shop/eu"]
    assert admin(gateway, "namespaces", "topics", "shop/eu", "-ist") == before
    send(gateway.bootstrap, "shop.eu.orders", [(b"k", b"after")])
    assert read(gateway, "shop.eu.orders", "reader", 1) == [b"after"]

    said = admin(gateway, "namespaces", "delete", "shop/eu", code=1)
    assert "has topics" in said
    admin(gateway, "namespaces", "delete", "shop/eu", "--force")
    admin(gateway, "tenants", "delete", "shop")
    assert admin(gateway, "tenants", "list") == ["public"]
    # the other was made when somebody looked for a coordinator
    assert set(client.list_topics(timeout=30).topics) == {"orders", "__consumer_offsets"}
    with pytest.raises(KafkaException) as error:
        client.delete_topics(["shop.eu.orders"])["shop.eu.orders"].result(30)
    assert error.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_namespace_is_made_beside_topics_that_are_called_like_its_own(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    gateway = own_gateway()
    client = AdminClient({"bootstrap.servers": gateway.bootstrap})
    admin(gateway, "tenants", "create", "com")
    client.create_topics([NewTopic("com.acme.orders", 1, 1)])["com.acme.orders"].result(30)
    send(gateway.bootstrap, "com.acme.orders", [(b"k", b"home")])
    admin(gateway, "namespaces", "create", "com/acme")
    # what is there stays what it is; what is new goes to the namespace
    assert read(gateway, "com.acme.orders", "reader", 1) == [b"home"]
    client.create_topics([NewTopic("com.acme.parts", 1, 1)])["com.acme.parts"].result(30)
    assert names(gateway, "com/acme") == ["persistent://com/acme/parts-partition-0"]
    admin(gateway, "topics", "create", "com/acme/orders")
    listed = [name for name in client.list_topics(timeout=30).topics if name.startswith("com.")]
    assert sorted(listed) == ["com.acme.orders", "com.acme.parts"]
    assert read(gateway, "com.acme.orders", "another", 1) == [b"home"]
