"""DescribeGroups, ListGroups, DeleteGroups, and a classic group asked of by the newer APIs."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import create
from compat.compare.scripts.groups import join_body, joined, sync_body, warm_up
from compat.compare.server import Server

STATES = (
    "Stable",
    "Empty",
    "Dead",
    "PreparingRebalance",
    "CompletingRebalance",
    "stable",
    "Nonsense",
    "Assigning",
    "",
)


def script(server: Server) -> None:
    server.names.start_again()
    create(server, "ga")
    warm_up(server)
    names = prepare(server)
    for version in server.versions("DescribeGroups"):
        server.ask("each state", "DescribeGroups", version, {"groups": names})
        server.ask("missing", "DescribeGroups", version, {"groups": ["missing", ""]})
        server.ask("none", "DescribeGroups", version, {"groups": []})
        server.ask("one twice", "DescribeGroups", version, {"groups": [names[0]] * 2})
        if version >= 3:
            body = {"groups": [names[0], "missing"], "include_authorized_operations": True}
            server.ask("with operations", "DescribeGroups", version, body)
    for version in server.versions("ListGroups"):
        server.ask("all", "ListGroups", version, {})
        if version >= 4:
            for state in STATES:
                server.ask(f"in state {state!r}", "ListGroups", version, {"states_filter": [state]})
            server.ask("in two states", "ListGroups", version, {"states_filter": ["Stable", "Empty"]})
        if version >= 5:
            for kind in ("classic", "Classic", "consumer", "share", "nonsense", ""):
                server.ask(f"of type {kind!r}", "ListGroups", version, {"types_filter": [kind]})
            both = {"types_filter": ["classic"], "states_filter": ["Stable"]}
            server.ask("of a type in a state", "ListGroups", version, both)
    for version in server.versions("DeleteGroups"):
        deleting(server, version)


def prepare(server: Server) -> list[str]:
    """A group in each state."""
    connection = server.connect()
    commit: dict[str, Any] = {
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "ga", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    }
    server.quietly("OffsetCommit", 8, {**commit, "group_id": "state-offsets"})
    stable = joined(server, "stable", "state-stable", 9)
    server.quietly(
        "SyncGroup",
        5,
        sync_body("state-stable", stable["generation_id"], stable["member_id"], stable["member_id"]),
    )
    joined(server, "completing", "state-completing", 9)
    server.ask("pending", "JoinGroup", 9, join_body("state-pending"))
    empty = joined(server, "empty", "state-empty", 9)
    server.quietly(
        "LeaveGroup", 5, {"group_id": "state-empty", "members": [{"member_id": empty["member_id"]}]}
    )
    joined(server, "another type", "state-connect", 9, protocol_type="connect")
    connection.close()
    return [
        "state-offsets",
        "state-stable",
        "state-completing",
        "state-pending",
        "state-empty",
        "state-connect",
    ]


def deleting(server: Server, version: int) -> None:
    server.names.start_again()
    group = f"delete{version}"
    answer = joined(server, f"to delete v{version}", group, 9)

    def ask(label: str, *names: str) -> None:
        server.ask(label, "DeleteGroups", version, {"groups_names": list(names)})

    ask("not empty", group)
    ask("missing", "missing", "")
    ask("none")
    server.quietly("LeaveGroup", 5, {"group_id": group, "members": [{"member_id": answer["member_id"]}]})
    ask("one twice", group, group)
    server.ask(f"described after v{version}", "DescribeGroups", None, {"groups": [group]})
    simple = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "ga", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    }
    server.quietly("OffsetCommit", 8, simple)
    ask("with offsets only", group)
    last = {"groups": [{"group_id": group, "topics": None}]}
    server.ask(f"its offsets after v{version}", "OffsetFetch", 8, last)
