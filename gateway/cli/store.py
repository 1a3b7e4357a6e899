"""`magnetar store`: look after the store of a gateway that is stopped."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import STARTED_BADLY, load, say

if TYPE_CHECKING:
    from store.rocksdb.verify import Report


@click.group()
def store() -> None:
    """Look after the store of a gateway that is stopped."""


@store.command(
    epilog="""\b
    Examples:
      magnetar store verify
      magnetar store verify --data /var/lib/magnetar
      magnetar store verify --data /var/lib/magnetar --repair

    The exit code is 0 when all is well, 1 when something is wrong.
    """
)
@click.option("--data", metavar="DIR", help="The data folder. [default: data]")
@click.option("--config", "file", metavar="FILE", help="TOML file with settings. [env: MAGNETAR_CONFIG]")
@click.option(
    "--repair",
    is_flag=True,
    help="Move aside bytes that no client was told are stored, take back records whose rows were lost, and let "
    "logs that refuse records because of damage take them again. What was acknowledged is never cut off.",
)
def verify(data: str | None, file: str | None, repair: bool) -> None:
    """Check every batch in the data folder against its CRC and the index; the gateway must be stopped."""
    folder = Path(load(data=data, file=file).text("data")).absolute()
    started = time.perf_counter()
    report = _run(folder, repair)
    seconds = time.perf_counter() - started
    for problem in report.problems:
        click.echo(
            f"{problem}" if problem.acknowledged else f"{problem} (no client was told that it is stored)"
        )
    for done in report.repaired:
        click.echo(f"repaired: {done}")
    click.echo(
        f"checked {_count(report.logs, 'log')}, {_count(report.segments, 'segment')}, "
        f"{_count(report.batches, 'batch', 'batches')}, {report.bytes / 1e6:,.1f} MB in {seconds:.1f} s"
    )
    if report.repaired:
        # what is left is found by looking, not by reckoning
        report = _run(folder, False)
        for problem in report.problems:
            click.echo(f"left: {problem}")
    click.echo(verdict(report))
    if not report.ok:
        sys.exit(STARTED_BADLY)


def verdict(report: Report) -> str:
    """The last line: what it comes to, and what to do."""
    if report.ok:
        return "all is well"
    lines = [f"{_count(len(report.problems), 'problem')} in {folder_state(report)}"]
    if any(not problem.acknowledged or problem.partition < 0 for problem in report.problems):
        lines.append("--repair mends what can be mended without cutting off what a client was told is stored")
    if any(problem.acknowledged and problem.partition >= 0 for problem in report.problems):
        lines.append(
            "acknowledged records are damaged: restore the folder from a copy, or start the gateway, which serves all "
            'the rest ("Damaged records" in docs/OPERATIONS.md)'
        )
    return "; ".join(lines)


def folder_state(report: Report) -> str:
    """How much of the store the problems touch."""
    touched = {problem.partition for problem in report.problems if problem.partition >= 0}
    return f"{len(touched)} of {_count(report.logs, 'log')}" if touched else "the store as a whole"


def _run(folder: Path, repair: bool) -> Report:
    """Verify with a progress bar on a terminal. Says what is wrong and exits when it cannot."""
    from tqdm import tqdm

    from gateway.broker.catalog import partition_names
    from store.api import StoreError
    from store.rocksdb.verify import verify as run

    # disable=None: no bar where nobody looks
    with tqdm(unit="B", unit_scale=True, desc="verify", leave=False, disable=None) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        try:
            return run(folder, repair, progress, partition_names)
        except (StoreError, OSError) as error:
            bar.close()
            say(str(error))
            sys.exit(STARTED_BADLY)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
