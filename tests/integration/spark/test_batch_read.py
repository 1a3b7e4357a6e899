"""Batch reads with Spark's stock source: what is asked for comes, once, as it was produced."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from compat.spark.feed import COMPRESSIONS, Feed, Record, topic_name
from compat.spark.reading import Place, batch, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]

HOUR = 3_600_000


def numbered(count: int, partitions: int, *, start: int = 0, base_ms: int = 0) -> list[Record]:
    """Records whose value says which one they are, round robin over the partitions, 1 s apart."""
    return [
        Record(b"k%d" % (n % 7), b"v%d" % n, (), n % partitions, base_ms + n * 1000 if base_ms else 0)
        for n in range(start, start + count)
    ]


def offsets(found: dict[Place, Record]) -> dict[int, list[int]]:
    by_partition: dict[int, list[int]] = {}
    for place in sorted(found):
        by_partition.setdefault(place.partition, []).append(place.offset)
    return by_partition


def test_everything_comes_as_it_was_produced(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("batch-all"), 2)
    now = int(time.time() * 1000) - HOUR
    sent = [
        Record(b"key", b"value", (("a", b"1"), ("b", b"\x00\xff"), ("a", b"2")), 0, now),
        Record(None, b"no key", (), 0, now + 1),
        Record(b"tombstone", None, (("why", b"deleted"),), 0, now + 2),
        Record(None, None, (), 1, now + 3),
        Record(b"", b"", (("", b""), ("null", None)), 1, now + 4),
        Record("schlüssel".encode(), "✓".encode(), (("☃", b"snow"),), 1, now + 5),
    ]
    feed.produce(topic, sent)

    found = rows(batch(spark, feed.bootstrap, subscribe=topic, includeHeaders="true"))

    assert [found[place] for place in sorted(found)] == sent
    assert offsets(found) == {0: [0, 1, 2], 1: [0, 1, 2]}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressions(spark: SparkSession, feed: Feed, compression: str) -> None:
    topic = feed.create(topic_name(f"batch-{compression}"))
    sent = [Record(b"k%d" % n, b"squeeze me " * (n % 50)) for n in range(300)]
    feed.produce(topic, sent, compression, linger_ms=50)

    found = rows(batch(spark, feed.bootstrap, subscribe=topic))

    assert [(found[place].key, found[place].value) for place in sorted(found)] == [
        (record.key, record.value) for record in sent
    ]


def test_by_offsets(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("batch-offsets"), 3)
    feed.produce(topic, numbered(60, 3))

    found = rows(
        batch(
            spark,
            feed.bootstrap,
            subscribe=topic,
            startingOffsets={topic: {"0": 5, "1": -2, "2": 19}},
            endingOffsets={topic: {"0": 9, "1": 3, "2": -1}},
        )
    )

    assert offsets(found) == {0: [5, 6, 7, 8], 1: [0, 1, 2], 2: [19]}
    assert found[Place(topic, 0, 5)].value == b"v15"


def test_by_timestamp_for_all_partitions(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("batch-timestamp"), 2)
    base = int(time.time() * 1000) - HOUR
    feed.produce(topic, numbered(40, 2, base_ms=base))

    found = rows(
        batch(
            spark,
            feed.bootstrap,
            subscribe=topic,
            startingTimestamp=base + 10_000,
            endingTimestamp=base + 20_000,
        )
    )

    assert sorted(record.timestamp - base for record in found.values()) == [n * 1000 for n in range(10, 20)]


def test_by_timestamp_of_each_partition(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("batch-timestamps"), 2)
    base = int(time.time() * 1000) - HOUR
    feed.produce(topic, numbered(40, 2, base_ms=base))

    found = rows(
        batch(
            spark,
            feed.bootstrap,
            subscribe=topic,
            startingOffsetsByTimestamp={topic: {"0": base + 36_500, "1": base}},
            endingOffsetsByTimestamp={topic: {"0": base + HOUR, "1": base + 3_001}},
        )
    )

    assert offsets(found) == {0: [19], 1: [0, 1]}


def test_a_timestamp_after_the_last_record_is_an_error_unless_latest_is_asked_for(
    spark: SparkSession, feed: Feed
) -> None:
    topic = feed.create(topic_name("batch-late"))
    feed.produce(topic, numbered(3, 1))
    late = {"subscribe": topic, "startingTimestamp": int(time.time() * 1000) + HOUR}

    with pytest.raises(Exception, match="No offset matched"):
        rows(batch(spark, feed.bootstrap, **late, startingOffsetsByTimestampStrategy="error"))
    assert rows(batch(spark, feed.bootstrap, **late, startingOffsetsByTimestampStrategy="latest")) == {}


def test_subscribe_pattern_takes_the_topics_that_match(spark: SparkSession, feed: Feed) -> None:
    stem = topic_name("batch-pattern")
    for suffix, count in (("-a", 3), ("-b", 4), ("x-c", 5)):
        feed.produce(feed.create(stem + suffix), numbered(count, 1))

    found = rows(batch(spark, feed.bootstrap, subscribePattern=f"{stem}-.*"))

    assert {place.topic for place in found} == {f"{stem}-a", f"{stem}-b"}
    assert len(found) == 7


def test_subscribe_several_topics(spark: SparkSession, feed: Feed) -> None:
    one = feed.create(topic_name("batch-one"))
    two = feed.create(topic_name("batch-two"))
    feed.produce(one, numbered(2, 1))
    feed.produce(two, numbered(3, 1))

    found = rows(batch(spark, feed.bootstrap, subscribe=f"{one},{two}"))

    assert sorted(found) == sorted(
        [Place(one, 0, n) for n in range(2)] + [Place(two, 0, n) for n in range(3)]
    )


def test_assign_reads_only_the_named_partitions(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("batch-assign"), 3)
    feed.produce(topic, numbered(30, 3))

    found = rows(batch(spark, feed.bootstrap, assign={topic: [0, 2]}))

    assert offsets(found) == {0: list(range(10)), 2: list(range(10))}


def test_min_partitions_splits_the_read_and_loses_nothing(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("batch-min"), 2)
    feed.produce(topic, numbered(400, 2))

    frame = batch(spark, feed.bootstrap, subscribe=topic, minPartitions=8)

    assert frame.rdd.getNumPartitions() >= 8
    assert offsets(rows(frame)) == {0: list(range(200)), 1: list(range(200))}


def test_more_rows_than_one_fetch_and_one_poll_hold(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("batch-many"), 2)
    sent = [Record(None, b"%06d" % n + b"." * 1000, (), n % 2) for n in range(6000)]
    feed.produce(topic, sent, "lz4")

    frame = batch(spark, feed.bootstrap, subscribe=topic)

    assert frame.count() == 6000
    assert frame.selectExpr("cast(substr(value, 1, 6) as string) as n").distinct().count() == 6000


def test_an_empty_topic_and_an_empty_partition_are_no_error(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("batch-empty"), 2)
    assert rows(batch(spark, feed.bootstrap, subscribe=topic)) == {}

    feed.produce(topic, numbered(4, 1))

    assert offsets(rows(batch(spark, feed.bootstrap, subscribe=topic))) == {0: [0, 1, 2, 3]}


def test_a_missing_topic_is_an_error_and_is_not_created(spark: SparkSession, feed: Feed) -> None:
    topic = topic_name("batch-missing")

    with pytest.raises(Exception, match=r"UnknownTopicOrPartition|does not host"):
        rows(batch(spark, feed.bootstrap, subscribe=topic))
    assert feed.partitions(topic) == 0
