"""A queue topic to Parquet, or to a function: a Spark job as a consumer of a Shared or Key_Shared subscription.

Spark's Kafka source reads the lanes by their offsets and is no member of the group. So this job acknowledges for it
what the newest finished batch in the checkpoint has read: after each batch, and first thing at a start. What is
acknowledged is in the output, and a kill between a batch and its acknowledgement costs nothing: the next start makes
up for it. A batch that was not finished is open on the gateway, has its offsets in the checkpoint, and is read again;
[a, b) of a lane always reads the same.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.acks import Acks, marks
from pipeline.archive import COLUMNS
from pipeline.broker import cluster, reach
from pipeline.checkpoint import Checkpoint
from pipeline.errors import SPARK_IS_GONE, PipelineError, explain
from pipeline.folder import STAMP, ArchiveFolder
from pipeline.group import Stand, in_the_way, queue_group
from pipeline.hadoop import HadoopFiles
from pipeline.progress import Progress, Stop
from pipeline.sample import OPTION, UNSEEN, largest_record, poll_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pipeline.identity import Identity

Hook = Callable[["DataFrame", int], object]
"""What is done with a batch: its rows (`COLUMNS`) and its number. A batch that comes again has the same of both."""

CLIENT_ID_OPTION = "kafka.client.id"
"""Left out: only to clients that are called as Spark calls them a queue topic is like any other."""

LOOK_S = 0.1
"""How often the query is asked whether a batch has ended."""


@dataclass(frozen=True)
class DrainJob:
    """What to drain, and where to."""

    bootstrap: str
    topic: str
    """The queue topic."""
    subscription: str | None = None
    """Where the name of the topic does not say."""
    output: str | None = None
    """A folder for Parquet, or None: then `hook` has the batches."""
    hook: Hook | None = None
    hook_name: str = ""
    checkpoint: str | None = None
    """Needed with `hook`."""
    interval: str | None = None
    """The trigger interval of a drain that never ends; None: until nothing is left, then stop."""
    max_offsets: int = 1_000_000
    """Records a batch; 0: no bound but what the gateway delivers ahead."""
    compression: str = "zstd"
    take_over: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """A queue topic before it is drained."""

    topic: str
    base: str
    group: str
    members: list[str]
    stands: list[Stand]
    ends: list[int]


@dataclass(frozen=True)
class Drained:
    """What a run has done."""

    rows: int
    """Deliveries that were acknowledged."""
    seconds: float
    finished: bool
    """False when a run that was to end was stopped before nothing was left."""
    swept: int
    """Files of a killed run that were removed first."""


def look(spark: SparkSession, job: DrainJob) -> Seen:
    """What is there to drain, and who else is at it; nothing is acknowledged. Raises `PipelineError`."""
    reach(job.bootstrap, job.options)
    with cluster(spark, job.bootstrap, job.options) as broker:
        group, base = queue_group(broker, job.topic, job.subscription)
        members = [str(each) for each in group.members()]
        return Seen(job.topic, base, group.name, members, group.stands(), group.ends())


def drain(spark: SparkSession, job: DrainJob, stop: Stop) -> Drained:
    """Run the job to its end, or until `stop`. Raises `PipelineError`."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

    reach(job.bootstrap, job.options)
    where = job.output or job.checkpoint
    if where is None or (job.output is None) == (job.hook is None):
        raise PipelineError("a drain has an output, or a hook and a checkpoint.")
    with cluster(spark, job.bootstrap, job.options) as broker:
        group, base = queue_group(broker, job.topic, job.subscription)
        if members := group.members():
            raise PipelineError(in_the_way(group.name, members))
        ids = broker.ids([job.topic])
        retries = f"{base}-{group.name}-RETRY"
        widths = {name: each.partitions for name, each in broker.described([base, retries]).items()}
        poll = _poll(spark, job, widths)
        folder = ArchiveFolder(spark, where, job.checkpoint if job.output else where)
        with folder.writing(job.take_over):
            if job.output:
                folder.check()
            identity = _identity(folder, job, ids)
            swept = 0
            if job.output:
                folder.settle(identity)
            folder.keep(identity)
            if job.output:
                swept = folder.sweep(identity).removed
            progress = Progress("drained")
            checkpoint = Checkpoint(HadoopFiles(spark, folder.checkpoint), folder.checkpoint, job.topic)
            most, begun = broker.records(widths), False
            while True:
                acks = Acks(group, checkpoint, identity.archive)
                for note in acks.begin():
                    progress.say(note)
                ready = sum(group.ends()) - sum(acks.ends)
                if not begun:
                    most, begun = max(most, ready), True
                finished = job.interval is None and not ready
                if not finished and not stop.asked:
                    work = _Work(spark, job, folder, identity, acks, poll)
                    try:
                        finished = _follow(work, progress, stop, most)
                    except Py4JError as error:
                        raise PipelineError(explain(error)) from None
                    finally:
                        progress.close()
                if stop.asked or group.width() <= group.lanes:
                    break
                # Spark reads the lanes that it was begun with
                group = group.widened()
        return Drained(progress.rows, progress.seconds, finished, swept)


