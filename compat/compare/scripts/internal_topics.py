"""`__consumer_offsets` and `__transaction_state`: who may do what to them, and the records that are read there.

Of each key the last record is compared, as of a topic that was compacted: how many came before it is a server's affair.
"""

from __future__ import annotations

import re
import time
from typing import Any

from kafka.record import MemoryRecords

from compat.compare.scripts.common import BASE, batch, create, produce_body, ready
from compat.compare.scripts.groups import join_body, sync_body
from compat.compare.scripts.transactions import Producer
from compat.compare.server import Server, wait_until

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
MEMBER = re.compile(rb"compare-[0-9a-f-]{36}")
_HOUR = 3_600_000


def script(server: Server) -> None:
    create(server, "it", 2)
    for kind, key in ((0, "it-group"), (1, "it-tx")):
        find = {"key_type": kind, "coordinator_keys": [key]}
        wait_until(lambda: server.quietly("FindCoordinator", 4, find)["coordinators"][0]["error_code"] == 0)  # noqa: B023
    for name in (OFFSETS, TRANSACTIONS):
        ready(server, name)
    body = {
        "transactional_id": "it-tx",
        "transaction_timeout_ms": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    wait_until(lambda: server.quietly("InitProducerId", 4, body)["error_code"] == 0)
    listed(server)
    refusals(server)
    offsets(server)
    transactions(server)


def listed(server: Server) -> None:
    for name in (OFFSETS, TRANSACTIONS):
        for version in server.versions("Metadata"):
            body: dict[str, Any] = {"topics": [{"name": name}]}
            server.ask(f"metadata of {name}", "Metadata", version, body)
        server.ask(
            f"{name} described",
            "DescribeTopicPartitions",
            0,
            {"topics": [{"name": name}], "response_partition_limit": 2_000, "cursor": None},
        )
        server.ask(
            f"configs of {name}",
            "DescribeConfigs",
            4,
            {
                "resources": [
                    {"resource_type": 2, "resource_name": name, "configuration_keys": ["cleanup.policy"]}
                ],
                "include_synonyms": False,
                "include_documentation": False,
            },
        )


def refusals(server: Server) -> None:
    tx = Producer(server, "it-tx")
    tx.init("the refused begins")
    for name in (OFFSETS, TRANSACTIONS):
        data = batch(b"v")
        for version in (v for v in server.versions("Produce") if 3 <= v <= 12):
            server.ask(f"a batch for {name}", "Produce", version, produce_body(server, name, data))
        places = [{"partition_index": 0, "offset": 0}, {"partition_index": 9, "offset": 0}]
        trimmed = {"topics": [{"name": name, "partitions": places}], "timeout_ms": 10_000}
        server.ask_all(f"records of {name} deleted", "DeleteRecords", trimmed)
        made = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        body = {"topics": [made], "timeout_ms": 10_000, "validate_only": True}
        server.ask_all(f"{name} made", "CreateTopics", body)
        tx.add(f"{name} in a transaction", 0, topic=name)
    tx.add("a topic and an internal one in a transaction", 0, topic="it")
    collides = {"name": "__consumer.offsets", "num_partitions": 1, "replication_factor": 1}
    server.ask(
        "a name that differs in a dot",
        "CreateTopics",
        7,
        {
            "topics": [{**collides, "assignments": [], "configs": []}],
            "timeout_ms": 10_000,
            "validate_only": True,
        },
    )
    asked = {"name": OFFSETS, "count": 60, "assignments": None}
    body = {"topics": [asked], "timeout_ms": 10_000, "validate_only": True}
    server.ask(f"{OFFSETS} grown", "CreatePartitions", 3, body)
    change = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
    resource = {"resource_type": 2, "resource_name": OFFSETS, "configs": [change]}
    altered = {"resources": [resource], "validate_only": True}
    server.ask(f"configs of {OFFSETS} altered", "IncrementalAlterConfigs", 1, altered)


def offsets(server: Server) -> None:
    def commit(group: str, topic: str, index: int, offset: int, version: int = 8, **more: Any) -> None:
        place = {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "said",
        }
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": topic, "partitions": [place]}],
            **more,
        }
        server.ask(f"{group} commits {offset} in {topic}", "OffsetCommit", version, body)

    records(server, OFFSETS, b"it-", "before")
    commit("it-a", "it", 0, 1)
    commit("it-a", "it", 0, 2)
    commit("it-b", "it", 1, 3)
    commit("it-b", OFFSETS, 0, 4)
    commit("it-c", "it", 1, 5, version=2, retention_time_ms=-1)
    records(server, OFFSETS, b"it-", "committed")
    member = server.quietly("JoinGroup", 4, join_body("it-m"))["member_id"]
    joined = server.quietly("JoinGroup", 4, join_body("it-m", member=member, member_id=member))
    server.quietly("SyncGroup", 3, sync_body("it-m", joined["generation_id"], member, member))
    records(server, OFFSETS, b"it-m", "a member")
    server.quietly("LeaveGroup", 1, {"group_id": "it-m", "member_id": member})
    records(server, OFFSETS, b"it-m", "a member left")
    server.quietly("DeleteGroups", 2, {"groups_names": ["it-a"]})
    records(server, OFFSETS, b"it-", "a group deleted")


