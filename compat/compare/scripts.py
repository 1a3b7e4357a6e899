"""The scripts: each asks one server the same things in the same order."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from compat.compare.server import Server

UNKNOWN_ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    first: int = 1_700_000_000_000,
    step: int = 1,
) -> bytes:
    """A record batch; `producer` is (id, epoch, first sequence), timestamps go up by `step` ms."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, 1 << 24)
    for offset, value in enumerate(values):
        builder.append(offset, first + offset * step, key, value, [])
    return bytes(builder.build())


def create(server: Server, name: str, partitions: int = 1, **configs: str) -> None:
    """A topic, not compared; config names with `__` for dots."""
    server.quietly(
        "CreateTopics",
        7,
        {
            "topics": [
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [{"name": k.replace("__", "."), "value": v} for k, v in configs.items()],
                }
            ],
            "timeout_ms": 30_000,
        },
    )
    # Kafka answers before its broker knows the topic: a batch that is taken says that it does.
    while True:
        answer = server.quietly(
            "Metadata", 9, {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        )
        partitions_known = answer["topics"][0]["partitions"]
        if len(partitions_known) == partitions and all(each["leader_id"] >= 0 for each in partitions_known):
            probe = server.quietly(
                "ListOffsets",
                7,
                {
                    "replica_id": -1,
                    "topics": [
                        {
                            "name": name,
                            "partitions": [
                                {"partition_index": i, "timestamp": -1, "current_leader_epoch": -1}
                                for i in range(partitions)
                            ],
                        }
                    ],
                },
            )
            if all(each["error_code"] == 0 for each in probe["topics"][0]["partitions"]):
                return


def produce(
    server: Server,
    label: str,
    topic: str,
    *batches: bytes | None,
    version: int = 9,
    acks: int = -1,
    partition: int = 0,
) -> dict[str, Any]:
    return server.ask(
        label,
        "Produce",
        version,
        {
            "transactional_id": None,
            "acks": acks,
            "timeout_ms": 30_000,
            "topic_data": [
                {
                    "name": topic,
                    "partition_data": [
                        {"index": partition + i, "records": each} for i, each in enumerate(batches)
                    ],
                }
            ],
        },
    )


def producing(server: Server) -> None:
    create(server, "p", 2)
    create(server, "compacted", cleanup__policy="compact")
    create(server, "small", max__message__bytes="1000")
    create(server, "stamped", message__timestamp__type="LogAppendTime")
    create(server, "bounded", message__timestamp__before__max__ms="1000")
    create(server, "gzipped", compression__type="gzip")
    create(server, "copies", min__insync__replicas="2")
    for version in (3, 5, 7, 9, 11):
        produce(server, "a batch", "p", batch(b"a", b"b"), version=version)
    produce(server, "several partitions, one missing", "p", batch(b"a"), batch(b"b"), batch(b"c"))
    produce(server, "a missing topic", "missing", batch(b"a"))
    produce(server, "acks 2", "p", batch(b"a"), acks=2)
    produce(server, "acks 1", "p", batch(b"a"), acks=1)
    produce(server, "no records", "p", None)
    produce(server, "empty records", "p", b"")
    broken = bytearray(batch(b"a"))
    broken[-1] ^= 1
    produce(server, "a wrong CRC", "p", bytes(broken))
    produce(server, "a batch cut short", "p", batch(b"a" * 100)[:-10])
    produce(server, "two batches", "p", batch(b"a") + batch(b"b"))
    produce(
        server,
        "a transactional batch without its transaction",
        "p",
        batch(b"a", producer=(9, 0, 0), transactional=True),
    )
    produce(server, "keyless on a compacted topic", "compacted", batch(b"a"))
    produce(server, "keyed on a compacted topic", "compacted", batch(b"a", key=b"k"))
    produce(server, "too large", "small", batch(b"x" * 2000))
    produce(server, "log append time", "stamped", batch(b"a"))
    produce(server, "log append time, from the future", "stamped", batch(b"a", first=1 << 50))
    produce(server, "from the future", "p", batch(b"a", first=1 << 50))
    produce(server, "too old", "bounded", batch(b"a"))
    produce(server, "without a timestamp", "bounded", batch(b"a", first=-1, step=0))
    produce(server, "compressed anew", "gzipped", batch(b"a" * 1000))
    produce(server, "too few replicas, acks all", "copies", batch(b"a"))
    produce(server, "too few replicas, acks 1", "copies", batch(b"a"), acks=1)
    produce(server, "an illegal topic name", "no/slash", batch(b"a"))
    for label, asked in [
        ("no topics", []),
        ("no partitions", [{"name": "p", "partition_data": []}]),
        (
            "a partition twice",
            [
                {
                    "name": "p",
                    "partition_data": [
                        {"index": 0, "records": batch(b"a")},
                        {"index": 0, "records": batch(b"b")},
                    ],
                }
            ],
        ),
    ]:
        server.ask(
            label,
            "Produce",
            9,
            {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": asked},
        )


def idempotence(server: Server) -> None:
    create(server, "i")
    # Kafka's coordinator needs a moment after the start.
    ready = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    while server.quietly("InitProducerId", 4, ready)["error_code"]:
        time.sleep(0.1)
    ids = [
        server.ask(
            "an id", "InitProducerId", version, {"transactional_id": None, "transaction_timeout_ms": 60_000}
        )["producer_id"]
        for version in (0, 2, 4, 5)
    ]
    again = {
        "transactional_id": None,
        "transaction_timeout_ms": 60_000,
        "producer_id": ids[0],
        "producer_epoch": 0,
    }
    server.ask("an id again", "InitProducerId", 4, again)
    server.ask(
        "an empty transactional id",
        "InitProducerId",
        4,
        {"transactional_id": "", "transaction_timeout_ms": 60_000},
    )
    one = ids[0]
    for label, epoch, sequence, count in [
        ("the first", 0, 0, 2),
        ("the next", 0, 2, 1),
        ("a duplicate", 0, 0, 2),
        ("a gap", 0, 10, 1),
        ("a part of a batch", 0, 1, 1),
        ("a new epoch that does not begin at 0", 1, 3, 1),
        ("a new epoch", 1, 0, 1),
        ("an old epoch", 0, 3, 1),
        ("the next again", 1, 1, 1),
        ("negative epoch", -1, 2, 1),
        ("negative sequence", 1, -1, 1),
    ]:
        produce(server, label, "i", batch(*[b"v"] * count, producer=(one, epoch, sequence)))
    produce(server, "an unknown producer in the middle", "i", batch(b"v", producer=(ids[1], 0, 50)))
    two = ids[2]
    for sequence in range(7):
        produce(server, "seven", "i", batch(b"v", producer=(two, 0, sequence)))
    produce(server, "five ago", "i", batch(b"v", producer=(two, 0, 2)))
    produce(server, "six ago", "i", batch(b"v", producer=(two, 0, 1)))
    three = ids[3]
    produce(server, "near the end", "i", batch(b"v", b"w", producer=(three, 0, 2**31 - 2)))
    produce(server, "over the end", "i", batch(b"v", b"w", producer=(three, 0, 0)))
    produce(server, "a duplicate over the end", "i", batch(b"v", b"w", producer=(three, 0, 2**31 - 2)))
    server.ask(
        "producers",
        "DescribeProducers",
        0,
        {
            "topics": [
                {"name": "i", "partition_indexes": [0, 1]},
                {"name": "missing", "partition_indexes": [0]},
            ]
        },
    )


def fetch(
    server: Server, label: str, version: int, topics: list[dict[str, Any]], **options: Any
) -> dict[str, Any]:
    body = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": topics,
        "forgotten_topics_data": [],
        "rack_id": "",
        **options,
    }
    return server.ask(label, "Fetch", version, body)


def wanted(topic: str | uuid.UUID, partition: int = 0, offset: int = 0, **options: Any) -> dict[str, Any]:
    part = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
        **options,
    }
    return {"topic_id" if isinstance(topic, uuid.UUID) else "topic": topic, "partitions": [part]}