def _poll(spark: SparkSession, job: DrainJob, widths: Mapping[str, int]) -> int:
    """Records a poll, by a look at those of the topic and of its retries. Raises py4j's `Py4JError`."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

    try:
        size = 0 if OPTION in job.options else largest_record(spark, job.bootstrap, job.options, widths)
    except Py4JError as error:
        # whoever may read the queue topic need not be allowed to read these
        if "TopicAuthorizationException" in str(error):
            return UNSEEN
        raise
    return poll_records(size)


def _identity(folder: ArchiveFolder, job: DrainJob, ids: Mapping[str, str]) -> Identity:
    identity = folder.identity()
    if other := sorted(set(identity.topics) - {job.topic}):
        raise PipelineError(
            f"{folder.checkpoint} is the checkpoint of a job that reads {other[0]}: pass another "
            f"{'--output' if job.output else '--checkpoint'}."
        )
    identity.meet(ids)
    return identity


@dataclass
class _Work:
    """The query that is followed, and what it needs."""

    spark: SparkSession
    job: DrainJob
    folder: ArchiveFolder
    identity: Identity
    acks: Acks
    poll: int
    failure: PipelineError | None = None
    """What the hook said."""

    @contextmanager
    def started(self) -> Iterator[StreamingQuery]:
        """Runs it for the length of the block."""
        try:
            query = self._writer().start()
        except Exception as error:
            raise PipelineError(explain(error)) from None
        try:
            yield query
        finally:
            # when Spark is gone, what it died of has been said already
            with suppress(Exception):
                query.stop()

    def _rows(self) -> DataFrame:
        job, lanes = self.job, range(self.acks.group.lanes)
        options = {
            "kafka.bootstrap.servers": job.bootstrap,
            "includeHeaders": "true",
            # settled deliveries are forgotten after some time, and those of records that were trimmed read as nothing
            "failOnDataLoss": "false",
            "kafka.isolation.level": "read_committed",
            OPTION: str(self.poll),
            "assign": json.dumps({job.topic: list(lanes)}),
            "startingOffsets": json.dumps({job.topic: {str(lane): self.acks.ends[lane] for lane in lanes}}),
        }
        if job.max_offsets:
            options["maxOffsetsPerTrigger"] = str(job.max_offsets)
        said = {name: value for name, value in job.options.items() if name != CLIENT_ID_OPTION}
        rows = self.spark.readStream.format("kafka").options(**{**options, **said}).load()
        if self.acks.passed:
            below = " ".join(f"WHEN {lane} THEN {offset}" for lane, offset in self.acks.passed.items())
            rows = rows.where(f"offset >= CASE partition {below} ELSE 0 END")
        return rows

    def _writer(self) -> Any:
        job, rows = self.job, self._rows()
        if job.hook is not None:
            writer = rows.selectExpr(*COLUMNS).writeStream.foreachBatch(self._hooked)
        else:
            writer = (
                # Spark writes a column's metadata into each Parquet file: so a file says which job wrote it
                rows.selectExpr(*COLUMNS, "to_date(timestamp) AS date")
                .withMetadata("offset", {STAMP: self.identity.archive})
                .writeStream.format("parquet")
                .outputMode("append")
                .partitionBy("topic", "date")
                .option("path", self.folder.output)
                .option("compression", job.compression)
            )
        return writer.option("checkpointLocation", self.folder.checkpoint).trigger(
            processingTime=job.interval or "0 seconds"
        )

    def _hooked(self, rows: DataFrame, batch: int) -> None:
        assert self.job.hook is not None
        try:
            self.job.hook(rows, batch)
        except Exception as error:
            said = str(error).strip().splitlines()
            self.failure = PipelineError(
                f"{self.job.hook_name or 'the hook'} failed in batch {batch}: {type(error).__name__}"
                f"{': ' + said[0] if said else ''}. The batch was not acknowledged: the next start reads it again, the "
                "same rows under the same number."
            )
            raise


def _follow(work: _Work, progress: Progress, stop: Stop, most: int) -> bool:
    """Acknowledge after each batch until the query ends or is told to; whether nothing is left. `most`: a drain that is
    to end does so when it has read so many, though more may have come by now.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

    acks, endless = work.acks, work.job.interval is not None
    batch, looked, over = -1, time.monotonic(), False
    with work.started() as query:
        while not over and not stop.asked and not acks.grown:
            try:
                ended = query.awaitTermination(LOOK_S)
                last = query.lastProgress
            except Exception as error:
                # what was finished is acknowledged; if it cannot be, the next start does it
                with suppress(Py4JError, PipelineError):
                    _look(acks, progress)
                raise work.failure or PipelineError(_failed(error)) from None
            if ended:
                break
            now = last["batchId"] if last is not None and last["numInputRows"] else batch
            if now == batch and time.monotonic() - looked < 1:
                continue
            batch, looked = now, time.monotonic()
            try:
                _look(acks, progress)
                over = not endless and (progress.rows >= most or acks.group.ends() == acks.ends)
            except Py4JError as error:
                # a gateway that does not answer just now is asked again; a query that hears nothing ends by itself
                if explain(error) == SPARK_IS_GONE:
                    raise
    _look(acks, progress)
    return over


