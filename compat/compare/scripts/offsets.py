"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from compat.compare.scripts.common import BASE, GZIP, batch, create, store
from compat.compare.server import Server


def script(server: Server) -> None:
    create(server, "o", 2)
    create(server, "trimmed")
    store(
        server,
        "o",
        batch(b"a", b"b", b"c", step=10),
        batch(b"d", b"e", first=BASE + 15, step=-5, codec=GZIP),
        batch(b"f", b"g", first=BASE + 20, step=0),
    )
    store(server, "trimmed", batch(b"a", b"b", b"c", step=10))
    trim = {"name": "trimmed", "partitions": [{"partition_index": 0, "offset": 2}]}
    server.quietly("DeleteRecords", 2, {"topics": [trim], "timeout_ms": 30_000})
    for version in server.versions("ListOffsets"):
        listed(server, version)
    for version in server.versions("OffsetForLeaderEpoch"):
        epochs(server, version)


def listed(server: Server, version: int) -> None:
    def ask(
        label: str,
        *asked: tuple[int, int],
        topic: str = "o",
        epoch: int = -1,
        isolation: int = 0,
        replica: int = -1,
    ) -> None:
        parts = [{"partition_index": i, "timestamp": t, "current_leader_epoch": epoch} for i, t in asked]
        body = {
            "replica_id": replica,
            "isolation_level": isolation,
            "topics": [{"name": topic, "partitions": parts}],
            "timeout_ms": 1000,
        }
        server.ask(label, "ListOffsets", version, body)

    for special in range(-1, -9, -1):
        ask(f"timestamp {special}", (0, special))
        ask(f"timestamp {special}, empty", (1, special))
        ask(f"timestamp {special}, committed", (0, special), isolation=1)
        ask(f"timestamp {special}, trimmed", (0, special), topic="trimmed")
    for delta in (-1, 0, 1, 10, 11, 15, 16, 20, 21):
        ask(f"at {delta}", (0, BASE + delta))
        ask(f"at {delta}, trimmed", (0, BASE + delta), topic="trimmed")
    ask("at 0", (0, 0))
    ask("at the end of time", (0, 2**63 - 1))
    ask("a missing partition", (7, -1))
    ask("a negative partition", (-1, -1))
    ask("a missing topic", (0, -1), topic="missing")
    ask("an illegal topic", (0, -1), topic="no/slash")
    ask("an empty topic name", (0, -1), topic="")
    ask("a partition twice", (0, -1), (0, -2), (1, -1))
    ask("an epoch to come", (0, -1), epoch=1000)
    ask("the epoch", (0, -1), epoch=server.names.epoch)
    ask("as a replica", (0, -1), replica=5)
    ask("as a debugging consumer", (0, -1), replica=-2)
    ask("an isolation level that is none", (0, -1), isolation=5)
    ask("no partitions")
    body = {"replica_id": -1, "topics": [], "isolation_level": 0}
    server.ask("no topics", "ListOffsets", version, body)
    part = {"partition_index": 0, "timestamp": -1}
    body["topics"] = [
        {"name": "o", "partitions": [part]},
        {"name": "o", "partitions": [{**part, "timestamp": -2}]},
    ]
    server.ask("a topic twice", "ListOffsets", version, body)


def epochs(server: Server, version: int) -> None:
    now = server.names.epoch

    def ask(label: str, *asked: tuple[int, int, int], topic: str = "o", replica: int = -1) -> None:
        parts = [{"partition": i, "current_leader_epoch": c, "leader_epoch": e} for i, c, e in asked]
        body = {"replica_id": replica, "topics": [{"topic": topic, "partitions": parts}]}
        server.ask(label, "OffsetForLeaderEpoch", version, body)

    ask("this epoch", (0, -1, now))
    ask("this epoch of an empty partition", (1, -1, now))
    ask("this epoch, and it is current", (0, now, now))
    ask("epoch to come", (0, -1, 1000))
    ask("epoch -1", (0, -1, -1))
    ask("epoch -2", (0, -1, -2))
    ask("current epoch to come", (0, 1000, 0))
    ask("missing partition", (7, -1, 0))
    ask("missing topic", (0, -1, 0), topic="missing")
    ask("no partitions")
    ask("a partition twice", (0, -1, now), (0, -1, 1000))
    ask("of a trimmed topic", (0, -1, now), topic="trimmed")
    ask("as a replica", (0, -1, now), replica=5)
    server.ask("no topics", "OffsetForLeaderEpoch", version, {"replica_id": -1, "topics": []})
