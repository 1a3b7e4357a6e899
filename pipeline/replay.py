"""Parquet back to topics, in order, in slices, at a rate.

Spark's stock Kafka sink writes the rows of a task in their order and flushes at its end. So: all rows of a
source partition go to one task, sorted by offset, and the archive is written slice by slice (`slices.py`).
For `--rate` a slice is kept in Spark's cache and written in pieces of one second's worth, each no earlier
than its time.

The sink is at-least-once: when Spark runs a failed task again, its rows are written again. It has no
timestamp column, so a record gets the time of the replay; `--timestamp-header` keeps the old one in a
header. A delay (`pulsar-deliver-after`) becomes the time at which it was over (`pulsar-deliver-at`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipeline.archive import COLUMNS
from pipeline.broker import Cluster, cluster, reach
from pipeline.errors import PipelineError, explain
from pipeline.filelist import FileLists
from pipeline.hadoop import HadoopFiles
from pipeline.progress import Progress, Stop
from pipeline.slices import Place, Slice, Span, bucket_width, cut

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DEFAULT_SLICE = 500_000
# A delay counts from the record's timestamp, and a replayed record has a new one: as a time it says the same.
# What is no decimal text of at most 19 digits means nothing, and stays. So does a delay of a record without a time.
_DUE_HEADERS = """
    transform(headers, h -> IF(
        h.key = 'pulsar-deliver-after' AND unix_millis(timestamp) >= 0
            AND length(h.value) BETWEEN 1 AND 19 AND translate(CAST(h.value AS string), '0123456789', '') = '',
        named_struct('key', 'pulsar-deliver-at', 'value', CAST(CAST(least(
            try_cast(CAST(h.value AS string) AS decimal(20, 0)) + unix_millis(timestamp),
            CAST(9223372036854775807 AS decimal(20, 0))
        ) AS string) AS binary)),
        h))"""

TOPIC_FOLDER = "topic="
TOPICS_SHOWN = 10

# librdkafka's and Kafka's defaults send many small batches; a replay has no one waiting for a single record.
SINK_DEFAULTS = {"kafka.linger.ms": "20", "kafka.batch.size": "262144"}


@dataclass(frozen=True)
class ReplayJob:
    """What to replay, where to, and how."""

    source: str
    bootstrap: str | None
    """None only for a dry run."""
    to: str | None = None
    """One topic for everything; else `prefix` + the record's topic + `suffix`."""
    prefix: str = ""
    suffix: str = ""
    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    since: int | None = None
    """Record timestamps from here on, ms since 1970."""
    until: int | None = None
    """Record timestamps before this, ms since 1970."""
    where: str | None = None
    keep_partitions: bool | None = None
    """True: into the partition it came from; False: as the key's hash says; None: True if it fits."""
    create_topics: bool = False
    timestamp_header: str | None = None
    rate: float | None = None
    """Records a second, at most."""
    slice_rows: int = DEFAULT_SLICE
    skip_slices: int = 0
    """Slices that an earlier run with the same arguments has written."""
    compression: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def target(self, topic: str) -> str:
        """Where the records of a topic go."""
        return self.to or f"{self.prefix}{topic}{self.suffix}"


@dataclass(frozen=True)
class Plan:
    """What a replay would write."""

    spans: Mapping[Place, Span]
    targets: Mapping[str, str]

    @property
    def count(self) -> int:
        """Records in all."""
        return sum(span.records for span in self.spans.values())


@dataclass(frozen=True)
class Replayed:
    """What a run has done."""

    rows: int
    total: int
    seconds: float
    slices: int
    """Slices written, those of earlier runs included."""
    of_slices: int


def select(spark: SparkSession, job: ReplayJob) -> DataFrame:
    """The records that pass the filters. Raises `PipelineError` for no archive or a wrong filter."""
    try:
        frame = _archived(spark, job)
        missing = [name for name in COLUMNS if name not in frame.columns]
        if missing:
            raise PipelineError(
                f"{job.source} is no archive of magnetar-pipeline: it has no column {missing[0]}."
            )
        if job.topics:
            frame = frame.where(_column("topic").isin(*job.topics))
        if job.partitions:
            frame = frame.where(_column("partition").isin(*job.partitions))
        if job.since is not None:
            # The day as well, so that Spark does not open the files of other days.
            frame = frame.where(f"timestamp >= timestamp_millis({job.since})")
            frame = frame.where(f"date >= date(timestamp_millis({job.since}))")
        if job.until is not None:
            frame = frame.where(f"timestamp < timestamp_millis({job.until})")
            frame = frame.where(f"date <= date(timestamp_millis({job.until}))")
        if job.where:
            frame = frame.where(job.where)
        return frame
    except PipelineError:
        raise
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error) or "UNABLE_TO_INFER_SCHEMA" in str(error):
            raise PipelineError(f"there is no archive at {job.source}.") from None
        raise PipelineError(explain(error)) from None


