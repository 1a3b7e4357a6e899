"""A disk that runs full under the database: it recovers without a restart when there is space again."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.process import GatewayProcess
from tests.integration.small_disk import SmallDisk, small_disk
from tests.integration.test_trouble import Load, eventually, read

pytestmark = pytest.mark.integration

Start = Callable[..., GatewayProcess]
FOREVER = {"delivery.timeout.ms": 600_000, "message.send.max.retries": 100_000}


def ready(gateway: GatewayProcess) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(gateway.admin_url + "/health/ready", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_database_without_space_recovers_without_a_restart(own_gateway: Start, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 600) as disk:
        gateway = own_gateway(name="small/data", wrapper=disk.wrapper)
        try:
            full_and_free(gateway, disk)
        finally:
            gateway.__exit__()


def full_and_free(gateway: GatewayProcess, disk: SmallDisk) -> None:
    eventually(lambda: (disk.root / "data" / "reserve").exists(), "the gateway keeps space aside")
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    load = Load(gateway, "t", 0, **{"enable.idempotence": True}, **FOREVER)
    group = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "g", "enable.auto.commit": False})
    try:
        load.wait_for(300)
        disk.fill()
        eventually(lambda: ready(gateway)[0] == 503, "not ready while writes fail")
        # offsets go into the database only: sooner or later its log has no room for them
        with pytest.raises(KafkaException) as raised:
            commit_until_it_fails(group)
        assert raised.value.args[0].code() == KafkaError.COORDINATOR_NOT_AVAILABLE
        assert "t" in admin.list_topics(timeout=30).topics
        disk.free()
        eventually(lambda: ready(gateway)[0] == 200, "ready again, without a restart")
        load.wait_for(len(load.acked) + 100)
    finally:
        disk.free()
        load.finish()
        group.close()
    assert not load.failed
    values = [message.value() for message in read(gateway, "t", 0)]
    assert values == [b"%09d" % number for number in range(load.sent)], "each once, in order"


def commit_until_it_fails(group: Consumer) -> None:
    for offset in range(1000):
        group.commit(offsets=[TopicPartition("t", 0, offset, "x" * 3000)], asynchronous=False)
