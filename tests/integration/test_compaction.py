"""Compaction under load, with real clients: readers in the middle of it, transactions, kills, a restart."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer, PeerError
from tests.integration.sharing import acknowledge, make_group, member, some, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

Start = Callable[..., MagnetarPeer]

QUICK = ("--set", "log.cleaner.backoff.ms=100")
SMALL = {"cleanup.policy": "compact", "internal.segment.bytes": "100000", "min.cleanable.dirty.ratio": "0.2"}


def make(gateway: MagnetarPeer, name: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    topic = NewTopic(
        name, 1, 1, config={**SMALL, **{key.replace("__", "."): each for key, each in configs.items()}}
    )
    admin.create_topics([topic])[name].result(30)


def read(gateway: MagnetarPeer, topic: str, **conf: str) -> Iterator[tuple[int, bytes, bytes | None]]:
    """(offset, key, value) of all records from the beginning to where the end is now."""
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": f"reader-{random.random()}",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 200,
            **conf,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    offset: int | None = -1
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            message = consumer.poll(1)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return
                assert error.retriable() or error.code() in (
                    KafkaError._TRANSPORT,
                    KafkaError._ALL_BROKERS_DOWN,
                ), error
                continue
            offset, key = message.offset(), message.key()
            assert offset is not None
            assert isinstance(key, bytes)
            value = message.value()
            assert value is None or isinstance(value, bytes)
            yield offset, key, value
            if offset >= high - 1:
                return
        raise AssertionError(f"the end at {high} was not reached after {offset}")
    finally:
        consumer.close()


def latest(records: Iterator[tuple[int, bytes, bytes | None]]) -> dict[bytes, bytes]:
    """What each key has in the end; those with a tombstone have nothing."""
    found: dict[bytes, bytes | None] = {}
    before = -1
    for offset, key, value in records:
        assert offset > before
        before = offset
        found[key] = value
    return {key: value for key, value in found.items() if value is not None}


def children(pid: int) -> list[int]:
    """The processes that compact for a gateway."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in listed if b"gateway.compaction.child" in _command(int(each))]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def at_work(gateway: MagnetarPeer, topic: str) -> list[int]:
    """A process that compacts a topic, begun for that if need be."""
    url = f"{gateway.admin_url}/admin/v2/persistent/public/default/{topic}/compaction"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := children(gateway.pid):
            return found
        # it is at work already: 409
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=30).close()
        time.sleep(0.01)
    raise AssertionError("nothing is compacted")


def status(gateway: MagnetarPeer, topic: str) -> str:
    """Of a compaction that is over."""
    return str(
        json.loads(gateway.admin("topics", "compaction-status", topic, "-w", "--output", "json"))["status"]
    )


def compact(gateway: MagnetarPeer, topic: str) -> None:
    """Until that is done which is asked for, whatever else is under way."""

    def asked() -> bool:
        try:
            gateway.admin("topics", "compact", topic)
        except PeerError as error:
            if "already" in str(error):
                return False
            raise
        return True

    until(asked, "a compaction that was asked for")
    until(lambda: status(gateway, topic) == "SUCCESS", "its success")


class Load:
    """Writes keys at random, deletes some, and knows what each must have in the end."""

    def __init__(self, bootstrap: str, topic: str, keys: int) -> None:
        self.expected: dict[bytes, bytes | None] = {}
        self.sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 2,
                "batch.num.messages": 200,
                "compression.type": "lz4",
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._topic = topic
        self._keys = keys
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        chance = random.Random(5)
        while not self._stop.is_set():
            for _ in range(200):
                key = b"key-%d" % chance.randrange(self._keys)
                value = None if chance.random() < 0.05 else b"%d-" % self.sent + b"v" * chance.randrange(200)
                while True:
                    try:
                        self._producer.produce(self._topic, value, key)
                        break
                    except BufferError:
                        self._producer.poll(0.1)
                self.expected[key] = value
                self.sent += 1
            self._producer.poll(0)
            time.sleep(0.005)

    def stop(self) -> dict[bytes, bytes]:
        """What every key has in the end."""
        self._stop.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0
        return {key: value for key, value in self.expected.items() if value is not None}


