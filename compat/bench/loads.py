"""The loads, as a table: what is done, what is measured, and what ratio is aimed at.

To add one: a `Load` in `LOADS` whose `measure` gets a `Turn` (a server that is not started yet) and returns
figures by name; its `metrics` say which of them are shown.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from compat.bench import clients, generator
from compat.peers.process import Peer

BEFORE = "Before"
"""Magnetar as it is in another checkout, by turns with this one"""


@dataclass(frozen=True, slots=True)
class Metric:
    """One shown figure of a load.

    `target` bounds the ratio from below if higher is better, else from above: Magnetar ÷ Kafka, or, where there is an
    `anchor`, Magnetar ÷ Pulsar: what was measured of it, else the anchor, a figure of another day. `bound` bounds
    Magnetar's figure itself.
    """

    figure: str
    unit: str
    better: Literal["higher", "lower"]
    target: float | None = None
    anchor: float | None = None
    bound: float | None = None
    # Pulsar has no such figure, though it gets the load
    own: bool = False

    def met(self, ratio: float) -> bool | None:
        """Whether a ratio meets the target; None without a target."""
        return self._keeps(ratio, self.target)

    def within(self, figure: float) -> bool | None:
        """Whether Magnetar's figure keeps the bound; None without one."""
        return self._keeps(figure, self.bound)

    def _keeps(self, value: float, border: float | None) -> bool | None:
        if border is None:
            return None
        return value >= border if self.better == "higher" else value <= border


@dataclass(frozen=True, slots=True)
class Turn:
    """One server's go at a load."""

    server: Peer
    quick: bool

    def started(self) -> None:
        """Start the server."""
        self.server.start()

    def timed(self, load: str, *options: str, settles: bool = True) -> dict[str, float]:
        """Start the server and run a generator's load that lasts by the clock.

        The warm-up is long because a JVM needs more than ten seconds of load, and up to a minute, until its figures
        settle; the loads in SETTLING wait for that.
        """
        warmup, duration = (2, 2) if self.quick else (12, 8)
        settling = self._settling() if settles and load in SETTLING else ()
        self.started()
        return self.generate(load, *options, "-warmup", f"{warmup}s", *settling, "-duration", f"{duration}s")

    def _settling(self) -> tuple[str, ...]:
        """Warm up until the rate stands still."""
        return () if self.quick else ("-settle", "60s")

    def warmed_up(self, load: str, *options: str) -> None:
        """The same, and nothing is measured."""
        seconds = "1s" if self.quick else "12s"
        self.generate(load, *options, "-warmup", seconds, *self._settling(), "-duration", "1s")

    def generate(self, load: str, *options: str, seconds: float = 240) -> dict[str, float]:
        """Run a generator's load against the started server, for so many seconds at most."""
        return generator.run(load, self.server.bootstrap, options, timeout=seconds)


SETTLING = ("produce", "fetch", "list-offsets")
"""Loads whose rate is what the server can do, so that it tells when that is warm"""

