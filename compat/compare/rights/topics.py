"""Topics: described, written to, read."""

from __future__ import annotations

from compat.compare.rights.world import World
from compat.compare.scripts.common import NO_ID, UNKNOWN_ID, batch, fetch_body, produce_body, wanted


def ask(world: World) -> None:
    described(world)
    positions(world)
    written(world)
    read(world)


def described(world: World) -> None:
    server = world.server
    names = [world.open, world.shut, world.none, "not/legal"]
    for version in server.versions("Metadata"):
        operations = {"include_topic_authorized_operations": True} if version >= 8 else {}
        if 8 <= version <= 10:
            operations["include_cluster_authorized_operations"] = True
        create = {"allow_auto_topic_creation": False} if version >= 4 else {}
        body = {"topics": [{"name": name, "topic_id": NO_ID} for name in names], **create, **operations}
        if version >= 4:
            world.ask("Metadata by name", "Metadata", body, version)
        if version >= 1:
            world.ask("Metadata of all", "Metadata", {"topics": None, **create, **operations}, version)
    ids = [{"topic_id": world.id_of(name), "name": None} for name in (world.open, world.shut)]
    ids.append({"topic_id": UNKNOWN_ID, "name": None})
    world.ask("Metadata by id", "Metadata", {"topics": ids, "allow_auto_topic_creation": False})
    made = [{"name": name, "topic_id": NO_ID} for name in (f"{world.open}-auto", f"{world.shut}-auto")]
    world.ask_settled(
        "Metadata that makes", "Metadata", {"topics": made, "allow_auto_topic_creation": True}, 12
    )
    asked = {"topics": [{"name": name} for name in names], "response_partition_limit": 100, "cursor": None}
    world.ask("described by partitions", "DescribeTopicPartitions", asked)
    world.ask("all described by partitions", "DescribeTopicPartitions", {**asked, "topics": []})
    world.ask(
        "DescribeProducers",
        "DescribeProducers",
        {"topics": [{"name": name, "partition_indexes": [0, 9]} for name in names]},
    )


def positions(world: World) -> None:
    part = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    topics = [{"name": name, "partitions": [part]} for name in (world.open, world.shut, world.none)]
    body = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    for version in world.server.versions("ListOffsets"):
        said = body if version >= 2 else {key: body[key] for key in ("replica_id", "topics")}
        world.ask("ListOffsets", "ListOffsets", said, version)
    place = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": world.server.names.epoch}
    asked = [{"topic": name, "partitions": [place]} for name in (world.open, world.shut, world.none)]
    world.ask_all("OffsetForLeaderEpoch", "OffsetForLeaderEpoch", {"replica_id": -1, "topics": asked})


def written(world: World) -> None:
    server = world.server
    for version in server.versions("Produce"):
        if version < 3:
            continue
        bodies = [
            produce_body(server, name, batch(b"x"))["topic_data"][0]
            for name in (world.open, world.shut, world.none)
        ]
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": bodies}
        world.ask("Produce", "Produce", body, version)
    for name in (world.open, world.shut):
        world.ask(
            f"Produce to one, {name == world.open}", "Produce", produce_body(server, name, batch(b"y")), 9
        )
        transactional = batch(b"t", producer=(1, 0, 0), transactional=True)
        body = produce_body(server, world.open, transactional, transactional_id=name)
        world.ask(f"Produce in a transaction, {name == world.open}", "Produce", body, 9)
    idempotent = batch(b"i", producer=(2, 0, 0))
    world.ask("Produce, idempotent", "Produce", produce_body(server, world.open, idempotent), 9)


def read(world: World) -> None:
    for version in world.server.versions("Fetch"):
        if version < 4:
            continue
        topics = [wanted(name, topic_id=world.id_of(name)) for name in (world.open, world.shut, world.none)]
        world.ask("Fetch", "Fetch", fetch_body(topics), version)
    world.ask("Fetch of one", "Fetch", fetch_body([wanted(world.shut)]), 12)
    session = world.ask(
        "Fetch, a session begins", "Fetch", fetch_body([wanted(world.open)], session_epoch=0), 12
    )
    if session.get("session_id"):
        more = fetch_body([wanted(world.shut)], session_id=session["session_id"], session_epoch=1)
        world.ask("Fetch, a session grows", "Fetch", more, 12)