def _look(acks: Acks, progress: Progress) -> None:
    if rows := acks.look():
        progress.add(rows, "all of them acknowledged")


def _failed(error: BaseException) -> str:
    text = explain(error)
    if text == SPARK_IS_GONE:
        return text
    return f"{text} What finished batches had read is acknowledged; the rest is read again at the next start."


def hook_of(name: str) -> Hook:
    """The function that `module:function` names; modules of the working folder count. Raises `PipelineError`."""
    import importlib
    import sys

    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise PipelineError(f"--hook {name}: expected module:function.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise PipelineError(f"--hook {name}: {type(error).__name__}: {error}.") from None
    if not callable(found):
        raise PipelineError(f"--hook {name} is no function.")
    hook: Hook = found
    return hook


def lanes_table(seen: Seen) -> str:
    """What `--dry-run` says."""
    lines: Sequence[tuple[str, ...]] = [
        ("lane", "open from", "end", "ready"),
        *(
            (str(lane), f"{stand.offset:,}", f"{end:,}", f"{end - stand.offset:,}")
            for lane, (stand, end) in enumerate(zip(seen.stands, seen.ends, strict=True))
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )
    who = "; ".join(seen.members) or "nobody: it can be drained"
    last = marks(seen.stands)
    return (
        f"{seen.topic}: subscription {seen.group} of {seen.base}\n{text}\n"
        f"members of group {seen.group}: {who}\n"
        + (f"the last job that drained it: {last[0]}\n" if last else "")
        + '"ready" is what is delivered ahead; more follows as it is acknowledged. Nothing was acknowledged.'
    )