def test_readers_and_kills_in_the_middle_of_compaction(own_gateway: Start) -> None:
    gateway = own_gateway(*QUICK)
    make(gateway, "t")
    load = Load(gateway.bootstrap, "t", 500)
    chance = random.Random(1)
    killed = 0
    try:
        for round_ in range(4):
            at_work(gateway, "t")
            # somebody reads from the beginning while segments go
            assert latest(read(gateway, "t"))
            for _ in range(5):
                for pid in at_work(gateway, "t"):
                    time.sleep(chance.random() * 0.1)
                    try:
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                    except ProcessLookupError:
                        pass
                time.sleep(0.05)
            if round_ % 2:
                orphans = at_work(gateway, "t")
                gateway.kill()
                until(lambda: not any(map(_command, orphans)), "its process to end with it")  # noqa: B023
                gateway.start()
    finally:
        expected = load.stop()
    assert killed
    assert load.sent > 10_000
    assert latest(read(gateway, "t")) == expected
    compact(gateway, "t")
    records = list(read(gateway, "t"))
    assert len({key for _, key, _ in records}) == len(records), "one record of each key"
    assert latest(iter(records)) == expected
    size = sum(path.stat().st_size for path in (gateway.data / "segments").glob("*/*.seg"))
    assert size < 5_000_000
    gateway.stop()
    verified = gateway.verify()
    assert verified.returncode == 0, verified.stdout
    gateway.start()
    assert list(read(gateway, "t")) == records
    assert not (gateway.data / "quarantine").exists()


def test_transactions_that_are_compacted_read_as_before(own_gateway: Start) -> None:
    gateway = own_gateway(*QUICK)
    make(gateway, "t", internal__segment__bytes="5000")
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "transactional.id": "x", "linger.ms": 0})
    producer.init_transactions(30)
    chance = random.Random(2)
    expected: dict[bytes, bytes] = {}
    for number in range(120):
        producer.begin_transaction()
        written = {b"k%d" % chance.randrange(30): b"%d" % number + b"v" * 50 for _ in range(5)}
        for key, value in written.items():
            producer.produce("t", value, key)
        if chance.random() < 0.5:
            producer.commit_transaction(30)
            expected |= written
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    committed = {"isolation.level": "read_committed"}
    assert latest(read(gateway, "t", **committed)) == expected
    compact(gateway, "t")
    for _ in range(2):
        records = list(read(gateway, "t", **committed))
        assert latest(iter(records)) == expected
        # nothing of what was aborted is left to be passed over
        assert list(read(gateway, "t", **{"isolation.level": "read_uncommitted"})) == records
        gateway.kill()
        gateway.start()
    producer.begin_transaction()
    producer.produce("t", b"last", b"k0")
    assert producer.flush(30) == 0
    compact(gateway, "t")
    assert latest(read(gateway, "t", **committed)) == expected
    producer.commit_transaction(30)
    assert latest(read(gateway, "t", **committed)) == {**expected, b"k0": b"last"}


def test_a_share_group_gets_every_message_and_later_ones_what_is_left(own_gateway: Start) -> None:
    gateway = own_gateway(*QUICK)
    make(gateway, "t", internal__segment__bytes="2000", min__cleanable__dirty__ratio="0")
    make_group(gateway.bootstrap, "g")
    slow = member(gateway.bootstrap, "g", "t")
    until(lambda: b"g" in gateway.admin("topics", "subscriptions", "t").encode(), "the subscription")
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 0})
    for number in range(60):
        producer.produce("t", b"%d" % number + b"v" * 50, b"k%d" % (number % 3))
        producer.poll(0.002)
    assert producer.flush(30) == 0
    compact(gateway, "t")
    got: list[bytes] = []
    while len(got) < 60:
        found = some(slow)
        got += [each.value().split(b"v")[0] for each in found]
        acknowledge(slow, found)
    assert got == [b"%d" % number for number in range(60)]
    slow.close()
    until(lambda: _compacted(gateway), "what nobody has open any more to be compacted")
    make_group(gateway.bootstrap, "late")
    late = member(gateway.bootstrap, "late", "t")
    left = [key for _, key, _ in read(gateway, "t")]
    seen = 0
    while seen < len(left):
        found = some(late)
        seen += len(found)
        acknowledge(late, found)
    assert seen == len(left) < 40
    late.close()


def _compacted(gateway: MagnetarPeer) -> bool:
    compact(gateway, "t")
    return len(list(read(gateway, "t"))) < 40


def test_what_a_gateway_is_told_to_compact_it_shows(own_gateway: Start) -> None:
    gateway = own_gateway()
    make(gateway, "t")
    assert json.loads(gateway.admin("topics", "compaction-status", "t", "--output", "json")) == {
        "status": "NOT_RUN",
        "lastError": "",
    }
    gateway.admin("topics", "set-compaction-threshold", "t", "-t", "10M")
    assert "10485760" in gateway.admin("topics", "get-compaction-threshold", "t")
    assert "requested" in gateway.admin("topics", "compact", "t")
    assert status(gateway, "t") == "SUCCESS"
    done = subprocess.run(
        ["curl", "-s", f"{gateway.admin_url}/metrics"], capture_output=True, text=True, check=True
    )
    assert "magnetar_compactions_running 0" in done.stdout
