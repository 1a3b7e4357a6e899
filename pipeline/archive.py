"""Topics to Parquet, every record exactly once.

Spark's Kafka source reads from the checkpoint's offsets, Spark's Parquet sink names the files of a batch in
its list in one instant: a batch that is run again after a kill is either known there and skipped, or not and
written anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.broker import Cluster, choose, cluster, reach
from pipeline.errors import PipelineError, explain
from pipeline.folder import STAMP, ArchiveFolder
from pipeline.identity import Identity, adopted
from pipeline.progress import Progress, Stop
from pipeline.sample import OPTION, largest_record, poll_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
"""What is kept of a record, under the names of Spark's Kafka source. `timestampType`: 0 created, 1 appended.
`timestamp` has milliseconds as in Kafka; `headers` is an array of (key string, value binary), or null."""


@dataclass(frozen=True)
class ArchiveJob:
    """What to archive, and how."""

    bootstrap: str
    output: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    checkpoint: str | None = None
    starting: str | int = "earliest"
    """Where a topic begins that has no checkpoint yet: "earliest", "latest", or ms since 1970."""
    interval: str | None = None
    """The trigger interval of an archive that never ends; None: all that is there now, then stop."""
    max_offsets: int = 1_000_000
    """Records a batch; 0: no bound. A batch is what progress is shown for and what a kill repeats."""
    compression: str = "zstd"
    allow_data_loss: bool = False
    take_over: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Archived:
    """What a run has done."""

    rows: int
    seconds: float
    lag: int
    """Records that were in the topics and not in the archive when it stopped."""
    finished: bool
    """False when a batch run was stopped before it had everything."""
    swept: int
    """Files of a killed run that were removed first."""
    notes: tuple[str, ...] = ()
    """What else there is to say of what was found at the start."""


def archive(spark: SparkSession, job: ArchiveJob, stop: Stop) -> Archived:
    """Run the job to its end, or until `stop`. Raises `PipelineError`."""
    reach(job.bootstrap, job.options)
    with cluster(spark, job.bootstrap, job.options) as broker:
        there = broker.topics()
        found = choose(there, job.topics, job.pattern)
        ids = broker.ids(found)
        size = 0 if OPTION in job.options else _largest(spark, job, {name: there[name] for name in found})
    if not found and job.interval is None:
        raise PipelineError(f"no topic matches the pattern {job.pattern}.")
    folder = ArchiveFolder(spark, job.output, job.checkpoint)
    with folder.writing(job.take_over):
        folder.check()
        identity = folder.identity()
        notes = [adopted(identity.meet(ids), folder.read_topics()), _moved(folder.settle(identity))]
        folder.keep(identity)
        swept = folder.sweep(identity)
        notes.append(_strangers(swept.strangers))
        said = tuple(note for note in notes if note)
        progress = Progress("archived")
        for note in said:
            progress.say(note)
        with cluster(spark, job.bootstrap, job.options) as broker:
            watch = _Watch(broker, job, folder, identity)
            query = _start(_source(spark, job, poll_records(size)), job, folder, identity)
            try:
                followed = _follow(query, progress, stop, job.interval is not None, watch)
            finally:
                _end(query)
                progress.close()
        return Archived(progress.rows, progress.seconds, followed.lag, followed.ended, swept.removed, said)


class _Watch:
    """Compares the topics' ids after each batch: a topic may be made again while the archive runs."""

    def __init__(self, broker: Cluster, job: ArchiveJob, folder: ArchiveFolder, identity: Identity) -> None:
        self._broker = broker
        self._job = job
        self._folder = folder
        self._identity = identity

    def look(self) -> None:
        """Raises `PipelineError` when a topic is another one than before.

        A broker that does not answer just now is no reason to stop: the next look, or the next start, sees it.
        """
        from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

        try:
            names: Iterable[str] = self._job.topics
            if self._job.pattern is not None:
                names = choose(self._broker.topics(), (), self._job.pattern)
            ids = self._broker.ids(names)
        except Py4JError:
            return
        if self._identity.meet(ids):
            self._folder.keep(self._identity)


def _moved(before: str | None) -> str | None:
    return (
        f"the archive was copied or moved from {before}: its list of files names this folder now"
        if before
        else None
    )


