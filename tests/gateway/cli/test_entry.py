"""Ctrl-C in the three programs: while they are imported, and where no command listens for it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner

from gateway.cli.admin import main as admin
from gateway.cli.main import main as magnetar
from pipeline.cli import main as pipeline

SCRIPTS = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["scripts"]

INTERRUPTED = """
import importlib, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
module, function = sys.argv.pop(1).split(":")
getattr(importlib.import_module(module), function)()
"""


@pytest.mark.parametrize("program", ["magnetar", "magnetar-admin", "magnetar-pipeline"])
def test_ctrl_c_while_a_program_is_imported_ends_it_quietly(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, SCRIPTS[program], "--help"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("program", ["magnetar", "magnetar-admin", "magnetar-pipeline"])
def test_the_programs_begin_with_what_is_imported(program: str) -> None:
    """Without a Ctrl-C the entry is the program."""
    code = INTERRUPTED.replace('"click"', '"no such module"')
    done = subprocess.run(
        [sys.executable, "-c", code, SCRIPTS[program], "--help"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, "Usage: " in done.stdout, done.stderr) == (0, True, "")


@pytest.mark.parametrize(
    ("main", "place", "arguments"),
    [
        (magnetar, "gateway.cli.main.load", ["config"]),
        (admin, "gateway.cli.admin_client.Client.get", ["brokers", "version"]),
        (pipeline, "pipeline.cli.reach", ["archive", "--bootstrap", "a:1", "--topic", "t", "--output", "o"]),
    ],
)
def test_ctrl_c_in_a_command_ends_it_quietly(
    main: click.Command, place: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    result = CliRunner().invoke(main, arguments)

    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize("main", [magnetar, admin, pipeline])
def test_ctrl_c_before_a_command_begins_ends_it_quietly(
    main: click.Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Group, "parse_args", interrupted)
    result = CliRunner().invoke(main, ["--help"])

    assert (result.exit_code, result.output) == (130, "")
