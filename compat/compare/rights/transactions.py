"""Producer ids and transactions."""

from __future__ import annotations

from typing import Any

from compat.compare.rights.world import World


def ask(world: World) -> None:
    for name, which in ((None, "of none"), (f"{world.open}-x", "open"), (f"{world.shut}-x", "shut")):
        for version in world.server.versions("InitProducerId"):
            body: dict[str, Any] = {"transactional_id": name, "transaction_timeout_ms": 60_000}
            if version >= 3:
                body |= {"producer_id": -1, "producer_epoch": -1}
            world.ask(f"a producer id, {which}", "InitProducerId", body, version)
    for name, which in ((world.open, "open"), (world.shut, "shut")):
        # a producer that nobody has: who gets so far is refused for that
        who = {"transactional_id": name, "producer_id": 77, "producer_epoch": 0}
        old = {f"v3_and_below_{key}": value for key, value in who.items()}
        topics = [{"name": topic, "partitions": [0]} for topic in (world.open, world.shut, world.none)]
        added = {**old, "v3_and_below_topics": topics, "transactions": []}
        world.ask(f"partitions added, {which}", "AddPartitionsToTxn", added, 3)
        one = {**old, "v3_and_below_topics": topics[:1], "transactions": []}
        world.ask(f"an open partition added, {which}", "AddPartitionsToTxn", one, 3)
        brokers = [{**who, "verify_only": True, "topics": topics}]
        world.ask(f"partitions verified, {which}", "AddPartitionsToTxn", {"transactions": brokers}, 4)
        for group, kind in ((world.open, "open"), (world.shut, "shut")):
            world.ask(f"offsets added, {which}, {kind}", "AddOffsetsToTxn", {**who, "group_id": group})
            place = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
            committed = {
                **who,
                "group_id": group,
                "generation_id": -1,
                "member_id": "",
                "group_instance_id": None,
                "topics": [
                    {"name": topic, "partitions": [{**place, "committed_metadata": ""}]}
                    for topic in (world.open, world.shut, world.none)
                ],
            }
            world.ask(f"offsets in a transaction, {which}, {kind}", "TxnOffsetCommit", committed, 3)
        world.ask(f"an end, {which}", "EndTxn", {**who, "committed": True}, 3)
    ids = [world.open, world.shut, world.none]
    world.ask("transactions described", "DescribeTransactions", {"transactional_ids": ids})
    world.ask("transactions", "ListTransactions", {"state_filters": [], "producer_id_filters": []})
    markers = {
        "markers": [
            {
                "producer_id": 77,
                "producer_epoch": 0,
                "transaction_result": True,
                "topics": [{"name": world.open, "partition_indexes": [0]}],
                "coordinator_epoch": 0,
            }
        ]
    }
    world.ask("markers", "WriteTxnMarkers", markers)
