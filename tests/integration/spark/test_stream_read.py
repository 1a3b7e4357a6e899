"""Streams with Spark's stock source: every record once, in pieces of the size asked for, over restarts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat.spark.feed import COMPRESSIONS, Feed, Record, topic_name
from compat.spark.reading import Place, drain, drained, running, stream, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]

HOUR = 3_600_000


def numbered(start: int, end: int, partitions: int, base_ms: int = 0) -> list[Record]:
    """Records whose value says which one they are, round robin over the partitions, 1 s apart."""
    return [
        Record(b"k%d" % (n % 5), b"v%d" % n, (), n % partitions, base_ms + n * 1000 if base_ms else 0)
        for n in range(start, end)
    ]


def values(found: dict[Place, Record]) -> set[int]:
    assert len({record.value for record in found.values()}) == len(found), "a record was written twice"
    return {int(record.value[1:]) for record in found.values() if record.value}


def test_available_now_reads_all_that_is_there_and_goes_on_later(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("stream-now"), 2)
    feed.produce(topic, numbered(0, 40, 2))
    frame = stream(spark, feed.bootstrap, subscribe=topic, startingOffsets="earliest")

    drain(frame, tmp_path)
    first = values(drained(spark, tmp_path))
    feed.produce(topic, numbered(40, 70, 2))
    drain(frame, tmp_path)

    assert first == set(range(40))
    assert values(drained(spark, tmp_path)) == set(range(70))


def test_latest_is_the_default_and_sees_only_what_comes_after_the_start(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("stream-latest"), 2)
    feed.produce(topic, numbered(0, 10, 2))
    frame = stream(spark, feed.bootstrap, subscribe=topic)

    drain(frame, tmp_path)
    feed.produce(topic, numbered(10, 16, 2))
    drain(frame, tmp_path)

    assert values(drained(spark, tmp_path)) == set(range(10, 16))


def test_starting_offsets_of_each_partition(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("stream-offsets"), 2)
    feed.produce(topic, numbered(0, 20, 2))

    drain(
        stream(spark, feed.bootstrap, subscribe=topic, startingOffsets={topic: {"0": 7, "1": -2}}), tmp_path
    )

    assert values(drained(spark, tmp_path)) == {14, 16, 18} | set(range(1, 20, 2))


def test_starting_timestamp(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("stream-timestamp"), 2)
    base = int(time.time() * 1000) - HOUR
    feed.produce(topic, numbered(0, 20, 2, base))

    drain(stream(spark, feed.bootstrap, subscribe=topic, startingTimestamp=base + 15_000), tmp_path)

    assert values(drained(spark, tmp_path)) == set(range(15, 20))


def test_max_offsets_per_trigger_bounds_each_batch(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("stream-max"), 2)
    feed.produce(topic, numbered(0, 60, 2))

    query = drain(
        stream(spark, feed.bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20),
        tmp_path,
    )

    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sizes == [20, 20, 20]
    assert values(drained(spark, tmp_path)) == set(range(60))


def test_min_partitions_and_max_records_per_partition(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("stream-min"), 2)
    feed.produce(topic, numbered(0, 120, 2))

    drain(
        stream(
            spark,
            feed.bootstrap,
            subscribe=topic,
            startingOffsets="earliest",
            minPartitions=4,
            maxRecordsPerPartition=25,
        ),
        tmp_path,
    )

    assert values(drained(spark, tmp_path)) == set(range(120))


def test_assign(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("stream-assign"), 3)
    feed.produce(topic, numbered(0, 30, 3))

    drain(stream(spark, feed.bootstrap, assign={topic: [1]}, startingOffsets="earliest"), tmp_path)

    assert values(drained(spark, tmp_path)) == set(range(1, 30, 3))


def test_headers_and_tombstones_and_compressions(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("stream-headers"))
    now = int(time.time() * 1000)
    sent: list[Record] = []
    for n, compression in enumerate(COMPRESSIONS):
        piece = [
            Record(b"k", b"same again " * 40, (("codec", compression.encode()), ("codec", None)), 0, now + n),
            Record(b"k", None, (), 0, now + n),
            Record(None, compression.encode() * 40, (), 0, now + n),
        ] * 10
        feed.produce(topic, piece, compression, linger_ms=50)
        sent += piece

    drain(
        stream(spark, feed.bootstrap, subscribe=topic, startingOffsets="earliest", includeHeaders="true"),
        tmp_path,
    )

    found = drained(spark, tmp_path)
    assert [found[place] for place in sorted(found)] == sent


def test_new_partitions_and_new_topics_of_a_pattern_are_found_while_it_runs(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    stem = topic_name("stream-grow")
    first = feed.create(f"{stem}-a")
    feed.produce(first, numbered(0, 10, 1))
    frame = stream(spark, feed.bootstrap, subscribePattern=f"{stem}-.*", startingOffsets="earliest")

    with running(frame, tmp_path) as query:
        until(query, lambda: rows_read(query) == 10, "the first ten rows")
        feed.add_partitions(first, 3)
        feed.produce(first, numbered(10, 40, 3))
        until(query, lambda: rows_read(query) == 40, "the rows of the new partitions")
        feed.produce(feed.create(f"{stem}-b"), numbered(40, 45, 1))
        until(query, lambda: rows_read(query) == 45, "the rows of the new topic")

    found = drained(spark, tmp_path)
    assert values(found) == set(range(45))
    assert {(place.topic, place.partition) for place in found} == {
        (first, 0),
        (first, 1),
        (first, 2),
        (f"{stem}-b", 0),
    }


def test_a_query_stopped_in_the_middle_goes_on_exactly_where_it_was(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("stream-stop"), 2)
    feed.produce(topic, numbered(0, 200, 2))
    frame = stream(
        spark, feed.bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20
    )

    with running(frame, tmp_path) as query:
        until(query, lambda: rows_read(query) >= 40, "two batches")
    feed.produce(topic, numbered(200, 230, 2))
    drain(frame.sparkSession.readStream.format("kafka").options(**plain(feed, topic)).load(), tmp_path)

    assert values(drained(spark, tmp_path)) == set(range(230))


def test_a_consumer_group_by_the_old_offset_fetching(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("stream-group"), 2)
    feed.produce(topic, numbered(0, 20, 2))
    setting = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.conf.set(setting, "true")
    try:
        drain(stream(spark, feed.bootstrap, subscribe=topic, startingOffsets="earliest"), tmp_path)
    finally:
        spark.conf.unset(setting)

    assert values(drained(spark, tmp_path)) == set(range(20))


def plain(feed: Feed, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": feed.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}


def rows_read(query: StreamingQuery) -> int:
    """Rows of all batches that ended; a batch's progress is there after its commit."""
    return sum(progress["numInputRows"] for progress in query.recentProgress)
