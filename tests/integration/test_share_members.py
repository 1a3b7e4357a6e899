"""Members of a share group (librdkafka) that leave with a record in hand, and whose fetch connection idles."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import ACCEPT, make_group, make_topic, member, poll, send, some, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def connections(gateway: MagnetarPeer) -> tuple[int, int]:
    """How many Kafka clients have, and how many were closed as idle so far."""
    with urllib.request.urlopen(f"{gateway.admin_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    there = [line for line in lines if line.startswith("magnetar_connections{")]
    idle = [line for line in lines if "connections_refused_total{" in line and "idle" in line]
    return tuple(sum(int(float(line.split()[-1])) for line in some) for some in (there, idle))  # type: ignore[return-value]


def test_a_record_that_makes_its_consumer_close_is_a_dead_letter_in_the_end(tmp_path: Path) -> None:
    gateway = MagnetarPeer(directory=tmp_path)
    gateway.start()
    try:
        topic = make_topic(gateway.bootstrap, "t")
        group = make_group(gateway.bootstrap, "g", pulsar__max__redeliver__count=2)
        send(gateway.bootstrap, topic, [(None, b"poison"), (None, b"good")])
        counts = []
        for _ in range(3):
            consumer = member(gateway.bootstrap, group, topic)
            for each in some(consumer):
                if each.value() == b"poison":
                    counts.append(each.delivery_count())
                else:
                    consumer.acknowledge(each, ACCEPT)
            # it throws, and is closed
            consumer.close()
        assert counts == [1, 2, 3]
        reader = member(gateway.bootstrap, make_group(gateway.bootstrap, "h"), "t-g-DLQ")
        assert [each.value() for each in some(reader)] == [b"poison"]
        reader.close()
    finally:
        assert gateway.stop() == 0


def test_a_member_keeps_its_record_though_its_fetch_connection_idled(tmp_path: Path) -> None:
    """It works on it for longer than connections may idle. librdkafka drops its heartbeats' connection with the other
    one, and makes that anew at once.
    """
    gateway = MagnetarPeer(
        directory=tmp_path,
        settings={
            "connections.max.idle.ms": "1500",
            "group.share.min.heartbeat.interval.ms": "300",
            "group.share.heartbeat.interval.ms": "300",
        },
    )
    gateway.start()
    try:
        topic = make_topic(gateway.bootstrap, "t")
        group = make_group(gateway.bootstrap, "g", pulsar__ack__timeout__ms=600_000)
        send(gateway.bootstrap, topic, [(None, b"long")])
        first = member(gateway.bootstrap, group, topic)
        some(first)
        there, before = connections(gateway)
        until(
            lambda: connections(gateway)[1] - before >= there - 1,
            "all but the heartbeats' to be closed as idle",
        )
        second = member(gateway.bootstrap, group, topic)
        again = poll(second, 1.0)
        assert not again, [(each.value(), each.delivery_count()) for each in again]
        first.close()
        second.close()
    finally:
        assert gateway.stop() == 0
