"""`magnetar-admin jobs`: what sends dead letters again, or discards them, and how far it is."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.admin_options import HELP, Noun, Options, common, counted, pass_options
from gateway.cli.admin_output import columns

RUNNING = "running"
HEADS = ["id", "what", "state", "subscription", "done", "planned", "died again", "began", "by"]

_id = click.argument("job", type=click.IntRange(1), metavar="ID")


@click.group(cls=Noun, context_settings=HELP)
def jobs() -> None:
    """Jobs over dead letters: replays and discards. pulsar-admin has no such noun."""


@jobs.command(
    "list",
    epilog="\b\nExamples:\n  magnetar-admin jobs list\n  magnetar-admin --output json jobs list --limit 5",
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@common
@pass_options
def list_jobs(options: Options, limit: int) -> None:
    """The last jobs, the newest first. The gateway remembers 100."""
    found: list[dict[str, Any]] = options.client().get("magnetar/jobs", limit=str(limit))["jobs"]
    if options.output == "json":
        options.show(found)
    elif found:
        click.echo(columns(HEADS, [_cells(each) for each in found]))


@jobs.command(epilog="\b\nExample:\n  magnetar-admin jobs show 7")
@_id
@common
@pass_options
def show(options: Options, job: int) -> None:
    """All that is known of the job ID."""
    options.show(options.client().get(f"magnetar/jobs/{job}"))


@jobs.command(epilog="\b\nExample:\n  magnetar-admin jobs stop 7")
@_id
@common
@pass_options
def stop(options: Options, job: int) -> None:
    """Stop the job ID. What it has sent stays sent; letters that it has not taken stay open."""
    found: dict[str, Any] = options.client().post(f"magnetar/jobs/{job}/stop")
    if options.output == "text":
        click.echo(told(found))
    else:
        options.show(found)


def told(job: dict[str, Any]) -> str:
    """A job in a sentence."""
    verb = "sent" if job["what"] == "replay" else "discarded"
    text = f"Job {job['id']} is {job['state']}: {counted(job['done'], 'letter')} {verb}"
    if job["leftOut"]:
        text += f", {job['leftOut']:,} left out"
    if job["diedAgain"]:
        text += f", {job['diedAgain']:,} dead again"
    return text + (f" ({job['why']})." if job.get("why") else ".")


def is_well(job: dict[str, Any]) -> bool:
    """Whether it did what it was to do, as far as is known."""
    return job["state"] in (RUNNING, "done")


def _cells(job: dict[str, Any]) -> list[str]:
    return [
        str(job["id"]),
        job["what"],
        job["state"],
        f"{job['topic']} {job['subscription']}",
        str(job["done"]),
        str(job["planned"]),
        str(job["diedAgain"]),
        job["began"][:19] + "Z",
        job["by"],
    ]
