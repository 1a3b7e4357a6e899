"""The broker goes away and comes back: streams go on, and every record is written once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat.spark.feed import Record, topic_name
from compat.spark.reading import Place, batch, drain, drained, rows, running, stream, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.integration.spark.conftest import Broker

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def numbered(start: int, end: int) -> list[Record]:
    return [Record(b"k", b"v%d" % n, (("n", b"%d" % n),), n % 2) for n in range(start, end)]


def values(found: dict[Place, Record]) -> list[int]:
    return sorted(int(record.value[1:]) for record in found.values() if record.value)


def test_a_checkpoint_resumes_exactly_after_the_broker_restarted(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    feed = broker.feed
    topic = feed.create(topic_name("restart-between"), 2)
    feed.produce(topic, numbered(0, 100))
    frame = stream(
        spark, feed.bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=40
    )
    drain(frame, tmp_path)

    broker.restart()
    feed.produce(topic, numbered(100, 150))
    drain(frame, tmp_path)

    assert values(drained(spark, tmp_path)) == list(range(150))
    assert values(rows(batch(spark, feed.bootstrap, subscribe=topic))) == list(range(150))


def test_a_running_stream_survives_a_restart_of_the_broker(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    feed = broker.feed
    topic = feed.create(topic_name("restart-within"), 2)
    feed.produce(topic, numbered(0, 50))
    frame = stream(spark, feed.bootstrap, subscribe=topic, startingOffsets="earliest")

    def read() -> int:
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    with running(frame, tmp_path) as query:
        until(query, lambda: read() == 50, "the rows from before the restart")
        broker.restart()
        feed.produce(topic, numbered(50, 120))
        until(query, lambda: read() == 120, "the rows from after the restart")

    assert values(drained(spark, tmp_path)) == list(range(120))
