"""A short form of `make pythons`, with scripts in the place of Pythons, and of pytest."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.proofs.pythons import ROOT, main, promised

# Says that it is the Python of its name, makes a virtual environment of itself, installs and tests nothing.
_PRETENDER = """#!/bin/sh
PATH=/bin:/usr/bin
echo {version} "$@" >>{log}
case "$1 $2" in
    "-m venv") mkdir -p "$4/bin" && cp {path} "$4/bin/python" ;;
    "-m pip") {pip} ;;
    "-m pytest") echo {closing}; exit {code} ;;
    -c*) echo {who} ;;
esac
"""

GREEN = "7 passed, 2 skipped in 3.21s"


class Machine:
    """A folder of the PATH, one of pyenv, and what was done with the Pythons in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"

    def python(
        self, version: str, where: str = "path", *, closing: str = GREEN, code: int = 0, installs: bool = True
    ) -> Path:
        line = version.rpartition(".")[0]
        path = self.folder / where / f"python{line}"
        path.parent.mkdir(parents=True, exist_ok=True)
        who = json.dumps([[int(part) for part in version.split(".")], version, str(path)])
        words = {"version": version, "log": self.log, "path": path, "closing": closing, "who": who}
        quoted = {name: shlex.quote(str(word)) for name, word in words.items()}
        pip = "true" if installs else "echo no such wheel; exit 1"
        path.write_text(_PRETENDER.format(**quoted, pip=pip, code=code))
        path.chmod(0o755)
        return path

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and what it said."""
        environment = {"PATH": str(self.folder / "path"), "PYENV_ROOT": str(self.folder / "pyenv")}
        done = CliRunner().invoke(main, ["--venvs", str(self.folder / "venvs"), *arguments], env=environment)
        return done.exit_code, done.output

    def tested(self) -> list[str]:
        return re.findall(r"^(\S+) -m pytest", self.log.read_text(), re.MULTILINE)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


OTHERS = [line for line in promised() if line != f"3.{sys.version_info[1]}"]
"""Lines but that of the Python that runs the tests: it is found without a name."""


def test_each_that_is_here_is_tested_and_has_a_line(machine: Machine) -> None:
    one, other, absent = OTHERS
    machine.python(f"{one}.4")
    machine.python(f"{other}.1", f"pyenv/versions/{other}.1/bin")
    code, said = machine.run(*OTHERS)
    assert code == 0, said
    assert re.search(rf"^green  {one}\.4 +7 passed, 0 failed, 2 skipped, 0:0\d minutes$", said, re.MULTILINE)
    assert re.search(rf"^green  {other}\.1 +7 passed", said, re.MULTILINE)
    assert re.search(rf"^absent {absent} ", said, re.MULTILINE)
    assert machine.tested() == [f"{one}.4", f"{other}.1"]
    for lock in ("run", "dev"):
        assert f"{one}.4 -m pip install" in machine.log.read_text()
        assert f"--require-hashes -r requirements/{lock}.lock" in machine.log.read_text()


def test_an_absent_one_is_red_only_where_all_are_asked_for(machine: Machine) -> None:
    one, other, _ = OTHERS
    machine.python(f"{one}.4")
    assert machine.run(one, other)[0] == 0
    assert machine.run("--all", one, other)[0] == 1
    assert machine.run("--all", one)[0] == 0


def test_nothing_is_proven_where_none_is_here(machine: Machine) -> None:
    code, said = machine.run(OTHERS[0])
    assert code == 1, said


@pytest.mark.parametrize(
    ("closing", "code", "words"),
    [
        ("2 failed, 7 passed, 1 error in 3.21s", 1, "7 passed, 3 failed, 0 skipped"),
        ("no tests ran in 0.01s", 5, "0 passed, 0 failed, 0 skipped, pytest ended with 5"),
        ("Killed", 137, "pytest ended with 137"),
    ],
)
def test_one_that_is_red_makes_it_red_and_the_others_are_still_tested(
    machine: Machine, closing: str, code: int, words: str
) -> None:
    one, other, _ = OTHERS
    machine.python(f"{one}.4", closing=closing, code=code)
    machine.python(f"{other}.4")
    ended, said = machine.run(one, other)
    assert ended == 1
    assert re.search(rf"^RED    {one}\.4 +.*{words}", said, re.MULTILINE), said
    assert re.search(rf"^green  {other}\.4", said, re.MULTILINE), said


def test_one_for_which_packages_are_missing_is_red(machine: Machine) -> None:
    one, other, _ = OTHERS
    machine.python(f"{one}.4", installs=False)
    machine.python(f"{other}.4")
    ended, said = machine.run(one, other)
    assert ended == 1
    assert "no such wheel" in said
    assert machine.tested() == [f"{other}.4"]
    assert re.search(rf"^RED    {one}\.4 +the packages could not be installed", said, re.MULTILINE), said


def test_the_newest_of_a_line_is_taken_but_for_one_that_is_given(machine: Machine) -> None:
    one = OTHERS[0]
    machine.python(f"{one}.9")
    machine.python(f"{one}.10", f"pyenv/versions/{one}.10/bin")
    given = machine.python(f"{one}.2", "elsewhere")
    machine.run(one)
    assert machine.tested() == [f"{one}.10"]
    machine.run("--python", str(given), one)
    assert machine.tested()[1:] == [f"{one}.2"]


def test_packages_are_installed_once(machine: Machine) -> None:
    one = OTHERS[0]
    machine.python(f"{one}.4")
    machine.run(one)
    machine.run(one)
    assert len(machine.tested()) == 2
    assert machine.log.read_text().count("-m venv") == 1


def test_what_is_given_and_is_no_python_that_is_promised_is_refused(machine: Machine) -> None:
    old = machine.python("3.9.1")
    code, said = machine.run("--python", str(old))
    assert code == 2
    assert "Python 3.9.1" in said
    assert machine.run("--python", str(machine.folder / "nothing"))[0] == 2
    assert machine.run("3.9")[0] == 2


def test_what_others_say_is_what_pyproject_promises() -> None:
    words = f"Python {promised()[0]} to {promised()[-1]}"
    readme = (ROOT / "README.md").read_text()
    assert f"with {words} (" in readme
    assert f"each Python from {promised()[0]} to {promised()[-1]} that" in readme
    makefile = (ROOT / "Makefile").read_text()
    assert f"needs {words};" in makefile
    first, last = (int(line.removeprefix("3.")) for line in (promised()[0], promised()[-1]))
    assert f"(3, {first}) <= sys.version_info < (3, {last + 1})" in makefile
