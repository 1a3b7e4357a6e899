"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import NO_ID, UNKNOWN_ID, create
from compat.compare.scripts.groups import joined, sync_body, warm_up
from compat.compare.server import Server


def script(server: Server) -> None:
    create(server, "k", 3)
    create(server, "k2")
    warm_up(server)
    for version in server.versions("OffsetCommit"):
        committing(server, version)
    for version in server.versions("OffsetFetch"):
        reading(server, version)
    for version in server.versions("OffsetDelete"):
        deleting(server, version)


def row(server: Server, name: str, *partitions: dict[str, Any], by: Any = None) -> dict[str, Any]:
    """A topic of an OffsetCommit."""
    filled = [
        {"committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": None, **each}
        for each in partitions
    ]
    return {
        "name": name,
        "topic_id": server.topic_ids.get(name, UNKNOWN_ID) if by is None else by,
        "partitions": filled,
    }


def committing(server: Server, version: int) -> None:
    server.names.start_again()
    group = f"commit{version}"
    simple = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time_ms": -1,
    }

    def ask(label: str, *topics: dict[str, Any], **change: Any) -> None:
        server.ask(label, "OffsetCommit", version, {**simple, "topics": list(topics), **change})

    def k(**options: Any) -> dict[str, Any]:
        return row(server, "k", {"partition_index": 0, **options})

    ask("without members", k())
    ask(
        "two topics",
        row(server, "k", {"partition_index": 0}, {"partition_index": 2}),
        row(server, "k2", {"partition_index": 0}),
    )
    ask("a missing topic", row(server, "missing", {"partition_index": 0}), k())
    ask("a missing partition", k(partition_index=9))
    ask("a negative partition", k(partition_index=-1))
    ask("metadata", k(committed_metadata="hello"))
    ask("empty metadata", k(committed_metadata=""))
    ask("metadata too long", k(committed_metadata="x" * 4097))
    ask("metadata just within", k(committed_metadata="x" * 4096))
    ask("metadata too long, in bytes only", k(committed_metadata="ü" * 4000))
    ask("a negative offset", k(committed_offset=-1))
    ask("offset -5", k(committed_offset=-5))
    ask("an epoch", k(committed_leader_epoch=7))
    ask(
        "a partition twice",
        row(server, "k", {"partition_index": 0}, {"partition_index": 0, "committed_offset": 6}),
    )
    ask("a topic twice", k(), k(committed_offset=9))
    ask("no topics")
    ask("no partitions", row(server, "k"))
    ask("no group", k(), group_id="")
    ask(
        "a generation without a group",
        k(),
        group_id="missing",
        generation_id_or_member_epoch=3,
        member_id="nobody",
    )
    ask("a member without a group", k(), group_id="missing", member_id="nobody")
    ask("generation 0 without a group", k(), group_id="missing", generation_id_or_member_epoch=0)
    ask("a generation of an empty group", k(), generation_id_or_member_epoch=3, member_id="nobody")
    if version >= 10:
        ask("by an unknown id", row(server, "k", {"partition_index": 0}, by=UNKNOWN_ID))
        ask("by no id", row(server, "k", {"partition_index": 0}, by=NO_ID))
    answer = joined(server, f"a member (commit v{version})", group, 9)
    member, generation = answer["member_id"], answer["generation_id"]
    mine = {"generation_id_or_member_epoch": generation, "member_id": member}
    ask("before the sync", k(), **mine)
    server.quietly("SyncGroup", 5, sync_body(group, generation, member, member))
    ask("of the member", k(committed_offset=7), **mine)
    ask("without members while there are", k())
    ask("another generation", k(), generation_id_or_member_epoch=generation + 1, member_id=member)
    ask("generation -1 of the member", k(), generation_id_or_member_epoch=-1, member_id=member)
    ask("an unknown member", k(), generation_id_or_member_epoch=generation, member_id="nobody")
    ask("no member", k(), generation_id_or_member_epoch=generation, member_id="")
    if version >= 7:
        ask("an unknown instance", k(), **mine, group_instance_id="nobody")
    if version >= 8:
        # tagged fields of nobody's
        body = {**simple, **mine, "topics": [k()]}
        server.ask("an unknown tag", "OffsetCommit", version, body, tags=b"\x01\x63\x02hi")
    last = min(8, server.newest("OffsetFetch"))
    server.ask(
        f"what it committed (v{version})",
        "OffsetFetch",
        last,
        {"groups": [{"group_id": group, "topics": None}]},
    )


