"""Fetch outside sessions: every version, offsets, epochs, sizes, waiting."""

from __future__ import annotations

from compat.compare.scripts.common import (
    LZ4,
    NO_ID,
    UNKNOWN_ID,
    ZSTD,
    batch,
    create,
    fetch,
    fetch_body,
    produce_body,
    store,
    wanted,
)
from compat.compare.server import Server

FORMS = (4, 7, 11, 12, 13, 18)
"""Where it matters what a version can say: the first, sessions, racks, tags, ids, the newest."""


def script(server: Server) -> None:
    create(server, "f", 2)
    create(server, "stamps", message__timestamp__type="LogAppendTime")
    create(server, "packed")
    create(server, "zstds", compression__type="zstd")
    store(server, "f", batch(b"0", b"1", b"2"), batch(b"3", b"4"))
    store(server, "stamps", batch(b"0", b"1"))
    store(server, "packed", batch(b"x" * 500, codec=LZ4), batch(b"x" * 500, codec=ZSTD))
    store(server, "zstds", batch(b"x" * 500, codec=ZSTD))
    ids = server.topic_ids
    for version in server.versions("Fetch"):
        everything = [wanted("f", topic_id=ids["f"]), wanted("f", 1, topic_id=ids["f"])]
        fetch(server, "all", version, everything)
        fetch(server, "read committed", version, everything, isolation_level=1)
        fetch(server, "an isolation level that is none", version, everything, isolation_level=7)
        fetch(server, "log append time", version, [wanted("stamps", topic_id=ids["stamps"])])
        fetch(server, "compressed", version, [wanted("packed", topic_id=ids["packed"])])
        fetch(server, "a topic of zstd", version, [wanted("zstds", topic_id=ids["zstds"])])
        fetch(server, "a missing topic", version, [wanted("missing"), *everything])
        fetch(server, "no id, an empty name", version, [wanted("", topic_id=NO_ID)])
        fetch(server, "no topics", version, [])
    for version in FORMS:
        corners(server, version)
    for version in (4, 11, 18):
        waiting(server, version)


def corners(server: Server, version: int) -> None:
    topic_id = server.topic_ids["f"]

    def ask(label: str, partition: int = 0, offset: int = 0, **options: object) -> None:
        parts = {key: options.pop(key) for key in list(options) if key in _OF_PARTITION}
        fetch(server, label, version, [wanted("f", partition, offset, topic_id=topic_id, **parts)], **options)

    ask("a missing partition", 7)
    ask("a negative partition", -1)
    for offset in (1, 2, 3, 4, 5, 6, 100, -1, -2):
        ask(f"at {offset}", 0, offset)
    ask("at 0 of an empty partition", 1, 0)
    ask("at 1 of an empty partition", 1, 1)
    ask("the epoch", current_leader_epoch=server.names.epoch)
    ask("an epoch to come", current_leader_epoch=1000)
    ask("epoch -2", current_leader_epoch=-2)
    ask("a last fetched epoch", 0, 3, last_fetched_epoch=server.names.epoch)
    ask("a last fetched epoch to come", 0, 3, last_fetched_epoch=1000)
    ask("a log start offset of its own", log_start_offset=3)
    for size in (0, 1, 60, 100, 200, -1):
        ask(f"{size} bytes", max_bytes=size)
        ask(f"{size} bytes of the partition", partition_max_bytes=size)
    both = [wanted("f", topic_id=topic_id), wanted("packed", topic_id=server.topic_ids["packed"])]
    for size in (0, 1, 100, 300):
        fetch(server, f"two topics, {size} bytes", version, both, max_bytes=size)
    ask("as a replica", replica_id=5)
    ask("as a debugging consumer", replica_id=-2)
    ask("a rack", rack_id="somewhere")
    ask("a cluster id", cluster_id="nonsense")
    twice = wanted("f", topic_id=topic_id)
    twice["partitions"] *= 2
    fetch(server, "a partition twice", version, [twice])
    fetch(
        server,
        "a topic twice",
        version,
        [wanted("f", 0, 0, topic_id=topic_id), wanted("f", 0, 3, topic_id=topic_id)],
    )
    fetch(server, "no partitions", version, [{"topic": "f", "topic_id": topic_id, "partitions": []}])
    fetch(server, "an unknown id", version, [wanted("no-such", topic_id=UNKNOWN_ID), *both])


_OF_PARTITION = {
    "current_leader_epoch",
    "last_fetched_epoch",
    "log_start_offset",
    "partition_max_bytes",
}


def waiting(server: Server, version: int) -> None:
    """What there is does not suffice: the answer waits for more, or for its time."""
    topic_id = server.topic_ids["f"]
    at_end = [wanted("f", 1, 0, topic_id=topic_id)]
    fetch(server, "wait, nothing comes", version, at_end, max_wait_ms=100)
    fetch(server, "wait, no bytes wanted", version, at_end, max_wait_ms=100, min_bytes=0)
    fetch(server, "a negative wait", version, at_end, max_wait_ms=-1)
    fetch(server, "negative min bytes", version, at_end, max_wait_ms=100, min_bytes=-1)
    some = [wanted("f", 0, 3, topic_id=topic_id)]
    fetch(server, "more wanted than there is", version, some, max_wait_ms=100, min_bytes=10_000)
    fetch(server, "an error does not wait", version, [wanted("f", 9, topic_id=topic_id)], max_wait_ms=60_000)
    fetch(
        server, "nor does out of range", version, [wanted("f", 1, 9, topic_id=topic_id)], max_wait_ms=60_000
    )
    other = server.connect()
    asked = server.send(
        "woken by a produce",
        "Fetch",
        version,
        fetch_body([wanted("stamps", 0, 100, topic_id=topic_id)]),
        on=other,
    )
    server.answer(asked)
    name = f"woken{version}"
    create(server, name)
    empty = [wanted(name, topic_id=server.topic_ids[name])]
    asked = server.send(
        "woken by a produce", "Fetch", version, fetch_body(empty, max_wait_ms=30_000), on=other
    )
    server.quietly("Produce", 9, produce_body(server, name, batch(b"a")))
    server.answer(asked)
    asked = server.send(
        "woken by the second",
        "Fetch",
        version,
        fetch_body(empty, max_wait_ms=30_000, min_bytes=100),
        on=other,
    )
    server.quietly("Produce", 9, produce_body(server, name, batch(b"b")))
    server.answer(asked)
    other.close()
