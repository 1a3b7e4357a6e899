"""Groups of every kind, and their offsets."""

from __future__ import annotations

from typing import Any

from compat.compare.rights.world import World
from compat.compare.scripts.common import UNKNOWN_ID
from compat.compare.scripts.groups import join_body, sync_body

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"


def ask(world: World) -> None:
    coordinators(world)
    members(world)
    offsets(world)
    told(world)
    newer(world)
    shared(world)


def coordinators(world: World) -> None:
    for kind, said in ((0, "group"), (1, "transaction")):
        for name, which in ((world.open, "open"), (world.shut, "shut"), (world.none, "none")):
            body = {"key": name, "key_type": kind, "coordinator_keys": [name]}
            for version in world.server.versions("FindCoordinator"):
                if version or not kind:
                    world.ask(f"the coordinator of a {said}, {which}", "FindCoordinator", body, version)
    body = {"key_type": 0, "coordinator_keys": [world.open, world.shut], "key": ""}
    world.ask("the coordinators of two", "FindCoordinator", body)


def members(world: World) -> None:
    for name, which in ((f"{world.open}-m", "open"), (f"{world.shut}-m", "shut")):
        for version in world.server.versions("JoinGroup"):
            world.ask(f"join, {which}", "JoinGroup", join_body(name, "unknown-member"), version)
        world.ask(f"sync, {which}", "SyncGroup", sync_body(name, 1, "unknown-member"))
        beat = {
            "group_id": name,
            "generation_id": 1,
            "member_id": "unknown-member",
            "group_instance_id": None,
        }
        world.ask(f"heartbeat, {which}", "Heartbeat", beat)
        leave = {
            "group_id": name,
            "members": [{"member_id": "unknown-member"}],
            "member_id": "unknown-member",
        }
        world.ask(f"leave, {which}", "LeaveGroup", leave)
        world.ask(f"leave, {which}, of before", "LeaveGroup", leave, 0)


def offsets(world: World) -> None:
    place: dict[str, Any] = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    names = (world.open, world.shut, world.none)
    for group, which in ((world.open, "open"), (world.shut, "shut")):
        for version in world.server.versions("OffsetCommit"):
            topics = [{"name": name, "topic_id": world.id_of(name), "partitions": [place]} for name in names]
            body = {
                "group_id": group,
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "group_instance_id": None,
                "retention_time_ms": -1,
                "topics": topics,
            }
            world.ask(f"commit, {which}", "OffsetCommit", body, version)
        for version in world.server.versions("OffsetFetch"):
            asked = [
                {"name": name, "topic_id": world.id_of(name), "partition_indexes": [0]} for name in names
            ]
            body = {
                "group_id": group,
                "topics": [{"name": each, "partition_indexes": [0]} for each in names],
                "groups": [{"group_id": group, "topics": asked, "member_id": None, "member_epoch": -1}],
                "require_stable": False,
            }
            world.ask(f"offsets, {which}", "OffsetFetch", body, version)
            if version >= 2:
                body = {
                    **body,
                    "topics": None,
                    "groups": [{"group_id": group, "topics": None, "member_id": None, "member_epoch": -1}],
                }
                world.ask(f"all offsets, {which}", "OffsetFetch", body, version)
    both = [{"group_id": group, "topics": None} for group in (world.open, world.shut)]
    world.ask("offsets of two", "OffsetFetch", {"groups": both, "require_stable": False}, 8)


def told(world: World) -> None:
    groups = [world.open, world.shut, world.none]
    for version in world.server.versions("DescribeGroups"):
        operations = {"include_authorized_operations": True} if version >= 3 else {}
        world.ask("DescribeGroups", "DescribeGroups", {"groups": groups, **operations}, version)
    world.ask("ListGroups", "ListGroups", {})


def newer(world: World) -> None:
    for group, which in ((f"{world.open}-n", "open"), (f"{world.shut}-n", "shut")):
        for topics, what in (
            ([world.open], "an open topic"),
            ([world.open, world.shut], "a shut topic"),
            ([world.none], "no topic"),
        ):
            body = {
                "group_id": group,
                "member_id": MEMBER,
                "member_epoch": 7,
                "rebalance_timeout_ms": 30_000,
                "subscribed_topic_names": topics,
                "topic_partitions": [],
            }
            world.ask(f"a consumer's heartbeat, {which}, {what}", "ConsumerGroupHeartbeat", body, 0)
    groups = [world.open, world.shut, world.none]
    body = {"group_ids": groups, "include_authorized_operations": True}
    world.ask("ConsumerGroupDescribe", "ConsumerGroupDescribe", body)


def shared(world: World) -> None:
    names = (world.open, world.shut, world.none)
    for group, which in ((f"{world.open}-s", "open"), (f"{world.shut}-s", "shut")):
        for topics, what in (([world.open], "an open topic"), ([world.open, world.shut], "a shut topic")):
            body = {
                "group_id": group,
                "member_id": MEMBER,
                "member_epoch": 7,
                "rack_id": None,
                "subscribed_topic_names": topics,
            }
            world.ask(f"a share consumer's heartbeat, {which}, {what}", "ShareGroupHeartbeat", body)
        topics_asked = [
            {
                "topic_id": world.id_of(name),
                "partitions": [
                    {"partition_index": 0, "partition_max_bytes": 1024, "acknowledgement_batches": []}
                ],
            }
            for name in names
        ]
        fetch = {
            "group_id": group,
            "member_id": MEMBER,
            "share_session_epoch": 0,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1024,
            "max_records": 10,
            "batch_size": 10,
            "topics": topics_asked,
            "forgotten_topics_data": [],
        }
        for what, some in (("", topics_asked[:2]), (", a topic that is none", topics_asked)):
            world.ask(f"ShareFetch, {which}{what}", "ShareFetch", {**fetch, "topics": some}, 1)
        acknowledge = {
            "group_id": group,
            "member_id": MEMBER,
            "share_session_epoch": 1,
            "topics": [
                {
                    "topic_id": world.id_of(world.shut),
                    "partitions": [
                        {
                            "partition_index": 0,
                            "acknowledgement_batches": [
                                {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
                            ],
                        }
                    ],
                }
            ],
        }
        world.ask(f"ShareAcknowledge, {which}", "ShareAcknowledge", acknowledge, 1)
        by_name = [{"topic_name": name, "partitions": [0]} for name in names]
        body = {"groups": [{"group_id": group, "topics": by_name}]}
        world.ask(f"offsets of a share group, {which}", "DescribeShareGroupOffsets", body)
        body = {"groups": [{"group_id": group, "topics": None}]}
        world.ask(f"all offsets of a share group, {which}", "DescribeShareGroupOffsets", body)
        altered = [
            {"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]} for name in names
        ]
        world.ask(
            f"offsets of a share group set, {which}",
            "AlterShareGroupOffsets",
            {"group_id": group, "topics": altered},
        )
        world.ask(
            f"offsets of a share group deleted, {which}",
            "DeleteShareGroupOffsets",
            {"group_id": group, "topics": [{"topic_name": name} for name in names]},
        )
    body = {"group_ids": [world.open, world.shut, world.none], "include_authorized_operations": True}
    world.ask("ShareGroupDescribe", "ShareGroupDescribe", body)
    world.ask("an unknown id shared", "Metadata", {"topics": [{"topic_id": UNKNOWN_ID, "name": None}]}, 12)
