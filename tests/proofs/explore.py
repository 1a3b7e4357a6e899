"""`make explore`: every property and every model machine with new examples, many times as many as in `make test`."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import click

_RED = re.compile(r"^FAILED (\S+)", re.MULTILINE)


def replay(seed: int, factor: int, tests: list[str]) -> str:
    """The command that draws the same examples again. They depend on the seed and on `factor`."""
    named = "".join(f" '{test}'" for test in tests)
    return f'make explore ARGS="--seed {seed} --factor {factor}{named}"'


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, help="Draw the examples of a former run. Default: new ones.")
@click.option(
    "--factor", default=20, show_default=True, type=click.IntRange(2), help="Times as many examples."
)
@click.option("--jobs", "-n", default=2, show_default=True, help="Tests side by side.")
@click.option("--smaller", is_flag=True, help="Make what is found smaller: may take many minutes.")
@click.argument("tests", nargs=-1)
def main(seed: int | None, factor: int, jobs: int, smaller: bool, tests: tuple[str, ...]) -> None:
    """Draw new examples for TESTS (default: all that Hypothesis feeds), and say how to see a red one again.

    Ends with 0 when every test held. Put what was found into a test of its own (tests/README.md), then mend it.
    """
    seed = seed if seed is not None else random.SystemRandom().randrange(1 << 31)
    click.echo(f"seed {seed}, {factor} times as many examples as in make test")
    command = [
        *(sys.executable, "-m", "pytest", "-m", "hypothesis and not integration and not spark"),
        *(f"--hypothesis-seed={seed}", "-n", str(jobs), "--timeout", "0", "-rf", *tests),
    ]
    environment = os.environ | {"EXPLORE": str(factor)} | ({"SHRINK": "1"} if smaller else {})
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    said = []
    for line in run.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        said.append(line)
    code = run.wait()
    red = _RED.findall("".join(said))
    if red:
        click.echo(f"\nTo see it again:\n  {replay(seed, factor, red)}\nFor a shorter example add --smaller.")
    sys.exit(code)


if __name__ == "__main__":
    main()
