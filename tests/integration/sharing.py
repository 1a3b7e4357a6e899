"""Share groups of librdkafka, as tests use them: topics, groups with configs, members that say what they are given."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from compat.peers.magnetar import MagnetarPeer
from tests.integration.commands import admin

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
PATIENCE = 60.0


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for something that comes soon."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"gave up waiting for {what}"
        time.sleep(0.02)


def make_topic(bootstrap: str, name: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE)
    return name


def make_group(bootstrap: str, name: str, **configs: Any) -> str:
    """Set a group's configs, `pulsar__nack__delay__ms=5` for pulsar.nack.delay.ms; it begins with the first record."""
    settings = {"share.auto.offset.reset": "earliest"}
    settings |= {key.replace("__", "."): str(value) for key, value in configs.items()}
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE)
    return name


def send(bootstrap: str, topic: str, records: Iterable[tuple[bytes | None, bytes]], **places: int) -> None:
    """(key, value) each; `partition=0` for all of them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for key, value in records:
        producer.produce(topic, value, key, **places)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0


def member(bootstrap: str, group: str, *topics: str, **conf: Any) -> ShareConsumer:
    """A member that acknowledges explicitly."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    found = ShareConsumer({**settings, **conf})
    found.subscribe(list(topics))
    return found


def poll(consumer: ShareConsumer, seconds: float = 0.2) -> list[Message]:
    """What there is; errors, such as a broker that is away, are none of it."""
    return [message for message in consumer.poll(seconds) if message.error() is None]


def some(consumer: ShareConsumer) -> list[Message]:
    """What the next poll that gives anything gives."""
    found: list[Message] = []

    def more() -> bool:
        found.extend(poll(consumer))
        return bool(found)

    until(more, "records")
    return found


def acknowledge(
    consumer: ShareConsumer, messages: Iterable[Message], kind: AcknowledgeType = ACCEPT
) -> set[tuple[str, int]]:
    """Acknowledge and wait for the answers: the partitions for which it was confirmed."""
    for message in messages:
        consumer.acknowledge(message, kind)
    answers: dict[TopicPartition, Any] = consumer.commit_sync(PATIENCE)
    return {(where.topic, where.partition) for where, error in answers.items() if error is None}


def topics(gateway: MagnetarPeer, *words: str) -> Any:
    """What `magnetar-admin topics` answers; None for nothing."""
    return admin(gateway, "topics", *words)
