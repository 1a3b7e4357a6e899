"""How cost grows: the same load at several sizes. No targets; the shape of the row is what is looked at."""

from __future__ import annotations

import time

from compat.bench.loads import Load, Measure, Metric, Turn


def _session(partitions: int) -> Measure:
    return lambda turn: turn.timed("session", "-partitions", str(partitions))


def _connections(count: int) -> Measure:
    return lambda turn: turn.timed("produce", "-connections", str(count), "-size", "100")


def _catalog(topics: int) -> Measure:
    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        created = turn.generate("topics", "-topics", str(topics // 10 if turn.quick else topics))
        memory = turn.server.resident_bytes() / 2**20
        turn.server.stop()
        begin = time.monotonic()
        turn.server.start()
        return {
            **created,
            "resident_mib": memory,
            "restart_ms": (time.monotonic() - begin) * 1000,
            "restarted_mib": turn.server.resident_bytes() / 2**20,
        }

    return measure


def _group(members: int) -> Measure:
    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        return turn.generate("group", "-members", str(members), "-heartbeat", "1s")

    return measure


_LATENCY = (Metric("latency_ms.p50", "p50 ms", "lower"), Metric("latency_ms.p99", "p99 ms", "lower"))

GROWTH: tuple[Load, ...] = (
    *(
        Load(
            f"session-{partitions}",
            f"A record through a fetch session of {partitions:,} partition{'s' if partitions > 1 else ''}",
            (*_LATENCY, Metric("first_fetch_ms", "ms for the first fetch", "lower")),
            _session(partitions),
            rounds=1,
        )
        for partitions in (1, 100, 10_000)
    ),
    *(
        Load(
            f"connections-{count}",
            f"Produce, 100 B, one in flight, {count:,} connections",
            (Metric("requests_per_second", "req/s", "higher"), *_LATENCY),
            _connections(count),
            rounds=1,
        )
        for count in (10, 100, 1_000)
    ),
    *(
        Load(
            f"catalog-{topics}",
            f"{topics:,} topics: created; all in one Metadata; memory; start again; memory then",
            (
                Metric("ready_ms", "ms", "lower"),
                Metric("metadata_ms", "ms for Metadata", "lower"),
                Metric("resident_mib", "MiB", "lower"),
                Metric("restart_ms", "ms to start", "lower"),
                Metric("restarted_mib", "MiB", "lower"),
            ),
            _catalog(topics),
            rounds=1,
            # Kafka takes minutes and gigabytes for 100,000
            servers=("Kafka", "Magnetar") if topics < 10_000 else ("Magnetar",),
        )
        for topics in (100, 100_000)
    ),
    Load(
        "group-200",
        "Group of 200, heartbeats of 1 s: joined and settled; settled again when one has left",
        (
            Metric("settled_ms", "ms", "lower"),
            Metric("leave_settled_ms", "ms after leave", "lower"),
        ),
        _group(200),
        rounds=1,
    ),
)
