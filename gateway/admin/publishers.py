"""Producers as Pulsar's stats show them: connections that have published to a partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gateway.admin.exchange import iso

if TYPE_CHECKING:
    from gateway.broker.partition import Partition

Stats = dict[str, Any]


def of(partition: Partition, now: int) -> list[Stats]:
    """Those of a partition, the oldest first; `now` in ms since 1970. Rates are over the time that each is there."""
    found: list[Stats] = []
    for each in partition.publishers.values():
        seconds = max(now - each.since, 1) / 1000
        peer = each.peer
        found.append(
            {
                "producerName": peer.client_id,
                "producerId": peer.connection,
                "address": peer.host,
                "connectedSince": iso(each.since),
                "clientVersion": peer.software,
                "msgRateIn": each.records / seconds,
                "msgThroughputIn": each.bytes / seconds,
                "averageMsgSize": each.bytes / each.records if each.records else 0.0,
            }
        )
    return found


def merged(partitions: Iterable[list[Stats]]) -> list[Stats]:
    """Those of a topic: a connection comes once, with the sums over its partitions."""
    found: dict[int, Stats] = {}
    for each in partitions:
        for one in each:
            known = found.get(one["producerId"])
            if known is None:
                found[one["producerId"]] = dict(one)
                continue
            for key in ("msgRateIn", "msgThroughputIn"):
                known[key] += one[key]
            known["connectedSince"] = min(known["connectedSince"], one["connectedSince"])
            rate = known["msgRateIn"]
            known["averageMsgSize"] = known["msgThroughputIn"] / rate if rate else 0.0
    return list(found.values())
