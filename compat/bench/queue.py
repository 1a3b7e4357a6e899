"""Queue topics: how quick a subscription is for plain consumer groups, beside what these and share groups have else.

Each turn measures both sides on one server, on topics of their own that are filled before, in batches of 16 KB, 100 B
a record, uncompressed: four librdkafka members (`group_rdkafka.c`) with sixteen lanes, or with the four partitions of
the base topic.
"""

from __future__ import annotations

from compat.bench import share_clients
from compat.bench.loads import Load, Measure, Metric, Turn
from compat.bench.share_clients import Window

RATE = "records_per_second"
LANES, MEMBERS = 16, 4
MAGNETAR = ("Magnetar",)


def _fill(turn: Turn, topic: str, records: int) -> None:
    options = ("-topic", topic, "-partitions", "4", "-records", str(records), "-keys", "10000")
    share_clients.franz("fill", turn.server.bootstrap, options)


def _queue(turn: Turn, topic: str, kind: str) -> str:
    """A queue topic over a topic that is filled already, and whose group of the same name begins at its start."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

    admin, group, name = (
        AdminClient({"bootstrap.servers": turn.server.bootstrap}),
        topic,
        f"{topic}-{topic}-QUEUE",
    )
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    made = NewTopic(name, LANES, 1, config={"pulsar.subscription.type": kind})
    admin.create_topics([made])[name].result(30)
    return name


def _beside_plain(commit_ms: int, warmup: int, seconds: int, records: int) -> Measure:
    """`records`: more than are read until the window ends, and no more than a disk takes."""

    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        # plain consumption is through with it in seconds
        plain = Window(2_000_000, 1, 1, 0) if turn.quick else Window(40_000_000, 2, 5, 2_000_000)
        shape = Window(2_000_000, 2, 1, 0) if turn.quick else Window(records, warmup, seconds, 2_000_000)
        rates = {}
        _fill(turn, "bench-plain", plain.records)
        rates["plain"] = share_clients.group(
            turn.server.bootstrap, "bench-plain", "bench-plain", MEMBERS, commit_ms, plain
        )[RATE]
        _fill(turn, "bench-lanes", shape.records)
        name = _queue(turn, "bench-lanes", "shared")
        rates["shared"] = share_clients.group(
            turn.server.bootstrap, "bench-lanes", name, MEMBERS, commit_ms, shape
        )[RATE]
        return {**rates, "share_of_plain": rates["shared"] / rates["plain"]}

    return measure


def _beside_share_group(turn: Turn) -> dict[str, float]:
    turn.started()
    records = 500_000 if turn.quick else 5_000_000
    shape = Window(records, 1, 1, 0) if turn.quick else Window(records, 12, 10, 500_000)
    _fill(turn, "bench-lanes", records)
    name = _queue(turn, "bench-lanes", "key_shared")
    lanes = share_clients.group(turn.server.bootstrap, "bench-lanes", name, MEMBERS, 1000, shape)[RATE]
    options = (
        *("-topic", "bench-members", "-group", "bench-members", "-keys", "10000", "-ordered"),
        *("-config", "pulsar.subscription.type=key_shared", "-records", str(records)),
        *("-at-least", str(shape.at_least), "-warmup", f"{shape.warmup}s", "-duration", f"{shape.seconds}s"),
    )
    members = share_clients.franz("backlog", turn.server.bootstrap, options)[RATE]
    return {"lanes": lanes, "members": members, "of_members": lanes / members}


_OF_PLAIN = (
    Metric("shared", "rec/s", "higher"),
    Metric("plain", "rec/s of the base topic in a group", "higher"),
)

QUEUE: tuple[Load, ...] = (
    Load(
        "queue-shared",
        "Shared queue topic, 16 lanes, 4 librdkafka members that commit each second; the same members on the topic",
        (*_OF_PLAIN, Metric("share_of_plain", "of that", "higher", bound=0.5)),
        _beside_plain(1000, 6, 8, 40_000_000),
        servers=MAGNETAR,
    ),
    Load(
        "queue-shared-auto",
        "the same with librdkafka's auto-commit (5 s), after 30 s",
        (*_OF_PLAIN, Metric("share_of_plain", "of that", "higher", bound=0.45)),
        _beside_plain(0, 30, 5, 60_000_000),
        servers=MAGNETAR,
    ),
    Load(
        "queue-key-shared",
        "Key_Shared queue topic, 10,000 keys, the same members and lanes; a share group of 4 members (franz-go)",
        (
            Metric("lanes", "msg/s", "higher"),
            Metric("members", "msg/s of the share group", "higher"),
            Metric("of_members", "of that", "higher", bound=1.5),
        ),
        _beside_share_group,
        servers=MAGNETAR,
    ),
)