def _strangers(found: list[str]) -> str | None:
    if not found:
        return None
    return (
        f"{len(found)} data files lie in it that no batch counts and that this archive did not write "
        f"(first: {found[0]}): they were left alone"
    )


def _largest(spark: SparkSession, job: ArchiveJob, widths: Mapping[str, int]) -> int:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

    try:
        return largest_record(spark, job.bootstrap, job.options, widths)
    except Py4JError as error:
        raise PipelineError(f"{job.bootstrap}: {explain(error)}") from None


def _source(spark: SparkSession, job: ArchiveJob, poll: int) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": job.bootstrap,
        "includeHeaders": "true",
        "failOnDataLoss": "false" if job.allow_data_loss else "true",
        # Records of a transaction that was aborted never were; --option puts them back.
        "kafka.isolation.level": "read_committed",
        OPTION: str(poll),
    }
    if job.pattern is not None:
        options["subscribePattern"] = job.pattern
    else:
        options["subscribe"] = ",".join(job.topics)
    if isinstance(job.starting, int):
        options["startingTimestamp"] = str(job.starting)
        # A partition without a record that late begins at its end instead of failing the job.
        options["startingOffsetsByTimestampStrategy"] = "latest"
    else:
        options["startingOffsets"] = job.starting
    if job.max_offsets:
        options["maxOffsetsPerTrigger"] = str(job.max_offsets)
    return spark.readStream.format("kafka").options(**{**options, **job.options}).load()


def _start(source: DataFrame, job: ArchiveJob, folder: ArchiveFolder, identity: Identity) -> StreamingQuery:
    # Spark writes a column's metadata into each Parquet file: so a file says which archive wrote it.
    rows = source.selectExpr(*COLUMNS, "to_date(timestamp) AS date").withMetadata(
        "offset", {STAMP: identity.archive}
    )
    writer = (
        rows.writeStream.format("parquet")
        .outputMode("append")
        .partitionBy("topic", "date")
        .option("path", folder.output)
        .option("checkpointLocation", folder.checkpoint)
        .option("compression", job.compression)
    )
    writer = (
        writer.trigger(processingTime=job.interval) if job.interval else writer.trigger(availableNow=True)
    )
    try:
        return writer.start()
    except Exception as error:
        raise PipelineError(explain(error)) from None


@dataclass
class _Followed:
    lag: int = 0
    ended: bool = False


def _end(query: StreamingQuery) -> None:
    """Stop the query. When Spark is gone, what it died of has been said already."""
    with suppress(Exception):
        query.stop()


def _follow(query: StreamingQuery, progress: Progress, stop: Stop, endless: bool, watch: _Watch) -> _Followed:
    """Show each batch's figures until the query ends or is told to."""
    followed, seen, batches = _Followed(), -1, 0
    try:
        while True:
            followed.ended = bool(query.awaitTermination(1))
            for report in query.recentProgress:
                if report["batchId"] > seen and report["numInputRows"]:
                    seen = report["batchId"]
                    followed.lag = lag(report)
                    if progress.rows == 0 and not endless:
                        progress.expect(int(report["numInputRows"]) + followed.lag)
                    progress.add(int(report["numInputRows"]), f"lag {followed.lag:,}")
                    batches += 1
            if batches:
                batches = 0
                watch.look()
            if followed.ended or stop.asked:
                return followed
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(explain(error)) from None


def lag(report: Mapping[str, Any]) -> int:
    """Records in the topics beyond the end of this batch, from one StreamingQueryProgress."""
    behind = 0
    for source in report["sources"]:
        ends, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        behind += sum(max(0, end - ends.get(place, 0)) for place, end in latest.items())
    return behind


def _offsets(text: object) -> dict[tuple[str, str], int]:
    """Spark's `{"topic": {"partition": offset}}`, which comes as JSON or as a mapping."""
    parsed = json.loads(text) if isinstance(text, str) and text else text
    if not isinstance(parsed, Mapping):
        return {}
    return {
        (topic, partition): int(offset)
        for topic, offsets in parsed.items()
        for partition, offset in offsets.items()
    }