def fetching(server: Server) -> None:
    create(server, "f", 2)
    produce(server, "to fetch", "f", batch(b"0", b"1", b"2"))
    produce(server, "to fetch", "f", batch(b"3", b"4"))
    for version in (4, 5, 7, 9, 11, 12):
        fetch(server, "all", version, [wanted("f")])
        fetch(server, "read committed", version, [wanted("f")], isolation_level=1)
    topic_id = server.topic_ids["f"]
    for version in (13, 15, 17):
        fetch(server, "by id", version, [wanted(topic_id)])
    fetch(server, "an unknown id", 13, [wanted(UNKNOWN_ID)])
    fetch(server, "no id", 13, [wanted(uuid.UUID(int=0))])
    fetch(server, "a missing topic", 11, [wanted("missing")])
    fetch(server, "a missing partition", 11, [wanted("f", 7)])
    fetch(server, "a negative partition", 11, [wanted("f", -1)])
    for offset in (1, 2, 3, 5, 6, -1):
        fetch(server, f"at {offset}", 11, [wanted("f", 0, offset)])
    fetch(server, "an old epoch", 11, [wanted("f", current_leader_epoch=-1)])
    fetch(server, "an epoch to come", 11, [wanted("f", current_leader_epoch=1000)])
    fetch(server, "no bytes", 11, [wanted("f"), wanted("f", 1)], max_bytes=0)
    fetch(server, "no bytes of the partition", 11, [wanted("f", partition_max_bytes=0)])
    fetch(server, "one byte", 11, [wanted("f", partition_max_bytes=1)])
    fetch(server, "cut in the second batch", 11, [wanted("f", partition_max_bytes=100)])
    first = fetch(server, "a session", 11, [wanted("f"), wanted("f", 1)], session_epoch=0)
    session = first["session_id"]
    fetch(server, "nothing new, not moved on", 11, [], session_id=session, session_epoch=1)
    fetch(server, "moved on", 11, [wanted("f", 0, 5)], session_id=session, session_epoch=2)
    fetch(server, "nothing new", 11, [], session_id=session, session_epoch=3)
    produce(server, "into a session", "f", batch(b"5"), partition=1)
    fetch(server, "something new", 11, [], session_id=session, session_epoch=4)
    fetch(server, "a wrong epoch", 11, [], session_id=session, session_epoch=4)
    fetch(server, "an unknown session", 11, [], session_id=session + 1, session_epoch=5)
    fetch(server, "by id in a session by name", 13, [], session_id=session, session_epoch=5)
    fetch(
        server, "a missing partition in a session", 11, [wanted("f", 9)], session_id=session, session_epoch=5
    )
    fetch(server, "an error is told again", 11, [], session_id=session, session_epoch=6)
    forget = [{"topic": "f", "partitions": [0, 1, 9]}]
    fetch(server, "all forgotten", 11, [], session_id=session, session_epoch=7, forgotten_topics_data=forget)
    fetch(server, "after that", 11, [], session_id=session, session_epoch=8)
    fetch(server, "an empty session", 11, [], session_epoch=0)
    fetch(server, "final epoch with nothing", 11, [])


