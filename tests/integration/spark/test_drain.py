"""Spark as the consumer of a subscription: what it acknowledges is in its output, and nothing else is acknowledged."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewTopic

from compat.spark.feed import Feed, Record, topic_name
from compat.spark.reading import batch
from pipeline.drain import DrainJob, drain, look
from pipeline.errors import PipelineError
from pipeline.progress import Stop
from tests.integration.spark.archives import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from compat.peers.magnetar import MagnetarPeer

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]

LANES = 2


class Queue:
    """A topic of two partitions with a Key_Shared subscription that two lanes serve."""

    def __init__(self, gateway: MagnetarPeer, feed: Feed, stem: str) -> None:
        self.feed = feed
        self.base = feed.create(topic_name(stem), 2)
        self.group = topic_name("group").replace("-", ".")
        self.name = f"{self.base}-{self.group}-QUEUE"
        request = urllib.request.Request(
            f"{gateway.admin_url}/admin/v2/persistent/public/default/{self.base}/subscription/{self.group}"
            f"?type=key_shared&lanes={LANES}",
            data=json.dumps({"properties": {}}).encode(),
            method="PUT",
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request).close()

    def produce(self, numbers: range) -> None:
        self.feed.produce(self.base, [Record(b"k%d" % (n % 20), b"%d" % n, (), n % 2) for n in numbers])

    def open(self) -> list[int]:
        """The first open delivery of each lane."""
        asked = ConsumerGroupTopicPartitions(
            self.group, [TopicPartition(self.name, lane) for lane in range(LANES)]
        )
        future = self.feed.admin.list_consumer_group_offsets([asked])[self.group]
        return [place.offset for place in future.result(30).topic_partitions]

    def ends(self) -> list[int]:
        return [end for _, end in self.feed.ends(self.name).values()]


def test_a_drain_acknowledges_what_is_in_its_output(
    gateway: MagnetarPeer, job_spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(gateway.bootstrap)
    queue = Queue(gateway, feed, "drain")
    queue.produce(range(1_000))

    # a batch that fails is open still, and comes again as it was
    seen: list[tuple[int, list[int]]] = []

    def once_wrong(rows: DataFrame, number: int) -> None:
        seen.append((number, sorted(int(row["value"]) for row in rows.select("value").collect())))
        if len(seen) == 2:
            raise ValueError("the database is away")

    to_hook = DrainJob(
        feed.bootstrap, queue.name, hook=once_wrong, hook_name="jobs:bill", checkpoint=str(tmp_path / "hook")
    )
    with pytest.raises(PipelineError, match=r"jobs:bill failed in batch 1: ValueError: the database is away"):
        drain(job_spark, to_hook, Stop())
    assert sum(queue.open()) == len(seen[0][1])
    done = drain(job_spark, to_hook, Stop())

    assert seen[2] == seen[1]
    assert done.finished
    assert Counter(n for _, values in [seen[0], *seen[2:]] for n in values) == Counter(range(1_000))
    assert queue.open() == queue.ends()

    # Parquet; consumers in the group come first
    to_parquet = DrainJob(feed.bootstrap, queue.name, output=str(tmp_path / "archive"))
    queue.produce(range(1_000, 1_500))
    consumer = Consumer(
        {
            "bootstrap.servers": feed.bootstrap,
            "group.id": queue.group,
            "client.id": "worker-1",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([queue.name])
    feed.wait(lambda: consumer.poll(0.2) is not None, "a message")
    try:
        with pytest.raises(PipelineError, match=r"has members: worker-1 on 127\.0\.0\.1 \(lanes 0, 1\)"):
            drain(job_spark, to_parquet, Stop())
    finally:
        consumer.unsubscribe()
        consumer.close()

    done = drain(job_spark, to_parquet, Stop())

    assert (done.rows, done.finished) == (500, True)
    assert sorted(int(row["value"]) for row in table(tmp_path)) == list(range(1_000, 1_500))
    assert queue.open() == queue.ends()
    assert drain(job_spark, to_parquet, Stop()).rows == 0
    assert len(table(tmp_path)) == 500

    # what was delivered reads the same for whoever reads it again
    ranges = {
        "startingOffsets": {queue.name: {"0": 0, "1": 0}},
        "endingOffsets": {queue.name: dict(enumerate(queue.ends()))},
    }
    again = batch(job_spark, feed.bootstrap, subscribe=queue.name, **ranges)
    values = [int(row["value"]) for row in again.select("value").collect()]
    assert Counter(values) == Counter(range(1_500))


def test_a_queue_topic_over_a_pattern_is_refused_in_true_words(
    gateway: MagnetarPeer, job_spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(gateway.bootstrap)
    stem = topic_name("patterned").replace("-", ".")
    feed.create(stem, 1)
    made = NewTopic(f"{stem}-QUEUE", 2, config={"pulsar.queue.pattern": f"{stem}.*"})
    feed.admin.create_topics([made])[made.topic].result(30)
    with pytest.raises(PipelineError, match="is a queue topic over a pattern of topics"):
        look(job_spark, DrainJob(feed.bootstrap, made.topic, output=str(tmp_path)))
