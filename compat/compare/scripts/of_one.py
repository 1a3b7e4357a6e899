"""What tools ask of several brokers and their controllers, asked of one: AlterReplicaLogDirs, ElectLeaders,
AlterPartitionReassignments, ListPartitionReassignments, DescribeQuorum and UpdateFeatures.
"""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import create
from compat.compare.server import Server

LOG = "__cluster_metadata"


def script(server: Server) -> None:
    create(server, "one", 2)
    log_dirs(server)
    elections(server)
    reassignments(server)
    quorum(server)
    features(server)


def log_dirs(server: Server) -> None:
    described = server.quietly("DescribeLogDirs", 4, {"topics": None})
    folder = described["results"][0]["log_dir"]
    here = [{"name": "one", "partitions": [0, 9, -1]}, {"name": "missing", "partitions": [0]}]
    once = [{"name": "one", "partitions": [0]}]
    for label, dirs in (
        ("to where it is", [(folder, here)]),
        ("to nowhere", [("/nowhere", here)]),
        ("to a relative path", [("nowhere", here)]),
        ("to the same with a slash", [(folder + "/", here)]),
        ("to none", []),
        ("to two", [(folder, once), ("/nowhere", once)]),
        ("to two, the other way", [("/nowhere", once), (folder, once)]),
        ("a partition twice", [(folder, [{"name": "one", "partitions": [0, 0]}])]),
        ("no partitions", [(folder, [{"name": "one", "partitions": []}])]),
        ("no topics", [(folder, [])]),
    ):
        asked = [{"path": path, "topics": topics} for path, topics in dirs]
        server.ask_all(f"log dirs: {label}", "AlterReplicaLogDirs", {"dirs": asked})


def elections(server: Server) -> None:
    one = {"topic": "one", "partitions": [0, 1, 9, -1]}
    missing = {"topic": "missing", "partitions": [0]}
    for version in server.versions("ElectLeaders"):
        for kind in (0, 1, 2, -1) if version else (0,):
            for label, topics in (
                ("some", [one, missing]),
                ("a partition twice", [{"topic": "one", "partitions": [0, 0]}]),
                ("a topic twice", [{"topic": "one", "partitions": [0]}, {"topic": "one", "partitions": [0]}]),
                ("none", []),
                ("no partitions", [{"topic": "one", "partitions": []}]),
                ("no name", [{"topic": "", "partitions": [0]}]),
                ("all", None),
            ):
                body: dict[str, Any] = {"topic_partitions": topics, "timeout_ms": 10_000}
                if version:
                    body["election_type"] = kind
                server.ask(f"an election of type {kind}: {label}", "ElectLeaders", version, body)


def reassignments(server: Server) -> None:
    node = server.node
    moves: list[tuple[str, list[tuple[str, list[tuple[int, list[int] | None]]]]]] = [
        ("to where they are", [("one", [(0, [node]), (1, [node])])]),
        ("to an unknown broker", [("one", [(0, [77]), (1, [node, 77]), (0, [-1])])]),
        ("to one broker twice", [("one", [(0, [node, node])])]),
        ("to none", [("one", [(0, [])])]),
        ("ended", [("one", [(0, None), (1, None)])]),
        ("no such partition", [("one", [(9, [node]), (-1, None)])]),
        ("no such topic", [("missing", [(0, [node]), (1, None)]), ("", [(0, [node])])]),
        ("twice", [("one", [(0, [node]), (0, [node])]), ("one", [(0, [node])])]),
        ("no partitions", [("one", [])]),
        ("no topics", []),
    ]
    for version in server.versions("AlterPartitionReassignments"):
        for label, topics in moves:
            asked = [
                {
                    "name": name,
                    "partitions": [{"partition_index": index, "replicas": nodes} for index, nodes in parts],
                }
                for name, parts in topics
            ]
            for change in (True, False) if version else (True,):
                body: dict[str, Any] = {"topics": asked, "timeout_ms": 10_000}
                if version:
                    body["allow_replication_factor_change"] = change
                said = f"reassigned {label}, {change}"
                server.ask(said, "AlterPartitionReassignments", version, body)
    for label, listed in (
        ("all", None),
        ("none", []),
        (
            "some",
            [{"name": "one", "partition_indexes": [0, 9]}, {"name": "missing", "partition_indexes": [0]}],
        ),
    ):
        server.ask_all(f"reassignments of {label}", "ListPartitionReassignments", {"topics": listed})


def quorum(server: Server) -> None:
    for label, topics in (
        ("of the log", [(LOG, [0])]),
        ("of another partition", [(LOG, [1])]),
        ("of a topic", [("one", [0, 1])]),
        ("of the log and a topic", [(LOG, [0]), ("one", [0])]),
        ("of the log twice", [(LOG, [0, 0])]),
        ("without partitions", [(LOG, [])]),
        ("of nothing", []),
    ):
        asked = [
            {"topic_name": name, "partitions": [{"partition_index": each} for each in indexes]}
            for name, indexes in topics
        ]
        server.ask_all(f"the quorum {label}", "DescribeQuorum", {"topics": asked})


def features(server: Server) -> None:
    for version in server.versions("UpdateFeatures"):
        for kind in (1, 2, 3, 0, 4) if version else (0,):
            for label, levels in (
                ("none", []),
                ("as they are", [("metadata.version", 30), ("share.version", 1), ("transaction.version", 2)]),
                ("one beyond", [("transaction.version", 9)]),
                ("one below 0", [("transaction.version", -1)]),
                ("one that nobody knows", [("bogus", 1)]),
                ("no name", [("", 1)]),
                ("one right and one wrong", [("transaction.version", 2), ("bogus", 1)]),
                ("one of before the first", [("metadata.version", 3)]),
            ):
                rows: list[dict[str, Any]] = [
                    {"feature": name, "max_version_level": level, "upgrade_type": kind}
                    for name, level in levels
                ]
                if not version:
                    rows = [{k: v for k, v in row.items() if k != "upgrade_type"} for row in rows]
                body = {"feature_updates": rows, **({"validate_only": True} if version else {})}
                server.ask(f"features by update {kind}: {label}", "UpdateFeatures", version, body)
