"""Share groups: membership, offsets, a group id used by two protocols, configs of groups."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import batch, create, store
from compat.compare.scripts.groups import join_body, sync_body, warm_up
from compat.compare.server import Answer, Server, wait_until

GROUP = 32
"""The type of resource."""

CONFIGS = [
    "share.assignment.interval.ms",
    "share.auto.offset.reset",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.isolation.level",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.renew.acknowledge.enable",
    "share.session.timeout.ms",
]
"""Those that both have."""


def script(server: Server) -> None:
    server.names.start_again()
    create(server, "sa", 2)
    create(server, "sb")
    store(server, "sb", batch(b"1", b"2", b"3"))
    warm_up(server)
    refused(server)
    configs(server)
    one_member(server)
    offsets(server)
    other_protocols(server)


def beat_body(
    group: str, member: str, epoch: int, *names: str, rack: str | None = None, none: bool = False
) -> dict[str, Any]:
    """A ShareGroupHeartbeat. Without names the subscription is as it was, or with `none` an empty list."""
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rack_id": rack,
        "subscribed_topic_names": [] if none else list(names) or None,
    }


def beat(server: Server, label: str, *args: Any, **options: Any) -> Answer:
    return server.ask(label, "ShareGroupHeartbeat", 1, beat_body(*args, **options))


def settled(server: Server, group: str, member: str, topics: int, *names: str) -> int:
    """Join, and wait until the member has that many topics, not compared; its epoch.

    Kafka's assignment is empty until it has made the state of the topics, and comes with a later heartbeat.
    """
    epoch = 0

    def assigned() -> bool:
        nonlocal epoch
        answer = server.quietly("ShareGroupHeartbeat", 1, beat_body(group, member, epoch, *names))
        if answer["error_code"]:
            return False
        epoch = answer["member_epoch"]
        found = answer["assignment"]
        return found is not None and len(found["topic_partitions"]) == topics

    wait_until(assigned)
    return epoch


def refused(server: Server) -> None:
    beat(server, "no group id", "", "m", 0, "sa")
    beat(server, "a group id of spaces", "  ", "m", 0, "sa")
    beat(server, "no member id", "s", "", 0, "sa")
    beat(server, "an empty rack", "s", "m", 0, "sa", rack="")
    beat(server, "join without topics", "s", "m", 0)
    beat(server, "join with no topic", "s", "m", 0, none=True)
    beat(server, "an epoch below leaving", "s", "m", -2, "sa")
    beat(server, "beat in no group", "s", "m", 1)
    beat(server, "leave no group", "s", "m", -1)
    describe(server, "no groups")
    describe(server, "groups that are none", "none", "")
    describe(server, "groups that are none, with operations", "none", operations=True)


def describe(server: Server, label: str, *groups: str, operations: bool = False) -> None:
    body = {"group_ids": list(groups), "include_authorized_operations": operations}
    server.ask(label, "ShareGroupDescribe", 1, body)


def one_member(server: Server) -> None:
    epoch = settled(server, "s", "m", 1, "sa")
    beat(server, "join again", "s", "m", 0, "sa")
    beat(server, "nothing new", "s", "m", epoch)
    beat(server, "its topics again", "s", "m", epoch, "sa")
    beat(server, "an epoch ahead", "s", "m", epoch + 7)
    beat(server, "an epoch long gone", "s", "m", 1)
    beat(server, "a stranger", "s", "x", 3)
    beat(server, "a stranger leaves", "s", "x", -1)
    describe(server, "one member", "s")
    describe(server, "one member, with operations", "s", operations=True)
    for version in server.versions("ListGroups"):
        server.ask("a share group", "ListGroups", version, {})
        if version >= 4:
            server.ask("stable", "ListGroups", version, {"states_filter": ["Stable"]})
        if version >= 5:
            server.ask("share", "ListGroups", version, {"types_filter": ["share"]})
            server.ask("Share", "ListGroups", version, {"types_filter": ["Share"]})
    classic(server, "with a member")
    for version in server.versions("DeleteGroups"):
        server.ask("not empty", "DeleteGroups", version, {"groups_names": ["s", "none"]})
    alter(server, "not empty", "s", {"sa": {0: 0}})
    drop(server, "not empty", "s", "sa")
    beat(server, "leave", "s", "m", -1)
    beat(server, "leave again", "s", "m", -1)
    beat(server, "beat after leaving", "s", "m", epoch)
    describe(server, "empty", "s")
    classic(server, "empty")


def classic(server: Server, state: str) -> None:
    """What the classic protocol says of the share group "s"."""
    server.ask(f"share group {state}", "JoinGroup", 9, join_body("s"))
    server.ask(f"share group {state}", "JoinGroup", 3, join_body("s"))
    server.ask(f"share group {state}", "SyncGroup", 5, sync_body("s", 1, "m", "m"))
    body = {"group_id": "s", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    server.ask(f"share group {state}", "Heartbeat", 4, body)
    leaver = {"member_id": "m", "group_instance_id": None}
    server.ask(f"share group {state}", "LeaveGroup", 4, {"group_id": "s", "members": [leaver]})
    server.ask(f"share group {state}", "LeaveGroup", 1, {"group_id": "s", "member_id": "m"})
    for version in server.versions("DescribeGroups"):
        server.ask(f"share group {state}", "DescribeGroups", version, {"groups": ["s"]})
    committed = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    for version in (2, 8, 9):
        body = {
            "group_id": "s",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "sa", "partitions": [committed]}],
        }
        server.ask(f"share group {state}", "OffsetCommit", version, body)
    asked = {"name": "sa", "partition_indexes": [0]}
    server.ask(f"share group {state}", "OffsetFetch", 7, {"group_id": "s", "topics": [asked]})
    groups = [{"group_id": "s", "topics": [asked]}]
    server.ask(f"share group {state}", "OffsetFetch", 8, {"groups": groups})
    topics = [{"name": "sa", "partitions": [{"partition_index": 0}]}]
    server.ask(f"share group {state}", "OffsetDelete", 0, {"group_id": "s", "topics": topics})


def positions(server: Server, label: str, group: str, topics: dict[str, list[int]] | None = None) -> None:
    asked = None
    if topics is not None:
        asked = [{"topic_name": name, "partitions": indexes} for name, indexes in topics.items()]
    body = {"groups": [{"group_id": group, "topics": asked}]}
    server.ask_all(label, "DescribeShareGroupOffsets", body)


def alter(server: Server, label: str, group: str, wanted: dict[str, dict[int, int]]) -> None:
    topics = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": index, "start_offset": at} for index, at in offsets.items()],
        }
        for name, offsets in wanted.items()
    ]
    server.ask(label, "AlterShareGroupOffsets", 0, {"group_id": group, "topics": topics})


def drop(server: Server, label: str, group: str, *names: str) -> None:
    body = {"group_id": group, "topics": [{"topic_name": name} for name in names]}
    server.ask(label, "DeleteShareGroupOffsets", 0, body)


def offsets(server: Server) -> None:
    """Of the group "s", which is empty now, and of one that is made by it."""
    positions(server, "of no group", "none")
    positions(server, "of an empty name", "")
    positions(server, "of no topics", "s", {})
    positions(server, "of topics that are none", "s", {"missing": [0, 3]})
    alter(server, "", "", {"sa": {0: 0}})
    alter(server, "makes a group", "made", {"sb": {0: 1}})
    positions(server, "of a group that was made", "made")
    positions(server, "of the topic named", "made", {"sb": [0], "missing": [0]})
    alter(server, "again", "made", {"sb": {0: 3}})
    positions(server, "at the end", "made", {"sb": [0]})
    alter(server, "what is not there", "made", {"sb": {0: 0, 9: 0}, "missing": {0: 0}})
    alter(server, "nothing", "made", {})
    describe(server, "made", "made")
    drop(server, "of no group", "none", "sb")
    drop(server, "of an empty name", "", "sb")
    drop(server, "what is not there", "made", "missing")
    drop(server, "two", "made", "sb", "missing")
    positions(server, "after it was dropped", "made")
    for version in server.versions("DeleteGroups"):
        server.ask("a share group", "DeleteGroups", version, {"groups_names": ["made"]})
        server.quietly(
            "AlterShareGroupOffsets",
            0,
            {
                "group_id": "made",
                "topics": [{"topic_name": "sb", "partitions": [{"partition_index": 0, "start_offset": 0}]}],
            },
        )
    server.ask("two", "DeleteGroups", 2, {"groups_names": ["made", "s", "none"]})
    describe(server, "deleted", "made", "s")


def other_protocols(server: Server) -> None:
    """A classic group asked of by the APIs of share groups."""
    body = {
        "group_id": "classic",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "sa", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    }
    server.quietly("OffsetCommit", 8, body)
    for epoch in (0, 1, -1):
        beat(server, f"classic group, epoch {epoch}", "classic", "m", epoch, "sa")
    describe(server, "classic group", "classic")
    positions(server, "of a classic group", "classic")
    alter(server, "of a classic group", "classic", {"sa": {0: 0}})
    drop(server, "of a classic group", "classic", "sa")
    server.ask("both types", "ListGroups", server.newest("ListGroups"), {})


def configs(server: Server) -> None:
    for version in server.versions("DescribeConfigs"):
        config(server, "a group that there is not", "c", version)
    config(server, "no group", "", 4)
    for label, name, operation, value in (
        ("a value", "share.isolation.level", 0, "read_committed"),
        ("a bad value", "share.isolation.level", 0, "x"),
        ("a number", "share.session.timeout.ms", 0, "46000"),
        ("below the bound", "share.session.timeout.ms", 0, "44999"),
        ("above the bound", "share.session.timeout.ms", 0, "60001"),
        ("no number", "share.session.timeout.ms", 0, "x"),
        ("too few deliveries", "share.delivery.count.limit", 0, "1"),
        ("a duration", "share.auto.offset.reset", 0, "by_duration:PT1H"),
        ("a duration that is none", "share.auto.offset.reset", 0, "by_duration:1h"),
        ("a negative duration", "share.auto.offset.reset", 0, "by_duration:-PT1H"),
        ("no duration", "share.auto.offset.reset", 0, "by_duration"),
        ("another strategy", "share.auto.offset.reset", 0, "none"),
        ("no boolean", "share.renew.acknowledge.enable", 0, "maybe"),
        ("null", "share.isolation.level", 0, None),
        ("append", "share.isolation.level", 2, "x"),
        ("a name that is none", "share.nothing", 0, "1"),
        ("back to the default", "share.session.timeout.ms", 1, None),
    ):
        set_config(server, label, "c", (name, operation, value))
    set_config(server, "one twice", "c", *[("share.isolation.level", 0, "read_committed")] * 2)
    set_config(server, "of no group", "", ("share.isolation.level", 0, "read_committed"))
    config(server, "what was altered", "c", 4)
    listed = {"resource_types": [GROUP]}
    server.ask("groups", "ListConfigResources", 1, listed)
    given = [{"name": "share.isolation.level", "value": "read_committed"}]
    resource = {"resource_type": GROUP, "resource_name": "c", "configs": given}
    server.ask("the old way", "AlterConfigs", 2, {"resources": [resource]})
    config(server, "what was replaced", "c", 4)
    server.ask(
        "the old way, of no group", "AlterConfigs", 2, {"resources": [{**resource, "resource_name": ""}]}
    )


def config(server: Server, label: str, group: str, version: int) -> None:
    resource = {"resource_type": GROUP, "resource_name": group, "configuration_keys": CONFIGS}
    body = {"resources": [resource], "include_synonyms": True, "include_documentation": False}
    server.ask(label, "DescribeConfigs", version, body)


def set_config(server: Server, label: str, group: str, *changes: tuple[str, int, str | None]) -> None:
    configs = [
        {"name": name, "config_operation": operation, "value": value} for name, operation, value in changes
    ]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    server.ask(f"set {label}", "IncrementalAlterConfigs", 1, {"resources": [resource]})
