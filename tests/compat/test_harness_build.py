"""A client's program is built when it must be, and a build that fails says so in one text."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compat.harness import build as building
from compat.harness import catalogue
from compat.harness.build import BuildError, build
from compat.harness.catalogue import Client
from compat.harness.run import run
from compat.tools import MissingToolError

COUNT = "import pathlib, sys; file = pathlib.Path(sys.argv[1], 'built'); file.open('a').write('x')"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A program whose build writes one more letter each time that it runs."""
    for module in (building, catalogue):
        monkeypatch.setattr(module, "BUILDS", tmp_path / "builds")
    folder = tmp_path / "clients" / "go-some"
    folder.mkdir(parents=True)
    (folder / "main.go").write_text("one")
    command = [sys.executable, "-c", COUNT, "{build}"]
    return Client("go-some", "some", "Go", folder, ["{build}/client"], cases=["acks"], build=[command])


def times_built(client: Client) -> int:
    return len((client.build_folder / "built").read_text())


def test_it_is_built_once_for_each_state_of_its_sources(client: Client) -> None:
    build(client)
    build(client)
    assert times_built(client) == 1
    (client.folder / "main.go").write_text("two")
    build(client)
    assert times_built(client) == 2
    client.shared_folder.mkdir()
    (client.shared_folder / "cases.go").write_text("shared by all in Go")
    build(client)
    assert times_built(client) == 3
    (client.folder / "client.toml").write_text("a reason was added")
    build(client)
    assert times_built(client) == 3


def test_what_was_removed_is_built_again(client: Client) -> None:
    build(client)
    (client.build_folder / "built").unlink()
    client.build_folder.rmdir()
    build(client)
    assert times_built(client) == 1
    (client.folder / "package.json").write_text("{}")
    (client.folder / "node_modules").mkdir()
    build(client)
    (client.folder / "node_modules").rmdir()
    build(client)
    assert times_built(client) == 3


def test_a_failing_build_names_the_command_and_its_words(client: Client) -> None:
    wrong = replace(
        client, build=[[sys.executable, "-c", "raise SystemExit('no such module')"], *client.build]
    )
    with pytest.raises(BuildError, match=r"SystemExit.* ended with 1; .*go-some\.log.*no such module"):
        build(wrong)
    assert not (client.build_folder / "built").exists()


def test_a_failing_build_fails_its_cases_and_no_others(client: Client) -> None:
    wrong = replace(client, build=[["{go}", "build"]])

    def missing() -> Path:
        raise MissingToolError("Go is missing: install it.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(catalogue.TOOLS, "go", missing)
        results = run("127.0.0.1:1", [wrong])
    outcome = results.outcomes["go-some", "acks"]
    assert outcome.detail == "Go is missing: install it."
    assert not outcome.ran
