"""CreateTopics, CreatePartitions, DeleteTopics."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import NO_ID, UNKNOWN_ID, create, gone, ready
from compat.compare.server import Server


def script(server: Server) -> None:
    for version in server.versions("CreateTopics"):
        creating(server, version)
    for version in server.versions("CreatePartitions"):
        growing(server, version)
    for version in server.versions("DeleteTopics"):
        deleting(server, version)


def configs(**values: str | None) -> list[dict[str, Any]]:
    """Config names with `__` for dots."""
    return [{"name": name.replace("__", "."), "value": value} for name, value in values.items()]


def assigned(*nodes: list[int]) -> list[dict[str, Any]]:
    """Partition 0 to the first nodes, and so on."""
    return [{"partition_index": i, "broker_ids": each} for i, each in enumerate(nodes)]


def creating(server: Server, version: int) -> None:
    v = f"v{version}-"

    def make(label: str, *asked: dict[str, Any], validate_only: bool = False, timeout: int = 30_000) -> None:
        filled = [
            {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **each}
            for each in asked
        ]
        body = {"topics": filled, "timeout_ms": timeout, "validate_only": validate_only}
        server.ask(label, "CreateTopics", version, body)

    make("a topic", {"name": v + "made"})
    make("again", {"name": v + "made"})
    make("only checked", {"name": v + "checked", "num_partitions": 3}, validate_only=True)
    make("only checked, exists", {"name": v + "made"}, validate_only=True)
    make("only checked, illegal", {"name": "no/slash"}, validate_only=True)
    make("twice", {"name": v + "twice"}, {"name": v + "twice"}, {"name": v + "once"})
    make("three times", *[{"name": v + "thrice"}] * 3)
    make("collides", {"name": v + "dots.and_lines"})
    make("collides", {"name": v + "dots_and.lines"})
    make("collides within", {"name": v + "in.one"}, {"name": v + "in_one"})
    for name in (
        "",
        ".",
        "..",
        "no/slash",
        "x" * 250,
        "ümlaut",
        "a b",
        "__consumer_offsets",
        "__cluster_metadata",
    ):
        make(f"the name {name[:20]!r} of {len(name)}", {"name": name})
    for count in (-1, 0, -2):
        make(f"{count} partitions", {"name": f"{v}count{count}", "num_partitions": count})
        make(f"{count} replicas", {"name": f"{v}replicas{count}", "replication_factor": count})
    make("both by default", {"name": v + "default", "num_partitions": -1, "replication_factor": -1})
    make("3 replicas", {"name": v + "replicas3", "replication_factor": 3})
    make("3 partitions", {"name": v + "partitions3", "num_partitions": 3})
    make(
        "a config",
        {"name": v + "c0", "configs": configs(retention__ms="1000", cleanup__policy="compact,delete")},
    )
    for label, rows in (
        ("an unknown config", configs(retention__m="1")),
        ("a bad value", configs(retention__ms="soon")),
        ("no value", configs(retention__ms=None)),
        ("an empty value", configs(retention__ms="")),
        ("a value out of range", configs(retention__ms="-5")),
        ("a bad policy", configs(cleanup__policy="keep")),
        ("an empty policy", configs(cleanup__policy="")),
        ("a policy twice", configs(cleanup__policy="delete,delete")),
        ("spaces around", configs(retention__ms=" 1000 ")),
        ("a boolean", configs(unclean__leader__election__enable="yes")),
        ("a compression", configs(compression__type="brotli")),
        ("a timestamp type", configs(message__timestamp__type="Never")),
        ("a config twice", configs(retention__ms="1") + configs(retention__ms="2")),
        ("a config without a name", configs(**{"": "1"})),
        ("a broker's config", configs(num__partitions="3")),
        ("tiered storage", configs(remote__storage__enable="true")),
    ):
        make(label, {"name": v + label.replace(" ", "-"), "configs": rows})
    free: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
    node = server.node
    for label, rest, rows in (
        ("assigned", free, assigned([node], [node])),
        ("assigned, with a count", {}, assigned([node])),
        ("assigned, with partitions", {"replication_factor": -1}, assigned([node])),
        ("assigned to a stranger", free, assigned([77])),
        ("assigned to a negative node", free, assigned([-1])),
        ("assigned twice to one", free, assigned([node, node])),
        ("assigned to nobody", free, assigned([])),
        ("assigned with a gap", free, [{"partition_index": 1, "broker_ids": [node]}]),
        ("a partition assigned twice", free, [{"partition_index": 0, "broker_ids": [node]}] * 2),
        ("a negative partition assigned", free, [{"partition_index": -1, "broker_ids": [node]}]),
    ):
        make(label, {"name": v + label.replace(" ", "-").replace(",", ""), **rest, "assignments": rows})
    make("nothing")
    make("no time", {"name": v + "hurry"}, timeout=0)


def growing(server: Server, version: int) -> None:
    one, two = f"grow{version}", f"grown{version}"
    create(server, one)
    create(server, two)

    def grow(label: str, *asked: dict[str, Any], validate_only: bool = False) -> None:
        filled = [{"assignments": None, **each} for each in asked]
        server.ask(
            label,
            "CreatePartitions",
            version,
            {"topics": filled, "timeout_ms": 30_000, "validate_only": validate_only},
        )

    def to(*nodes: list[int]) -> list[dict[str, Any]]:
        return [{"broker_ids": each} for each in nodes]

    node = server.node
    grow("only checked", {"name": one, "count": 2}, validate_only=True)
    grow("to 2", {"name": one, "count": 2})
    for count in (2, 1, 0, -1):
        grow(f"to {count} from 2", {"name": one, "count": count})
    grow("a missing topic", {"name": "missing", "count": 2})
    grow("an illegal topic", {"name": "no/slash", "count": 2})
    grow("a topic without a name", {"name": "", "count": 2})
    grow("twice", {"name": two, "count": 2}, {"name": two, "count": 3})
    grow("assigned", {"name": two, "count": 2, "assignments": to([node])})
    grow("assigned too few", {"name": two, "count": 4, "assignments": to([node])})
    grow("assigned too many", {"name": two, "count": 3, "assignments": to([node], [node])})
    grow("assigned to a stranger", {"name": two, "count": 3, "assignments": to([77])})
    grow("assigned to nobody", {"name": two, "count": 3, "assignments": to([])})
    grow("assigned twice to one", {"name": two, "count": 3, "assignments": to([node, node])})
    grow("an empty assignment", {"name": two, "count": 3, "assignments": []})
    grow("nothing")
    ready(server, one, 2)
    server.ask("grown", "Metadata", 12, {"topics": [{"name": one}], "allow_auto_topic_creation": False})


def deleting(server: Server, version: int) -> None:
    names = [f"gone{version}-{i}" for i in range(6)]
    for name in names:
        create(server, name)

    def drop(label: str, *asked: str) -> None:
        body = {
            "topic_names": list(asked),
            "topics": [{"name": name, "topic_id": NO_ID} for name in asked],
            "timeout_ms": 30_000,
        }
        server.ask(label, "DeleteTopics", version, body)

    drop("two, one missing", names[0], "missing")
    drop("again", names[0])
    drop("one twice", names[1], names[1])
    drop("a missing one twice", "missing", "missing")
    drop("an illegal name", "no/slash")
    drop("an empty name", "")
    drop("nothing")
    if version >= 6:
        for label, asked in (
            ("by id", {"name": None, "topic_id": server.topic_ids[names[2]]}),
            ("by an unknown id", {"name": None, "topic_id": UNKNOWN_ID}),
            ("by no id", {"name": None, "topic_id": NO_ID}),
            ("by both", {"name": names[3], "topic_id": UNKNOWN_ID}),
            ("by both, right", {"name": names[3], "topic_id": server.topic_ids[names[3]]}),
        ):
            server.ask(label, "DeleteTopics", version, {"topics": [asked], "timeout_ms": 30_000})
        both = [{"name": names[4]}, {"name": None, "topic_id": server.topic_ids[names[4]]}]
        server.ask("by name, and by its id", "DeleteTopics", version, {"topics": both, "timeout_ms": 30_000})
        twice = [{"name": None, "topic_id": server.topic_ids[names[5]]}] * 2
        server.ask("an id twice", "DeleteTopics", version, {"topics": twice, "timeout_ms": 30_000})
    gone(server, names[0])
    server.ask("gone", "Metadata", 12, {"topics": [{"name": names[0]}], "allow_auto_topic_creation": False})
