"""`make simulate`: thousands of consumers under virtual time, and every promise held to every delivery."""

from __future__ import annotations

import logging
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import click
from tqdm import tqdm

from compat.stopping import deaf, stoppable
from tests.proofs.simulate.lanes import sabotage as lanes_sabotage
from tests.proofs.simulate.lanes import scenarios as lanes_scenarios
from tests.proofs.simulate.lanes import world as lanes_world
from tests.proofs.simulate.lanes.scenarios import LaneScenario
from tests.proofs.simulate.ledger import Broken
from tests.proofs.simulate.sabotage import SABOTAGES
from tests.proofs.simulate.scenarios import Scenario, scenarios
from tests.proofs.simulate.world import World

ALL: list[Scenario | LaneScenario] = [*scenarios(), *lanes_scenarios.scenarios()]
NAMES = [scenario.name for scenario in ALL]
SHOWN_IN = {name: shown for name, (_, shown) in SABOTAGES.items()} | {
    f"lanes-{name}": shown for name, (shown, _) in lanes_sabotage.SABOTAGES.items()
}
"""Sabotage -> a scenario in which it shows."""


class Job(NamedTuple):
    scenario: Scenario | LaneScenario
    seed: int
    sabotage: str | None = None


class Result(NamedTuple):
    job: Job
    broken: str | None
    joined: int
    crashes: int
    seconds: int
    """virtual"""
    counts: Counter[str]
    late: list[int]


def run(job: Job) -> Result:
    """One life of one subscription."""
    if isinstance(job.scenario, LaneScenario):
        return _run_lanes(job, job.scenario)
    world = World(job.scenario, job.seed, *([SABOTAGES[job.sabotage][0]] if job.sabotage else []))
    broken = None
    try:
        world.run()
    except Broken as found:
        broken = str(found)
    return Result(
        job,
        broken,
        world.joined,
        world.crashes,
        world.time // 1000,
        world.ledger.counts,
        world.ledger.lateness,
    )


def _run_lanes(job: Job, scenario: LaneScenario) -> Result:
    # what a gateway writes about disks that fail is not news here
    logging.getLogger("magnetar").setLevel(logging.CRITICAL)
    world = lanes_world.LanesWorld(scenario, job.seed)
    broken = None
    try:
        if job.sabotage:
            with lanes_sabotage.sabotaged(job.sabotage.removeprefix("lanes-")):
                lanes_world.run(world)
        else:
            lanes_world.run(world)
    except Broken as found:
        broken = str(found)
    counts = world.oracle.counts
    return Result(job, broken, world.joined, counts["killed"], world.seconds, counts, [])


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
    Examples:
      make simulate
      make simulate ARGS="--scenario strict --seeds 50 --messages 5000 --consumers 100"
      make simulate ARGS="--scenario strict --first 17 --seeds 1"        # repeat a run
      make simulate ARGS="--sabotage not-strict"                         # must fail
    """,
)
@click.option("--scenario", "names", multiple=True, type=click.Choice(NAMES), help="Default: all of them.")
@click.option("--messages", default=10_000, show_default=True, help="Messages of a run.")
@click.option("--consumers", default=300, show_default=True, help="Consumers present at a time, of a run.")
@click.option("--keys", default=1000, show_default=True, help="Keys, of which few have most of the messages.")
@click.option("--seeds", default=4, show_default=True, help="Runs of each scenario.")
@click.option("--first", default=1, show_default=True, help="The seed of the first run.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
@click.option(
    "--sabotage", type=click.Choice(sorted(SHOWN_IN)), help="Break a promise on purpose: must fail."
)
@stoppable()
def main(
    names: tuple[str, ...],
    messages: int,
    consumers: int,
    keys: int,
    seeds: int,
    first: int,
    jobs: int,
    sabotage: str | None,
) -> None:
    """Prove the rules of subscriptions by simulation.

    Producers, a gateway and thousands of consumers live under virtual time. Consumers come, leave, die, stall until
    their locks run out, accept, release, reject and renew; messages are delayed, poisoned, unreadable, keyless; the
    gateway is killed in the middle of its turns and loads what was committed; administrators trim, skip, clear, seek
    and change limits. A ledger that never asks the cursor holds every delivery to the rules: one holder, order by key
    as the mode promises it, counts exact, delays never early, no death before the last delivery, and at the end every
    message acknowledged, dead or expired, once.

    What is called lanes- is a queue topic, served by a whole broker on a store in memory: consumer groups fetch ahead,
    commit now and then, name what they could not do, leave, die, stall and repeat themselves, while the disk and the
    gateway fail in any turn. Members and keys are the scenario's own there, and messages a quarter.

    Everything follows from the seed, so that what fails can be repeated. Exit code 1 when a promise was broken.
    """
    if sabotage and not names:
        names = (SHOWN_IN[sabotage],)
    plan = [
        Job(_sized(scenario, messages, consumers, keys), seed, sabotage)
        for seed in range(first, first + seeds)
        for scenario in ALL
        if not names or scenario.name in names
    ]
    began, broken = time.monotonic(), 0
    totals: dict[str, list[Result]] = {}
    with tqdm(total=len(plan), unit="run") as bar:
        for result in _results(plan, jobs):
            bar.update()
            totals.setdefault(result.job.scenario.name, []).append(result)
            if result.broken:
                broken += 1
                bar.write(f"seed {result.job.seed}: {result.broken}")
    for name, results in totals.items():
        click.echo(f"{name:20} {_summary(results)}")
    click.echo(f"{time.monotonic() - began:.0f} s: {f'{broken} runs FAILED' if broken else 'proven'}")
    sys.exit(1 if broken else 0)


def _sized(
    scenario: Scenario | LaneScenario, messages: int, consumers: int, keys: int
) -> Scenario | LaneScenario:
    if isinstance(scenario, LaneScenario):
        # a broker serves them: each costs ten times as much
        return replace(scenario, messages=max(messages // 4, 1))
    return replace(scenario, messages=messages, consumers=consumers, keys=keys)


def _results(plan: list[Job], jobs: int) -> Iterable[Result]:
    if jobs == 1 or len(plan) == 1:
        yield from map(run, plan)
        return
    with deaf():
        pool = multiprocessing.Pool(jobs)
    with pool:
        yield from pool.imap_unordered(run, plan)


def _summary(results: list[Result]) -> str:
    counts: Counter[str] = sum((result.counts for result in results), Counter())
    late = sorted(ms for result in results for ms in result.late)
    joined, crashes = sum(result.joined for result in results), sum(result.crashes for result in results)
    return (
        f"{joined:6} consumers, {crashes:3} crashes, "
        f"{counts['delivered']} delivered and {counts['redelivered']} again, {counts['acked']} acked, "
        f"{counts['dead']} dead, {counts['dropped']} dropped, {counts['timed out']} locks ran out, "
        f"late p50 {late[len(late) // 2] if late else 0} ms"
    )


if __name__ == "__main__":
    main()
