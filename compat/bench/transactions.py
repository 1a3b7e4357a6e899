"""Transactions: one producer that begins, writes, commits, and begins anew; of both of Kafka's protocols."""

from __future__ import annotations

from compat.bench import clients, share_clients
from compat.bench.loads import Load, Measure, Metric, Turn

RATE = "transactions_per_second"


def _franz(partitions: int) -> Measure:
    """franz-go, which takes the protocol of KIP-890."""

    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        warmup, duration = (2, 2) if turn.quick else (12, 8)
        return share_clients.franz(
            "transactions",
            turn.server.bootstrap,
            (
                "-topic",
                "bench-transactions",
                "-partitions",
                str(partitions),
                "-warmup",
                f"{warmup}s",
                "-duration",
                f"{duration}s",
            ),
        )

    return measure


def _librdkafka(turn: Turn) -> dict[str, float]:
    """librdkafka, which has the old protocol."""
    turn.started()
    warmup, duration = (2, 2) if turn.quick else (12, 8)
    return clients.transactions(turn.server.bootstrap, warmup, duration)


def _load(name: str, title: str, rate: float, p99: float | None, measure: Measure) -> Load:
    return Load(
        name,
        title,
        (
            Metric(RATE, "transactions/s", "higher", rate),
            Metric("latency_ms.p50", "p50 ms", "lower"),
            Metric("latency_ms.p99", "p99 ms", "lower", p99),
        ),
        measure,
    )


TRANSACTIONS: tuple[Load, ...] = (
    _load(
        "txn-one",
        "Transactions of one record, one after another, franz-go (KIP-890)",
        3.0,
        0.3,
        _franz(1),
    ),
    _load(
        "txn-one-librdkafka",
        "the same with librdkafka (the old protocol)",
        3.0,
        0.3,
        _librdkafka,
    ),
    _load(
        "txn-hundred",
        "Transactions of 100 partitions, a record in each, franz-go",
        2.0,
        None,
        _franz(100),
    ),
)
