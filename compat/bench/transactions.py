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


def _java(turn: Turn) -> dict[str, float]:
    """Kafka's own producer, which takes the protocol of KIP-890."""
    turn.started()
    warmup, duration = (2, 2) if turn.quick else (12, 8)
    return clients.java_transactions(turn.server.bootstrap, warmup, duration)


def _pipeline(turn: Turn) -> dict[str, float]:
    """franz-go copies a topic; a third of it is the warm-up."""
    turn.started()
    records = "150000" if turn.quick else "1500000"
    return share_clients.franz(
        "pipeline",
        turn.server.bootstrap,
        ("-topic", "bench-pipeline", "-records", records, "-size", "1000", "-batch", "65536"),
    )


def _committed(*options: str) -> Measure:
    """Fetches of a topic that was written in transactions."""

    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        warmup, duration = (2, 2) if turn.quick else (12, 8)
        given = list(options)
        if turn.quick:
            number = given.index("-transactions") + 1
            given[number] = str(int(given[number]) // 20)
        lasting = ("-warmup", f"{warmup}s", "-duration", f"{duration}s")
        return turn.generate("committed", *given, *lasting, seconds=900)

    return measure


def _end_of_many(turn: Turn) -> dict[str, float]:
    """The end of a transaction over partitions that are all new."""
    turn.started()
    return turn.generate("end-txn", "-partitions", "1000" if turn.quick else "10000")


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
    _load("txn-one-java", "the same with Kafka's own producer, Java (KIP-890)", 3.0, 0.3, _java),
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
    Load(
        "txn-pipeline",
        "Consume, write, commit: franz-go copies 1,500,000 records of 1 KB in 4 partitions exactly once, a transaction "
        "a poll",
        (
            Metric("megabytes_per_second", "MB/s", "higher", 1.2),
            Metric("commit_ms", "p50 ms of a commit", "lower"),
        ),
        _pipeline,
    ),
    Load(
        "fetch-committed",
        "Fetch with read_committed, 1 MiB a request, hot, 4 connections (16 KB batches, each tenth transaction is "
        "aborted)",
        (Metric("megabytes_per_second", "MB/s", "higher", 1.0),),
        _committed(
            *("-connections", "4", "-partitions", "4", "-records", "16", "-size", "1000"),
            *("-transactions", "4000", "-producers", "4"),
        ),
    ),
    Load(
        "fetch-aborted",
        "Fetch with read_committed, 4,000 offsets a request, 1 connection, over 200,000 aborted transactions that lie "
        "within one that was open for all that time",
        (Metric("requests_per_second", "req/s", "higher", 10.0), Metric("latency_ms.p99", "p99 ms", "lower")),
        _committed(
            *(
                "-connections",
                "1",
                "-partitions",
                "1",
                "-records",
                "1",
                "-size",
                "100",
                "-max-bytes",
                "500000",
            ),
            *("-transactions", "200000", "-producers", "8", "-aborted-of", "1", "-under"),
        ),
        rounds=2,
    ),
    Load(
        "txn-end-many",
        "The end of a transaction over 10,000 partitions that are all new; of the next one over the same",
        (
            Metric("first_end_ms", "ms", "lower", bound=1000.0),
            Metric("second_end_ms", "ms, the next", "lower"),
        ),
        _end_of_many,
        servers=("Magnetar",),
    ),
)
