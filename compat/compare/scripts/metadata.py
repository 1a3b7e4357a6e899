"""Metadata and DescribeTopicPartitions."""

from __future__ import annotations

import uuid
from typing import Any

from compat.compare.scripts.common import NO_ID, UNKNOWN_ID, create
from compat.compare.server import Server

NAMES = ("no/slash", "", ".", "..", "x" * 250, "x" * 249, "spaces here", "ümlaut")


def script(server: Server) -> None:
    create(server, "m", 2)
    create(server, "m2", 3)
    quiet = {"allow_auto_topic_creation": False}
    for version in server.versions("Metadata"):
        creating = {} if version >= 4 else {"allow_auto_topic_creation": True}

        def ask(label: str, topics: list[dict[str, Any]] | None, version: int = version, **more: Any) -> None:
            server.ask(label, "Metadata", version, {"topics": topics, **quiet, **creating, **more})  # noqa: B023

        ask("one topic", [{"name": "m"}])
        ask("none", [])
        if version >= 1:
            ask("one twice", [{"name": "m"}, {"name": "m2"}, {"name": "m"}])
        if version >= 4:
            ask("missing", [{"name": "missing"}, {"name": "m"}])
            for name in NAMES:
                ask(f"the name {name[:10]!r} of {len(name)}", [{"name": name}])
            for name in ("no/slash", "", "x" * 250):
                ask(f"make {name[:10]!r} of {len(name)}", [{"name": name}], allow_auto_topic_creation=True)
        if version >= 8:
            operations = {
                "include_topic_authorized_operations": True,
                "include_cluster_authorized_operations": True,
            }
            ask("with operations", [{"name": "m"}], **operations)
            ask("with operations, missing", [{"name": "missing"}], **operations)
        if version >= 10:
            for label, topic_id in (
                ("by id", server.topic_ids["m"]),
                ("by an unknown id", UNKNOWN_ID),
                ("by no id", NO_ID),
            ):
                ask(label, [{"topic_id": topic_id, "name": None}])
            ask("by id and name", [{"topic_id": server.topic_ids["m"], "name": "m"}])
            ask("by id and another's name", [{"topic_id": server.topic_ids["m"], "name": "m2"}])
            ask("by an id and by a name", [_by_id(server.topic_ids["m"]), {"name": "m2"}])
            ask(
                "by two ids",
                [_by_id(server.topic_ids["m"]), _by_id(UNKNOWN_ID), _by_id(server.topic_ids["m2"])],
            )
    partitions(server)


def _by_id(topic_id: uuid.UUID) -> dict[str, Any]:
    return {"topic_id": topic_id, "name": None}


def partitions(server: Server) -> None:
    def ask(label: str, names: list[str], limit: int = 100, cursor: tuple[str, int] | None = None) -> None:
        at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
        body = {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": at}
        server.ask(label, "DescribeTopicPartitions", 0, body)

    ask("both", ["m2", "m"])
    ask("one twice", ["m2", "m2"])
    ask("missing and bad", ["missing", "no/slash", "m"])
    ask("limited", ["m2", "m"], 3)
    ask("limited at the end of a topic", ["m2", "m"], 2)
    ask("limited to one", ["m2", "m"], 1)
    ask("limited before what is missing", ["m2", "missing"], 2)
    ask("from a cursor", ["m2", "m"], 100, ("m2", 1))
    ask("from a cursor in a topic not asked for", ["m2"], 100, ("m", 1))
    ask("from a cursor beyond", ["m2"], 100, ("m2", 7))
    ask("from a negative cursor", ["m2"], 100, ("m2", -1))
    ask("a limit of none", ["m2"], 0)
    ask("a negative limit", ["m2"], -1)
