"""Jars are fetched once, and again when what pins them changes; what is wrong is never taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.peers import maven
from compat.peers.maven import JarsError


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose mvn notes each call and brings one jar."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "mvn"
    program.write_text(
        f"#!/bin/sh\necho called >> {tmp_path}/calls\n"
        'for word; do case "$word" in -DoutputDirectory=*) folder=${word#*=};; esac; done\n'
        '/bin/mkdir -p "$folder"; echo jar > "$folder/some.jar"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "pom.xml").write_text("<project/>")
    (tmp_path / "pins").write_text("1")
    return tmp_path


def ensure(machine: Path, refuse: str = "") -> Path:
    def check(folder: Path) -> None:
        assert (folder / "some.jar").exists()
        if refuse:
            raise JarsError(refuse)

    return maven.ensure("It", machine / "jars" / "it", machine / "pom.xml", check, machine / "pins")


def calls(machine: Path) -> int:
    return len((machine / "calls").read_text().splitlines())


def test_jars_are_fetched_once(machine: Path) -> None:
    assert (ensure(machine) / "some.jar").exists()
    ensure(machine)
    assert calls(machine) == 1


@pytest.mark.parametrize("name", ["pom.xml", "pins"])
def test_a_changed_pin_fetches_anew(machine: Path, name: str) -> None:
    (ensure(machine) / "old.jar").write_text("of the old list")
    (machine / name).write_text("2")
    assert not (ensure(machine) / "old.jar").exists()
    assert calls(machine) == 2


def test_what_is_refused_is_not_kept(machine: Path) -> None:
    with pytest.raises(JarsError, match="forged"):
        ensure(machine, refuse="forged")
    assert not (machine / "jars" / "it").exists()
    ensure(machine)
    assert calls(machine) == 2


def test_a_maven_that_fails_says_why(machine: Path) -> None:
    (machine / "bin" / "mvn").write_text("#!/bin/sh\necho no such artefact; exit 1\n")
    with pytest.raises(JarsError, match=r"It's jars:\nno such artefact"):
        ensure(machine)


def test_no_maven(machine: Path) -> None:
    (machine / "bin" / "mvn").unlink()
    with pytest.raises(JarsError, match=r"No Maven found: .*; It's jars"):
        ensure(machine)
