"""One image again, to look at: make it, keep a copy of it as it was, and say what is wrong with it.

    python -m tests.proofs.powercut.again DIR/os-0 IMAGE --cut 6128 --style short --names subset --chance 0.58
    python -m tests.proofs.powercut.again DIR/os-0/recovery-671-0.58 IMAGE --cut 530 ...    # one of a recovery

`make powercut` says what wrong images were made of, and keeps their recordings.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from tests.proofs.powercut import image, recording
from tests.proofs.powercut.cuts import Cut, build, examine
from tests.proofs.powercut.disk import Disk


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kept", type=click.Path(exists=True, path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--cut", "at", type=int, required=True, help="The event before which the power fails.")
@click.option("--style", type=click.Choice(image.WHOLE), required=True, help="What becomes of writes.")
@click.option("--names", type=click.Choice(image.NAMES), required=True, help="What becomes of names.")
@click.option("--chance", type=float, required=True, help="Where random numbers begin.")
def main(kept: Path, target: Path, at: int, style: str, names: str, chance: float) -> None:
    """Make one image of the recording KEPT: TARGET is opened and examined, TARGET.before is left as it was."""
    made = recording.load(kept)
    disk = Disk(made.root, base=made.base)
    for event in made.events[:at]:
        disk.apply(event)
    cut = Cut(at, style, names, chance)
    build(disk, target, made, cut)
    shutil.copytree(target, target.with_name(f"{target.name}.before"))
    verdict = examine(target, made, cut)
    click.echo("\n".join(verdict.problems) or "nothing is wrong with it")
    sys.exit(bool(verdict.problems))


if __name__ == "__main__":
    main()
