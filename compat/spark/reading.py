"""Short ways to say "read this topic with Spark's stock source" in batch and as a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compat.spark.feed import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TIMEOUT = 60.0
"""Seconds after which a stream that should have ended counts as stuck."""


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


def batch(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    """A batch read. Options as Spark spells them, dots as `__`; mappings become JSON."""
    return _options(spark.read.format("kafka"), bootstrap, options).load()


def stream(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    """A streaming read, options as in `batch`."""
    return _options(spark.readStream.format("kafka"), bootstrap, options).load()


def _options(reader: Any, bootstrap: str, options: Mapping[str, Any]) -> Any:
    reader = reader.option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        text = json.dumps(value) if isinstance(value, Mapping) else str(value)
        reader = reader.option(name.replace("__", "."), text)
    return reader


def rows(frame: DataFrame) -> dict[Place, Record]:
    """What a frame with the Kafka source's columns holds; a place that comes twice is an error."""
    found: dict[Place, Record] = {}
    with_headers = "headers" in frame.columns
    for row in frame.collect():
        place = Place(row["topic"], row["partition"], row["offset"])
        if place in found:
            raise AssertionError(f"{place} was read twice")
        headers = row["headers"] if with_headers else None
        found[place] = Record(
            _bytes(row["key"]),
            _bytes(row["value"]),
            tuple((header["key"], _bytes(header["value"])) for header in headers or ()),
            row["partition"],
            round(row["timestamp"].timestamp() * 1000),
        )
    return found


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def drain(frame: DataFrame, folder: Path) -> StreamingQuery:
    """Run a stream into `folder`/out (Parquet) with AvailableNow to its end; a second call goes on."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        if not query.awaitTermination(int(TIMEOUT)):
            raise TimeoutError(f"the stream did not end within {TIMEOUT:.0f} s: {query.lastProgress}")
    finally:
        query.stop()
    return query


def drained(spark: SparkSession, folder: Path) -> dict[Place, Record]:
    """What `drain` has written so far."""
    return rows(spark.read.parquet(str(folder / "out")))


@contextmanager
def running(frame: DataFrame, folder: Path) -> Iterator[StreamingQuery]:
    """A stream into `folder` that triggers as fast as it can until the block ends."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def until(query: StreamingQuery, condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds; a query that failed meanwhile raises its error here."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {TIMEOUT:.0f} s for {what}: {query.lastProgress}")
        query.awaitTermination(1)
