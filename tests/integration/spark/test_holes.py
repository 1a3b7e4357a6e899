"""Offsets without records (aborted transactions, compaction): Spark passes over them, and takes none for a loss."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from compat.peers.magnetar import MagnetarPeer
from compat.spark.feed import Feed, Record, topic_name
from compat.spark.reading import Place, batch, drain, drained, rows, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]

COMMITTED = {"kafka__isolation__level": "read_committed", "startingOffsets": "earliest"}


def begin(feed: Feed, topic: str, values: range) -> Producer:
    """A transaction with a record for each value, written and open."""
    producer = Producer({"bootstrap.servers": feed.bootstrap, "transactional.id": topic_name("spark")})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, str(value).encode())
    producer.flush(30)
    return producer


def values(found: dict[Place, Record]) -> list[int]:
    return sorted(int(record.value or b"") for record in found.values())


def test_aborted_and_open_transactions(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    topic = feed.create(topic_name("holes-transactions"))
    begin(feed, topic, range(10)).commit_transaction(30)
    begin(feed, topic, range(10, 30)).abort_transaction(30)
    begin(feed, topic, range(30, 40)).commit_transaction(30)
    begin(feed, topic, range(40, 45)).abort_transaction(30)
    still_open = begin(feed, topic, range(45, 50))
    committed = [*range(10), *range(30, 40)]

    frame = stream(spark, feed.bootstrap, subscribe=topic, maxOffsetsPerTrigger=20, **COMMITTED)
    drain(frame, tmp_path)
    first = values(drained(spark, tmp_path))
    found = values(rows(batch(spark, feed.bootstrap, subscribe=topic, **COMMITTED)))
    still_open.commit_transaction(30)
    drain(frame, tmp_path)

    assert (first, found) == (committed, committed)
    assert values(drained(spark, tmp_path)) == [*committed, *range(45, 50)]
    assert len(rows(batch(spark, feed.bootstrap, subscribe=topic))) == 50


def test_a_compacted_topic(spark: SparkSession, feed: Feed, gateway: MagnetarPeer, tmp_path: Path) -> None:
    topic = feed.create(topic_name("holes-compacted"), cleanup_policy="compact")
    feed.produce(topic, [Record(b"k%d" % (value % 10), b"%d" % value) for value in range(500)])
    frame = stream(
        spark, feed.bootstrap, subscribe=topic, maxOffsetsPerTrigger=300, startingOffsets="earliest"
    )
    drain(frame, tmp_path / "before")
    _compact(gateway, topic)

    found = values(rows(batch(spark, feed.bootstrap, subscribe=topic)))
    drain(frame, tmp_path / "after")
    # the one that had read all of it goes on where it was, with what is compacted behind it meanwhile
    feed.produce(topic, [Record(b"k%d" % (value % 10), b"%d" % value) for value in range(500, 600)])
    _compact(gateway, topic)
    drain(frame, tmp_path / "before")
    drain(frame, tmp_path / "after")

    assert found == list(range(490, 500))
    assert values(drained(spark, tmp_path / "after")) == [*range(490, 500), *range(590, 600)]
    assert values(drained(spark, tmp_path / "before")) == [*range(500), *range(590, 600)]


def _compact(gateway: MagnetarPeer, topic: str) -> None:
    gateway.admin("topics", "compact", topic)
    assert "SUCCESS" in gateway.admin("topics", "compaction-status", topic, "-w")
