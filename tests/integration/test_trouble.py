"""When things go wrong: a full disk, bytes that make no sense, beside clients that go on. For SIGKILL: proofs/soak."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer

pytestmark = pytest.mark.integration

Start = Callable[..., MagnetarPeer]


def create(gateway: MagnetarPeer, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(30)


def read(gateway: MagnetarPeer, topic: str, partition: int) -> list[Message]:
    """Everything that is in a partition."""
    consumer = Consumer(
        {"bootstrap.servers": gateway.bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Message] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "the partition has no end"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return found
        found.append(message)


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Load:
    """A producer in a thread of its own; `acked` is what the gateway has acknowledged: value -> offset."""

    def __init__(self, gateway: MagnetarPeer, topic: str, partition: int, **conf: object) -> None:
        self.topic, self.partition = topic, partition
        self.acked: dict[bytes, int] = {}
        self.failed: list[KafkaError] = []
        self.sent = 0
        self._enough = threading.Event()
        self._producer = Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 1, **conf})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            value = message.value()
            assert value is not None
            self.acked[value] = message.offset() or 0
        else:
            self.failed.append(error)

    def _run(self) -> None:
        while not self._enough.is_set():
            try:
                self._producer.produce(
                    self.topic, b"%09d" % self.sent, partition=self.partition, on_delivery=self._delivered
                )
                self.sent += 1
            except BufferError:
                self._producer.poll(0.05)
            self._producer.poll(0)
            if self.sent - len(self.acked) > 2000:
                self._producer.poll(0.01)
        self._producer.flush(60)

    def wait_for(self, count: int) -> None:
        """Until so many records are acknowledged."""
        deadline = time.monotonic() + 60
        while len(self.acked) < count:
            assert time.monotonic() < deadline, f"{len(self.acked)} of {count} acknowledged"
            assert self._thread.is_alive()
            self._thread.join(0.005)

    def finish(self) -> None:
        self._enough.set()
        self._thread.join(90)


def test_a_full_disk_refuses_writers_serves_readers_and_recovers(own_gateway: Start, tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.fail("unshare (util-linux) is missing: it gives this test a small disk of its own")
    # The disk is mounted by a process that stays while the gateway is started anew.
    small = tmp_path / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=104m tmpfs {small} && echo mounted && exec cat"
    holder = subprocess.Popen(
        ["unshare", "-rm", "sh", "-c", mount], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mounted\n"
        wrapper = ("nsenter", f"--target={holder.pid}", "--user", "--mount", "--preserve-credentials")
        gateway = own_gateway(directory=small, wrapper=wrapper)
        try:
            fill_free_and_fill_again(gateway, Path(f"/proc/{holder.pid}/root{small}"))
        finally:
            gateway.close()
            assert holder.stdin is not None
            holder.stdin.close()


def fill_free_and_fill_again(gateway: MagnetarPeer, disk: Path) -> None:
    """What happens on a small disk: it runs full, gets space again, runs full, and the gateway starts on it."""
    eventually(lambda: (disk / "data" / "reserve").exists(), "the gateway keeps space aside")
    ballast = disk / "ballast"
    with open(ballast, "wb") as file:
        file.write(bytes(60 << 20))
    create(gateway, "t")
    acked: list[tuple[int, bytes]] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acked.append((message.offset() or 0, (message.value() or b"")[:8]))
        else:
            errors.append(error)

    producer = Producer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "delivery.timeout.ms": 8000,
            "linger.ms": 0,
            "compression.type": "none",
        }
    )

    def fill() -> None:
        errors.clear()
        for number in range(200):
            producer.produce("t", b"%08d" % number + os.urandom(500_000), on_delivery=delivered)
            producer.flush(20)
            if errors:
                return
        raise AssertionError("the disk never filled")

    fill()
    assert all(error.code() == KafkaError._MSG_TIMED_OUT or error.retriable() for error in errors), errors
    before = read(gateway, "t", 0)
    assert [(m.offset(), (m.value() or b"")[:8]) for m in before] == acked, (
        "readers see what was acknowledged"
    )
    assert "no space is left" in gateway.log()

    ballast.unlink()
    count = len(acked)
    again = Producer({"bootstrap.servers": gateway.bootstrap, "delivery.timeout.ms": 60000})
    again.produce("t", b"%08d" % 77777777, on_delivery=delivered)
    assert again.flush(60) == 0
    assert len(acked) == count + 1, "space is back, and so are writers"
    assert [(m.offset(), (m.value() or b"")[:8]) for m in read(gateway, "t", 0)] == acked

    with open(ballast, "wb") as file:
        file.write(bytes(60 << 20))
    fill()
    with open(disk / "crumbs", "wb", buffering=0) as crumbs, contextlib.suppress(OSError):
        while crumbs.write(bytes(4096)):
            pass
    gateway.restart()
    assert "gave up the 8 MiB" in gateway.log()
    assert not (disk / "data" / "reserve").exists()
    assert [(m.offset(), (m.value() or b"")[:8]) for m in read(gateway, "t", 0)] == acked
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    admin.delete_topics(["t"])["t"].result(30)
    create(gateway, "u")
    more = Producer({"bootstrap.servers": gateway.bootstrap, "delivery.timeout.ms": 60000})
    more.produce("u", b"%08d" % 88888888, on_delivery=delivered)
    assert more.flush(60) == 0
    assert [m.value() for m in read(gateway, "u", 0)] == [b"88888888"]


def test_nonsense_harms_nobody_else(gateway: MagnetarPeer) -> None:
    topic = f"t{os.urandom(4).hex()}"
    create(gateway, topic)
    load = Load(gateway, topic, 0)
    load.wait_for(100)
    host, port = gateway.bootstrap.rsplit(":", 1)
    for junk in (
        os.urandom(1000),
        struct.pack(">ihhih", 2**31 - 1, 0, 9, 1, -1),
        struct.pack(">ihhih", 100, 0, 9, 1, -1) + b"\xff" * 90,
        struct.pack(">ihhih", 3_000_000, 3, 12, 1, -1) + b"\xff" * 3_000_000,
    ):
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            try:
                sock.sendall(junk)
                while sock.recv(65536):
                    pass
            except ConnectionError:
                pass
    load.wait_for(len(load.acked) + 100)
    load.finish()
    assert not load.failed
    assert len(read(gateway, topic, 0)) == load.sent
