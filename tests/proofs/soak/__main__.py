"""`make soak`: SIGKILL under load, again and again, and nothing acknowledged may be missing."""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path

import click

from compat.stopping import stoppable
from tests.proofs.soak.loads import KINDS
from tests.proofs.soak.run import Failed, Plan, Soak
from tests.proofs.soak.sabotage import SABOTAGES
from tests.proofs.soak.steps import NUMBERS, STEPS


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
    Examples:
      make soak
      make soak ARGS="--kills 20 --passes 1"
      make soak ARGS="--minutes 120 --durability fsync"
      make soak ARGS="--seed 1234 --step wal.before --kills 0"
      make soak ARGS="--kills 20 --sabotage forget-producers"     # must fail
    """,
)
@click.option(
    "--kills", default=200, show_default=True, help="Kills at random instants, over all durabilities."
)
@click.option("--minutes", default=0.0, help="Go on with random kills for so long at least.")
@click.option(
    "--durability", type=click.Choice(["both", "os", "fsync"]), default="both", show_default=True,
    help="The gateway's setting; one of the topics is fsync always.",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=None, help="Repeat the choices of a run. Default: another one each time."
)
@click.option(
    "--load", "kinds", multiple=True, type=click.Choice(KINDS), help="These loads only. Default: all."
)
@click.option("--step", "names", multiple=True, help="Kill at these steps only; a name or number of --steps.")
@click.option("--no-steps", is_flag=True, help="Kill at random only.")
@click.option("--passes", default=3, show_default=True, help="Of each step, so many of its passes.")
@click.option("--steps", "listing", is_flag=True, help="List the numbered steps and end.")
@click.option(
    "--sabotage",
    type=click.Choice(sorted(SABOTAGES)),
    help="Break a promise on purpose: the proof must fail.",
)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where data and logs go. Default: a temporary folder."
)
@click.option("--keep", is_flag=True, help="Keep the folder also when nothing was wrong.")
@stoppable(at_once=True)
def main(
    kills: int,
    minutes: float,
    durability: str,
    seed: int | None,
    kinds: tuple[str, ...],
    names: tuple[str, ...],
    no_steps: bool,
    passes: int,
    listing: bool,
    sabotage: str | None,
    folder: Path | None,
    keep: bool,
) -> None:
    """Kill a gateway under load, start it on the same folder, and compare what is there with what clients were told.

    Clients are librdkafka's, kafka-python's and aiokafka's producers (idempotent and plain), consumer groups,
    committers of offsets, share groups (librdkafka's, and by hand), consumers of a queue topic, transactional
    producers (some behind a proxy that passes requests on late), topics that come and go, and DeleteRecords. They
    go on by themselves. After each start everything new is read and compared: nothing acknowledged is missing or
    different, nothing of an idempotent producer is there twice or out of order, doubles of a plain one have a
    restart between them, offsets and epochs never go back, committed offsets are those last acknowledged or sent
    since. At the end all is read again.

    The gateway is killed at random instants, and then at every numbered step between the first byte and the answer.
    Exit code 0: all held. 1: something did not; the folder with data and logs is kept, and named.
    """
    if listing:
        for step in STEPS:
            click.echo(f"{NUMBERS[step.name]:>3}  {step.name:<22}{step.when:<10}{step.text}")
        return
    wanted = {name if not name.isdigit() else STEPS[int(name) - 1].name for name in names}
    if unknown := wanted - NUMBERS.keys():
        raise click.UsageError(f"no such step: {', '.join(sorted(unknown))}; see --steps")
    steps = () if no_steps else tuple(step for step in STEPS if not wanted or step.name in wanted)
    plan = Plan(
        seed=random.randrange(1 << 31) if seed is None else seed,
        kills=kills,
        minutes=minutes,
        durabilities=("os", "fsync") if durability == "both" else (durability,),
        steps=() if sabotage else steps,
        passes=passes,
        sabotage=sabotage or "",
        kinds=kinds or KINDS,
    )
    place = Path(tempfile.mkdtemp(prefix="magnetar-soak-")) if folder is None else folder
    if (place / "data").exists():
        raise click.UsageError(f"{place} has the data of another run; choose another folder")
    place.mkdir(parents=True, exist_ok=True)
    click.echo(f"seed {plan.seed}, data in {place}")
    # what the Python clients say about each kill
    log = RotatingFileHandler(place / "clients.log", maxBytes=20 << 20, backupCount=1)
    logging.basicConfig(handlers=[log], format="%(asctime)s %(name)s %(message)s")
    sys.setswitchinterval(0.001)
    soak = Soak(plan, place)
    why = ""
    try:
        with _gives_way():
            soak.run()
    except Failed as error:
        why = str(error)
    except KeyboardInterrupt:
        if keep or folder is not None:
            click.echo(f"data and logs are in {place}", err=True)
        else:
            shutil.rmtree(place, ignore_errors=True)
        raise
    click.echo(soak.table())
    if why:
        for text in soak.violations:
            click.echo(f"violation: {text}", err=True)
        click.echo(
            f"FAILED: {why}. Data and logs are kept in {place}; again with --seed {plan.seed}", err=True
        )
        sys.exit(1)
    click.echo("Nothing acknowledged was lost, nothing half-done was seen.")
    if not keep and folder is None:
        shutil.rmtree(place)


@contextlib.contextmanager
def _gives_way() -> Iterator[None]:
    """The gateway, a session of its own, goes first meanwhile. librdkafka's idempotent producers spin (poll without a
    timeout) while they send again: two of them took both processors, and a gateway that was ready to run had none for
    ten seconds. Linux only; it counts for all of this session (sched(7), autogroup).
    """
    priority = Path("/proc/self/autogroup")
    try:
        before = priority.read_text().split()[-1]
        priority.write_text("10")
    except (OSError, IndexError):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            priority.write_text(before)


if __name__ == "__main__":
    main()
