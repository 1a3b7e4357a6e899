"""Subscriptions of one name on two topics, retries and names of partitions, as real consumers meet them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import (
    ACCEPT,
    RELEASE,
    acknowledge,
    make_group,
    make_topic,
    member,
    send,
    some,
    topics,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]


def test_a_subscription_elsewhere_leaves_live_members_alone(gateway: MagnetarPeer) -> None:
    orders, payments = make_topic(gateway.bootstrap, "c-orders"), make_topic(gateway.bootstrap, "c-payments")
    group = make_group(gateway.bootstrap, "c-billing", pulsar__subscription__type="key_shared")
    send(gateway.bootstrap, orders, [(b"k", b"1"), (b"k", b"2")])
    consumer = member(gateway.bootstrap, group, orders)
    (first,) = some(consumer)
    assert first.value() == b"1", "one of a key at a time"

    topics(gateway, "create-subscription", payments, "-s", group, "-m", "earliest", "--type", "shared",
           "-p", "team=blue")  # fmt: skip
    assert acknowledge(consumer, [first], RELEASE) == {(orders, 0)}
    (again,) = some(consumer)
    assert (again.value(), again.delivery_count()) == (b"1", 2), "at once, and still one of a key"
    told = {
        topic: topics(gateway, "subscriptions", topic, "--details")[0]["type"] for topic in (orders, payments)
    }
    assert told == {orders: "Key_Shared", payments: "Shared"}

    # the same group there: what is released waits Pulsar's minute
    send(gateway.bootstrap, payments, [(b"k", b"3")])
    other = member(gateway.bootstrap, group, payments)
    (third,) = some(other)
    assert acknowledge(other, [third], RELEASE) == {(payments, 0)}
    explained = topics(gateway, "explain", payments, "-s", group, "--offset", "0")
    assert (explained["state"], explained["failedDeliveries"]) == ("BACKOFF", 1)

    # properties of its own, and what the group says live where it has none
    topics(gateway, "update-subscription-properties", payments, "-s", group, "-p", "pulsar.nack.delay.ms=0",
           "-p", "team=red")  # fmt: skip
    make_group(gateway.bootstrap, group, pulsar__nack__delay__ms=600_000)
    send(gateway.bootstrap, payments, [(b"k", b"4")])
    (fourth,) = some(other)
    assert acknowledge(other, [fourth], RELEASE) == {(payments, 0)}
    (fourth,) = some(other)
    assert (fourth.value(), fourth.delivery_count()) == (b"4", 2)
    assert acknowledge(consumer, [again], RELEASE) == {(orders, 0)}
    explained = topics(gateway, "explain", orders, "-s", group, "--offset", "0")
    assert (explained["state"], explained["failedDeliveries"]) == ("BACKOFF", 2)
    consumer.close()
    other.close()


def test_a_retry_topic_is_there_when_its_member_is(gateway: MagnetarPeer) -> None:
    topic = make_topic(gateway.bootstrap, "c-work", 2)
    group = make_group(gateway.bootstrap, "c-worker")
    retry = f"{topic}-{group}-RETRY"
    consumer = member(gateway.bootstrap, group, topic, retry)
    send(gateway.bootstrap, topic, [(b"k", b"again")])
    (message,) = some(consumer)
    found = AdminClient({"bootstrap.servers": gateway.bootstrap}).list_topics(timeout=30).topics
    assert len(found[retry].partitions) == 2, "made before the first retry"
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    producer.produce(retry, message.value(), message.key(), headers=[("DELAY_TIME", b"1000")])
    assert producer.flush(30) == 0
    assert acknowledge(consumer, [message], ACCEPT) == {(topic, message.partition())}
    (message,) = some(consumer)
    assert (message.topic(), message.value()) == (retry, b"again")
    assert dict(message.headers())["RECONSUMETIMES"] == b"1"
    consumer.close()


def test_a_partitions_name_is_no_topic_of_its_own(gateway: MagnetarPeer) -> None:
    make_topic(gateway.bootstrap, "c-parted", 2)
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    made = admin.create_topics([NewTopic("c-parted-partition-0", 1, 1)])["c-parted-partition-0"]
    with pytest.raises(KafkaException) as refused:
        made.result(30)
    error: Any = refused.value.args[0]
    assert error.code() == KafkaError.TOPIC_EXCEPTION
    assert "partition 0 of topic 'c-parted'" in error.str()
