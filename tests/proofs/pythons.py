"""All unit tests on every Python that pyproject.toml promises and this machine has.

`make pythons`. Each Python gets a virtual environment of its own with what the lock files name, in .cache/pythons.
Prints a line for each at the end; ends with 1 when one is red, and with `--all` also when a promised one is not here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
from packaging.specifiers import SpecifierSet

from compat.stopping import stoppable

ROOT = Path(__file__).parents[2]

_LOCKS = ("requirements/run.lock", "requirements/dev.lock")

# a Python without its lock (3.13t) is another promise
_WHO = """
import json, platform, sys, sysconfig
if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(1)
print(json.dumps([sys.version_info[:3], platform.python_version(), sys.executable]))
"""

_COUNT = re.compile(r"(\d+) (passed|failed|skipped|error|xfailed|xpassed)")


@dataclass(frozen=True, order=True)
class Python:
    """An interpreter."""

    number: tuple[int, ...]
    version: str
    path: str

    @property
    def line(self) -> str:
        """3.11 of 3.11.7."""
        return f"{self.number[0]}.{self.number[1]}"


class NotReadyError(Exception):
    """What the tests need could not be installed."""


def promised() -> list[str]:
    """The lines that `requires-python` allows: 3.11, 3.12 and so on."""
    allowed = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    return [f"3.{minor}" for minor in range(100) if f"3.{minor}.99" in allowed]


def ask(path: str) -> Python | None:
    """Which Python this is. None when it does not start, e.g. because pyenv is set to another version."""
    try:
        done = subprocess.run([path, "-c", _WHO], capture_output=True, text=True, timeout=60, check=False)
        number, version, itself = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Python(tuple(number), version, itself)


def found(lines: list[str]) -> dict[str, Python]:
    """Of each line the newest one of those on the PATH and in pyenv, and of the one that runs this."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders += pyenv.glob("versions/*/bin")
    paths = [folder / f"python{line}" for line in lines for folder in folders]
    if f"3.{sys.version_info[1]}" in lines:
        paths.append(Path(sys.executable))
    pythons = [ask(str(path)) for path in paths if path.is_file()]
    return {python.line: python for python in sorted(filter(None, pythons)) if python.line in lines}


def make_ready(python: Python, folder: Path) -> Path:
    """A virtual environment with the locked packages and this project; its interpreter. Made anew when they change."""
    interpreter = folder / "bin" / "python"
    parts = [python.path.encode(), *((ROOT / name).read_bytes() for name in (*_LOCKS, "pyproject.toml"))]
    state = hashlib.sha256(b"\0".join(parts)).hexdigest()
    mark = folder / "ready"
    if mark.is_file() and mark.read_text() == state:
        return interpreter
    pip = [str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run, dev = ([*pip, "--require-hashes", "-r", lock] for lock in _LOCKS)
    for command in (
        [python.path, "-m", "venv", "--clear", str(folder)],
        run,
        [*pip, "--no-deps", "--no-build-isolation", "-e", "."],
        dev,
    ):
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            raise NotReadyError(f"{' '.join(command)}\n{done.stdout}")
    mark.write_text(state)
    return interpreter


def run_tests(interpreter: Path, jobs: int) -> tuple[int, str]:
    """All unit tests, shown as they come; pytest's exit code and its last line."""
    path = os.pathsep.join([str(interpreter.parent), os.environ.get("PATH", os.defpath)])
    command = [str(interpreter), "-m", "pytest", "-n", str(jobs), "-m", "not integration and not spark"]
    last = ""
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            print(line, end="", flush=True)
            last = line
    return run.returncode, last


def prove(python: Python, venvs: Path, jobs: int) -> tuple[bool, str]:
    """Whether all is green on it, and what to say of it."""
    print(f"Python {python.version}, {python.path}", flush=True)
    try:
        interpreter = make_ready(python, venvs / python.version)
    except NotReadyError as why:
        print(why, flush=True)
        return False, "the packages could not be installed"
    began = time.monotonic()
    code, last = run_tests(interpreter, jobs)
    seconds = round(time.monotonic() - began)
    counts = Counter({what: int(number) for number, what in _COUNT.findall(last)})
    bad = counts["failed"] + counts["error"]
    # what a plain run of pytest calls neither
    rest = "".join(f", {counts[what]} {what}" for what in ("xfailed", "xpassed") if counts[what])
    said = f"{counts['passed']} passed, {bad} failed, {counts['skipped']} skipped{rest}"
    if code and not bad:
        said += f", pytest ended with {code}"
    return code == 0, f"{said}, {seconds // 60}:{seconds % 60:02} minutes"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--python", "given", multiple=True, metavar="PATH", help="An interpreter to test on, wherever it is."
)
@click.option("--all", "everything", is_flag=True, help="End with 1 when a promised Python is not here.")
@click.option("--jobs", "-n", default=2, show_default=True, help="Tests side by side.")
@click.option(
    "--venvs", type=click.Path(path_type=Path), default=ROOT / ".cache" / "pythons", help="Where they go."
)
@click.argument("lines", nargs=-1)
@stoppable()
def main(given: tuple[str, ...], everything: bool, jobs: int, venvs: Path, lines: tuple[str, ...]) -> None:
    """Run all unit tests on the Pythons LINES (3.12 3.13; default: all that pyproject.toml promises)."""
    unknown = [line for line in lines if line not in promised()]
    if unknown:
        raise click.UsageError(f"pyproject.toml promises {', '.join(promised())}, not {', '.join(unknown)}")
    wanted = list(lines) or promised()
    pythons: list[Python] = []
    for path in given:
        python = ask(path)
        if python is None or python.line not in wanted:
            what = f"Python {python.version}" if python else "not a CPython that starts"
            raise click.UsageError(f"{path} is {what}; it takes one of {', '.join(wanted)}")
        pythons.append(python)
    has = {python.line for python in pythons}
    pythons += found([line for line in wanted if line not in has]).values()
    missing = [line for line in wanted if line not in {python.line for python in pythons}]

    green = bool(pythons)
    said = []
    for python in sorted(set(pythons)):
        good, what = prove(python, venvs.absolute(), jobs)
        green = green and good
        said.append(f"{'green' if good else 'RED':<6} {python.version:<8} {what}")
    print("", *said, sep="\n")
    for line in missing:
        print(f'{"absent":<6} {line:<8} not tested: PYTHONS="/path/to/python{line}" tells where it is')
    sys.exit(0 if green and not (everything and missing) else 1)


if __name__ == "__main__":
    main()
