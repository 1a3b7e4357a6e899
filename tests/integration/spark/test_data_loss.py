"""`failOnDataLoss`: records that Spark was about to read and that are gone do not go unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat.spark.feed import Feed, Record, topic_name
from compat.spark.reading import Place, batch, drain, drained, rows, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]

LOST = (
    r"(?i)data loss|data may have been lost|KAFKA_DATA_LOSS|offset was changed|missing data|OffsetOutOfRange"
)


def numbered(start: int, end: int) -> list[Record]:
    return [Record(None, b"v%d" % n) for n in range(start, end)]


def values(found: dict[Place, Record]) -> list[int]:
    return sorted(int(record.value[1:]) for record in found.values() if record.value)


def test_a_stream_notices_deleted_records(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("loss-deleted"))
    feed.produce(topic, numbered(0, 20))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    drain(stream(spark, feed.bootstrap, **options), tmp_path)
    feed.produce(topic, numbered(20, 40))
    feed.delete_records(topic, {0: 30})

    with pytest.raises(Exception, match=LOST):
        drain(stream(spark, feed.bootstrap, **options), tmp_path)
    drain(stream(spark, feed.bootstrap, **options, failOnDataLoss="false"), tmp_path)

    assert values(drained(spark, tmp_path)) == [*range(20), *range(30, 40)]


def test_a_stream_notices_that_a_topic_was_made_again(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    topic = feed.create(topic_name("loss-recreated"))
    feed.produce(topic, numbered(0, 20))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    drain(stream(spark, feed.bootstrap, **options), tmp_path)
    feed.delete(topic)
    feed.create(topic)
    feed.produce(topic, numbered(100, 105))

    with pytest.raises(Exception, match=LOST):
        drain(stream(spark, feed.bootstrap, **options), tmp_path)
    drain(stream(spark, feed.bootstrap, **options, failOnDataLoss="false"), tmp_path)
    feed.produce(topic, numbered(105, 108))
    drain(stream(spark, feed.bootstrap, **options, failOnDataLoss="false"), tmp_path)

    # By values, not by place: offsets 5 to 7 exist twice now, once in each life of the topic. Spark goes on
    # from the new end, as it does on Apache Kafka; 100 to 104 lie before it.
    written = [row["value"] for row in spark.read.parquet(str(tmp_path / "out")).select("value").collect()]
    assert sorted(int(value[1:]) for value in written) == [*range(20), *range(105, 108)]


def test_a_batch_notices_deleted_records(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("loss-batch"))
    feed.produce(topic, numbered(0, 30))
    feed.delete_records(topic, {0: 12})
    options = {"subscribe": topic, "startingOffsets": {topic: {"0": 5}}}

    with pytest.raises(Exception, match=LOST):
        rows(batch(spark, feed.bootstrap, **options))

    assert values(rows(batch(spark, feed.bootstrap, **options, failOnDataLoss="false"))) == list(
        range(12, 30)
    )
    assert values(rows(batch(spark, feed.bootstrap, subscribe=topic))) == list(range(12, 30))


def test_a_batch_reads_a_topic_that_was_made_again(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("loss-again"))
    feed.produce(topic, numbered(0, 20))
    assert values(rows(batch(spark, feed.bootstrap, subscribe=topic))) == list(range(20))
    feed.delete(topic)
    feed.create(topic)
    feed.produce(topic, numbered(100, 105))

    assert values(rows(batch(spark, feed.bootstrap, subscribe=topic))) == list(range(100, 105))
