"""`make interplay`: policies that change under a topic in use, and what becomes of every message."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click
from tqdm import tqdm

from compat.stopping import deaf, stoppable
from tests.proofs.interplay.sabotage import SABOTAGES, sabotaged
from tests.proofs.interplay.world import Interplay
from tests.proofs.simulate.ledger import Broken


class Job(NamedTuple):
    seed: int
    steps: int
    sabotage: str | None = None


@contextmanager
def quiet() -> Iterator[None]:
    """What a gateway writes about each change is no news here."""
    log = logging.getLogger("magnetar")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def run(job: Job) -> tuple[Job, str | None, Counter[str]]:
    """One life of one topic: what was broken, and how much of everything there was."""
    play = Interplay(job.seed, job.steps)
    broken = None
    with quiet(), sabotaged(job.sabotage):
        try:
            asyncio.run(play.run())
        except Broken as found:
            broken = str(found)
    return job, broken, Counter(play.counts)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
    Examples:
      make interplay
      make interplay ARGS="--seeds 1 --first 17"          # repeat a run
      make interplay ARGS="--sabotage evicts-too-much"    # must fail
    """,
)
@click.option("--seeds", default=1000, show_default=True, help="Lives of a topic.")
@click.option("--first", default=1, show_default=True, help="The seed of the first.")
@click.option("--steps", default=300, show_default=True, help="What happens in each.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
@click.option("--sabotage", type=click.Choice(sorted(SABOTAGES)), help="Break a rule on purpose: must fail.")
@stoppable()
def main(seeds: int, first: int, steps: int, jobs: int, sabotage: str | None) -> None:
    """Delay, time to live, retention and quotas beside each other, for Shared and Key_Shared subscriptions.

    One topic on a whole broker on a store in memory, whose clock stands until it is moved. Publishers send delayed
    messages and are kept out; consumers acknowledge, nack and hold on; administrators set and remove policies at two
    levels; the jobs run; the gateway is killed. After each step every message of every subscription must be as an
    oracle says that knows messages only: open or settled, deleted or kept, counted as expired once. At the end all that
    is open is delivered.

    Everything follows from the seed. Exit code 1 when a rule was broken.
    """
    plan = [Job(seed, steps, sabotage) for seed in range(first, first + seeds)]
    began, failed = time.monotonic(), 0
    totals: Counter[str] = Counter()
    with tqdm(total=len(plan), unit="life") as bar:
        for job, broken, counts in _results(plan, jobs):
            bar.update()
            totals += counts
            if broken:
                failed += 1
                bar.write(f"seed {job.seed}: {broken}")
    click.echo(", ".join(f"{count} {what}" for what, count in totals.items()))
    click.echo(f"{time.monotonic() - began:.0f} s: {f'{failed} lives FAILED' if failed else 'proven'}")
    sys.exit(1 if failed else 0)


def _results(plan: list[Job], jobs: int) -> Iterable[tuple[Job, str | None, Counter[str]]]:
    if jobs == 1 or len(plan) == 1:
        yield from map(run, plan)
        return
    with deaf():
        pool = multiprocessing.Pool(jobs)
    with pool:
        yield from pool.imap_unordered(run, plan)


if __name__ == "__main__":
    main()
