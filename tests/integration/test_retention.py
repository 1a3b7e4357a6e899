"""Retention and share groups, with a real consumer: what waits comes, what is settled goes, what is taken counts."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import RELEASE, acknowledge, make_group, member, some, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

Start = Callable[..., MagnetarPeer]


def test_retention_waits_for_what_waits_and_counts_what_it_takes(own_gateway: Start) -> None:
    gateway = own_gateway("--set", "log.retention.check.interval.ms=50")
    bootstrap = gateway.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("t", 1, 1, config={"retention.ms": "300"})
    admin.create_topics([topic])["t"].result(30)
    make_group(bootstrap, "g", pulsar__nack__delay__ms=2_000)
    consumer = member(bootstrap, "g", "t")
    producer = Producer({"bootstrap.servers": bootstrap})
    watching = Consumer({"bootstrap.servers": bootstrap, "group.id": "watching"})

    def span() -> tuple[int, int]:
        found: tuple[int, int] = watching.get_watermark_offsets(TopicPartition("t", 0), timeout=30)
        return found

    def stats() -> Any:
        url = f"{gateway.admin_url}/admin/v2/persistent/public/default/t-partition-0/stats"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)

    producer.produce("t", b"nacked")
    assert producer.flush(30) == 0
    (first,) = some(consumer)
    assert acknowledge(consumer, [first], RELEASE)
    producer.produce("t", b"delayed", headers=[("pulsar-deliver-after", b"3000")])
    assert producer.flush(30) == 0
    until(lambda: "keptBeyondRetention" in stats()["magnetar"], "a round of retention")
    kept = stats()["magnetar"]["keptBeyondRetention"]
    assert kept["messages"] == 2
    assert kept["holds"] == [{"subscription": "g", "offset": 0, "state": "BACKOFF"}]
    for value in (b"nacked", b"delayed"):
        found = some(consumer)
        assert [each.value() for each in found] == [value]
        acknowledge(consumer, found)
    until(lambda: span() == (2, 2), "what is settled to go")
    assert stats()["subscriptions"]["g"]["totalMsgExpired"] == 0
    consumer.close()

    for _ in range(3):
        producer.produce("t", b"nobody comes for it")
    assert producer.flush(30) == 0
    until(lambda: span() == (5, 5), "what is open to go, since the topic's retention is set")
    told = stats()
    assert told["subscriptions"]["g"]["totalMsgExpired"] == 3
    assert told["subscriptions"]["g"]["msgBacklog"] == 0
    assert "keptBeyondRetention" not in told["magnetar"]
    watching.close()
