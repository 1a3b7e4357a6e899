"""How large the records are: a look at some, so that a poll takes many small ones and few large ones.

Spark's source asks the broker for the end of the partition before each poll, so with Kafka's default of 500 records a
poll it sends one ListOffsets for every 500 records. A poll of 10,000 records reads twice as fast. But all of a poll's
records are in memory at once, unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.broker import client_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTION = "kafka.max.poll.records"
MOST = 10_000
UNSEEN = 500
"""Records a poll where none can be looked at: Kafka's own number."""
POLL_BYTES = 64 << 20
"""What one poll's records may come to, as far as a look at some can tell."""

_PLACES = 16
_RECORDS = 16
_POLLS = 8


def poll_records(largest: int) -> int:
    """Records a poll, where the largest that was seen has so many bytes."""
    return max(1, min(MOST, POLL_BYTES // max(1, largest)))


def largest_record(
    spark: SparkSession, bootstrap: str, options: Mapping[str, str], widths: Mapping[str, int]
) -> int:
    """Bytes of key and value of the largest record among some: the first and last ones of some partitions.

    `widths`: partitions of each topic. 0 when no record was seen. Raises py4j's `Py4JError`.
    """
    places = [(topic, number) for topic, width in sorted(widths.items()) for number in range(width)]
    places = places[:: -(-len(places) // _PLACES)] if places else []
    if not places:
        return 0
    jvm: Any = spark._jvm
    settings = client_settings(jvm, bootstrap, options)
    for name, value in (
        ("max.poll.records", str(_RECORDS)),
        ("fetch.max.bytes", str(1 << 20)),
        ("max.partition.fetch.bytes", str(64 << 10)),
        ("enable.auto.commit", "false"),
        # a look at the log makes no topic
        ("allow.auto.create.topics", "false"),
    ):
        settings.setProperty(name, value)
    bytes_as_they_are = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
        settings, bytes_as_they_are(), bytes_as_they_are()
    )
    try:
        return _look(jvm, consumer, places)
    finally:
        consumer.close()


def _look(jvm: Any, consumer: Any, places: Sequence[tuple[str, int]]) -> int:
    assigned = jvm.java.util.ArrayList()
    for topic, number in places:
        assigned.append(jvm.org.apache.kafka.common.TopicPartition(topic, number))
    consumer.assign(assigned)
    starts, ends = consumer.beginningOffsets(assigned), consumer.endOffsets(assigned)
    holding = [place for place in assigned if ends[place] > starts[place]]
    largest = 0
    for near_end in (False, True):
        for place in holding:
            last = max(starts[place], ends[place] - _RECORDS)
            consumer.seek(place, last if near_end else starts[place])
        unseen = {str(place.toString()) for place in holding}
        for _ in range(_POLLS):
            if not unseen:
                break
            found = consumer.poll(jvm.java.time.Duration.ofMillis(500)).iterator()
            while found.hasNext():
                record = found.next()
                unseen.discard(f"{record.topic()}-{record.partition()}")
                largest = max(largest, record.serializedKeySize() + record.serializedValueSize())
    return largest
