"""Produce: every version, every refusal."""

from __future__ import annotations

import struct
from typing import Any

from compat.compare.scripts.common import (
    BASE,
    GZIP,
    LZ4,
    NO_ID,
    SNAPPY,
    UNKNOWN_ID,
    ZSTD,
    batch,
    create,
    message_set,
    patched,
    produce,
    produce_body,
)
from compat.compare.server import Server

VERSIONS = (3, 7, 9, 12, 13)
"""Where it matters what a version can say: 3, with log start offsets, with record errors, with tags, with ids."""


QUESTIONS = 64


def script(server: Server) -> None:
    create(server, "p", 2)
    create(server, "compacted", cleanup__policy="compact")
    create(server, "small", max__message__bytes="1000")
    create(server, "stamped", message__timestamp__type="LogAppendTime")
    create(server, "bounded", message__timestamp__before__max__ms="1000")
    create(server, "ahead", message__timestamp__after__max__ms="1000")
    create(server, "gzipped", compression__type="gzip")
    create(server, "zstded", compression__type="zstd")
    create(server, "plain", compression__type="uncompressed")
    create(server, "copies", min__insync__replicas="2")
    served = [version for version in server.versions("Produce") if version >= 3]
    for version in served:
        produce(server, "a batch", "p", batch(b"a", b"b"), version=version)
        produce(server, "several partitions, one missing", "p", *[batch(b"a")] * 3, version=version)
        produce(server, "a missing topic", "missing", batch(b"a"), version=version)
        for codec in (GZIP, SNAPPY, LZ4):
            produce(server, f"codec {codec}", "p", batch(b"a" * 100, codec=codec), version=version)
        create(server, f"zstd{version}")
        produce(server, "zstd", f"zstd{version}", batch(b"a" * 100, codec=ZSTD), version=version)
        server.ask("acks 1", "Produce", version, produce_body(server, "p", batch(b"a"), acks=1))
    for version in VERSIONS:
        refused(server, version)
    for version in (3, 9, 13):
        silent(server, version)
    shapes(server)


def refused(server: Server, version: int) -> None:
    """What a batch can have wrong with it."""
    good = batch(b"a", b"b")
    # A partition for each question, so that no answer depends on what was taken before.
    create(server, f"p{version}", QUESTIONS)
    partitions = iter(range(QUESTIONS))

    def ask(label: str, topic: str, *batches: bytes | None, acks: int = -1, **options: Any) -> None:
        partition = 0
        if topic == "p":
            topic, partition = f"p{version}", next(partitions)
        body = produce_body(server, topic, *batches, acks=acks, partition=partition, **options)
        server.ask(label, "Produce", version, body)

    for acks in (2, -2, 100):
        ask(f"acks {acks}", "p", good, acks=acks)
    ask("no records", "p", None)
    ask("empty records", "p", b"")
    ask("a wrong CRC", "p", patched(good, len(good) - 1, b"\x55", keep_crc=True))
    ask("a batch cut short", "p", batch(b"a" * 100)[:-10])
    ask("a header cut short", "p", good[:40])
    ask("ten bytes", "p", good[:10])
    ask("two batches", "p", good + good)
    ask("a batch and rubbish", "p", good + b"\0" * 5)
    ask("magic 0", "p", message_set(0, b"a"))
    ask("magic 1", "p", message_set(1, b"a"))
    ask("magic 1, gzip", "p", message_set(1, b"a", codec=GZIP))
    ask("magic 3", "p", patched(good, 16, b"\3"))
    ask("magic -1", "p", patched(good, 16, b"\xff"))
    ask("an unknown codec", "p", patched(good, 21, struct.pack(">h", 5)))
    ask("codec 7", "p", patched(good, 21, struct.pack(">h", 7)))
    ask("a control batch", "p", patched(good, 21, struct.pack(">h", 0x20)))
    ask("marked as log append time", "p", patched(good, 21, struct.pack(">h", 8)))
    ask("an unknown attribute", "p", patched(good, 21, struct.pack(">h", 0x100)))
    ask("a delete horizon", "p", patched(good, 21, struct.pack(">h", 0x40)))
    ask("a wrong last offset", "p", patched(good, 23, struct.pack(">i", 7)))
    ask("a negative last offset", "p", patched(good, 23, struct.pack(">i", -1)))
    ask("no records inside", "p", patched(good, 57, struct.pack(">i", 0)))
    ask("more records than there are", "p", patched(good, 57, struct.pack(">i", 9)))
    ask("a negative count", "p", patched(good, 57, struct.pack(">i", -1)))
    ask("a length of 0", "p", patched(good, 8, struct.pack(">i", 0), keep_crc=True))
    ask("a length too large", "p", patched(good, 8, struct.pack(">i", 10_000), keep_crc=True))
    ask("a negative length", "p", patched(good, 8, struct.pack(">i", -1), keep_crc=True))
    ask("a base offset of its own", "p", b"\0\0\0\0\0\0\0\x63" + good[8:])
    ask("transactional without a transaction", "p", batch(b"a", producer=(9, 0, 0), transactional=True))
    ask("transactional without a producer", "p", batch(b"a", transactional=True))
    ask("a producer without a sequence", "p", batch(b"a", producer=(9, 0, -1)))
    ask("a producer without an epoch", "p", batch(b"a", producer=(9, -1, 0)))
    ask("keyless on a compacted topic", "compacted", batch(b"a"))
    ask("one of two keyless", "compacted", batch(b"a", b"b"))
    ask("keyed on a compacted topic", "compacted", batch(b"a", key=b"k"))
    ask("a tombstone", "compacted", batch(None, key=b"k"))
    ask("too large", "small", batch(b"x" * 2000))
    ask("just within", "small", batch(b"x" * (1000 - len(batch(b"")) - 2)))
    ask("too large, compressed small", "small", batch(b"x" * 2000, codec=GZIP))
    ask("log append time", "stamped", batch(b"a"))
    ask("log append time, from the future", "stamped", batch(b"a", first=1 << 50))
    ask("log append time, gzip", "stamped", batch(b"a", codec=GZIP))
    ask("from the future", "p", batch(b"a", first=1 << 50))
    ask("too old", "bounded", batch(b"a"))
    ask("too old, the second", "bounded", batch(b"a", b"b", first=1 << 41, step=-(1 << 40)))
    ask("too far ahead", "ahead", batch(b"a", first=1 << 50))
    ask("without a timestamp", "bounded", batch(b"a", first=-1, step=0))
    ask("without a timestamp, unbounded", "p", batch(b"a", first=-1, step=0))
    ask("a negative timestamp", "p", batch(b"a", first=-5, step=0))
    ask("compressed anew", "gzipped", batch(b"a" * 1000))
    ask("compressed already", "gzipped", batch(b"a" * 1000, codec=GZIP))
    ask("compressed otherwise", "zstded", batch(b"a" * 1000, codec=LZ4))
    ask("not compressed any more", "plain", batch(b"a" * 1000, codec=GZIP))
    ask("too few replicas, acks all", "copies", batch(b"a"))
    ask("too few replicas, acks 1", "copies", batch(b"a"), acks=1)
    ask("an illegal topic name", "no/slash", batch(b"a"))
    ask("an empty topic name", "", batch(b"a"))
    ask("with a transactional id", "p", good, transactional_id="t")
    ask("no time", "p", good, timeout=0)
    ask("negative time", "p", good, timeout=-1)
    ends = [{"partition_index": i, "timestamp": -1} for i in range(next(partitions))]
    body = {"replica_id": -1, "topics": [{"name": f"p{version}", "partitions": ends}]}
    server.ask(f"the ends after the refusals of v{version}", "ListOffsets", 7, body)


