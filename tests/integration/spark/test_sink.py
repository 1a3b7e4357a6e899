"""Spark's stock sink, in batch and as a stream, read back by librdkafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat.spark.feed import COMPRESSIONS, Feed, Record, topic_name
from compat.spark.reading import TIMEOUT, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, topic string"
)


def write(frame: DataFrame, feed: Feed, **options: str) -> None:
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", feed.bootstrap)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save()


def content(
    records: list[Record],
) -> list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    return [(record.key, record.value, record.headers) for record in records]


def test_keys_values_headers_partitions_and_topics(spark: SparkSession, feed: Feed) -> None:
    one = feed.create(topic_name("sink-one"), 3)
    two = feed.create(topic_name("sink-two"), 1)
    rows = [
        (b"key", b"value", [("a", b"1"), ("a", b"2"), ("none", None)], 0, one),
        (None, b"no key", [], 0, one),
        (b"tombstone", None, None, 2, one),
        (None, None, [("only", b"header")], 2, one),
        (b"", b"", None, 0, two),
    ]

    write(spark.createDataFrame(rows, SCHEMA).coalesce(1), feed, includeHeaders="true")

    found = feed.records(one)
    assert content(found[0]) == [
        (b"key", b"value", (("a", b"1"), ("a", b"2"), ("none", None))),
        (None, b"no key", ()),
    ]
    assert found[1] == []
    assert content(found[2]) == [(b"tombstone", None, ()), (None, None, (("only", b"header"),))]
    assert content(feed.records(two)[0]) == [(b"", b"", ())]


def test_strings_are_written_as_utf8_and_one_key_stays_in_one_partition(
    spark: SparkSession, feed: Feed
) -> None:
    topic = feed.create(topic_name("sink-keys"), 4)
    frame = spark.range(400).selectExpr("concat('schlüssel-', id % 9) as key", "cast(id as string) as value")

    write(frame, feed, topic=topic)

    found = feed.records(topic)
    assert sum(len(records) for records in found.values()) == 400
    homes = {(record.key, partition) for partition, records in found.items() for record in records}
    assert len(homes) == 9
    assert {record.value for records in found.values() for record in records} == {
        b"%d" % n for n in range(400)
    }


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressions(spark: SparkSession, feed: Feed, compression: str) -> None:
    topic = feed.create(topic_name(f"sink-{compression}"))
    frame = (
        spark.range(500).coalesce(1).selectExpr("cast(id as string) as key", "repeat('data ', 40) as value")
    )

    write(frame, feed, topic=topic, kafka__compression__type=compression)

    assert content(feed.records(topic)[0]) == [(b"%d" % n, b"data " * 40, ()) for n in range(500)]


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acks(spark: SparkSession, feed: Feed, acks: str) -> None:
    topic = feed.create(topic_name(f"sink-acks{acks}"))

    write(
        spark.range(50).coalesce(1).selectExpr("cast(id as string) as value"),
        feed,
        topic=topic,
        kafka__acks=acks,
        kafka__enable__idempotence="false",
    )

    feed.wait(lambda: feed.ends(topic)[0] == (0, 50), "fifty records")
    assert [record.value for record in feed.records(topic)[0]] == [b"%d" % n for n in range(50)]


def test_a_missing_topic_is_created_by_the_first_write(spark: SparkSession, feed: Feed) -> None:
    topic = topic_name("sink-new")

    write(spark.range(10).selectExpr("cast(id as string) as value"), feed, topic=topic)

    found = [record.value for records in feed.records(topic).values() for record in records]
    assert sorted(found, key=lambda value: value or b"") == [b"%d" % n for n in range(10)]


def test_a_record_too_large_fails_the_write_with_kafkas_error(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("sink-large"), max_message_bytes="2000")

    with pytest.raises(Exception, match=r"RecordTooLarge|larger than the max"):
        write(spark.range(1).selectExpr("repeat('x', 5000) as value"), feed, topic=topic)

    assert feed.ends(topic)[0] == (0, 0)


def test_a_stream_from_topic_to_topic(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    source = feed.create(topic_name("sink-from"), 2)
    target = feed.create(topic_name("sink-to"), 2)
    sent = [
        Record(b"k%d" % n, None if n % 4 == 0 else b"v%d" % n, (("n", b"%d" % n),), n % 2) for n in range(60)
    ]

    def pump() -> None:
        frame = stream(
            spark, feed.bootstrap, subscribe=source, startingOffsets="earliest", includeHeaders="true"
        ).select("key", "value", "headers", "partition")
        query = (
            frame.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", feed.bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(int(TIMEOUT))
        finally:
            query.stop()

    feed.produce(source, sent[:40])
    pump()
    feed.produce(source, sent[40:])
    pump()

    assert {partition: content(records) for partition, records in feed.records(target).items()} == {
        partition: content([record for record in sent if record.partition == partition])
        for partition in (0, 1)
    }