def check_topics(wanted: Iterable[str], folders: Iterable[str]) -> None:
    """Raises `PipelineError` for a topic that has no folder in the archive; says nothing where there are no folders."""
    kept = sorted(
        unquote(name.removeprefix(TOPIC_FOLDER)) for name in folders if name.startswith(TOPIC_FOLDER)
    )
    missing = sorted(set(wanted) - set(kept))
    if missing and kept:
        shown = ", ".join(kept[:TOPICS_SHOWN])
        more = f" and {len(kept) - TOPICS_SHOWN:,} more" if len(kept) > TOPICS_SHOWN else ""
        raise PipelineError(f"the archive has no topic {missing[0]}; it has {shown}{more}.")


def check_local(job: ReplayJob) -> None:
    """`check_topics` before Spark starts, where the archive is a folder on this machine."""
    folder = Path(job.source.removeprefix("file://"))
    if job.topics and folder.is_dir():
        check_topics(job.topics, (each.name for each in folder.iterdir()))


def _archived(spark: SparkSession, job: ReplayJob) -> DataFrame:
    """All records of the archive. One that was copied or moved is read where it lies now."""
    source = job.source
    files = HadoopFiles(spark, source)
    lists = FileLists(files)
    if job.topics:
        check_topics(job.topics, files.names(files.root))
    if not lists.elsewhere():
        return spark.read.parquet(source)
    # Spark would go by its list, which names the files where they lay before.
    paths = [f"{files.root}/{below}" for below in sorted(lists.counted())]
    return spark.read.option("basePath", files.root).parquet(*paths)


def plan(frame: DataFrame, job: ReplayJob) -> Plan:
    """Count what would be written, by partition: one pass over the archive's small columns."""
    from pyspark.sql import functions as f

    try:
        found = (
            frame.groupBy("topic", "partition")
            .agg(
                f.count("*").alias("count"),
                f.min("offset").alias("first"),
                f.max("offset").alias("last"),
                f.expr("unix_millis(min(timestamp))").alias("earliest"),
                f.expr("unix_millis(max(timestamp))").alias("latest"),
            )
            .collect()
        )
    except Exception as error:
        raise PipelineError(explain(error)) from None
    spans = {
        Place(row["topic"], row["partition"]): Span(
            row["count"], row["first"], row["last"], row["earliest"], row["latest"]
        )
        for row in found
    }
    return Plan(dict(sorted(spans.items())), {place.topic: job.target(place.topic) for place in spans})


def prepare(spark: SparkSession, job: ReplayJob, planned: Plan) -> bool:
    """See to the target topics; whether records keep their partitions. Raises `PipelineError`."""
    if job.bootstrap is None:
        raise PipelineError("a replay needs --bootstrap.")
    reach(job.bootstrap, job.options)
    with cluster(spark, job.bootstrap, job.options) as broker:
        return _fit(broker, job, planned)


def _fit(broker: Cluster, job: ReplayJob, planned: Plan) -> bool:
    needed: dict[str, int] = {}
    for place in planned.spans:
        target = planned.targets[place.topic]
        needed[target] = max(needed.get(target, 0), place.partition + 1)
    there = broker.topics()
    missing = {target: width for target, width in needed.items() if target not in there}
    if missing and not job.create_topics:
        name, width = next(iter(missing.items()))
        raise PipelineError(
            f"topic {name} does not exist: create it (with {width} partitions the records keep theirs), "
            "or pass --create-topics."
        )
    if missing:
        broker.create(missing)
        there |= missing
    narrow = [target for target, width in needed.items() if there[target] < width]
    if narrow and job.keep_partitions:
        raise PipelineError(
            f"topic {narrow[0]} has {there[narrow[0]]} partitions and {needed[narrow[0]]} are needed: "
            "widen it, or pass --no-keep-partitions."
        )
    return not narrow if job.keep_partitions is None else job.keep_partitions


