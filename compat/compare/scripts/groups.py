"""One member alone: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what they refuse."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import create
from compat.compare.server import Answer, Connection, Server, wait_until

META = b"\0\1\0\0\0\1\0\1g\xff\xff\xff\xff\xff\xff\xff\xff"
SESSION = 30_000


def join_body(group: str, member: str = "", **options: Any) -> dict[str, Any]:
    """A JoinGroup of a consumer with the range assignor."""
    return {
        "group_id": group,
        "session_timeout_ms": SESSION,
        "rebalance_timeout_ms": SESSION,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": META}],
        **options,
    }


def joined(
    server: Server, label: str, group: str, version: int, on: Connection | None = None, **options: Any
) -> Answer:
    """Join, with the second question that version 4 and later need; both are compared."""
    answer = server.ask(label, "JoinGroup", version, join_body(group, **options), on=on)
    if answer.get("error_code") == 79:
        options["member"] = answer["member_id"]
        answer = server.ask(label + ", with its id", "JoinGroup", version, join_body(group, **options), on=on)
    return answer


def sync_body(group: str, generation: int, member: str, *assigned: str, **options: Any) -> dict[str, Any]:
    """A SyncGroup that gives each of `assigned` its name as its assignment."""
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": each, "assignment": b"for %d" % i} for i, each in enumerate(assigned)],
        **options,
    }


def script(server: Server) -> None:
    create(server, "g", 2)
    warm_up(server)
    coordinators(server)
    for version in server.versions("JoinGroup"):
        alone(server, version)
        refusals(server, version)
    for version in server.versions("JoinGroup"):
        if version >= 5:
            static(server, version)
    for version in server.versions("SyncGroup"):
        syncing(server, version)
    for version in server.versions("Heartbeat"):
        beating(server, version)
    for version in server.versions("LeaveGroup"):
        leaving(server, version)


def warm_up(server: Server) -> None:
    """Kafka makes the topic of its coordinator when it is first asked for, and then loads it."""

    def found() -> bool:
        answer = server.quietly("FindCoordinator", 3, {"key": "warm", "key_type": 0})
        if answer["error_code"]:
            return False
        fetched = server.quietly("OffsetFetch", 7, {"group_id": "warm", "topics": None})
        return bool(fetched["error_code"] == 0)

    wait_until(found)


def coordinators(server: Server) -> None:
    for version in server.versions("FindCoordinator"):
        if version < 4:
            for label, key, kind in (
                ("of a group", "g1", 0),
                ("of no name", "", 0),
                ("of a type that is none", "g1", 9),
                ("of a negative type", "g1", -1),
                ("of a share partition", "g1", 2),
            ):
                if version >= 1 or kind == 0:
                    body = {"key": key, "key_type": kind} if version else {"key": key}
                    server.ask(label, "FindCoordinator", version, body)
        else:
            for label, keys, kind in (
                ("of two groups", ["g1", "g2"], 0),
                ("of one twice", ["g1", "g1"], 0),
                ("of no name", [""], 0),
                ("of none", [], 0),
                ("of a type that is none", ["g1"], 9),
                ("of a negative type", ["g1"], -1),
                ("of a share partition", ["g1"], 2),
            ):
                server.ask(label, "FindCoordinator", version, {"key_type": kind, "coordinator_keys": keys})


def alone(server: Server, version: int) -> None:
    """The life of a group with one member."""
    server.names.start_again()
    group = f"alone{version}"
    answer = joined(server, "the first joins", group, version)
    member, generation = answer["member_id"], answer["generation_id"]
    sync = min(version, server.newest("SyncGroup"))
    beat = min(version, server.newest("Heartbeat"))
    whom = {"group_id": group, "generation_id": generation, "member_id": member}
    server.ask(f"beat before sync (join v{version})", "Heartbeat", beat, whom)
    server.ask(f"sync (join v{version})", "SyncGroup", sync, sync_body(group, generation, member, member))
    server.ask(f"sync again (join v{version})", "SyncGroup", sync, sync_body(group, generation, member))
    server.ask(f"beat (join v{version})", "Heartbeat", beat, whom)
    server.ask("joins again unchanged", "JoinGroup", version, join_body(group, member))
    other = [{"name": "roundrobin", "metadata": META}, {"name": "range", "metadata": b""}]
    again = server.ask("joins again changed", "JoinGroup", version, join_body(group, member, protocols=other))
    whom["generation_id"] = again["generation_id"]
    server.ask(
        f"sync of the next (join v{version})",
        "SyncGroup",
        sync,
        sync_body(group, again["generation_id"], member, member, protocol_name=again["protocol_name"]),
    )
    server.ask(f"beat of the next (join v{version})", "Heartbeat", beat, whom)
    server.ask(f"described (join v{version})", "DescribeGroups", None, {"groups": [group]})
    leave = min(version, server.newest("LeaveGroup"))
    body = {"group_id": group, "member_id": member, "members": [{"member_id": member}]}
    server.ask(f"leave (join v{version})", "LeaveGroup", leave, body)
    server.ask(f"leave again (join v{version})", "LeaveGroup", leave, body)
    server.ask(f"beat after leaving (join v{version})", "Heartbeat", beat, whom)
    server.ask(f"described when empty (join v{version})", "DescribeGroups", None, {"groups": [group]})


def refusals(server: Server, version: int) -> None:
    """What JoinGroup does not take."""
    server.names.start_again()
    group = f"refused{version}"

    def ask(label: str, **options: Any) -> Answer:
        name = options.pop("group", group)
        return server.ask(label, "JoinGroup", version, join_body(name, **options))

    ask("no group", group="")
    ask("an unknown member", member="nobody")
    ask("a session too short", session_timeout_ms=1)
    ask("a session too long", session_timeout_ms=2**31 - 1)
    ask("a negative session", session_timeout_ms=-1)
    ask("no protocol type", protocol_type="")
    ask("no protocols", protocols=[])
    first = joined(server, "a member", group, version)
    ask("another protocol type", protocol_type="connect")
    ask("another protocol", protocols=[{"name": "other", "metadata": META}])
    ask("an unknown member of a group", member="nobody")
    ask("no session for a known member", member=first["member_id"], session_timeout_ms=1)
    if version >= 1:
        joined(server, "a negative rebalance timeout", f"timeout{version}", version, rebalance_timeout_ms=-1)
    ask(
        "another protocol of a known member",
        member=first["member_id"],
        protocols=[{"name": "x", "metadata": b""}],
    )
    twice = [{"name": "range", "metadata": b"1"}, {"name": "range", "metadata": b"2"}]
    joined(server, "a protocol twice", f"twice{version}", version, protocols=twice)
    server.names.start_again()
    joined(server, "of another type", f"connect{version}", version, protocol_type="connect")
    if version >= 8:
        joined(server, "with a reason", f"reason{version}", version, reason="because")


def static(server: Server, version: int) -> None:
    """Static members (KIP-345) and fencing."""
    server.names.start_again()
    group = f"static{version}"
    me = {"group_instance_id": "one"}
    first = server.ask("a static member", "JoinGroup", version, join_body(group, **me))
    member, generation = first["member_id"], first["generation_id"]
    sync, beat = min(version, 5), min(version, 4)
    server.ask(
        f"a static member's sync (join v{version})",
        "SyncGroup",
        sync,
        sync_body(group, generation, member, member, **me),
    )
    second = server.ask("it comes back", "JoinGroup", version, join_body(group, **me))
    for label, who in (("old", member), ("new", second["member_id"])):
        whom = {"group_id": group, "generation_id": second["generation_id"], "member_id": who}
        server.ask(f"beat of the {label} (join v{version})", "Heartbeat", beat, {**whom, **me})
        server.ask(f"beat of the {label}, no instance (join v{version})", "Heartbeat", beat, whom)
        server.ask(
            f"sync of the {label} (join v{version})",
            "SyncGroup",
            sync,
            sync_body(group, second["generation_id"], who, **me),
        )
        commit = {
            "group_id": group,
            "generation_id_or_member_epoch": second["generation_id"],
            "member_id": who,
            "topics": [{"name": "g", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        }
        server.ask(f"commit of the {label} (join v{version})", "OffsetCommit", 8, {**commit, **me})
    server.ask("the old joins", "JoinGroup", version, join_body(group, member, **me))
    server.ask(
        "an unknown instance with a known id",
        "JoinGroup",
        version,
        join_body(group, second["member_id"], group_instance_id="two"),
    )
    server.ask(f"described (static, join v{version})", "DescribeGroups", None, {"groups": [group]})
    changed = [{"name": "range", "metadata": b"changed"}]
    server.ask(
        "back with another subscription", "JoinGroup", version, join_body(group, protocols=changed, **me)
    )
    leave = {"group_id": group, "member_id": "", "members": [{"member_id": "", "group_instance_id": "one"}]}
    server.ask(f"leave by instance (join v{version})", "LeaveGroup", 5, leave)
    server.ask(f"leave by instance again (join v{version})", "LeaveGroup", 5, leave)
    server.ask(f"described after that (static, join v{version})", "DescribeGroups", None, {"groups": [group]})
    for label, instance in (
        ("an empty instance", ""),
        ("an illegal instance", "no/slash"),
        ("a long instance", "x" * 250),
    ):
        server.ask(
            label, "JoinGroup", version, join_body(f"{group}-{len(label)}", group_instance_id=instance)
        )


def syncing(server: Server, version: int) -> None:
    server.names.start_again()
    group = f"sync{version}"
    answer = joined(server, f"for sync v{version}", group, 9)
    member, generation = answer["member_id"], answer["generation_id"]

    def ask(
        label: str, *assigned: str, who: str = member, at: int = generation, name: str = group, **options: Any
    ) -> None:
        server.ask(label, "SyncGroup", version, sync_body(name, at, who, *assigned, **options))

    ask("no group", name="")
    ask("a missing group", name="missing")
    ask("an unknown member", who="nobody")
    ask("no member", who="")
    ask("another generation", at=generation + 1)
    ask("generation -1", at=-1)
    if version >= 3:
        ask("an unknown instance", group_instance_id="nobody")
    if version >= 5:
        ask("another protocol", protocol_name="other")
        ask("another protocol type", protocol_type="connect")
        ask("no protocol", protocol_name=None, protocol_type=None)
    ask("of the leader", member, "nobody")
    ask("once more", member)
    ask("another generation when stable", at=generation + 1)


def beating(server: Server, version: int) -> None:
    server.names.start_again()
    group = f"beat{version}"
    answer = joined(server, f"for beats v{version}", group, 9)
    member, generation = answer["member_id"], answer["generation_id"]
    whom = {"group_id": group, "generation_id": generation, "member_id": member}
    for label, change in (
        ("before sync", {}),
        ("no group", {"group_id": ""}),
        ("a missing group", {"group_id": "missing"}),
        ("an unknown member", {"member_id": "nobody"}),
        ("no member", {"member_id": ""}),
        ("another generation", {"generation_id": generation + 1}),
        ("generation -1", {"generation_id": -1}),
    ):
        server.ask(label, "Heartbeat", version, {**whom, **change})
    if version >= 3:
        server.ask("an unknown instance", "Heartbeat", version, {**whom, "group_instance_id": "nobody"})
    server.quietly("SyncGroup", 5, sync_body(group, generation, member, member))
    server.ask("when stable", "Heartbeat", version, whom)
    server.quietly("LeaveGroup", 5, {"group_id": group, "members": [{"member_id": member}]})
    server.ask("when empty", "Heartbeat", version, whom)


def leaving(server: Server, version: int) -> None:
    server.names.start_again()
    group = f"leave{version}"
    answer = joined(server, f"for leaving v{version}", group, 9)
    member = answer["member_id"]

    def ask(label: str, *members: dict[str, Any], name: str = group) -> None:
        one = members[0] if members else {"member_id": ""}
        if version < 3:
            server.ask(label, "LeaveGroup", version, {"group_id": name, "member_id": one["member_id"]})
        else:
            server.ask(label, "LeaveGroup", version, {"group_id": name, "members": list(members)})

    ask("no group", {"member_id": member}, name="")
    ask("a missing group", {"member_id": member}, name="missing")
    ask("an unknown member", {"member_id": "nobody"})
    ask("no member", {"member_id": ""})
    if version >= 3:
        ask("nobody")
        ask("an unknown instance", {"member_id": "", "group_instance_id": "nobody"})
        ask("a wrong instance", {"member_id": member, "group_instance_id": "nobody"})
        ask("three, one twice", {"member_id": member}, {"member_id": "nobody"}, {"member_id": member})
    ask("the member", {"member_id": member})
    # a member that was given an id and did not come back with it
    pending = server.ask("only an id", "JoinGroup", 9, join_body(group + "-pending"))
    ask("a pending member", {"member_id": pending["member_id"]}, name=group + "-pending")
    ask("a pending member again", {"member_id": pending["member_id"]}, name=group + "-pending")
