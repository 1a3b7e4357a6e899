"""Records of 64 MB, whole: through a consumer, a share group and Spark. And an archive of many large ones."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message

from compat.spark.feed import Feed, Record, topic_name
from compat.spark.jars import PROJECT
from compat.spark.roundtrip import environment
from compat.spark.session import SHORT_JOB
from tests.integration.sharing import make_group, member

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]

MB = 1 << 20
SIZE = 64 * MB
# The recipe of docs/OPERATIONS.md, "Large records": the topic and the producer are told, consumers need not be.
LIMIT = SIZE + MB


def large(feed: Feed, stem: str) -> tuple[str, list[bytes]]:
    """A topic with a record of 64 MB that does not compress and a small one behind it, and their digests."""
    topic = feed.create(topic_name(stem), max_message_bytes=str(LIMIT))
    values = [os.urandom(SIZE), b"behind it"]
    feed.produce(topic, [Record(b"k", value) for value in values], message_max_bytes=str(LIMIT))
    return topic, [hashlib.md5(value).digest() for value in values]


def digest(message: Message) -> bytes:
    assert message.error() is None, message.error()
    return hashlib.md5(message.value() or b"").digest()


def test_64_mb_come_whole_to_a_consumer_a_share_group_and_spark(spark: SparkSession, feed: Feed) -> None:
    topic, wanted = large(feed, "large")

    consumer = Consumer(
        {"bootstrap.servers": feed.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    consumed: list[bytes] = []
    feed.wait(lambda: collect(consumed, consumer.consume(1, 0.5), wanted), "both by a consumer", 60)
    consumer.close()

    sharer = member(feed.bootstrap, make_group(feed.bootstrap, f"{topic}-shared"), topic)
    shared: list[bytes] = []

    def share() -> bool:
        messages = sharer.poll(0.5)
        for message in messages:
            sharer.acknowledge(message, AcknowledgeType.ACCEPT)
        sharer.commit_sync()
        return collect(shared, messages, wanted)

    feed.wait(share, "both by a share group", 60)
    sharer.close()

    rows = (
        spark.read.format("kafka")
        .options(**{"kafka.bootstrap.servers": feed.bootstrap, "subscribe": topic})
        .load()
        .selectExpr("offset", "length(value) AS size", "unhex(md5(value)) AS digest")
        .sort("offset")
        .collect()
    )

    assert consumed == wanted
    assert sorted(shared) == sorted(wanted)
    assert [row["size"] for row in rows] == [SIZE, len(b"behind it")]
    assert [bytes(row["digest"]) for row in rows] == wanted


def collect(found: list[bytes], messages: list[Message], wanted: list[bytes]) -> bool:
    found += [digest(message) for message in messages]
    return len(found) >= len(wanted)


def test_large_records_are_archived_with_the_heap_that_spark_has_by_default(
    feed: Feed, tmp_path: Path
) -> None:
    # 840 MB that come as a few KB: one fetch brings many, one poll would unpack them all, and Parquet would take a
    # hundred before it looks at its memory
    topic, output = (
        feed.create(topic_name("large-kept"), max_message_bytes=str(9 * MB)),
        tmp_path / "archive",
    )
    values = [b"%05d" % n * (SIZE // 40) for n in range(105)]
    feed.produce(topic, [Record(None, value) for value in values], "zstd", message_max_bytes=str(9 * MB))
    command = [
        *(sys.executable, "-m", "pipeline.cli", "archive", "--bootstrap", feed.bootstrap, "--topic", topic),
        *("--output", str(output), "--master", "local[2]", *SHORT_JOB),
    ]

    done = subprocess.run(
        command, cwd=PROJECT, env=environment(), capture_output=True, text=True, check=False, timeout=240
    )

    assert done.returncode == 0, done.stderr
    files = [str(path) for path in output.glob("topic=*/date=*/*.parquet")]
    kept = [
        value[:5]
        for batch in ds.dataset(files).to_batches(columns=["value"], batch_size=4)
        for value in batch["value"].to_pylist()
        if len(value) == len(values[0])
    ]
    assert sorted(kept) == [value[:5] for value in values]
