"""Several members on several connections: they meet, one leaves, one dies, one comes back."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import create
from compat.compare.scripts.groups import META, join_body, joined, sync_body
from compat.compare.server import Answer, Server

SHORT = 1_000
"""A session timeout that both servers allow, since they are started so."""


def script(server: Server) -> None:
    create(server, "r", 2)
    for version in server.versions("JoinGroup"):
        two_members(server, version)
    dying(server)
    preferences(server)
    late(server)
    static_pair(server)


def two_members(server: Server, version: int) -> None:
    server.names.start_again()
    group = f"two{version}"
    one, two = server.connect(), server.connect()
    sync, beat, leave = min(version, 5), min(version, 4), min(version, 5)
    first = joined(server, "one", group, version, on=one)
    me, generation = first["member_id"], first["generation_id"]
    server.ask(
        f"one's sync (join v{version})", "SyncGroup", sync, sync_body(group, generation, me, me), on=one
    )
    # the second: the group waits for the first to join again
    options: dict[str, Any] = {}
    if version >= 4:
        options["member"] = server.ask("two", "JoinGroup", version, join_body(group), on=two)["member_id"]
    waiting = server.send("two joins", "JoinGroup", version, join_body(group, **options), on=two)
    whom = {"group_id": group, "generation_id": generation, "member_id": me}
    seen: Answer = {}
    while seen.get("error_code") != 27:  # until the second one's request has arrived
        seen = server.quietly("Heartbeat", 4, whom, on=one)
    server.ask(f"one is told (join v{version})", "Heartbeat", beat, whom, on=one)
    server.ask(
        f"one syncs meanwhile (join v{version})", "SyncGroup", sync, sync_body(group, generation, me), on=one
    )
    commit = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": me,
        "topics": [{"name": "r", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    }
    server.ask(f"one commits meanwhile (join v{version})", "OffsetCommit", 8, commit, on=one)
    server.ask(f"described meanwhile (join v{version})", "DescribeGroups", None, {"groups": [group]})
    again = server.ask("one joins again", "JoinGroup", version, join_body(group, me), on=one)
    other = server.answer(waiting)
    generation = again["generation_id"]
    you = other["member_id"]
    # the follower waits for the leader's assignment
    asked = server.send(
        f"two's sync (join v{version})", "SyncGroup", sync, sync_body(group, generation, you), on=two
    )
    commit["generation_id_or_member_epoch"] = generation
    server.ask(f"one commits before the sync (join v{version})", "OffsetCommit", 8, commit, on=one)
    server.ask(
        f"one's sync of both (join v{version})",
        "SyncGroup",
        sync,
        sync_body(group, generation, me, me, you),
        on=one,
    )
    server.answer(asked)
    server.ask(f"both described (join v{version})", "DescribeGroups", None, {"groups": [group]})
    gone = {"group_id": group, "member_id": me, "members": [{"member_id": me}]}
    server.ask(f"the leader leaves (join v{version})", "LeaveGroup", leave, gone, on=one)
    whom = {"group_id": group, "generation_id": generation, "member_id": you}
    server.ask(f"two is told (join v{version})", "Heartbeat", beat, whom, on=two)
    last = server.ask("two is alone", "JoinGroup", version, join_body(group, you), on=two)
    server.ask(
        f"two's own sync (join v{version})",
        "SyncGroup",
        sync,
        sync_body(group, last["generation_id"], you, you),
        on=two,
    )
    for connection in (one, two):
        connection.close()


def dying(server: Server) -> None:
    """One member says nothing any more."""
    server.names.start_again()
    group = "dying"
    one, two = server.connect(), server.connect()
    first = joined(
        server, "the one that dies", group, 9, on=one, session_timeout_ms=SHORT, rebalance_timeout_ms=SHORT
    )
    server.quietly("SyncGroup", 5, sync_body(group, first["generation_id"], first["member_id"]), on=one)
    one.close()
    joined(
        server, "the one that stays", group, 9, on=two, session_timeout_ms=SHORT, rebalance_timeout_ms=SHORT
    )
    whom = {"group_id": group, "generation_id": first["generation_id"], "member_id": first["member_id"]}
    server.ask("the dead one beats", "Heartbeat", 4, whom)
    server.ask("the dead one joins", "JoinGroup", 9, join_body(group, first["member_id"]))
    two.close()


def preferences(server: Server) -> None:
    """The protocol that all have, by votes."""
    for votes, (ours, theirs) in enumerate(
        (
            (("a", "b"), ("b", "a")),
            (("a", "b", "c"), ("c", "b")),
            (("a", "b"), ("b",)),
            (("x", "b", "a"), ("a", "b")),
        )
    ):
        group = f"votes{votes}"
        server.names.start_again()
        one, two = server.connect(), server.connect()

        def named(names: tuple[str, ...]) -> list[dict[str, Any]]:
            return [{"name": name, "metadata": META + name.encode()} for name in names]

        first = joined(server, f"votes {ours}", group, 9, on=one, protocols=named(ours))
        second = server.ask(
            f"votes {theirs}", "JoinGroup", 9, join_body(group, protocols=named(theirs)), on=two
        )
        body = join_body(group, second["member_id"], protocols=named(theirs))
        asked = server.send(f"{theirs} joins", "JoinGroup", 9, body, on=two)
        whom = {"group_id": group, "generation_id": first["generation_id"], "member_id": first["member_id"]}
        while server.quietly("Heartbeat", 4, whom, on=one)["error_code"] != 27:
            pass
        body = join_body(group, first["member_id"], protocols=named(ours))
        server.ask(f"{ours} and {theirs}", "JoinGroup", 9, body, on=one)
        server.answer(asked)
        for connection in (one, two):
            connection.close()


def late(server: Server) -> None:
    """One member does not join again within the rebalance timeout; the leader does not sync."""
    server.names.start_again()
    group = "late"
    one, two = server.connect(), server.connect()
    first = joined(server, "in time", group, 9, on=one, rebalance_timeout_ms=SHORT)
    server.quietly("SyncGroup", 5, sync_body(group, first["generation_id"], first["member_id"]), on=one)
    second = joined(server, "the late one is put out", group, 9, on=two, rebalance_timeout_ms=SHORT)
    whom = {"group_id": group, "generation_id": first["generation_id"], "member_id": first["member_id"]}
    server.ask("the late one beats", "Heartbeat", 4, whom, on=one)
    server.ask(
        "the late one syncs",
        "SyncGroup",
        5,
        sync_body(group, first["generation_id"], first["member_id"]),
        on=one,
    )
    server.ask("the new one beats", "Heartbeat", 4, {**whom, "member_id": second["member_id"]}, on=two)
    for connection in (one, two):
        connection.close()


def static_pair(server: Server) -> None:
    """A second consumer with the same instance id takes the first one's place while that waits."""
    server.names.start_again()
    group = "pair"
    one, two = server.connect(), server.connect()
    first = server.ask("the first", "JoinGroup", 9, join_body(group, group_instance_id="i1"), on=one)
    asked = server.send("another", "JoinGroup", 9, join_body(group, group_instance_id="i2"), on=two)
    whom = {
        "group_id": group,
        "generation_id": first["generation_id"],
        "member_id": first["member_id"],
        "group_instance_id": "i1",
    }
    while server.quietly("Heartbeat", 4, whom, on=one)["error_code"] != 27:
        pass
    again = server.ask(
        "the first joins again",
        "JoinGroup",
        9,
        join_body(group, first["member_id"], group_instance_id="i1"),
        on=one,
    )
    other = server.answer(asked)
    generation = again["generation_id"]
    waiting = server.send(
        "the other's sync",
        "SyncGroup",
        5,
        sync_body(group, generation, other["member_id"], group_instance_id="i2"),
        on=two,
    )
    three = server.connect()
    taken = server.send(
        "in the other's place", "JoinGroup", 9, join_body(group, group_instance_id="i2"), on=three
    )
    server.answer(waiting)
    whom = {**whom, "generation_id": generation}
    server.ask("the first beats", "Heartbeat", 4, whom, on=one)
    server.ask(
        "the first joins once more",
        "JoinGroup",
        9,
        join_body(group, first["member_id"], group_instance_id="i1"),
        on=one,
    )
    server.answer(taken)
    for connection in (one, two, three):
        connection.close()
