"""A disk that runs full under the database: readers never stop, and producers go on when there is space again."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.kafka.jars import java_command
from compat.peers.magnetar import MagnetarPeer
from tests.integration.small_disk import SmallDisk, small_disk
from tests.integration.test_trouble import Load, eventually, read

pytestmark = pytest.mark.integration

Start = Callable[..., MagnetarPeer]
FOREVER = {"delivery.timeout.ms": 600_000, "message.send.max.retries": 100_000}
ENOUGH = 24 << 20
"""Bytes that must be free again: RocksDB waits for a memtable's worth, 16 MB."""


class JavaLoad:
    """Kafka's own VerifiableProducer, idempotent as it is by default: numbers from 0 on, 200 a second."""

    def __init__(self, gateway: MagnetarPeer, topic: str, folder: Path) -> None:
        config = folder / "producer.properties"
        config.write_text("delivery.timeout.ms=600000\nretries=2147483647\n")
        to = ["--bootstrap-server", gateway.bootstrap, "--topic", topic]
        command = java_command(
            "org.apache.kafka.tools.VerifiableProducer",
            [*to, "--throughput", "200", "--command-config", str(config)],
            heap="128m",
            options=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        )
        self.acked: dict[bytes, int] = {}
        self.failed: list[Any] = []
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if told["name"] == "producer_send_success":
                self.acked[told["value"].encode()] = told["offset"]
            elif told["name"] == "producer_send_error":
                self.failed.append(told)

    @property
    def sent(self) -> int:
        """Known when it has finished: it sends what it has when it is told to end."""
        return len(self.acked)

    def wait_for(self, count: int) -> None:
        eventually(
            lambda: len(self.acked) >= count or self._process.poll() is not None, "Java is acknowledged"
        )
        assert self._process.poll() is None, "VerifiableProducer goes on"

    def finish(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._thread.join()


def ready(gateway: MagnetarPeer) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(gateway.admin_url + "/health/ready", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def start(own_gateway: Start, disk: SmallDisk, *flags: str) -> tuple[MagnetarPeer, AdminClient]:
    """A gateway on the disk with two topics of a partition each, `t` and `java`."""
    gateway = own_gateway(*flags, directory=disk.folder, wrapper=disk.wrapper)
    eventually(lambda: (disk.root / "data" / "reserve").exists(), "the gateway keeps space aside")
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    for future in admin.create_topics([NewTopic("t", 1, 1), NewTopic("java", 1, 1)]).values():
        future.result(30)
    return gateway, admin


def fill(gateway: MagnetarPeer, disk: SmallDisk) -> None:
    disk.fill()

    def told() -> bool:
        status, reason = ready(gateway)
        return status == 503 and "no space is left" in reason

    eventually(told, "not ready while writes fail")


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_database_without_space_recovers_without_a_restart(
    own_gateway: Start, tmp_path: Path, durability: str
) -> None:
    with small_disk(tmp_path / "small", 600) as disk:
        gateway, admin = start(own_gateway, disk, "--durability", durability)
        try:
            full_and_free(gateway, admin, disk, tmp_path, with_java=durability == "os")
        finally:
            gateway.close()


def full_and_free(
    gateway: MagnetarPeer, admin: AdminClient, disk: SmallDisk, folder: Path, *, with_java: bool
) -> None:
    loads: dict[str, Load | JavaLoad] = {
        "t": Load(gateway, "t", 0, **{"enable.idempotence": True}, **FOREVER)
    }
    if with_java:
        loads["java"] = JavaLoad(gateway, "java", folder)
    group = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "g", "enable.auto.commit": False})
    try:
        for load in loads.values():
            load.wait_for(300)
        fill(gateway, disk)
        # offsets go into the database only: sooner or later its log has no room for them
        with pytest.raises(KafkaException) as raised:
            commit_until_it_fails(group)
        assert raised.value.args[0].code() == KafkaError.COORDINATOR_NOT_AVAILABLE
        assert "t" in admin.list_topics(timeout=30).topics
        for topic, load in loads.items():
            expected = dict(load.acked)
            there = {message.value(): message.offset() for message in read(gateway, topic, 0)}
            assert expected.items() <= there.items(), (
                "what was acknowledged is read while nothing can be written"
            )
        assert ready(gateway)[0] == 503
        disk.free(ENOUGH)
        eventually(lambda: ready(gateway)[0] == 200, "ready again, without a restart and with little space")
        disk.free()
        for load in loads.values():
            load.wait_for(len(load.acked) + 100)
    finally:
        disk.free()
        for load in loads.values():
            load.finish()
        group.close()
    for topic, load in loads.items():
        assert not load.failed, "no client was told to give up"
        assert_each_once(gateway, topic, load)


def assert_each_once(gateway: MagnetarPeer, topic: str, load: Load | JavaLoad) -> None:
    there = {message.offset(): message.value() for message in read(gateway, topic, 0)}
    assert [int(value or b"") for value in there.values()] == list(range(load.sent)), "each once, in order"
    for value, offset in load.acked.items():
        assert there[offset] == value, f"acknowledged at {offset}"


def commit_until_it_fails(group: Consumer) -> None:
    for offset in range(1000):
        group.commit(offsets=[TopicPartition("t", 0, offset, "x" * 3000)], asynchronous=False)


def test_a_stop_and_a_start_on_a_full_disk(own_gateway: Start, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 600) as disk:
        gateway, _ = start(own_gateway, disk)
        load = Load(gateway, "t", 0, **{"enable.idempotence": True}, **FOREVER)
        group = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "g"})
        try:
            load.wait_for(300)
            fill(gateway, disk)
            with pytest.raises(KafkaException):
                commit_until_it_fails(group)
            assert gateway.stop() == 0, gateway.log()[-3000:]
            assert "Traceback" not in gateway.log()
            assert "the last checkpoint did not happen" in gateway.log()

            gateway.start()
            assert "gave up the 8 MiB" in gateway.log()
            # now a start after a crash, with nothing more to give up
            disk.fill()
            gateway.kill()
            disk.fill()
            done = subprocess.run(gateway.command(), capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 1
            assert "Traceback" not in done.stderr
            (line,) = [each for each in done.stderr.splitlines() if each.startswith("magnetar: ")]
            assert "no space is left on the device" in line

            disk.free()
            gateway.start()
            load.wait_for(len(load.acked) + 100)
        finally:
            disk.free()
            load.finish()
            group.close()
        try:
            assert not load.failed
            assert_each_once(gateway, "t", load)
        finally:
            gateway.close()
