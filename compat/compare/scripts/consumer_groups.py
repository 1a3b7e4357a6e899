"""Consumer groups of the new protocol (KIP-848): membership, fences, offsets of members, a group id that changes hands.

Which partitions each of several members gets is its server's choice, so those who are compared are alone in a group.
"""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import create
from compat.compare.scripts.groups import join_body, joined, sync_body, warm_up
from compat.compare.server import Answer, Server

INSTANCE = "i"


def script(server: Server) -> None:
    server.names.start_again()
    create(server, "ca", 2)
    create(server, "cb")
    warm_up(server)
    refused(server)
    one_member(server)
    static_member(server)
    patterns(server)
    other_protocols(server)
    changing(server)


def beat(
    server: Server,
    label: str,
    group: str,
    member: str,
    epoch: int,
    *names: str,
    version: int = 1,
    **said: Any,
) -> Answer:
    """A ConsumerGroupHeartbeat; one that joins says all that it must."""
    body: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch}
    if epoch == 0:
        body |= {"rebalance_timeout_ms": 30_000, "topic_partitions": []}
    body["subscribed_topic_names"] = list(names) or None
    return server.ask(label, "ConsumerGroupHeartbeat", version, {**body, **said})


def describe(server: Server, label: str, *groups: str, operations: bool = False) -> None:
    body = {"group_ids": list(groups), "include_authorized_operations": operations}
    server.ask_all(label, "ConsumerGroupDescribe", body)


def refused(server: Server) -> None:
    beat(server, "no group id", "", "m", 0, "ca")
    beat(server, "a group id of spaces", "  ", "m", 0, "ca")
    beat(server, "no member id", "n", "", 0, "ca")
    beat(server, "no member id, to go on", "n", "", 1, version=0)
    beat(server, "an empty rack", "n", "m", 0, "ca", rack_id="")
    beat(server, "an empty instance", "n", "m", 0, "ca", instance_id="")
    beat(server, "join without topics", "n", "m", 0)
    beat(server, "join without a timeout", "n", "m", 0, "ca", rebalance_timeout_ms=-1)
    beat(server, "join with unknown partitions", "n", "m", 0, "ca", topic_partitions=None)
    beat(server, "an assignor that is none", "n", "m", 0, "ca", server_assignor="sticky")
    beat(server, "an expression that is none", "n", "m", 0, subscribed_topic_regex="(")
    beat(server, "an epoch below leaving", "n", "m", -3)
    beat(server, "leave to come back without an instance", "n", "m", -2)
    describe(server, "no groups")
    describe(server, "groups that are none", "none", "")
    describe(server, "groups that are none, with operations", "none", operations=True)


def one_member(server: Server) -> None:
    beat(server, "join", "n", "m", 0, "ca")
    beat(server, "join again", "n", "m", 0, "ca")
    beat(server, "nothing new", "n", "m", 2)
    beat(server, "its topics again", "n", "m", 2, "ca")
    beat(server, "an epoch ahead", "n", "m", 8)
    beat(server, "a stranger", "n", "x", 3)
    beat(server, "a stranger leaves", "n", "x", -1)
    beat(server, "an instance that there is not", "n", "m", 2, instance_id="none")
    describe(server, "one member", "n")
    describe(server, "one member, with operations", "n", operations=True)
    for version in server.versions("ListGroups"):
        server.ask("a consumer group", "ListGroups", version, {})
        if version >= 5:
            server.ask("consumer", "ListGroups", version, {"types_filter": ["Consumer"]})
    offsets(server, "n")
    classic(server, "n", "with a member")
    for version in server.versions("DeleteGroups"):
        server.ask("not empty", "DeleteGroups", version, {"groups_names": ["n", "none"]})
    beat(server, "another topic", "n", "m", 2, "cb")
    beat(server, "an epoch long gone", "n", "m", 1)
    beat(server, "gives the other up", "n", "m", 2, topic_partitions=[])
    beat(server, "nothing to give up", "n", "m", 3)
    beat(server, "the epoch before, with what it has not", "n", "m", 2)
    beat(server, "the epoch before, with nothing", "n", "m", 2, topic_partitions=[])
    describe(server, "with another topic", "n")
    beat(server, "leave", "n", "m", -1)
    beat(server, "leave again", "n", "m", -1)
    describe(server, "empty", "n")
    offsets(server, "n")
    for version in server.versions("DescribeGroups"):
        server.ask("an empty consumer group", "DescribeGroups", version, {"groups": ["n"]})
    server.ask("empty", "DeleteGroups", 2, {"groups_names": ["n"]})
    describe(server, "deleted", "n")


