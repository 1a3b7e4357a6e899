"""Share groups: the loads of Kafka's share groups and Pulsar's subscriptions, as a table.

Where Kafka 4.3 has the thing too it gets the same load by turns, and so does Pulsar 4.2.4, with its own client, if the
run is asked to start it. The anchors stand in for Pulsar where it was not started: they were measured once on a machine
of this kind and are not of the run.

Every rate is counted after all members have joined: joining takes Kafka a heartbeat of five seconds, and has a row of
its own. The topic is filled before, in batches of 16 KB (the Java producer's default), 100 B a record, uncompressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from compat.bench import pulsar, share_clients
from compat.bench.loads import Load, Measure, Metric, Turn
from compat.bench.queue import QUEUE
from compat.bench.share_clients import Window

RATE = "records_per_second"
TOPIC = GROUP = "bench-share"
MAGNETAR = ("Magnetar",)
ALL_MAY_HOLD = ("-config", "share.partition.max.record.locks=4000")
"""As many of a partition as four members hold at most: who came first keeps its records until all have some"""


def window(turn: Turn, records: int) -> Window:
    """Of a load whose topic holds so many records: 12 s of warm-up, then at least 10 s and two million records."""
    return Window(records // 8, 1, 1, 0) if turn.quick else Window(records, 12, 10, 2_000_000)


def _flags(records: Window) -> tuple[str, ...]:
    return (
        *("-records", str(records.records), "-at-least", str(records.at_least)),
        *("-warmup", f"{records.warmup}s", "-duration", f"{records.seconds}s", "-limit", f"{records.limit}s"),
    )


def _franz(turn: Turn, load: str, *options: str) -> dict[str, float]:
    return share_clients.franz(load, turn.server.bootstrap, options)


def _backlog(records: int, *options: str) -> Measure:
    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        return _franz(turn, "backlog", *_flags(window(turn, records)), *options)

    return measure


def _rdkafka(records: int, release_every: int) -> Measure:
    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        shape = window(turn, records)
        _franz(turn, "fill", "-records", str(shape.records))
        return share_clients.rdkafka(turn.server.bootstrap, GROUP, TOPIC, shape, release_every)

    return measure


def _java(turn: Turn) -> dict[str, float]:
    turn.started()
    shape = window(turn, 40_000_000)
    _franz(turn, "fill", "-records", str(shape.records))
    return share_clients.java_perf_tool(turn.server.bootstrap, GROUP, TOPIC, shape)


def _first(turn: Turn) -> dict[str, float]:
    turn.started()
    return _franz(turn, "first", "-records", "1000", "-tries", "2" if turn.quick else "5")


def _burst(*options: str) -> Measure:
    """800 records at once before 8 members that wait and take 10 ms for each: 1 s if all have as many."""

    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        return _franz(turn, "burst", "-records", "800", "-members", "8", "-partitions", "1", *options)

    return measure


def _key_shared(turn: Turn) -> dict[str, float]:
    """Key_Shared and then Shared on one server, each with a topic and a group of its own."""
    turn.started()
    rates = {}
    for kind, records in (("key_shared", 5_000_000), ("shared", 40_000_000)):
        shape = _flags(window(turn, records))
        name = f"bench-{kind.replace('_', '-')}"
        where = (
            "-topic",
            name,
            "-group",
            name,
            "-config",
            f"pulsar.subscription.type={kind}",
            "-keys",
            "10000",
        )
        ordered = ("-ordered",) if kind == "key_shared" else ()
        rates[kind] = _franz(turn, "backlog", *where, *ordered, *shape)[RATE]
    return {**rates, "share_of_shared": rates["key_shared"] / rates["shared"]}


def _hot_key(turn: Turn) -> dict[str, float]:
    """How fast records of 10,000 keys come beside a hot key, by turns with the same records alone; and how long 2,000
    of them take behind 60,000 of one key.
    """
    turn.started()
    others = 60_000 if turn.quick else 600_000
    tries = 0

    def measure(records: int, *options: str) -> dict[str, float]:
        nonlocal tries
        tries += 1
        name = f"bench-hot-{tries}"
        where = (
            "-topic",
            name,
            "-group",
            name,
            "-config",
            "pulsar.subscription.type=key_shared",
            *ALL_MAY_HOLD,
        )
        shape = ("-partitions", "1", "-keys", "10000", "-records", str(records), "-all", "-ordered")
        return _franz(turn, "backlog", *where, *shape, *options)

    alone = [measure(others)[RATE]]
    found = {}
    for percent in (50, 10, 2):
        beside = measure(others * 100 // (100 - percent), "-hot", str(percent / 100))[RATE]
        alone.append(measure(others)[RATE])
        found[f"beside_{percent}"] = beside / ((alone[-2] + alone[-1]) / 2)
    burst = measure(62_000, "-burst", "60000")
    # who waits behind the burst waits for the first record, too
    return {"alone": median(alone), **found, "burst_seconds": burst["join_seconds"] + burst["seconds"]}


def _nacked(turn: Turn) -> dict[str, float]:
    turn.started()
    records = "200000" if turn.quick else "2000000"
    options = ("-config", "pulsar.nack.delay.ms=1000", "-release-every", "5", "-all")
    return _franz(turn, "backlog", "-records", records, *options)


def _dead(turn: Turn) -> dict[str, float]:
    turn.started()
    options = ("-config", "pulsar.max.redeliver.count=2", "-release-every", "20")
    return _franz(turn, "dead", "-records", "100000", *options, "-dead-letters", f"{TOPIC}-{GROUP}-DLQ")


def _steady(load: str, warmup: int) -> Measure:
    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        times = (
            ("-warmup", "2s", "-duration", "2s")
            if turn.quick
            else ("-warmup", f"{warmup}s", "-duration", "10s")
        )
        return _franz(turn, load, "-partitions", "1", "-rate", "5000", *times)

    return measure


def _scattered(turn: Turn) -> dict[str, float]:
    """A million records; all due times are looked for in the warm-up."""
    turn.started()
    shape = ("200000", "10s", "5s") if turn.quick else ("1000000", "40s", "30s")
    return _franz(turn, "scattered", "-records", shape[0], "-warmup", shape[1], "-duration", shape[2])


def _killed(turn: Turn) -> dict[str, float]:
    turn.started()
    known = str(turn.server.directory / "confirmed.json")
    options = ("-records", "100000", "-file", known)
    _franz(turn, "confirm", *options, "-pid", str(turn.server.pid))
    turn.server.kill()
    turn.server.start()
    return _franz(turn, "again", *options)


_LATENCY = (
    Metric("latency_ms.p50", "p50 ms", "lower", 0.3, anchor=7.4),
    Metric("latency_ms.p99", "p99 ms", "lower", 0.5, anchor=13.5),
)

SHARE: tuple[Load, ...] = (
    Load(
        "share-franz-go",
        "franz-go, explicit accept, 4 members, 4 partitions",
        (Metric(RATE, "rec/s", "higher", 1.0),),
        _backlog(40_000_000),
        pulsar=pulsar.shared,
    ),
    Load(
        "share-librdkafka",
        "librdkafka's ShareConsumer, explicit accept, 1 member, 4 partitions",
        (Metric(RATE, "rec/s", "higher", 1.0),),
        _rdkafka(24_000_000, 0),
    ),
    Load(
        "share-release",
        "the same, each fifth record released at its first delivery (no backoff)",
        (Metric(RATE, "rec/s accepted", "higher", 1.0),),
        _rdkafka(6_000_000, 5),
    ),
    Load(
        "share-java",
        "kafka-share-consumer-perf-test, 4 threads, once all have joined",
        (Metric(RATE, "rec/s", "higher", 1.0),),
        _java,
    ),
    Load(
        "share-first",
        "From creating a member (franz-go) to its first record",
        (Metric("first_ms.p50", "ms", "lower", 0.05),),
        _first,
    ),
    Load(
        "share-burst",
        "800 single-record batches before 8 members that wait, 10 ms a record, 1 partition; the most one got",
        (Metric("seconds", "s", "lower", bound=1.5), Metric("most", "records", "lower")),
        _burst("-single"),
    ),
    Load(
        "share-burst-batch",
        "the same, 800 records as one batch",
        (Metric("seconds", "s", "lower", bound=1.5), Metric("most", "records", "lower")),
        _burst(),
    ),
    Load(
        "key-shared",
        "Key_Shared (strict) backlog, 10,000 keys, 4 members, individual acks; the same on Shared",
        (
            Metric("key_shared", "msg/s", "higher", bound=100_000, anchor=14_700),
            Metric("shared", "msg/s on Shared", "higher"),
            Metric("share_of_shared", "of Shared", "higher", bound=0.25),
        ),
        _key_shared,
        servers=MAGNETAR,
        pulsar=pulsar.key_shared,
    ),
    Load(
        "key-shared-hot",
        "Key_Shared (strict), 10,000 keys, 1 partition, 4 members: beside one hot key of 50, 10, 2 % of the"
        " records, the others' rate to that without it; 2,000 others behind 60,000 of one key",
        (
            Metric("alone", "msg/s without a hot key", "higher"),
            Metric("beside_50", "of that, beside 50 %", "higher", bound=0.8),
            Metric("beside_10", "of that, beside 10 %", "higher", bound=0.8),
            Metric("beside_2", "of that, beside 2 %", "higher", bound=0.8),
            Metric("burst_seconds", "s until the last one behind the burst", "lower", bound=2),
        ),
        _hot_key,
        servers=MAGNETAR,
    ),
    Load(
        "share-nack-delay",
        "Shared, each fifth record nacked once with 1 s delay, until all are acked, 4 members",
        (Metric(RATE, "msg/s", "higher", 4.0, anchor=15_600),),
        _nacked,
        servers=MAGNETAR,
        pulsar=pulsar.nacked,
    ),
    Load(
        "share-dead",
        "100,000 records, 5 % nacked at each delivery, maxRedeliverCount 2, until all 5,000 are dead",
        (Metric("seconds", "s", "lower", 0.3, anchor=10),),
        _dead,
        servers=MAGNETAR,
        pulsar=pulsar.dead,
    ),
    Load(
        "share-latency",
        "Publish to delivery, 5,000 msg/s of 100 B, linger 0, 1 member",
        _LATENCY,
        _steady("latency", 12),
        pulsar=pulsar.steady("latency", 12),
    ),
    Load(
        "share-delay",
        "Delayed delivery, 5,000 msg/s due 0.5 to 2.5 s later: lateness; how many came early",
        (
            Metric("latency_ms.p99", "p99 ms late", "lower", bound=100, anchor=1_239),
            Metric("early_percent", "% early", "lower", bound=0),
        ),
        _steady("delayed", 4),
        servers=MAGNETAR,
        pulsar=pulsar.steady("delayed", 4),
    ),
    Load(
        "share-scattered",
        "1,000,000 records due over 30 s out of lz4 batches of 10,000, 4 members; another client's produce meanwhile",
        (
            Metric("behind_seconds", "s from the last due time to the last record", "lower", bound=1),
            Metric("late_ms.p99", "p99 ms late", "lower"),
            Metric("early_percent", "% early", "lower", bound=0),
            Metric("produce_ms.p50", "p50 ms, the other's produce", "lower", bound=5),
            Metric("produce_ms.p99", "p99 ms, the other's produce", "lower", bound=40),
            Metric(
                "produce_while_looking_ms.p99", "p99 ms, while due times are looked for", "lower", bound=40
            ),
        ),
        _scattered,
        servers=MAGNETAR,
    ),
    Load(
        "share-kill",
        "Acks lost by a SIGKILL just after they were confirmed",
        (Metric("lost_percent", "%", "lower", bound=0, anchor=99.8),),
        _killed,
        pulsar=pulsar.killed,
    ),
    *QUEUE,
)


def needs_clients(names: Sequence[str]) -> bool:
    """Whether one of these loads runs a program that must be built first."""
    return any(load.name in names for load in SHARE)
