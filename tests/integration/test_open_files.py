"""No more files to be had, beside clients that go on: `ulimit -n` is reached, and there is room again."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat.peers.magnetar import MagnetarPeer
from tests.integration.test_trouble import Load, create, eventually, read

pytestmark = pytest.mark.integration

Start = Callable[..., MagnetarPeer]
LIMIT = 128
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def limited(files: int) -> tuple[str, ...]:
    """A wrapper under which the hard limit is this low."""
    return ("bash", "-c", f'ulimit -n {files}; exec "$@"', "limited")


@contextlib.contextmanager
def crowd(address: str, count: int) -> Iterator[None]:
    """So many connections that ask nothing."""
    host, port = address.removeprefix("http://").rsplit(":", 1)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection((host, int(port)), 30))
        yield


def complaints(gateway: MagnetarPeer) -> list[str]:
    return [line for line in gateway.log().splitlines() if "too many files are open" in line]


def test_more_connections_and_partitions_than_files(own_gateway: Start) -> None:
    gateway = own_gateway(wrapper=limited(LIMIT))
    create(gateway, "t")
    create(gateway, "wide", 60)
    load = Load(gateway, "t", 0, **{"enable.idempotence": True})
    load.wait_for(100)
    outcomes: list[object] = []

    def delivered(error: object, message: object) -> None:
        outcomes.append(error)

    wide = Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 0})
    # it has all the connections that it needs
    wide.produce("wide", b"first", partition=1)
    assert wide.flush(60) == 0
    with crowd(gateway.bootstrap, 2 * LIMIT), crowd(gateway.admin_url, LIMIT):
        eventually(lambda: bool(complaints(gateway)), "it is told")
        load.wait_for(len(load.acked) + 1000)
        load.finish()
        assert not load.failed
        # Each partition is a file. One at a time: a group keeps the files of all its partitions open.
        for turn in range(3):
            for partition in range(60):
                wide.produce("wide", b"%d" % turn, partition=partition, on_delivery=delivered)
                assert wide.flush(60) == 0
        assert outcomes == [None] * 180
        with urllib.request.urlopen(gateway.admin_url + "/health/ready", timeout=30) as answer:
            assert answer.status == 200
        assert len(os.listdir(f"/proc/{gateway.pid}/fd")) < LIMIT, "something is left to the database"
    assert len(complaints(gateway)) == 1, "said once"
    assert "writes fail" not in gateway.log()

    # who comes now is served
    again = AdminClient({"bootstrap.servers": gateway.bootstrap})
    assert "wide" in again.list_topics(timeout=30).topics
    assert [int(message.value() or b"") for message in read(gateway, "t", 0)] == list(range(load.sent))
    for partition in (0, 59):
        assert [message.value() for message in read(gateway, "wide", partition)] == [b"0", b"1", b"2"]


def test_not_one_file_left(own_gateway: Start) -> None:
    """Of the whole system, perhaps, or for a reason nobody thought of: the limit is set to what is open."""
    gateway = own_gateway()
    create(gateway, "t", 2)
    first = Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 0, "enable.idempotence": True})
    outcomes: list[object] = []
    # the producer has all the connections that it needs, and the segment of partition 0 is yet to be made
    first.produce("t", b"first", partition=1)
    assert first.flush(60) == 0
    eventually(lambda: (gateway.data / "reserve").exists(), "the start is over")
    host, port = gateway.bootstrap.rsplit(":", 1)
    there = socket.create_connection((host, int(port)), 30)
    there.sendall(API_VERSIONS)
    (size,) = struct.unpack(">i", there.recv(4))
    assert len(there.recv(size, socket.MSG_WAITALL)) == size
    usual = resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (3, usual[1]))
    try:
        first.produce("t", b"0", partition=0, on_delivery=lambda error, _: outcomes.append(error))
        eventually(lambda: first.poll(0.01) or "writes fail" in gateway.log(), "it is told")
        assert outcomes == [], "a producer tries again"
        with socket.create_connection((host, int(port)), 30):
            eventually(lambda: "connections wait" in gateway.log(), "and that connections wait")
            there.sendall(API_VERSIONS)
            assert len(there.recv(4)) == 4, "who is there is served"
    finally:
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, usual)
        there.close()
    assert first.flush(60) == 0
    assert outcomes == [None]
    assert [message.value() for message in read(gateway, "t", 0)] == [b"0"], "by a new connection"
    assert gateway.log().count("connections wait") == 1


def test_a_limit_that_is_too_low_is_told(tmp_path: Path) -> None:
    gateway = MagnetarPeer(directory=tmp_path, wrapper=limited(100))
    done = subprocess.run(gateway.command(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "may have 100 files open, and needs 128 at least" in done.stderr
    assert "Traceback" not in done.stderr