def reading(server: Server, version: int) -> None:
    server.names.start_again()
    group = f"read{version}"
    topics = [
        row(server, "k", {"partition_index": 1, "committed_metadata": "note", "committed_leader_epoch": 3})
    ]
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    server.quietly("OffsetCommit", 8, body)

    def ask(
        label: str, *names: tuple[str, list[int]], group: str = group, everything: bool = False, **more: Any
    ) -> None:
        rows: list[dict[str, Any]] | None = None
        if not everything:
            rows = [{"name": name, "partition_indexes": indexes} for name, indexes in names]
            if version >= 8:
                rows = [{**each, "topic_id": server.topic_ids.get(each["name"], UNKNOWN_ID)} for each in rows]
        if version < 8:
            server.ask(label, "OffsetFetch", version, {"group_id": group, "topics": rows, **more})
        else:
            one = {"group_id": group, "topics": rows, **more}
            stable = {"require_stable": one.pop("require_stable")} if "require_stable" in one else {}
            server.ask(label, "OffsetFetch", version, {"groups": [one], **stable})

    ask("committed and not", ("k", [0, 1, 9]), ("k2", [0]))
    ask("a missing topic", ("missing", [0]))
    ask("a missing group", ("k", [0]), group="missing")
    ask("a missing group and topic", ("missing", [0, 1]), group="missing")
    ask("no group", ("k", [0]), group="")
    ask("no topics")
    ask("no partitions", ("k", []))
    ask("a partition twice", ("k", [1, 1]))
    ask("a topic twice", ("k", [1]), ("k", [0]))
    if version >= 2:
        ask("everything", everything=True)
        ask("everything of a missing group", everything=True, group="missing")
    if version >= 7:
        ask("only what is stable", ("k", [1]), require_stable=True)
    if version >= 8:
        two = [{"group_id": each, "topics": None} for each in (group, "missing", "")]
        server.ask("three groups", "OffsetFetch", version, {"groups": two})
        server.ask("no groups", "OffsetFetch", version, {"groups": []})
        server.ask("one twice", "OffsetFetch", version, {"groups": [{"group_id": group, "topics": None}] * 2})
    if version >= 9:
        ask("as a member", ("k", [1]), member_id="nobody", member_epoch=1)
        ask("as a member of a missing group", ("k", [1]), group="missing", member_id="nobody", member_epoch=1)
        ask("as no member with an epoch", ("k", [1]), member_id="", member_epoch=1)
        ask("as null with an epoch", ("k", [1]), member_id=None, member_epoch=1)


def deleting(server: Server, version: int) -> None:
    server.names.start_again()
    group = "offsets"

    def ask(label: str, *topics: tuple[str, list[int]], name: str = group) -> None:
        rows = [
            {"name": each, "partitions": [{"partition_index": i} for i in indexes]}
            for each, indexes in topics
        ]
        server.ask(label, "OffsetDelete", version, {"group_id": name, "topics": rows})

    ask("a missing group", ("k", [0]), name="missing")
    ask("no group", ("k", [0]), name="")
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    topics = [
        row(server, "k", {"partition_index": 0}, {"partition_index": 1}),
        row(server, "k2", {"partition_index": 0}),
    ]
    server.quietly("OffsetCommit", 8, {**body, "topics": topics})
    ask("one of two", ("k", [0]))
    ask("again", ("k", [0]))
    ask("a missing partition", ("k", [9]))
    ask("a missing topic", ("missing", [0]))
    ask("no topics")
    answer = joined(server, "a member of other topics", group, 9)
    server.quietly("SyncGroup", 5, sync_body(group, answer["generation_id"], answer["member_id"]))
    ask("of a group with a member", ("k", [1]), ("k2", [0]))
    told = b"\0\0\0\0\0\1\0\1k\0\0\0\0"
    options: dict[str, Any] = {"protocols": [{"name": "range", "metadata": told}]}
    answer = joined(server, "a member of this topic", "subscribed", 9, **options)
    server.quietly("SyncGroup", 5, sync_body("subscribed", answer["generation_id"], answer["member_id"]))
    mine = {
        "group_id": "subscribed",
        "generation_id_or_member_epoch": answer["generation_id"],
        "member_id": answer["member_id"],
    }
    server.quietly("OffsetCommit", 8, {**mine, "topics": topics})
    ask("of a topic that is subscribed, and of one that is not", ("k", [0]), ("k2", [0]), name="subscribed")