def offsets(server: Server) -> None:
    create(server, "o", 2)
    produce(server, "for offsets", "o", batch(b"a", b"b", b"c", step=10))
    produce(server, "for offsets", "o", batch(b"d", b"e", first=1_700_000_000_015, step=-5, codec=1))
    produce(server, "for offsets", "o", batch(b"f", b"g", first=1_700_000_000_020, step=0))
    base = 1_700_000_000_000

    def ask(label: str, version: int, *asked: tuple[int, int], topic: str = "o", epoch: int = -1) -> None:
        parts = [{"partition_index": i, "timestamp": t, "current_leader_epoch": epoch} for i, t in asked]
        body = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": topic, "partitions": parts}],
            "timeout_ms": 1000,
        }
        server.ask(label, "ListOffsets", version, body)

    for version in (1, 2, 4, 6, 7, 8, 9, 10):
        for special in (-1, -2, -3, -4, -5, -6, -7):
            ask(f"timestamp {special}", version, (0, special))
    for delta in (-1, 0, 1, 10, 11, 15, 16, 20, 21):
        ask(f"at {delta}", 7, (0, base + delta))
    for special in (-1, -2, -3, base):
        ask(f"an empty log, {special}", 8, (1, special))
    ask("a missing partition", 7, (7, -1))
    ask("a missing topic", 7, (0, -1), topic="missing")
    ask("a partition twice", 7, (0, -1), (0, -2), (1, -1))
    ask("an epoch to come", 7, (0, -1), epoch=1000)

    def epochs(label: str, *asked: tuple[int, int, int], topic: str = "o") -> None:
        parts = [{"partition": i, "current_leader_epoch": c, "leader_epoch": e} for i, c, e in asked]
        for version in (2, 3, 4):
            body = {"replica_id": -1, "topics": [{"topic": topic, "partitions": parts}]}
            server.ask(label, "OffsetForLeaderEpoch", version, body)

    epochs("epoch to come", (0, -1, 1000))
    epochs("epoch -1", (0, -1, -1))
    epochs("current epoch to come", (0, 1000, 0))
    epochs("missing partition", (7, -1, 0))
    epochs("missing topic", (0, -1, 0), topic="missing")


