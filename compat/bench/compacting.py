"""Compaction of a topic that is all new: how long it takes, and what produces to another topic notice of it.

It begins when `min.cleanable.dirty.ratio` of the topic falls from 1 to 0.01; both servers look for that twice a second.
It is over when Magnetar's status says so; of Kafka when its folder has no half-done segment and less than it had.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from compat.bench.caller import caller_of
from compat.bench.loads import Load, Measure, Metric, Turn
from compat.peers.magnetar import MagnetarPeer

TOPIC, OTHERS = "bench-compacted", "bench-others"
RECORDS, KEYS, BYTES = 2_000_000, 600_000, 100
QUICK_RECORDS = 200_000
SEGMENT = 5_000_000
PATIENCE = 240.0
_RATIO = "min.cleanable.dirty.ratio"


class Others:
    """500 records a second, each by itself: when each was acknowledged, and how long that took."""

    def __init__(self, bootstrap: str) -> None:
        self.times: list[tuple[float, float]] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        following = time.monotonic()
        while not self._stop.is_set():
            began = time.perf_counter()

            def done(error: object, message: Message, began: float = began) -> None:
                self.times.append((time.monotonic(), time.perf_counter() - began))

            self._producer.produce(OTHERS, b"x" * 100, on_delivery=done)
            following += 0.002
            while (left := following - time.monotonic()) > 0:
                self._producer.poll(min(left, 0.001))
        self._producer.flush(30)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def p99_ms(self, begin: float, end: float) -> float:
        """Of those that were acknowledged in this time (monotonic)."""
        found = sorted(took for at, took in self.times if begin <= at <= end)
        return 1000 * found[int(len(found) * 0.99)] if found else 0.0


def fill(bootstrap: str, codec: str, count: int) -> None:
    """A third as many keys as records, at random; values that compress to half of their size."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    configs = {"cleanup.policy": "compact", _RATIO: "1", "segment.bytes": str(SEGMENT)}
    topics = [NewTopic(TOPIC, 1, 1, config=configs), NewTopic(OTHERS, 1, 1)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    chance = random.Random(1)
    values = [chance.randbytes(BYTES // 2).hex().encode() for _ in range(200)]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 65_536,
            "compression.type": codec,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, values[number % 200], b"key-%08d" % chance.randrange(KEYS))
                break
            except BufferError:
                producer.poll(0.05)
        if number % 5000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("not all records were taken")


def begin(bootstrap: str) -> None:
    """The topic is to be compacted."""
    entry = ConfigEntry(_RATIO, "0.01", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def stored(folder: Path) -> int:
    """Bytes of the topic's segments on a Kafka's disk; -1 while some are half done."""
    size = 0
    for path in folder.rglob(f"{TOPIC}-0/*"):
        if path.suffix in (".cleaned", ".swap"):
            return -1
        if path.suffix == ".log":
            size += path.stat().st_size
    return size


def _measure(codec: str) -> Measure:
    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        server = turn.server
        fill(server.bootstrap, codec, QUICK_RECORDS if turn.quick else RECORDS)
        ours = isinstance(server, MagnetarPeer)
        size = (
            sum(path.stat().st_size for path in (server.data / "segments").rglob("*.seg"))
            if isinstance(server, MagnetarPeer)
            else stored(server.directory)
        )
        caller = caller_of(turn) if ours else None

        def over() -> bool:
            if caller is not None:
                return b"SUCCESS" in caller.call("GET", f"persistent/public/default/{TOPIC}/compaction")
            return 0 <= stored(server.directory) < 0.8 * size

        others = Others(server.bootstrap)
        try:
            time.sleep(2 if turn.quick else 12)
            steady = time.monotonic()
            time.sleep(2 if turn.quick else 8)
            began = time.monotonic()
            begin(server.bootstrap)
            while not over():
                if time.monotonic() - began > PATIENCE:
                    raise RuntimeError("it was not compacted")
                time.sleep(0.1)
            ended = time.monotonic()
        finally:
            others.stop()
        before, meanwhile = others.p99_ms(steady, began), others.p99_ms(began, ended)
        return {
            "megabytes_per_second": size / 1e6 / (ended - began),
            "before_p99": before,
            "p99": meanwhile,
            "of_before": meanwhile / before,
        }

    return measure


def _load(name: str, title: str, codec: str) -> Load:
    looks = {"log.cleaner.backoff.ms": "500"}
    return Load(
        name,
        title,
        (
            Metric("megabytes_per_second", "MB/s, as stored", "higher", 1.0),
            Metric("before_p99", "p99 ms of the others' produce without", "lower"),
            Metric("p99", "p99 ms meanwhile", "lower"),
            Metric("of_before", "of that without", "lower", bound=1.3),
        ),
        _measure(codec),
        kafka=looks,
        magnetar=looks,
        rounds=2,
    )


COMPACTING: tuple[Load, ...] = (
    _load(
        "compact-plain",
        f"Compaction of {RECORDS:,} records of {BYTES} B with {KEYS:,} keys, beside 500 produces a second of others",
        "none",
    ),
    _load("compact-lz4", "the same with lz4", "lz4"),
)
