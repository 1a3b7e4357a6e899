"""`magnetar-pipeline`: what a person types, and the sentences that come back."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.broker import reach
from pipeline.cli_drain import drain
from pipeline.config import PREFIX, defaults, hear
from pipeline.errors import INTERRUPTED
from pipeline.options import (
    Instant,
    RunningSpark,
    Starting,
    chosen,
    kafka_options,
    spark_options,
    stream_options,
    take_over_option,
)
from pipeline.progress import Progress, Stop, how_it_ended
from pipeline.session import require_pyspark, submitted

if TYPE_CHECKING:
    from pipeline.archive import Archived
    from pipeline.replay import Plan, ReplayJob


def _print_version(context: click.Context, param: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from importlib import metadata

    try:
        click.echo(f"magnetar-pipeline {metadata.version('magnetar')}")
    except metadata.PackageNotFoundError:  # spark-submit from a checkout
        click.echo("magnetar-pipeline, from a checkout that is not installed")
    context.exit()


def _read_config(context: click.Context, param: click.Parameter, file: Path | None) -> None:
    if file is not None and not context.resilient_parsing:
        context.default_map = defaults(main, file)


class Commands(click.Group):
    """The group. Ctrl-C ends a command quietly, where it does not listen for it."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **options)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    envvar=f"{PREFIX}_CONFIG",
    help="A TOML file with a table for each command; its options have their names. [env MAGNETAR_PIPELINE_CONFIG]",
)
def main() -> None:
    """Keep topics as Parquet, and play them back; let Spark consume a subscription.

    Runs on any Spark with the stock Kafka connector, against any Kafka broker; drain wants a gateway.

    \b
      magnetar-pipeline archive --bootstrap localhost:9092 --topic orders --output /data/archive
      magnetar-pipeline replay --input /data/archive --bootstrap localhost:9092 --suffix .again --dry-run
      magnetar-pipeline drain --bootstrap localhost:9092 --topic orders-billing-QUEUE --output /data/billing

    Each option may stand in a file (--config) or in the environment: MAGNETAR_PIPELINE_ARCHIVE_BOOTSTRAP is archive's
    --bootstrap. What is typed goes before the environment, and that before the file.

    \b
    On a cluster, from a checkout:
      PYTHONPATH=. spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION \\
        pipeline/cli.py archive ...
    """


@main.command(context_settings={"show_default": True})
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="The gateway, or any Kafka broker.")
@click.option("--topic", "topics", multiple=True, help="A topic; repeatable.")
@click.option("--pattern", help="All topics whose whole name matches this regular expression (Java's).")
@click.option(
    "--output", required=True, metavar="DIR", help="The archive: a folder or URL that Spark can write to."
)
@click.option(
    "--checkpoint", metavar="DIR", help="How far was read [default: _magnetar/checkpoint in the output]."
)
@click.option("--starting", type=Starting(), default="earliest", help="Where to begin without a checkpoint.")
@stream_options
@click.option(
    "--allow-data-loss", is_flag=True, help="Go on when records are gone that were not archived yet."
)
@take_over_option
@kafka_options
@spark_options
def archive(
    bootstrap: str,
    topics: tuple[str, ...],
    pattern: str | None,
    output: str,
    checkpoint: str | None,
    starting: str | int,
    continuous: bool,
    interval: str,
    max_offsets: int,
    compression: str,
    allow_data_loss: bool,
    take_over: bool,
    client_config: Path | None,
    options: tuple[tuple[str, str], ...],
    **spark: Any,
) -> None:
    """Topics to Parquet, partitioned by topic and date; every record once.

    Without --continuous it takes what is there now and ends. Start it again, after whatever stopped it, with
    the same arguments: it goes on where it was, and no record is written twice.

    \b
    Examples:
      # all that is there now
      magnetar-pipeline archive --bootstrap localhost:9092 --topic orders --output /data/archive
      # every topic of a department, for ever, a batch each minute
      magnetar-pipeline archive --bootstrap localhost:9092 --pattern 'sales\\..*' \\
          --output s3a://bucket/sales --continuous --interval '1 minute'
      # from the first of March, over TLS, as a user: client.properties says which
      magnetar-pipeline archive --bootstrap broker:9093 --topic orders --output /data/march \\
          --starting 2026-03-01 --client-config client.properties

    \b
    Columns: partition, offset, timestamp, timestampType (0 created, 1 appended), key, value,
    headers (array of key, value), and the folders topic=.../date=... (UTC day of the timestamp).
    """
    require_pyspark()
    from pipeline.archive import ArchiveJob
    from pipeline.archive import archive as run

    if bool(topics) == bool(pattern):
        raise click.UsageError("say which topics: either --topic (repeatable) or --pattern.")
    job = ArchiveJob(
        bootstrap=bootstrap,
        output=output,
        topics=topics,
        pattern=pattern,
        checkpoint=checkpoint,
        starting=starting,
        interval=interval if continuous else None,
        max_offsets=max_offsets,
        compression=compression,
        allow_data_loss=allow_data_loss,
        take_over=take_over,
        options=chosen(client_config, options),
    )
    stop = Stop()
    reach(bootstrap, job.options)  # before Spark's six seconds
    with RunningSpark("magnetar-pipeline archive", spark, stop) as session:
        done = run(session, job, stop)
    click.echo(archived_sentence(done, output), err=True)
    if not continuous and not done.finished:
        sys.exit(INTERRUPTED)