def metadata(server: Server) -> None:
    create(server, "m", 2)
    for version in range(13):
        server.ask(
            "one topic", "Metadata", version, {"topics": [{"name": "m"}], "allow_auto_topic_creation": False}
        )
    for version in (1, 5, 9, 12):
        server.ask("no topics", "Metadata", version, {"topics": [], "allow_auto_topic_creation": False})
    for version in (4, 9, 10, 12):
        body = {
            "topics": [{"name": "missing"}, {"name": "m"}, {"name": "m"}],
            "allow_auto_topic_creation": False,
        }
        server.ask("missing, and one twice", "Metadata", version, body)
        for name in ("no/slash", "", ".", "..", "x" * 250, "x" * 249):
            body = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            server.ask(f"the name {name[:10]!r} of {len(name)}", "Metadata", version, body)
    for name in ("no/slash", "", "x" * 250):
        body = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
        server.ask(f"make {name[:10]!r} of {len(name)}", "Metadata", 9, body)
    for topic_id in (server.topic_ids["m"], UNKNOWN_ID, uuid.UUID(int=0)):
        for version in (10, 12):
            body = {"topics": [{"topic_id": topic_id, "name": None}], "allow_auto_topic_creation": False}
            server.ask("by id", "Metadata", version, body)
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    for version in (8, 10):
        body = {"topics": [{"name": "m"}], "allow_auto_topic_creation": False, **operations}
        server.ask("with operations", "Metadata", version, body)

    def partitions(
        label: str, names: list[str], limit: int = 100, cursor: tuple[str, int] | None = None
    ) -> None:
        at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
        body = {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": at}
        server.ask(label, "DescribeTopicPartitions", 0, body)

    create(server, "m2", 3)
    partitions("both", ["m2", "m"])
    partitions("missing and bad", ["missing", "no/slash", "m"])
    partitions("limited", ["m2", "m"], 3)
    partitions("limited at the end of a topic", ["m2", "m"], 2)
    partitions("from a cursor", ["m2", "m"], 100, ("m2", 1))
    partitions("from a cursor in a topic not asked for", ["m2"], 100, ("m", 1))
    partitions("from a cursor beyond", ["m2"], 100, ("m2", 7))
    partitions("a limit of none", ["m2"], 0)


def topics(server: Server) -> None:
    def make(label: str, *asked: dict[str, Any], version: int = 7, validate_only: bool = False) -> None:
        filled = [
            {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **each}
            for each in asked
        ]
        body = {"topics": filled, "timeout_ms": 30_000, "validate_only": validate_only}
        server.ask(label, "CreateTopics", version, body)

    def configs(**values: str | None) -> list[dict[str, Any]]:
        return [{"name": name.replace("__", "."), "value": value} for name, value in values.items()]

    for version in (2, 4, 5, 6, 7):
        make("a topic", {"name": f"made{version}"}, version=version)
    make("again", {"name": "made7"})
    make("only checked", {"name": "checked", "num_partitions": 3}, validate_only=True)
    make("only checked, exists", {"name": "made7"}, validate_only=True)
    make("twice", {"name": "twice"}, {"name": "twice"}, {"name": "once"})
    make("collides", {"name": "dots.and_lines"})
    make("collides", {"name": "dots_and.lines"})
    make("collides within", {"name": "in.one"}, {"name": "in_one"})
    for name in ("", ".", "..", "no/slash", "x" * 250):
        make(f"the name {name[:10]!r} of {len(name)}", {"name": name})
    for count in (-1, 0, -2):
        make(f"{count} partitions", {"name": f"count{count}", "num_partitions": count})
        make(f"{count} replicas", {"name": f"replicas{count}", "replication_factor": count})
    make("3 replicas", {"name": "replicas3", "replication_factor": 3})
    make("an unknown config", {"name": "c1", "configs": configs(retention__m="1")})
    make("a bad value", {"name": "c2", "configs": configs(retention__ms="soon")})
    make("no value", {"name": "c3", "configs": configs(retention__ms=None)})
    make("a value out of range", {"name": "c4", "configs": configs(retention__ms="-5")})
    make("a bad policy", {"name": "c5", "configs": configs(cleanup__policy="keep")})
    make("a config twice", {"name": "c6", "configs": configs(retention__ms="1") + configs(retention__ms="2")})

    def assigned(*nodes: list[int]) -> list[dict[str, Any]]:
        return [{"partition_index": i, "broker_ids": each} for i, each in enumerate(nodes)]

    free = {"num_partitions": -1, "replication_factor": -1}
    make("assigned", {"name": "a1", **free, "assignments": assigned([server.node], [server.node])})
    make("assigned, with a count", {"name": "a2", "assignments": assigned([server.node])})
    make("assigned to a stranger", {"name": "a3", **free, "assignments": assigned([77])})
    make("assigned twice", {"name": "a4", **free, "assignments": assigned([server.node, server.node])})
    make("assigned to nobody", {"name": "a5", **free, "assignments": assigned([])})
    gap = [{"partition_index": 1, "broker_ids": [server.node]}]
    make("assigned with a gap", {"name": "a6", **free, "assignments": gap})
    double = [{"partition_index": 0, "broker_ids": [server.node]}] * 2
    make("a partition assigned twice", {"name": "a7", **free, "assignments": double})

    def grow(label: str, *asked: dict[str, Any], version: int = 3, validate_only: bool = False) -> None:
        filled = [{"assignments": None, **each} for each in asked]
        body = {"topics": filled, "timeout_ms": 30_000, "validate_only": validate_only}
        server.ask(label, "CreatePartitions", version, body)

    grow("only checked", {"name": "made7", "count": 2}, validate_only=True)
    grow("to 2", {"name": "made7", "count": 2})
    grow("to the same", {"name": "made7", "count": 2})
    grow("to fewer", {"name": "made7", "count": 1})
    grow("to none", {"name": "made7", "count": 0})
    grow("to -1", {"name": "made7", "count": -1})
    grow("a missing topic", {"name": "missing", "count": 2})
    grow("twice", {"name": "made6", "count": 2}, {"name": "made6", "count": 3})
    grow("assigned", {"name": "made6", "count": 2, "assignments": [{"broker_ids": [server.node]}]})
    grow("assigned too few", {"name": "made6", "count": 4, "assignments": [{"broker_ids": [server.node]}]})
    grow(
        "assigned too many", {"name": "made6", "count": 3, "assignments": [{"broker_ids": [server.node]}] * 2}
    )
    grow("assigned to a stranger", {"name": "made6", "count": 3, "assignments": [{"broker_ids": [77]}]})

    def drop(label: str, *names: str, version: int = 5) -> None:
        server.ask(label, "DeleteTopics", version, {"topic_names": list(names), "timeout_ms": 30_000})

    for version in (1, 3, 4, 5):
        drop("two, one missing", f"made{version}", "missing", version=version)
    drop("one twice", "once", "once")
    drop("an illegal name", "no/slash")
    drop("nothing")
    for label, asked in [
        ("by id", {"name": None, "topic_id": server.topic_ids["made7"]}),
        ("by an unknown id", {"name": None, "topic_id": UNKNOWN_ID}),
        ("by no id", {"name": None, "topic_id": uuid.UUID(int=0)}),
        ("by name", {"name": "made6", "topic_id": uuid.UUID(int=0)}),
        ("by a missing name", {"name": "missing", "topic_id": uuid.UUID(int=0)}),
        ("by both", {"name": "a1", "topic_id": UNKNOWN_ID}),
    ]:
        server.ask(label, "DeleteTopics", 6, {"topics": [asked], "timeout_ms": 30_000})


def deleting_records(server: Server) -> None:
    create(server, "d")
    create(server, "keep", cleanup__policy="compact")
    produce(server, "to delete", "d", batch(*[b"v"] * 5))
    produce(server, "to delete", "keep", batch(*[b"v"] * 5, key=b"k"))

    def delete(label: str, topic: str, *asked: tuple[int, int]) -> None:
        parts = [{"partition_index": index, "offset": offset} for index, offset in asked]
        body = {"topics": [{"name": topic, "partitions": parts}], "timeout_ms": 30_000}
        server.ask(label, "DeleteRecords", 2, body)

    delete("below 2", "d", (0, 2))
    delete("below 1 after that", "d", (0, 1))
    delete("beyond the end", "d", (0, 6))
    delete("a negative offset", "d", (0, -2))
    delete("a missing partition", "d", (7, 0))
    delete("a missing topic", "missing", (0, 0))
    delete("of a compacted topic", "keep", (0, 2))
    delete("all", "d", (0, -1))
    fetch(server, "after it, from 0", 11, [wanted("d")])
    fetch(server, "after it, from the end", 11, [wanted("d", 0, 5)])


def configs(server: Server) -> None:
    create(server, "c", retention__ms="1000")
    topic, broker = 2, 4

    def describe(label: str, kind: int, name: str, keys: list[str] | None = None, version: int = 4) -> None:
        body = {
            "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
            "include_synonyms": True,
            "include_documentation": False,
        }
        answer = server.quietly("DescribeConfigs", version, body)
        result = answer["results"][0]
        # by name: the order of configs has no meaning
        result["configs"] = {config["name"]: config for config in result["configs"]}
        server.keep(f"{label} (DescribeConfigs v{version})", answer)

    for version in (1, 2, 3, 4):
        describe("a topic", topic, "c", version=version)
    describe("two of a topic", topic, "c", ["retention.ms", "no.such.config"])
    describe("nothing of a topic", topic, "c", [])
    describe("a missing topic", topic, "missing")
    describe("an illegal topic", topic, "no/slash")
    describe(
        "some of the broker",
        broker,
        str(server.node),
        ["num.partitions", "log.retention.ms", "message.max.bytes"],
    )
    describe("the default of brokers", broker, "")
    describe("a missing broker", broker, "77")
    describe("a broker that is no number", broker, "x")
    describe("a type that is none", 3, "c")
    describe("a group", 32, "g")
    describe("client metrics", 16, "x")

    def alter(
        label: str, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
    ) -> None:
        rows = [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]
        body = {
            "resources": [{"resource_type": kind, "resource_name": name, "configs": rows}],
            "validate_only": validate_only,
        }
        server.ask(label, "IncrementalAlterConfigs", 1, body)

    def replace(label: str, kind: int, name: str, validate_only: bool = False, **values: str | None) -> None:
        rows = [{"name": n.replace("__", "."), "value": v} for n, v in values.items()]
        body = {
            "resources": [{"resource_type": kind, "resource_name": name, "configs": rows}],
            "validate_only": validate_only,
        }
        server.ask(label, "AlterConfigs", 2, body)

    alter("set", topic, "c", ("retention.ms", 0, "2000"))
    alter("append", topic, "c", ("cleanup.policy", 2, "compact"))
    alter("append what is there", topic, "c", ("cleanup.policy", 2, "compact"))
    describe("after append", topic, "c", ["cleanup.policy", "retention.ms"])
    alter("subtract", topic, "c", ("cleanup.policy", 3, "compact"))
    alter("subtract what is not there", topic, "c", ("cleanup.policy", 3, "compact"))
    describe("after subtract", topic, "c", ["cleanup.policy", "retention.ms"])
    alter("append to what is no list", topic, "c", ("retention.ms", 2, "1"))
    alter("delete", topic, "c", ("retention.ms", 1, None))
    alter("delete what is not set", topic, "c", ("retention.ms", 1, None))
    alter("set nothing", topic, "c", ("retention.ms", 0, None))
    alter("an unknown operation", topic, "c", ("retention.ms", 9, "1"))
    alter("an unknown config", topic, "c", ("retention.m", 0, "1"))
    alter("delete an unknown config", topic, "c", ("retention.m", 1, None))
    alter("a bad value", topic, "c", ("retention.ms", 0, "soon"))
    alter("one twice", topic, "c", ("retention.ms", 0, "1"), ("retention.ms", 0, "2"))
    alter("only checked", topic, "c", ("retention.ms", 0, "7"), validate_only=True)
    alter("a missing topic", topic, "missing", ("retention.ms", 0, "1"))
    alter("an illegal topic", topic, "no/slash", ("retention.ms", 0, "1"))
    alter("a type that is none", 3, "c", ("retention.ms", 0, "1"))
    describe("after that", topic, "c", ["cleanup.policy", "retention.ms"])
    replace("replace", topic, "c", retention__bytes="5000")
    describe("after replace", topic, "c", ["cleanup.policy", "retention.ms", "retention.bytes"])
    replace("replace, no value", topic, "c", retention__bytes=None)
    replace("replace, only checked", topic, "c", validate_only=True, retention__bytes="1")
    alter("a broker", broker, str(server.node), ("message.max.bytes", 0, "2000000"))
    alter("all brokers", broker, "", ("message.max.bytes", 0, "3000000"))
    describe("the broker altered", broker, str(server.node), ["message.max.bytes"])
    describe("all brokers altered", broker, "", ["message.max.bytes"])
    describe("a topic under it", topic, "c", ["max.message.bytes"])
    alter("a broker, read only", broker, str(server.node), ("node.id", 0, "2"))
    alter("a broker, bad value", broker, str(server.node), ("message.max.bytes", 0, "many"))
    alter("a missing broker", broker, "77", ("message.max.bytes", 0, "1"))
    alter("a broker, back", broker, str(server.node), ("message.max.bytes", 1, None))
    alter("all brokers, back", broker, "", ("message.max.bytes", 1, None))
    describe("the broker, back", broker, str(server.node), ["message.max.bytes"])


def cluster(server: Server) -> None:
    for version in (0, 1, 2):
        for operations in (False, True):
            body = {
                "include_cluster_authorized_operations": operations,
                "endpoint_type": 1,
                "include_fenced_brokers": True,
            }
            server.ask("the cluster", "DescribeCluster", version, body)
    server.ask(
        "controllers",
        "DescribeCluster",
        1,
        {"include_cluster_authorized_operations": False, "endpoint_type": 2},
    )
    create(server, "dirs", 2)
    produce(server, "for its size", "dirs", batch(b"v"))
    for version in (1, 2, 3, 4):
        dirs: dict[str, Any] = {
            "topics": [{"topic": "dirs", "partitions": [0, 1, 7]}, {"topic": "missing", "partitions": [0]}]
        }
        server.ask("log dirs", "DescribeLogDirs", version, dirs)
    server.ask("resources", "ListConfigResources", 0, {})
    for kinds in ([16], [4], [32], [4, 8], [99]):
        server.ask(f"resources {kinds}", "ListConfigResources", 1, {"resource_types": kinds})


def odd(server: Server) -> None:
    """Bytes and versions that should not come."""
    for label, key, version, payload in [
        ("ApiVersions of the future", 18, 99, b""),
        ("no such API", 999, 0, b""),
        ("no such version", 3, 99, b""),
        ("Produce v2", 0, 2, b"\xff\xff\x00\x00\x03\xe8\x00\x00\x00\x00"),
        ("Fetch v3", 1, 3, b""),
        ("cut short", 3, 1, b"\xff\xff"),
        ("an array that is too long", 3, 1, b"\x7f\xff\xff\xff"),
    ]:
        try:
            frame = server.raw(key, version, payload)
            server.keep(
                label,
                {"error_code": int.from_bytes(frame[4:6], "big", signed=True) if key == 18 else "<answer>"},
            )
        except Exception as error:
            server.keep(label, {"<connection>": type(error).__name__})


SCRIPTS: dict[str, Callable[[Server], None]] = {
    each.__name__: each
    for each in (
        producing,
        idempotence,
        fetching,
        offsets,
        metadata,
        topics,
        deleting_records,
        configs,
        cluster,
        odd,
    )
}