def replay(
    frame: DataFrame, job: ReplayJob, planned: Plan, keep_partitions: bool, progress: Progress, stop: Stop
) -> Replayed:
    """Write what `select` found. A `stop` ends it after the slice (under --rate: the second)."""
    try:
        slices = _slices(frame, job, planned)
        done = min(job.skip_slices, len(slices))
        for part in slices[done:]:
            if stop.asked:
                break
            written = 0
            for piece, rows in _pieces(_rows(frame, part), part, job, progress, stop):
                _write(_sink_columns(piece, job, keep_partitions), job)
                progress.add(rows, f"slice {done + 1} of {len(slices)}")
                written += rows
            if written < part.records and stop.asked:
                break
            done += 1
    except Exception as error:
        raise PipelineError(f"{explain(error)} {progress.rows:,} records were written before.") from None
    return Replayed(progress.rows, planned.count, progress.seconds, done, len(slices))


def _slices(frame: DataFrame, job: ReplayJob, planned: Plan) -> list[Slice]:
    width = bucket_width(planned.spans, job.slice_rows)
    counted = frame.selectExpr("topic", "partition", f"offset div {width} AS bucket")
    buckets: dict[Place, list[tuple[int, int]]] = {}
    for row in counted.groupBy("topic", "partition", "bucket").count().collect():
        buckets.setdefault(Place(row["topic"], row["partition"]), []).append((row["bucket"], row["count"]))
    return cut(buckets, width, job.slice_rows)


def _rows(frame: DataFrame, part: Slice) -> DataFrame:
    """The rows of a slice: each source partition in one task, by offset."""
    from pyspark.sql import functions as f

    wanted = [
        (f.col("topic") == place.topic)
        & (f.col("partition") == place.partition)
        & (f.col("offset") >= piece.start)
        & (f.col("offset") < piece.end)
        for place, piece in part.ranges.items()
    ]
    tasks = max(1, min(len(wanted), frame.sparkSession.sparkContext.defaultParallelism * 2))
    return (
        frame.where(_any(wanted))
        .repartition(tasks, "topic", "partition")
        .sortWithinPartitions("topic", "partition", "offset")
    )


def _any(conditions: list[Column]) -> Column:
    """One OR of all, as a balanced tree: a chain of thousands would overflow the planner's stack."""
    while len(conditions) > 1:
        pairs = [conditions[at : at + 2] for at in range(0, len(conditions), 2)]
        conditions = [pair[0] | pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return conditions[0]


def _pieces(
    rows: DataFrame, part: Slice, job: ReplayJob, progress: Progress, stop: Stop
) -> Iterator[tuple[DataFrame, int]]:
    """The slice as it is, or under --rate a second's worth at a time and each no earlier than its time."""
    if job.rate is None:
        yield rows, part.records
        return
    pieces = max(1, math.ceil(part.records / max(1.0, job.rate)))
    by = "PARTITION BY topic, partition"
    numbered = rows.selectExpr(
        "*",
        f"(row_number() OVER ({by} ORDER BY offset) - 1) * {pieces} div count(*) OVER ({by}) AS _piece",
    ).persist()
    try:
        counts = {row["_piece"]: row["count"] for row in numbered.groupBy("_piece").count().collect()}
        for number in sorted(counts):
            stop.sleep(progress.rows / job.rate - progress.seconds)
            if stop.asked:
                return
            piece = numbered.where(f"_piece = {number}").sortWithinPartitions("topic", "partition", "offset")
            yield piece, counts[number]
    finally:
        numbered.unpersist()


def _sink_columns(rows: DataFrame, job: ReplayJob, keep_partitions: bool) -> DataFrame:
    from pyspark.sql import functions as f

    headers = f.expr(_DUE_HEADERS)
    if job.timestamp_header:
        none = f.expr("CAST(array() AS array<struct<key: string, value: binary>>)")
        carried = f.struct(
            f.lit(job.timestamp_header).alias("key"),
            f.expr("CAST(CAST(unix_millis(timestamp) AS string) AS binary)").alias("value"),
        )
        headers = f.concat(f.coalesce(headers, none), f.array(carried))
    topic = f.lit(job.to) if job.to else f.concat(f.lit(job.prefix), f.col("topic"), f.lit(job.suffix))
    columns = [f.col("key"), f.col("value"), headers.alias("headers"), topic.alias("topic")]
    if keep_partitions:
        columns.append(f.col("partition"))
    return rows.select(*columns)


def _write(rows: DataFrame, job: ReplayJob) -> None:
    options = {**SINK_DEFAULTS, "kafka.bootstrap.servers": str(job.bootstrap)}
    if job.compression:
        options["kafka.compression.type"] = job.compression
    rows.write.format("kafka").options(**{**options, **job.options}).save()


def _column(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.col(name)
