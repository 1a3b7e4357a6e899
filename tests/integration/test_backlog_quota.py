"""Backlog quotas as clients meet them: who publishes waits, is refused, or the oldest messages go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer
from kafka.errors import PolicyViolationError

from compat.peers.magnetar import MagnetarPeer
from tests.integration.commands import admin
from tests.integration.sharing import ACCEPT, acknowledge, make_group, member, some, until
from tests.integration.test_namespaces import read

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

VALUE = bytes(1000)


class Sender:
    """A librdkafka producer that remembers what became of its messages, in their order."""

    def __init__(self, gateway: MagnetarPeer, **config: Any) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": gateway.bootstrap,
                "linger.ms": 0,
                "batch.num.messages": 1,
                "retry.backoff.ms": 20,
                "log_level": 0,
                **config,
            }
        )
        self.delivered: list[tuple[str, bytes | None]] = []
        self.refused: list[KafkaError] = []

    def send(self, topic: str, *values: bytes) -> None:
        for value in values:
            self.producer.produce(topic, value, key=value[:8], on_delivery=self._told)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append((message.topic() or "", message.key()))
        else:
            self.refused.append(error)

    def until(self, what: Callable[[], bool], words: str) -> None:
        def seen() -> bool:
            self.producer.poll(0.05)
            return what()

        until(seen, words)


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%08d" % n + VALUE for n in range(first, first + count)]


def made(gateway: MagnetarPeer, topic: str, *flags: str) -> None:
    """A topic with one partition, a subscription `billing`, and a quota of the namespace."""
    admin(gateway, "namespaces", "set-backlog-quota", "public/default", *flags)
    admin(gateway, "topics", "create", topic)
    admin(gateway, "topics", "create-subscription", topic, "-s", "billing", "-m", "earliest")


def stats(gateway: MagnetarPeer, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = admin(gateway, "topics", "stats", topic)
    return found


def accepted(gateway: MagnetarPeer, topic: str, count: int) -> None:
    """So many messages of the subscription are acknowledged by a member of its share group."""
    group = make_group(gateway.bootstrap, "billing")
    consumer = member(gateway.bootstrap, group, topic)
    done = 0
    while done < count:
        messages = some(consumer)[: count - done]
        acknowledge(consumer, messages, ACCEPT)
        done += len(messages)
    consumer.close()


@pytest.mark.parametrize("idempotent", [True, False])
def test_who_publishes_waits_while_others_go_on_and_nothing_is_lost(
    own_gateway: Callable[..., MagnetarPeer], idempotent: bool
) -> None:
    gateway = own_gateway()
    made(gateway, "orders", "--limit", "10k", "--policy", "producer_request_hold")
    admin(gateway, "topics", "create", "other")
    sender = Sender(gateway, **{"enable.idempotence": idempotent})
    sender.send("orders", *numbered(0, 30))
    sender.until(lambda: len(sender.delivered) >= 10, "what has room is delivered")
    sender.send("other", *numbered(100, 5))
    sender.until(lambda: len([1 for topic, _ in sender.delivered if topic == "other"]) == 5, "others go on")
    shown = stats(gateway, "orders")
    assert shown["backlogQuotaLimitSize"] == 10_240
    assert 10_240 <= shown["backlogSize"] < 12_000
    held = shown["msgInCounter"]
    assert held < 15
    # as after any crash, those who wait send again
    gateway.kill()
    gateway.start()
    accepted(gateway, "orders", 5)
    sender.until(lambda: len(sender.delivered) >= held + 5 + 3, "some more")
    admin(gateway, "namespaces", "remove-backlog-quota", "public/default")
    sender.until(lambda: len(sender.delivered) == 35, "all of them")
    assert not sender.refused
    found = [value[:8] for value in read(gateway, "orders", "reader", 30)]
    if idempotent:
        assert found == [b"%08d" % n for n in range(30)]
    assert {bytes(each) for each in found} == {b"%08d" % n for n in range(30)}


def test_a_new_producer_that_waits_longer_than_its_requests_may_loses_nothing(
    own_gateway: Callable[..., MagnetarPeer],
) -> None:
    """What was told to come again comes before what was sent behind it, which was waiting meanwhile."""
    gateway = own_gateway()
    made(gateway, "orders", "--limit", "100", "--policy", "producer_request_hold")
    filling = Sender(gateway)
    filling.send("orders", *numbered(0, 1))
    filling.until(lambda: len(filling.delivered) == 1, "there is no room left")
    sender = Sender(gateway, **{"enable.idempotence": True, "request.timeout.ms": 4000})
    for number in range(1, 13):
        sender.send("orders", *numbered(number, 1))
        end = time.monotonic() + 0.4
        sender.until(lambda end=end: time.monotonic() > end, "some time")  # type: ignore[misc]
    assert not sender.delivered
    admin(gateway, "namespaces", "remove-backlog-quota", "public/default")
    sender.until(lambda: len(sender.delivered) == 12, "all of them")
    found = read(gateway, "orders", "reader", 13)
    assert [int(value[:8]) for value in found] == list(range(13))


def test_who_publishes_is_refused_at_each_level(own_gateway: Callable[..., MagnetarPeer]) -> None:
    gateway = own_gateway()
    made(gateway, "orders", "--limit", "5k", "--policy", "producer_exception")
    sender = Sender(gateway)
    sender.send("orders", *numbered(0, 10))
    sender.until(lambda: len(sender.delivered) + len(sender.refused) == 10, "all are answered")
    assert {error.code() for error in sender.refused} == {KafkaError.POLICY_VIOLATION}
    taken = len(sender.delivered)
    assert 4 <= taken <= 6
    other = KafkaProducer(bootstrap_servers=gateway.bootstrap, retries=0)
    with pytest.raises(PolicyViolationError):
        other.send("orders", VALUE).get(30)
    # its own goes before its namespace's
    admin(gateway, "topicPolicies", "set-backlog-quota", "orders", "-l", "8k", "-p", "producer_exception")
    other.send("orders", VALUE).get(30)
    gateway.kill()
    gateway.start()
    rows = admin(gateway, "topicPolicies", "list", "orders")
    assert [(row["value"], row["from"]) for row in rows if row.get("type") == "destination_storage"] == [
        (8192, "topic"),
        ("producer_exception", "topic"),
    ]
    admin(gateway, "topicPolicies", "remove-backlog-quota", "orders")
    with pytest.raises(PolicyViolationError):
        other.send("orders", VALUE).get(30)
    admin(gateway, "namespaces", "remove-backlog-quota", "public/default")
    other.send("orders", VALUE).get(30)
    other.close()


def test_the_oldest_messages_go_and_are_counted(own_gateway: Callable[..., MagnetarPeer]) -> None:
    gateway = own_gateway()
    made(gateway, "orders", "--limit", "10k", "--policy", "consumer_backlog_eviction")
    sender = Sender(gateway)
    sender.send("orders", *numbered(0, 40))
    sender.until(lambda: len(sender.delivered) == 40, "nobody waits")

    def settled() -> bool:
        sender.send("orders", b"%08d" % 99)
        sender.producer.flush(10)
        shown = stats(gateway, "orders")
        billing = shown["subscriptions"]["billing"]
        gone: int = shown["msgInCounter"] - billing["msgBacklog"]
        return bool(shown["backlogSize"] < 10_240 and gone == billing["totalMsgExpired"] > 25)

    until(settled, "what is too much is gone, and counted")
    before = stats(gateway, "orders")["subscriptions"]["billing"]
    assert before["totalMsgExpired"] > 25
    gateway.kill()
    gateway.start()
    after = stats(gateway, "orders")["subscriptions"]["billing"]
    assert (after["totalMsgExpired"], after["msgBacklog"]) == (
        before["totalMsgExpired"],
        before["msgBacklog"],
    )
