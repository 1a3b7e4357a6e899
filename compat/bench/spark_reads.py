"""Reads a topic with Spark's stock Kafka source in batch; prints rows a second and seconds as JSON.

Usage: python -m compat.bench.spark_reads ADDRESS ROWS SIZE PARTITIONS PASSES. Fills the topic first (librdkafka).
The best of the passes counts: the first ones warm up the JVM.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from compat.spark.feed import Feed, Record
from compat.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "bench-spark"


def main() -> None:
    address = sys.argv[1]
    rows, size, partitions, passes = map(int, sys.argv[2:6])
    fill(address, rows, size, partitions)
    spark = session("bench", short=False)
    best = min(read(spark, address, rows, size) for _ in range(passes))
    print(json.dumps({"rows_per_second": rows / best, "seconds": best}))


def fill(address: str, rows: int, size: int, partitions: int) -> None:
    """`rows` records of `size` bytes, dealt out over the partitions."""
    feed = Feed(address)
    feed.create(TOPIC, partitions)
    value = bytes(i * 7919 % 251 for i in range(size))
    feed.produce(TOPIC, (Record(None, value, partition=number % partitions) for number in range(rows)))


def read(spark: SparkSession, address: str, rows: int, size: int) -> float:
    """Seconds that one batch query over the whole topic takes; it must see every row."""
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", TOPIC)
        .load()
        .selectExpr("sum(length(value)) AS bytes", "count(*) AS rows")
    )
    begin = time.perf_counter()
    (found,) = frame.collect()
    took = time.perf_counter() - begin
    if (found["rows"], found["bytes"]) != (rows, rows * size):
        raise SystemExit(
            f"Spark read {found['rows']} rows, {found['bytes']} bytes of {rows} and {rows * size}"
        )
    return took


if __name__ == "__main__":
    main()