def archived_sentence(done: Archived, output: str) -> str:
    """What a run of `archive` says at its end."""
    text = f"archived {done.rows:,} records in {done.seconds:.1f} s"
    text += f" ({done.rows / max(done.seconds, 0.001):,.0f} rows/s), lag {done.lag:,}, in {output}"
    return text + how_it_ended(done.swept, done.finished)


@main.command(context_settings={"show_default": True})
@click.option("--input", "source", required=True, metavar="DIR", help="What `archive` has written.")
@click.option("--bootstrap", metavar="HOST:PORT,...", help="The gateway, or any Kafka broker.")
@click.option("--to", metavar="TOPIC", help="One topic for all records.")
@click.option("--prefix", default="", show_default=False, help="Before the record's own topic name.")
@click.option("--suffix", default="", show_default=False, help="After the record's own topic name.")
@click.option("--same-names", is_flag=True, help="Into the topics that the records came from.")
@click.option("--topic", "topics", multiple=True, help="Only records of this topic; repeatable.")
@click.option(
    "--partition", "partitions", type=int, multiple=True, help="Only of this partition; repeatable."
)
@click.option("--from", "since", type=Instant(), help="Only records with a timestamp from here on.")
@click.option("--until", type=Instant(), help="Only records with a timestamp before this.")
@click.option(
    "--where", metavar="SQL", help="Only records for which this holds, e.g. \"CAST(key AS STRING) = 'a'\"."
)
@click.option("--dry-run", is_flag=True, help="Count what would be written, and write nothing.")
@click.option(
    "--keep-partitions/--no-keep-partitions",
    default=None,
    show_default=False,
    help="Into the partition of the same number, or where the key's hash says "
    "[default: keep if the target has enough].",
)
@click.option("--create-topics", is_flag=True, help="Create missing targets, as wide as the source was.")
@click.option(
    "--timestamp-header", metavar="NAME", help="Keep the record's time (ms) in a header of this name."
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records a second, at most.")
@click.option(
    "--slice", "slice_rows", type=click.IntRange(min=1), default=500_000, help="Records in one Spark job."
)
@click.option(
    "--skip-slices", type=click.IntRange(min=0), default=0, help="Slices an earlier run has written."
)
@click.option(
    "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), help="Of the batches."
)
@kafka_options
@spark_options
def replay(
    source: str,
    bootstrap: str | None,
    to: str | None,
    prefix: str,
    suffix: str,
    same_names: bool,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    since: int | None,
    until: int | None,
    where: str | None,
    dry_run: bool,
    keep_partitions: bool | None,
    create_topics: bool,
    timestamp_header: str | None,
    rate: float | None,
    slice_rows: int,
    skip_slices: int,
    compression: str | None,
    client_config: Path | None,
    options: tuple[tuple[str, str], ...],
    **spark: Any,
) -> None:
    """Parquet back to topics, in the order of each partition.

    Keys, values, headers and tombstones come back as they were. Timestamps are those of the replay (Spark's
    sink can not set them): --timestamp-header keeps the old ones. A delay counts from the record's timestamp:
    pulsar-deliver-after becomes pulsar-deliver-at with the time at which the record was due first. Delivery is
    at least once, as with Spark's sink.

    \b
    Examples:
      # what would happen?
      magnetar-pipeline replay --input /data/archive --suffix .again --dry-run
      # the orders of one morning into a topic for tests, 500 a second
      magnetar-pipeline replay --input /data/archive --bootstrap localhost:9092 \\
          --topic orders --to orders-test --create-topics \\
          --from 2026-03-01T06:00Z --until 2026-03-01T12:00Z --rate 500
      # one customer's records
      magnetar-pipeline replay --input /data/archive --bootstrap localhost:9092 \\
          --to customer-7 --create-topics --no-keep-partitions \\
          --where "CAST(key AS STRING) = 'customer-7'"
    """
    require_pyspark()
    from pipeline.replay import ReplayJob, check_local, plan, prepare, select
    from pipeline.replay import replay as run

    ways = sum((to is not None, bool(prefix or suffix), same_names))
    if ways != 1:
        raise click.UsageError("say where to: exactly one of --to, --prefix/--suffix or --same-names.")
    if bootstrap is None and not dry_run:
        raise click.UsageError("say which broker: --bootstrap (or --dry-run).")
    job = ReplayJob(
        source=source,
        bootstrap=bootstrap,
        to=to,
        prefix=prefix,
        suffix=suffix,
        topics=topics,
        partitions=partitions,
        since=since,
        until=until,
        where=where,
        keep_partitions=keep_partitions,
        create_topics=create_topics,
        timestamp_header=timestamp_header,
        rate=rate,
        slice_rows=slice_rows,
        skip_slices=skip_slices,
        compression=compression,
        options=chosen(client_config, options),
    )
    stop = Stop()
    if not submitted():
        check_local(job)
    if job.bootstrap is not None and not dry_run:
        reach(job.bootstrap, job.options)  # before Spark's six seconds
    with RunningSpark("magnetar-pipeline replay", spark, stop) as session:
        frame = select(session, job)
        planned = plan(frame, job)
        if dry_run:
            click.echo(table(planned, job))
            return
        if not planned.count:
            click.echo("no record passes the filters; nothing was written.", err=True)
            return
        keep = prepare(session, job, planned)
        if not keep and keep_partitions is None:
            click.echo(
                "the target has fewer partitions than the source: records go where their key says.", err=True
            )
        progress = Progress("replayed", planned.count)
        try:
            done = run(frame, job, planned, keep, progress, stop)
        finally:
            progress.close()
    click.echo(progress.line(), err=True)
    if done.slices < done.of_slices:
        click.echo(f"stopped; to go on: the same command with --skip-slices {done.slices}", err=True)
        sys.exit(INTERRUPTED)


def table(planned: Plan, job: ReplayJob) -> str:
    """The dry run's answer: a line for each partition and a sum."""
    heads = ("topic", "partition", "to", "records", "offsets", "from", "until")
    lines = [
        (
            place.topic,
            str(place.partition),
            planned.targets[place.topic],
            f"{span.records:,}",
            f"{span.first}-{span.last}",
            _when(span.earliest),
            _when(span.latest),
        )
        for place, span in planned.spans.items()
    ]
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    text = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [heads, *lines]
    )
    total = f"\n{planned.count:,} records in {len(planned.spans)} partitions"
    if job.rate:
        total += f"; {planned.count / job.rate:,.0f} s at {job.rate:g} a second"
    return text + total + "; nothing was written."


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


main.add_command(drain)
hear(main)


if __name__ == "__main__":
    main()
