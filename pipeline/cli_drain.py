"""`magnetar-pipeline drain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.broker import reach
from pipeline.errors import INTERRUPTED
from pipeline.options import (
    RunningSpark,
    chosen,
    kafka_options,
    spark_options,
    stream_options,
    take_over_option,
)
from pipeline.progress import Stop, how_it_ended
from pipeline.session import require_pyspark

if TYPE_CHECKING:
    from pipeline.drain import Drained


@click.command(context_settings={"show_default": True})
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="The gateway.")
@click.option("--topic", required=True, help="The queue topic: <topic>-<subscription>-QUEUE.")
@click.option(
    "--subscription", help="The subscription, and so the group [default: what the topic's name says]."
)
@click.option("--output", metavar="DIR", help="Parquet: a folder or URL that Spark can write to.")
@click.option(
    "--hook", metavar="MODULE:FUNCTION", help="Instead: call this with each batch (a DataFrame, its number)."
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="How far was read [default: _magnetar/checkpoint in the output]; needed with --hook.",
)
@stream_options
@click.option("--dry-run", is_flag=True, help="Say what is there and who is in the group; read nothing.")
@take_over_option
@kafka_options
@spark_options
def drain(
    bootstrap: str,
    topic: str,
    subscription: str | None,
    output: str | None,
    hook: str | None,
    checkpoint: str | None,
    continuous: bool,
    interval: str,
    max_offsets: int,
    compression: str,
    dry_run: bool,
    take_over: bool,
    client_config: Path | None,
    options: tuple[tuple[str, str], ...],
    **spark: Any,
) -> None:
    """A queue topic to Parquet, or to a function of yours: Spark as the consumer of a subscription.

    After each batch the job acknowledges exactly what that batch has read: what is acknowledged is in the output.
    Start it again, after whatever stopped it, with the same arguments: first it acknowledges what was finished and
    not acknowledged yet, then it goes on. A batch that failed is read again, the same messages.

    The job is no member of the group, and the gateway takes its commits only while the group has none. So it
    refuses to begin when there are consumers in it, and says who. Of two drains of one subscription the one that
    began last goes on.

    Without --continuous it ends when nothing is left, or when it has read as much as the topic held at its start.
    Nacked and delayed messages are left until they are due.

    \b
    Examples:
      # who is in the group, and where do the lanes stand?
      magnetar-pipeline drain --bootstrap localhost:9092 --topic orders-billing-QUEUE --dry-run
      # all that is there now, to Parquet
      magnetar-pipeline drain --bootstrap localhost:9092 --topic orders-billing-QUEUE --output /data/billing
      # for ever, a batch each minute
      magnetar-pipeline drain --bootstrap localhost:9092 --topic orders-billing-QUEUE \\
          --output s3a://bucket/billing --continuous --interval '1 minute'
      # each batch to a function: def bill(rows, batch): ... in jobs.py of this folder
      magnetar-pipeline drain --bootstrap localhost:9092 --topic orders-billing-QUEUE \\
          --hook jobs:bill --checkpoint /data/billing-checkpoint

    \b
    The function gets a DataFrame with topic, partition (the lane), offset (the delivery), timestamp, timestampType,
    key, value and headers. When it returns, the batch is acknowledged. After a kill it may get a batch again, with
    the same number and the same rows: write so that a number counts once.
    """
    require_pyspark()
    from pipeline.drain import DrainJob, hook_of, lanes_table, look
    from pipeline.drain import drain as run

    if not dry_run:
        if (output is None) == (hook is None):
            raise click.UsageError("say where to: either --output or --hook (or --dry-run).")
        if hook is not None and checkpoint is None:
            raise click.UsageError("say where to keep how far was read: --hook needs --checkpoint.")
    job = DrainJob(
        bootstrap=bootstrap,
        topic=topic,
        subscription=subscription,
        output=output,
        hook=hook_of(hook) if hook is not None and not dry_run else None,
        hook_name=hook or "",
        checkpoint=checkpoint,
        interval=interval if continuous else None,
        max_offsets=max_offsets,
        compression=compression,
        take_over=take_over,
        options=chosen(client_config, options),
    )
    stop = Stop()
    reach(bootstrap, job.options)  # before Spark's six seconds
    with RunningSpark("magnetar-pipeline drain", spark, stop) as session:
        if dry_run:
            click.echo(lanes_table(look(session, job)))
            return
        done = run(session, job, stop)
    click.echo(drained_sentence(done, output or f"{hook}"), err=True)
    if not continuous and not done.finished:
        sys.exit(INTERRUPTED)


def drained_sentence(done: Drained, where: str) -> str:
    """What a run of `drain` says at its end."""
    text = f"drained and acknowledged {done.rows:,} deliveries in {done.seconds:.1f} s"
    text += f" ({done.rows / max(done.seconds, 0.001):,.0f} a second), to {where}"
    return text + how_it_ended(done.swept, done.finished)
