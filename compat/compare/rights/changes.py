"""What changes topics, groups and configs, and what configs are told."""

from __future__ import annotations

from typing import Any

from compat.compare.rights.world import World
from compat.compare.scripts.common import UNKNOWN_ID, gone

TOPIC, BROKER, GROUP = 2, 4, 32


def ask(world: World) -> None:
    created(world)
    configs(world)
    grown(world)
    deleted(world)


def created(world: World) -> None:
    for version in world.server.versions("CreateTopics"):
        names = (f"{world.open}-new{version}", f"{world.shut}-new{version}")
        body = {
            "topics": [
                {
                    "name": name,
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [{"name": "retention.ms", "value": "1000"}],
                }
                for name in (*names, world.open, world.shut)
            ],
            "timeout_ms": 30_000,
        }
        for only in (True, False):
            world.ask(f"topics made, {only}", "CreateTopics", {**body, "validate_only": only}, version)
        deleted = {"topic_names": list(names), "timeout_ms": 30_000}
        world.server.quietly("DeleteTopics", 5, deleted)
        for name in names:
            gone(world.server, name)


def configs(world: World) -> None:
    resources = [
        (TOPIC, world.open),
        (TOPIC, world.shut),
        (TOPIC, world.none),
        (GROUP, world.open),
        (GROUP, world.shut),
        (BROKER, str(world.server.node)),
    ]
    keys = {TOPIC: "retention.ms", GROUP: "share.session.timeout.ms", BROKER: "log.retention.ms"}
    values = {TOPIC: "1000", GROUP: "50000", BROKER: "100000000"}
    for kind, name in resources:
        said = {TOPIC: "topic", GROUP: "group", BROKER: "broker"}[kind]
        which = name.rpartition("-")[2] if kind != BROKER else ""
        asked = {"resource_type": kind, "resource_name": name, "configuration_keys": [keys[kind]]}
        body: dict[str, Any] = {
            "resources": [asked],
            "include_synonyms": False,
            "include_documentation": False,
        }
        world.ask(f"configs of a {said}, {which}", "DescribeConfigs", body)
        row = {"name": keys[kind], "value": values[kind]}
        changed = {"resource_type": kind, "resource_name": name, "configs": [{**row, "config_operation": 0}]}
        body = {"resources": [changed], "validate_only": True}
        world.ask(f"configs changed of a {said}, {which}", "IncrementalAlterConfigs", body)
        replaced = {"resource_type": kind, "resource_name": name, "configs": [row]}
        if kind == TOPIC:
            world.ask(
                f"configs replaced of a {said}, {which}",
                "AlterConfigs",
                {"resources": [replaced], "validate_only": True},
            )
    world.ask("resources with configs", "ListConfigResources", {"resource_types": []})


def grown(world: World) -> None:
    names = (world.open, world.shut, world.none)
    topics = [{"name": name, "count": 2, "assignments": None} for name in names]
    body = {"topics": topics, "timeout_ms": 30_000, "validate_only": True}
    world.ask_all("partitions made", "CreatePartitions", body)
    records = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in names]
    world.ask("records deleted", "DeleteRecords", {"topics": records, "timeout_ms": 30_000})


def deleted(world: World) -> None:
    groups = (world.open, world.shut, world.none)
    for group in groups[:2]:
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in groups]
        which = group.rpartition("-")[2]
        world.ask(f"offsets deleted, {which}", "OffsetDelete", {"group_id": group, "topics": topics})
    world.ask_all("groups deleted", "DeleteGroups", {"groups_names": [world.open, world.shut, world.none]})
    names = [f"{world.open}-2", world.shut, world.none]
    world.ask("topics deleted", "DeleteTopics", {"topic_names": names, "timeout_ms": 30_000}, 5)
    ids = [world.id_of(world.shut), UNKNOWN_ID, world.id_of(world.open)]
    asked = [{"topic_id": each, "name": None} for each in ids]
    world.ask("topics deleted by id", "DeleteTopics", {"topics": asked, "timeout_ms": 30_000})
