"""`make powercut`: record, cut, recover, compare; and see to it that the proof itself can fail."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
from tqdm import tqdm

from compat.stopping import stoppable
from tests.proofs.powercut import cuts, order, recorder, recording, served
from tests.proofs.powercut.cuts import Cut, Tally
from tests.proofs.powercut.gateway import BREAKS
from tests.proofs.powercut.recording import POLICIES, Recording

IN_TWO = ("lanes-in-two", "halve-policies", "names-in-two")
"""Broken gateways that the images alone find out."""
SAYS = {
    "machine stopped before": "the start said that os records may be gone",
    "at least": "... and how many rows at least",
    "lost the offsets": "a log was cut, and the start said where",
    "moved from": "bytes that no commit speaks of were moved aside",
    "gap in a log": "a gap before what a synced turn had written",
    "offset clipped": "a committed offset followed a cut log",
    "policies": "policies of a topic or a namespace",
    "names": "partitions that know a named producer",
    "name forgotten": "all that was remembered of a named producer was cut",
    "ended topics": "topics that have ended",
    "expired messages": "messages that have expired",
    "committed transactions": "transactions that are committed",
    "aborted transactions": "transactions that were aborted",
    "records compacted away": "records that compaction took away",
    "producer forgotten": "all that was remembered of a producer was cut",
    "half of a record": "RocksDB's MANIFEST ended in half a record",
    "logs behind it": "WALs behind a hole were moved aside",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--policy", "policies", multiple=True, type=click.Choice(POLICIES), help="Default: all three.")
@click.option("--images", default=1000, show_default=True, help="Images for each policy.")
@click.option("--recordings", default=4, show_default=True, help="Runs of a gateway that they are cut from.")
@click.option("--seconds", default=2.0, show_default=True, help="How long the load of a recording goes on.")
@click.option("--served", "gateways", default=20, show_default=True, help="Images given to a real gateway.")
@click.option("--jobs", default=2, show_default=True, help="Processes that examine images.")
@click.option("--seed", default=1, show_default=True, help="Where random numbers begin.")
@click.option("--no-self-check", is_flag=True, help="Do not try whether broken gateways are found out.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep all recordings, and here.")
@stoppable()
def main(
    policies: tuple[str, ...],
    images: int,
    recordings: int,
    seconds: float,
    gateways: int,
    jobs: int,
    seed: int,
    no_self_check: bool,
    keep: Path | None,
) -> None:
    """Prove that nothing acknowledged is lost in a power cut, and nothing half-done is seen.

    A gateway runs under a recorder of all its writes, syncs and answers while clients produce, commit offsets, create,
    delete and trim. From each recording disks are made as they may look when the power fails at some moment:
    everything that was synced, and any part of the rest. A store is opened on each, compared with what clients were
    told, written to, and opened again. The order of syncs and answers is checked for every answer.

    Exit code 1 when anything was lost that was promised, half there, or not said. Recordings of which an image is
    wrong stay, and are named: `python -m tests.proofs.powercut.again --help` makes the image again.
    """
    began = time.monotonic()
    folder = keep or Path(tempfile.mkdtemp(prefix="powercut-", dir=_place()))
    right = True
    wrong: list[Path] = []
    try:
        for policy in policies or POLICIES:
            wrong += _policy(folder, policy, images, recordings, seconds, gateways, jobs, seed)
        right = not wrong
        if not no_self_check:
            right &= self_check(folder, seed, jobs)
    finally:
        if keep is None:
            for each in folder.iterdir():
                if each not in wrong:
                    shutil.rmtree(each, ignore_errors=True)
            if not wrong:
                folder.rmdir()
        for each in wrong:
            click.echo(f"kept: {each}", err=True)
    click.echo(f"\n{time.monotonic() - began:.0f} s in all: {'proven' if right else 'FAILED'}")
    sys.exit(0 if right else 1)


def _place() -> Path:
    """On a disk, where a sync takes its time, as it does in earnest."""
    recorder.BUILT.mkdir(parents=True, exist_ok=True)
    return recorder.BUILT


def _policy(
    folder: Path,
    policy: str,
    images: int,
    recordings: int,
    seconds: float,
    gateways: int,
    jobs: int,
    seed: int,
) -> list[Path]:
    """The recordings with which something is wrong."""
    began = time.monotonic()
    tally, answers, events = Tally(), Counter[str](), 0
    live: Tally = Tally()
    wrong: list[Path] = []
    with tqdm(total=images, desc=policy, unit="image") as bar:
        for number in range(recordings):
            place = folder / f"{policy}-{number}"
            failed = len(tally.failed) + len(live.failed)
            made = recording.record(place, policy, seconds, seed + number)
            events += len(made.events)
            right = _report(f"{policy}: the recorder missed something", recording.complete(made))
            checked = order.Order(made).run()
            answers.update(checked.checked)
            right &= _report(f"{policy}: answers left too early, or commits are halves", checked.violations)
            share = images * (number + 1) // recordings - images * number // recordings
            chosen = cuts.choose(made, share, seed + number)
            with contextlib.closing(cuts.all_of(made, chosen, jobs)) as parts:
                for part in parts:
                    tally.merge(part)
                    bar.update(part.images - part.recoveries_cut)
            count = gateways * (number + 1) // recordings - gateways * number // recordings
            live.merge(served.look(made, served.some(chosen, count)))
            if not right or len(tally.failed) + len(live.failed) > failed:
                wrong.append(place)
    click.echo(
        f"\n{policy}: {tally.images} images ({tally.recoveries_cut} of them of a recovery that was cut as well) of "
        f"{recordings} recordings with {events} events, {time.monotonic() - began:.0f} s"
    )
    for kind, number in sorted(answers.items()):
        what = "answers checked: {}; what they promise was synced before they left"
        if kind == order.COMMITS:
            what = "{} checked: a letter and the end of its record are in one"
        click.echo(f"  {number:7} " + what.format(kind))
    if policy != "fsync":
        click.echo(
            f"  {tally.lossy:7} images without something acknowledged: {tally.lost_batches} batches, "
            f"{tally.lost_commits} commits and topics over all of them"
        )
    for word, what in SAYS.items():
        if tally.seen[word]:
            click.echo(f"  {tally.seen[word]:7} images: {what}")
    click.echo(f"  {live.images:7} images served by a gateway to clients that went on")
    for found in (tally, live):
        _report(
            f"{policy}: {len(found.failed)} images are wrong",
            [f"seed {seed} {cut}\n      " + "\n      ".join(each[:5]) for cut, each in found.failed],
        )
    return wrong


def _report(title: str, problems: list[str]) -> bool:
    if problems:
        click.echo(f"\n{title}:", err=True)
        for problem in problems[:10]:
            click.echo(f"    {problem}", err=True)
        if len(problems) > 10:
            click.echo(f"    and {len(problems) - 10} more", err=True)
    return not problems


def self_check(folder: Path, seed: int, jobs: int) -> bool:
    """Gateways that break a promise, each of which must be found out: else the proof proves nothing."""
    right = True
    for name in BREAKS:
        made = recording.record(folder / f"broken-{name}", "fsync", 1.0, seed, broken=name)
        early = order.Order(made).run().violations
        tally = Tally()
        with contextlib.closing(cuts.all_of(made, worst(made, 40, seed), jobs)) as parts:
            for part in parts:
                tally.merge(part)
        # of what is in two commits the order says nothing, but of letters
        found = bool(tally.failed) and (bool(early) or name in IN_TWO)
        click.echo(
            f"self-check, {name}: {len(early)} answers too early or commits in two, "
            f"{len(tally.failed)} of {tally.images} images wrong"
            f"{'' if found else ': NOT FOUND OUT'}"
        )
        right &= found
    return right


def worst(made: Recording, count: int, seed: int) -> list[Cut]:
    """Cuts after which only what was synced is left."""
    return [cut._replace(style="none", names="none") for cut in cuts.choose(made, count, seed)]


if __name__ == "__main__":
    main()