def transactions(server: Server) -> None:
    for new in (False, True):
        name = f"it-{'new' if new else 'old'}"
        tx = Producer(server, name, new=new)
        tx.init(f"{name} begins")
        records(server, TRANSACTIONS, name.encode(), f"{name} has begun")
        if not new:
            tx.add(f"{name}: partitions", 0, topic="it")
        data = batch(b"v", producer=(tx.id, tx.epoch, 0), transactional=True)
        body = produce_body(server, "it", data, transactional_id=name)
        server.quietly("Produce", 12 if new else 10, body)
        records(server, TRANSACTIONS, name.encode(), f"{name} is open")
        tx.end(f"{name} commits", True)
        records(server, TRANSACTIONS, name.encode(), f"{name} is over")


def records(server: Server, topic: str, within: bytes, label: str) -> None:
    """Keep the last record of each key that has these bytes, in the order of the keys."""
    start = server.quietly(
        "ListOffsets",
        7,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": topic, "partitions": [_place(timestamp=-2)]}],
        },
    )["topics"][0]["partitions"][0]["offset"]
    last: dict[bytes, bytes | None] = {}
    while True:
        asked = _place(
            fetch_offset=start, last_fetched_epoch=-1, log_start_offset=-1, partition_max_bytes=1 << 20
        )
        asked["partition"] = asked.pop("partition_index")
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [asked]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        told = server.quietly("Fetch", 11, body)["responses"][0]["partitions"][0]
        data = MemoryRecords(bytes(told["records"] or b""))
        before = start
        while (found := data.next_batch()) is not None:
            for record in found:
                start = record.offset + 1
                if within in record.key:
                    last[record.key] = record.value
        if start == before:
            break
    kept = {
        _named(server, key): _named(server, _of_transaction(value) if topic == TRANSACTIONS else value)
        for key, value in last.items()
        if value is not None
    }
    server.keep(f"{topic}: {label}", "records", repr(sorted(kept.items())))


def _of_transaction(value: bytes) -> bytes:
    """Without the producer id, and without the tags: the id before, and which protocol the client speaks."""
    position = 17
    topics = value[position] - 1
    position += 1
    for _ in range(topics):
        position += value[position]
        position += 1 + 4 * (value[position] - 1) + 1
    return value[:2] + value[10 : position + 16]


def _place(**more: Any) -> dict[str, Any]:
    return {"partition_index": 0, "current_leader_epoch": -1, **more}


def _named(server: Server, data: bytes) -> bytes:
    """The bytes with names for what a server chose: times, members, topic and producer ids."""
    data = MEMBER.sub(b"<member>", data)
    for name, topic_id in server.topic_ids.items():
        data = data.replace(topic_id.bytes, b"<id of %s>" % name.encode())
    out, position, now = bytearray(), 0, time.time() * 1000
    while position < len(data):
        number = int.from_bytes(data[position : position + 8], "big", signed=True)
        if abs(number - now) < _HOUR and number > BASE:
            out += b"<now>"
            position += 8
        else:
            out.append(data[position])
            position += 1
    return bytes(out)