def offsets(server: Server, group: str) -> None:
    """Commits and fetches of a member, of strangers and of nobody."""
    committed = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x"}
    for label, member, epoch in (
        ("the member", "m", 2),
        ("the member, too early", "m", 9),
        ("a stranger", "x", 1),
        ("nobody", "", -1),
    ):
        for version in (8, 9):
            body = {
                "group_id": group,
                "generation_id_or_member_epoch": epoch,
                "member_id": member,
                "topics": [{"name": "ca", "partitions": [committed]}],
            }
            server.ask(f"by {label}", "OffsetCommit", version, body)
        one = {
            "group_id": group,
            "member_id": member or None,
            "member_epoch": epoch,
            "topics": [{"name": "ca", "partition_indexes": [0, 1]}],
        }
        server.ask(f"for {label}", "OffsetFetch", 9, {"groups": [one]})
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("ca", "cb")]
    server.ask("of a consumer group", "OffsetDelete", 0, {"group_id": group, "topics": topics})


def classic(server: Server, group: str, state: str) -> None:
    """What the classic protocol says of a consumer group."""
    server.ask(f"consumer group {state}", "SyncGroup", 5, sync_body(group, 1, "x", "x"))
    body = {"group_id": group, "generation_id": 1, "member_id": "x", "group_instance_id": None}
    server.ask(f"consumer group {state}", "Heartbeat", 4, body)
    leaver = {"member_id": "x", "group_instance_id": None}
    server.ask(f"consumer group {state}", "LeaveGroup", 4, {"group_id": group, "members": [leaver]})
    for version in server.versions("DescribeGroups"):
        server.ask(f"consumer group {state}", "DescribeGroups", version, {"groups": [group]})


def static_member(server: Server) -> None:
    beat(server, "static", "st", "m", 0, "ca", instance_id=INSTANCE)
    beat(server, "another of the instance", "st", "o", 0, "ca", instance_id=INSTANCE)
    beat(server, "goes on as another", "st", "o", 2, instance_id=INSTANCE)
    describe(server, "static", "st")
    beat(server, "leaves for a while", "st", "m", -2, instance_id=INSTANCE)
    beat(server, "goes on while it is away", "st", "m", 2, instance_id=INSTANCE)
    describe(server, "static and away", "st")
    beat(server, "back as another", "st", "o", 0, "ca", instance_id=INSTANCE)
    beat(server, "goes on as it was", "st", "m", 2, instance_id=INSTANCE)
    describe(server, "static and back", "st")
    beat(server, "static leaves for good", "st", "o", -1, instance_id=INSTANCE)
    describe(server, "static and gone", "st")


def patterns(server: Server) -> None:
    beat(server, "no topic by name", "p", "m", 0, "missing")
    describe(server, "no topic by name", "p")
    beat(server, "it leaves", "p", "m", -1)


def other_protocols(server: Server) -> None:
    """A classic group with a member of a type that no consumer has, asked of by the APIs of consumer groups."""
    server.quietly("JoinGroup", 3, {**join_body("classic"), "protocol_type": "connect"})
    for epoch in (0, 1, -1):
        beat(server, f"classic group, epoch {epoch}", "classic", "m", epoch, "ca")
    describe(server, "classic group", "classic")


SUBSCRIPTION = b"\0\1\0\0\0\1\0\2cb\xff\xff\xff\xff\0\0\0\0"
"""Of a classic consumer: cb, and nothing that it still has."""

ASSIGNMENT = b"\0\1\0\0\0\1\0\2cb\0\0\0\1\0\0\0\0\xff\xff\xff\xff"


