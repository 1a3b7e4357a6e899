"""Spark reads what share groups gave up as a table: the dead letter topic is a topic like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compat.spark.feed import Feed, Record, topic_name
from compat.spark.reading import batch
from tests.integration.sharing import ACCEPT, REJECT, RELEASE, make_group, member, poll, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_the_dead_letter_topic_is_a_table(spark: SparkSession, feed: Feed) -> None:
    topic = feed.create(topic_name("dead-letters"), 2)
    group = make_group(feed.bootstrap, topic_name("group"), pulsar__max__redeliver__count=1)
    feed.produce(topic, [Record(b"k%d" % (n % 3), b"v%d" % n, (("n", b"%d" % n),), n % 2) for n in range(40)])
    consumer = member(feed.bootstrap, group, topic)
    settled = 0

    def work() -> bool:
        nonlocal settled
        for message in poll(consumer):
            number = int(message.value()[1:])
            kind = REJECT if number % 10 == 0 else RELEASE if number % 10 == 5 else ACCEPT
            consumer.acknowledge(message, kind)
            settled += kind != RELEASE or message.delivery_count() == 2
        consumer.commit_sync(30)
        return settled == 40

    until(work, "all records to be settled")
    consumer.close()

    frame = batch(spark, feed.bootstrap, subscribe=f"{topic}-{group}-DLQ", includeHeaders="true")
    frame.selectExpr(
        "cast(key as string) key",
        "cast(value as string) value",
        "map_from_entries(transform(headers, h -> struct(h.key, cast(h.value as string)))) header",
        "partition",
    ).createOrReplaceTempView("dead_letters")
    found = spark.sql(
        f"""
        select header['pulsar-dead-letter-reason'] reason, header['__dlq.errors.delivery.count'] deliveries,
               count(*) letters, sort_array(collect_list(value)) dead,
               bool_and(header['__dlq.errors.topic'] = '{topic}' and header['__dlq.errors.group'] = '{group}') ours,
               bool_and(header['__dlq.errors.partition'] = partition) there,
               bool_and(header['n'] = substr(value, 2)) whole
        from dead_letters group by reason, deliveries order by reason
        """
    ).collect()
    assert [row.asDict() for row in found] == [
        {
            "reason": reason,
            "deliveries": deliveries,
            "letters": 4,
            "dead": sorted(f"v{n}" for n in range(first, 40, 10)),
            "ours": True,
            "there": True,
            "whole": True,
        }
        for reason, deliveries, first in (("MAX_DELIVERIES", "2", 5), ("REJECTED", "1", 0))
    ]
