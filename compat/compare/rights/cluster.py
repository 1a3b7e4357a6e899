"""The cluster: described, its rights, users, quotas, and what tools ask of it."""

from __future__ import annotations

from typing import Any

from compat.compare.rights.world import World
from compat.compare.server import wait_until


def ask(world: World) -> None:
    for operations in (False, True):
        body = {"include_cluster_authorized_operations": operations, "endpoint_type": 1}
        world.ask(f"the cluster, {operations}", "DescribeCluster", body, 1)
    # of the other one Kafka has a marker, too
    log = {"topic": f"{world.open}-2", "partitions": [0]}
    world.ask("log dirs", "DescribeLogDirs", {"topics": [log]})
    rights(world)
    users(world)
    quotas(world)
    tools(world)


def rights(world: World) -> None:
    mine: dict[str, Any] = {
        "resource_type_filter": 2,
        "resource_name_filter": f"{world.user}-row",
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    row = {
        "resource_type": 2,
        "resource_name": f"{world.user}-row",
        "resource_pattern_type": 3,
        "principal": "User:somebody",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    wrong = [
        {**row, "resource_pattern_type": 1},
        {**row, "operation": 1},
        {**row, "permission_type": 1},
        {**row, "resource_name": ""},
        {**row, "principal": "somebody"},
        {**row, "principal": ""},
        {**row, "resource_type": 4},
        {**row, "resource_type": 0},
        {**row, "resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 4},
    ]
    for version in world.server.versions("CreateAcls"):
        for each in (row, *wrong):
            world.ask(f"a row {sorted(each.items())}", "CreateAcls", {"creations": [each]}, version)
        world.ask("several rows", "CreateAcls", {"creations": [row, wrong[0]]}, version)
    for version in world.server.versions("DescribeAcls"):
        world.ask("rows", "DescribeAcls", mine, version)
        for change in (
            {"resource_type_filter": 0},
            {"pattern_type_filter": 0},
            {"operation": 0},
            {"permission_type": 0},
            {"pattern_type_filter": 2},
            {"pattern_type_filter": 4},
            {"resource_name_filter": "not-there"},
            {"principal_filter": "User:somebody"},
        ):
            world.ask(f"rows, {change}", "DescribeAcls", {**mine, **change}, version)
    for version in world.server.versions("DeleteAcls"):
        nothing = {**mine, "resource_name_filter": "not-there"}
        for filters in ([nothing], [mine], [mine, nothing], [{**mine, "operation": 0}]):
            world.ask(f"{len(filters)} filters of rows to go", "DeleteAcls", {"filters": filters}, version)


def users(world: World) -> None:
    world.ask("users", "DescribeUserScramCredentials", {"users": [{"name": f"{world.user}-new"}]})
    deletion = {"deletions": [{"name": f"{world.user}-new", "mechanism": 1}], "upsertions": []}
    world.ask("a user that is not there deleted", "AlterUserScramCredentials", deletion)
    credential = {"mechanism": 1, "iterations": 4096, "salt": b"salt-salt", "salted_password": b"p" * 32}
    wrong = [
        {"name": f"{world.user}-new", **credential},
        {"name": "", **credential},
        {"name": f"{world.user}-few", **credential, "iterations": 100},
        {"name": f"{world.user}-many", **credential, "iterations": 100_000},
        {"name": f"{world.user}-other", **credential, "mechanism": 9},
    ]
    for upsertion in wrong:
        body = {"deletions": [], "upsertions": [upsertion]}
        world.ask(f"a user made, {upsertion['name']}", "AlterUserScramCredentials", body)
    twice = {"deletions": [], "upsertions": [wrong[0], wrong[0]]}
    world.ask("a user made twice", "AlterUserScramCredentials", twice)
    world.ask("users, one there", "DescribeUserScramCredentials", {"users": [{"name": f"{world.user}-new"}]})
    twice = {"users": [{"name": f"{world.user}-new"}, {"name": f"{world.user}-new"}]}
    world.ask("a user twice", "DescribeUserScramCredentials", twice)
    deletion = {"deletions": [{"name": f"{world.user}-new", "mechanism": 1}], "upsertions": []}
    world.ask("a user deleted", "AlterUserScramCredentials", deletion)


def quotas(world: World) -> None:
    entity = [{"entity_type": "user", "entity_name": f"{world.user}-limited"}]
    entry = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}]}
    for only in (True, False):
        body = {"entries": [entry], "validate_only": only}
        answer = world.ask(f"a quota set, {only}", "AlterClientQuotas", body)
    component = {"entity_type": "user", "match_type": 0, "match": f"{world.user}-limited"}
    if not answer["entries"][0]["error_code"]:
        # Kafka's broker hears of it later
        asked = {"components": [component], "strict": False}
        wait_until(lambda: world.server.quietly("DescribeClientQuotas", 1, asked)["entries"])
    world.ask("quotas", "DescribeClientQuotas", {"components": [component], "strict": False})
    removed = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 0.0, "remove": True}]}
    world.ask("a quota removed", "AlterClientQuotas", {"entries": [removed], "validate_only": False})


def tools(world: World) -> None:
    place = [{"topic": world.open, "partitions": [0]}]
    body: dict[str, Any] = {"election_type": 0, "topic_partitions": place, "timeout_ms": 10_000}
    world.ask("an election", "ElectLeaders", body)
    move = [{"name": world.open, "partitions": [{"partition_index": 0, "replicas": [world.server.node]}]}]
    world.ask("a reassignment", "AlterPartitionReassignments", {"topics": move, "timeout_ms": 10_000}, 0)
    world.ask("reassignments", "ListPartitionReassignments", {"topics": None, "timeout_ms": 10_000})
    log = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    world.ask("the quorum", "DescribeQuorum", {"topics": log}, 1)
    world.ask("features", "UpdateFeatures", {"feature_updates": [], "validate_only": True})
    world.ask("client metrics", "GetTelemetrySubscriptions", {})