Measure = Callable[[Turn], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Load:
    """A row of the report (one line for each metric)."""

    name: str
    title: str
    metrics: tuple[Metric, ...]
    measure: Measure
    kafka: Mapping[str, str] = field(default_factory=dict)
    magnetar: Mapping[str, str] = field(default_factory=dict)
    # of Pulsar's standalone.conf
    standalone: Mapping[str, str] = field(default_factory=dict)
    # at most so many rounds, for loads that take long and hardly wander; 0: as many as are asked for
    rounds: int = 0
    # a listener with TLS and logins
    secured: bool = False
    # who gets the load
    servers: tuple[str, ...] = ("Kafka", "Magnetar")
    # the same with Pulsar's own client, where Pulsar has the thing
    pulsar: Measure | None = None

    def measure_of(self, server: str) -> Measure | None:
        """How it is measured of this server; None if the server does not get it."""
        if server == "Pulsar":
            return self.pulsar
        if server == BEFORE:
            server = "Magnetar"
        return self.measure if server in self.servers else None


def _timed(load: str, *options: str, settles: bool = True) -> Measure:
    """`settles` is False where a longer warm-up would fill the disk."""
    return lambda turn: turn.timed(load, *options, settles=settles)


def _start(turn: Turn) -> dict[str, float]:
    turn.server.prepare()
    return _time_to_answer(turn)


def _time_to_answer(turn: Turn) -> dict[str, float]:
    log = str(turn.server.directory / "start.log")
    return turn.generate("start", "-log", log, "--", *turn.server.command())


def _restart(turn: Turn) -> dict[str, float]:
    turn.started()
    options = ["-depth", "8", "-warmup", "0s", "-duration", "60s"]
    load = subprocess.Popen(
        generator.arguments("produce", turn.server.bootstrap, options),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(3 if turn.quick else 10)
        if load.poll() is not None:
            raise generator.GeneratorError("the load ended before the server was killed")
        turn.server.kill()
    finally:
        load.kill()
        load.wait()
    return _time_to_answer(turn)


def _idle_memory(turn: Turn) -> dict[str, float]:
    turn.started()
    time.sleep(2 if turn.quick else 10)
    return {"resident_mib": turn.server.resident_bytes() / 2**20}


def _loaded_memory(turn: Turn) -> dict[str, float]:
    """Resident memory while producers of small and large batches and readers take turns, after 15 minutes of it."""
    turn.started()
    repeats, seconds = (1, 2) if turn.quick else (5, 60)
    lasting = ("-warmup", "0s", "-duration", f"{seconds}s")
    for number in range(repeats):
        turn.generate("produce", *SMALL, "-topic", f"small-{number}", "-depth", "2", "-idempotent", *lasting)
        turn.generate("produce", *LARGE, "-topic", f"large-{number}", "-records", "16", *lasting)
        turn.generate("fetch", *SMALL, "-topic", f"read-{number}", *lasting)
    return {"resident_mib": turn.server.resident_bytes() / 2**20}


def _spark(rows: int, size: int, partitions: int) -> Measure:
    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        count = rows // 20 if turn.quick and rows > 1000 else rows
        return clients.spark(turn.server.bootstrap, count, size, partitions, 1 if turn.quick else 3)

    return measure


def _topics(turn: Turn) -> dict[str, float]:
    turn.started()
    figures = turn.generate("topics", "-topics", "1000" if turn.quick else "10000")
    return {**figures, "resident_mib": turn.server.resident_bytes() / 2**20}


def _group(turn: Turn) -> dict[str, float]:
    turn.started()
    return turn.generate("group", "-members", "20", "-heartbeat", "1s")


def _members(turn: Turn) -> dict[str, float]:
    """A group of KIP-848 consumers."""
    turn.started()
    members = 50 if turn.quick else 1000
    more = "1" if turn.quick else "7"
    return turn.generate("members", "-members", str(members), "-partitions", str(2 * members), "-more", more)


def _perf_tools(turn: Turn) -> dict[str, float]:
    turn.started()
    return clients.java_perf_tools(turn.server.bootstrap, records=200_000 if turn.quick else 2_000_000)


def _librdkafka(turn: Turn) -> dict[str, float]:
    turn.started()
    return clients.librdkafka(turn.server.bootstrap, records=100_000 if turn.quick else 1_000_000)


def _behind(turn: Turn) -> dict[str, float]:
    """4 GB are written, then read once from the start, after a warm-up on another topic."""
    turn.started()
    fill = "2000" if turn.quick else "62500"
    turn.warmed_up("fetch", *LARGE, "-topic", "warm", "-records", "16", "-fill", "1000")
    return turn.generate("fetch", *LARGE, "-topic", "behind", "-records", "16", "-fill", fill, "-once")


RATE = "requests_per_second"
SMALL = ("-connections", "64", "-size", "100")
LARGE = ("-connections", "4", "-partitions", "4", "-size", "1000")

LOADS: tuple[Load, ...] = (
    Load(
        "produce-small",
        "Produce, 100 B, one record a request, acks=all, 64 connections, 8 in flight",
        (Metric(RATE, "req/s", "higher", 1.3), Metric("latency_ms.p99", "p99 ms", "lower")),
        _timed("produce", *SMALL, "-depth", "8"),
    ),
    Load(
        "produce-idempotent",
        "the same from idempotent producers",
        (Metric(RATE, "req/s", "higher", 1.0), Metric("latency_ms.p99", "p99 ms", "lower")),
        _timed("produce", *SMALL, "-depth", "8", "-idempotent"),
    ),
    Load(
        "produce-fsync",
        "the same over 64 partitions, `fsync` against Kafka with `flush.messages=1`",
        (Metric(RATE, "req/s", "higher", 5.0), Metric("latency_ms.p99", "p99 ms", "lower")),
        _timed("produce", *SMALL, "-depth", "8", "-partitions", "64"),
        kafka={"log.flush.interval.messages": "1"},
        magnetar={"durability": "fsync"},
    ),
    Load(
        "produce-depth-1",
        "Produce, 100 B, 64 connections, one in flight",
        (Metric(RATE, "req/s", "higher", 1.0), Metric("latency_ms.p99", "p99 ms", "lower", 1.0)),
        _timed("produce", *SMALL),
    ),
    Load(
        "fetch-small",
        "Fetch, one small batch each, 64 connections, one in flight",
        (Metric(RATE, "req/s", "higher", 1.5), Metric("latency_ms.p99", "p99 ms", "lower")),
        _timed("fetch", *SMALL, "-one-batch"),
    ),
    Load(
        "produce-large",
        "Produce, 1 MB batches of 1 KB records, 4 connections, 2 in flight",
        (Metric("megabytes_per_second", "MB/s", "higher", 1.5),),
        _timed("produce", *LARGE, "-records", "1000", "-depth", "2", settles=False),
    ),
    Load(
        "fetch-large",
        "Fetch, 1 MiB a request, hot, 4 connections (16 KB batches)",
        (Metric("megabytes_per_second", "MB/s", "higher", 0.8),),
        _timed("fetch", *LARGE, "-records", "16", "-fill", "4000"),
    ),
    Load(
        "fetch-behind",
        "Fetch, 1 MiB a request, 4 connections that are 4 GB behind, read once from the start",
        (Metric("megabytes_per_second", "MB/s", "higher", 0.8),),
        _behind,
    ),
    Load(
        "end-to-end",
        "Producer to consumer, 5,000 msg/s of 100 B, linger 0",
        (Metric("latency_ms.p50", "p50 ms", "lower", 1.0), Metric("latency_ms.p99", "p99 ms", "lower", 0.7)),
        _timed("end-to-end", "-rate", "5000"),
    ),
    Load(
        "list-offsets",
        "ListOffsets, latest of one partition, 1 connection",
        (Metric("latency_ms.p50", "p50 ms", "lower"), Metric("latency_ms.p99", "p99 ms", "lower")),
        _timed("list-offsets", "-connections", "1"),
    ),
    Load(
        "java-perf-tools",
        "kafka-producer-perf-test, then kafka-consumer-perf-test, 1 KB records",
        (Metric("produce_mb", "MB/s in", "higher", 1.0), Metric("consume_mb", "MB/s out", "higher", 1.0)),
        _perf_tools,
    ),
    Load(
        "librdkafka",
        "librdkafka (confluent-kafka for Python), 1 KB records",
        (Metric("produce_mb", "MB/s in", "higher", 1.0), Metric("consume_mb", "MB/s out", "higher", 1.0)),
        _librdkafka,
    ),
    Load(
        "start",
        "Start of the process to the first ApiVersions answer",
        (Metric("start_ms", "ms", "lower", 0.2),),
        _start,
    ),
    Load(
        "restart",
        "Restart after SIGKILL under load, to the first answer",
        (Metric("start_ms", "ms", "lower", 0.1),),
        _restart,
    ),
    Load(
        "idle-memory",
        "Resident memory, idle",
        (Metric("resident_mib", "MiB", "lower", 0.25),),
        _idle_memory,
    ),
    Load(
        "loaded-memory",
        "Resident memory after 15 minutes of load",
        (Metric("resident_mib", "MiB", "lower", 0.25),),
        _loaded_memory,
        rounds=1,
    ),
    Load(
        "topics",
        "10,000 topics: created and ready; all in one Metadata; resident memory then",
        (
            Metric("ready_ms", "ms", "lower", 0.1),
            Metric("metadata_ms", "ms for Metadata", "lower", 1.0),
            Metric("resident_mib", "MiB", "lower", 0.2),
        ),
        _topics,
    ),
    Load(
        "group",
        "Group of 20, heartbeats of 1 s: joined and settled; settled again when one has left",
        (
            Metric("settled_ms", "ms", "lower", 0.25),
            Metric("leave_settled_ms", "ms after leave", "lower", 1.0),
        ),
        _group,
    ),
    Load(
        "members",
        "A group of 1,000 consumers of KIP-848 and 2,000 partitions: joined and settled; settled again when one more "
        "has joined (the median of seven)",
        (
            Metric("settled_ms", "ms", "lower", 0.3),
            Metric("join_settled_ms", "ms after one joins", "lower", 0.5),
        ),
        _members,
    ),
    Load(
        "spark-small",
        "Spark's batch read of 2,000,000 x 100 B in 4 partitions, local[2], the best of three passes",
        (Metric("rows_per_second", "rows/s", "higher", 1.0),),
        _spark(2_000_000, 100, 4),
    ),
    Load(
        "spark-large",
        "the same of 500,000 x 1 KB",
        (Metric("rows_per_second", "rows/s", "higher", 1.0),),
        _spark(500_000, 1024, 4),
    ),
    Load(
        "spark-partitions",
        "Spark's batch read of 480 rows in 24 partitions",
        (Metric("seconds", "s", "lower", 0.2),),
        _spark(480, 100, 24),
    ),
)