def silent(server: Server, version: int) -> None:
    """acks=0: no answer, and a refusal closes the connection."""
    asked: tuple[tuple[str, str, bytes | None], ...] = (
        ("a good batch", "p", batch(b"a")),
        ("a missing topic", "missing", batch(b"a")),
        ("a wrong CRC", "p", patched(batch(b"a"), 61, b"\x55", keep_crc=True)),
        ("too large", "small", batch(b"x" * 2000)),
        ("no records", "p", None),
        ("a codec that is none", "p", patched(batch(b"a"), 21, struct.pack(">h", 7))),
        ("with a transactional bit", "p", batch(b"a", producer=(9, 0, 0), transactional=True)),
    )
    for label, topic, data in asked:
        connection = server.connect()
        body = produce_body(server, topic, data, acks=0)
        server.send("", "Produce", version, body, on=connection)
        probe = {"topics": [], "allow_auto_topic_creation": False}
        server.ask(f"after acks=0 with {label}, v{version}", "Metadata", 12, probe, on=connection)
        connection.close()


def shapes(server: Server) -> None:
    """Requests with nothing in them, with a thing twice, by ids that are wrong."""
    good = batch(b"a")
    part = {"index": 0, "records": good}
    for version in VERSIONS:
        for label, asked in (
            ("no topics", []),
            ("no partitions", [{"name": "p", "topic_id": server.topic_ids["p"], "partition_data": []}]),
            (
                "a partition twice",
                [{"name": "p", "topic_id": server.topic_ids["p"], "partition_data": [part, part]}],
            ),
            (
                "a topic twice",
                [{"name": "p", "topic_id": server.topic_ids["p"], "partition_data": [part]}] * 2,
            ),
            (
                "a topic twice, two partitions",
                [
                    {"name": "p", "topic_id": server.topic_ids["p"], "partition_data": [{**part, "index": i}]}
                    for i in (0, 1)
                ],
            ),
            (
                "negative partition",
                [{"name": "p", "topic_id": server.topic_ids["p"], "partition_data": [{**part, "index": -1}]}],
            ),
        ):
            body = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": asked}
            server.ask(label, "Produce", version, body)
    for name, topic_id in (("by an unknown id", UNKNOWN_ID), ("by no id", NO_ID)):
        wrong = produce_body(server, "p", good)
        wrong["topic_data"][0]["topic_id"] = topic_id
        server.ask(name, "Produce", 13, wrong)
    server.ask(
        "an older batch in between", "Produce", 9, produce_body(server, "p", batch(b"a", first=BASE - 5))
    )