def changing(server: Server) -> None:
    """A classic group that becomes a consumer group, and a classic group again. It reads one partition, which stays
    where it is.
    """
    group = "ch"
    speaks: dict[str, Any] = {"protocols": [{"name": "range", "metadata": SUBSCRIPTION}]}
    first = joined(server, "changing: a classic member", group, 9, **speaks)
    old = first["member_id"]

    def sync(label: str, generation: int, **options: Any) -> None:
        server.ask(f"changing: {label}", "SyncGroup", 5, sync_body(group, generation, old, **options))

    def heartbeat(label: str, member: str, generation: int) -> None:
        body = {
            "group_id": group,
            "generation_id": generation,
            "member_id": member,
            "group_instance_id": None,
        }
        server.ask(f"changing: {label}", "Heartbeat", 4, body)

    def committed(label: str, generation: int) -> None:
        for version in (8, 9):
            body = {
                "group_id": group,
                "generation_id_or_member_epoch": generation,
                "member_id": old,
                "topics": [
                    {
                        "name": "cb",
                        "partitions": [
                            {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
                        ],
                    }
                ],
            }
            server.ask(f"changing: commit {label}", "OffsetCommit", version, body)

    def shown(label: str) -> None:
        describe(server, f"changing: {label}", group)
        server.ask(f"changing: {label}", "ListGroups", 5, {"types_filter": ["consumer", "classic"]})
        server.ask(f"changing: {label}", "DescribeGroups", 6, {"groups": [group]})

    shares = {"assignments": [{"member_id": old, "assignment": ASSIGNMENT}]}
    sync("has its partition", first["generation_id"], **shares)
    beat(server, "changing: not let in", group, "m", 0, "cb", server_assignor="sticky")
    beat(server, "changing: a new member", group, "m", 0, "cb")
    shown("both")
    heartbeat("the old one is told", old, first["generation_id"])
    committed("before it joins again", first["generation_id"])
    sync("before it joins again", first["generation_id"])
    again = joined(server, "changing: joins again", group, 9, member=old, **speaks)
    heartbeat("before it asks for its partitions", old, again["generation_id"])
    sync("another protocol", again["generation_id"], protocol_name="other")
    sync("another type", again["generation_id"], protocol_type="connect")
    sync("another generation", again["generation_id"] + 1)
    sync("it has its partition still", again["generation_id"])
    heartbeat("all is well", old, again["generation_id"])
    heartbeat("another generation", old, again["generation_id"] + 1)
    heartbeat("a stranger", "x", again["generation_id"])
    heartbeat("the new one by the old protocol", "m", again["generation_id"])
    committed("ahead", again["generation_id"] + 1)
    committed("as it is", again["generation_id"])
    other = {"protocols": [{"name": "other", "metadata": SUBSCRIPTION}]}
    server.ask("changing: another protocol", "JoinGroup", 9, join_body(group, "x", **other))
    server.ask(
        "changing: another type", "JoinGroup", 9, join_body(group, "x", protocol_type="connect", **speaks)
    )
    server.ask(
        "changing: an instance that there is not",
        "JoinGroup",
        9,
        join_body(group, "x", group_instance_id="i", **speaks),
    )
    leavers = [{"member_id": "x", "group_instance_id": None}, {"member_id": "", "group_instance_id": "i"}]
    server.ask("changing: strangers leave", "LeaveGroup", 5, {"group_id": group, "members": leavers})
    beat(server, "changing: the new one goes on", group, "m", again["generation_id"])
    beat(server, "changing: the new one leaves", group, "m", -1)
    shown("classic again")
    heartbeat("the old one is told again", old, again["generation_id"])
    beat(server, "changing: the new one is late", group, "m", again["generation_id"])
    last = joined(server, "changing: leads again", group, 9, member=old, **speaks)
    sync("is as it was", last["generation_id"], **shares)
    shown("as it was")
    leaver = {"member_id": old, "group_instance_id": None}
    server.ask("changing: leaves", "LeaveGroup", 5, {"group_id": group, "members": [leaver]})
