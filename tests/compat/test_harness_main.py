"""`make compat` from its command line to its exit code, with programs and servers that are made up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.harness import __main__ as command
from compat.harness import build as building
from compat.harness import catalogue
from compat.harness.catalogue import Client
from compat.harness.run import Restart, Results

PROGRAM = """
import json, sys
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
wanted = [value for name, value in zip(sys.argv, sys.argv[1:]) if name == "--case"]
print(json.dumps({"client": "c-fake", "version": "1"}))
for case in wanted or ["acks", "headers"]:
    bad = case == "headers" and arguments["--bootstrap"] in BROKEN
    print(json.dumps({"case": case, "ok": not bad, "detail": "no headers" if bad else "", "ms": 1}))
"""


class Scene:
    """A client whose case "headers" fails on the servers in `broken`; which servers it met, in order, each with the
    way to log in there."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.met: list[str] = []
        self.client = Client(
            "c-fake", "fake", "C", folder, [sys.executable, "fake.py"], cases=["acks", "headers"]
        )
        patch.setattr(catalogue, "clients", lambda: {"c-fake": self.client})
        for module in (building, catalogue):
            patch.setattr(module, "BUILDS", folder / "builds")
        patch.setattr(command, "RESULTS", folder / "results")
        patch.setattr(command, "_started", self._started)
        self._patch = patch

    def run(self, *arguments: str, broken: tuple[str, ...] = ()) -> int:
        (self.folder / "fake.py").write_text(PROGRAM.replace("BROKEN", repr(broken)))
        self._patch.setattr(sys, "argv", ["harness", "run", *arguments])
        return command.main()

    def _started(self, name: str, work: Callable[[str, Restart | None], Results], way: str) -> Results:
        self.met.append(f"{name} {way}".strip())
        return work(name, None)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_all_is_well_without_apache_kafka(scene: Scene) -> None:
    assert scene.run() == 0
    assert scene.met == ["magnetar"]


def test_what_fails_here_alone_is_ours(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert scene.run(broken=("magnetar",)) == 1
    assert scene.met == ["magnetar", "kafka"]
    assert "1 passed,   1 OURS" in capsys.readouterr().out
    reference = Results.load(scene.folder / "results" / "kafka.json")
    assert list(reference.outcomes) == [("c-fake", "headers")]  # only what was in doubt


def test_what_fails_on_apache_kafka_too_is_the_clients(scene: Scene) -> None:
    assert scene.run(broken=("magnetar", "kafka")) == 0
    assert scene.run(broken=("magnetar", "kafka")) == 0
    assert scene.met == ["magnetar", "kafka", "magnetar"]  # the second time that is known


def test_the_whole_reference(scene: Scene) -> None:
    assert scene.run("--reference", "all") == 0
    assert len(Results.load(scene.folder / "results" / "kafka.json").outcomes) == 2


def test_a_case_that_fails_on_the_reference_needs_mending(scene: Scene) -> None:
    assert scene.run("--server", "kafka", broken=("kafka",)) == 1


def test_a_program_that_cannot_start_is_no_success(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.client.build.append([sys.executable, "-c", "raise SystemExit('no compiler')"])
    assert scene.run("--no-save") == 1
    out = capsys.readouterr().out
    assert out.count("cannot run") == 1  # one line for the program, not one for each case
    assert "no compiler" in out
    assert "2 could not run" in out


def test_secured_runs_its_script_and_keeps_its_results_apart(scene: Scene) -> None:
    assert scene.run("--secured", "plain") == 0
    assert scene.met == ["magnetar plain"]
    results = Results.load(scene.folder / "results" / "magnetar-plain.json")
    assert list(results.outcomes) == [("c-fake", "headers")]  # "acks" is no case of the script
    assert not (scene.folder / "results" / "magnetar.json").exists()


def test_secured_refers_to_apache_kafka_with_the_same_login(scene: Scene) -> None:
    assert scene.run("--secured", "plain", broken=("magnetar",)) == 1
    assert scene.met == ["magnetar plain", "kafka plain"]


def test_all_ways_one_after_the_other(scene: Scene) -> None:
    scene.client.ways_lacked["mtls"] = "has no certificates"
    assert scene.run("--secured", "all", "--reference", "all") == 0
    ways = ("scram-256", "scram-512", "plain", "oauthbearer")
    assert scene.met == [f"{server} {way}" for way in ways for server in ("magnetar", "kafka")]


def test_secured_starts_its_own_servers(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert scene.run("--secured", "plain", "--bootstrap", "HOST:1") == 2
    assert "leave --bootstrap out" in capsys.readouterr().err


def test_sigterm_leaves_by_the_way_that_cleans_up(scene: Scene) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert scene.run() == 0
        with pytest.raises(SystemExit, match="143"):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_wrong_names_are_refused(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert scene.run("--client", "c-nobody") == 2
    assert "there are: c-fake" in capsys.readouterr().err
    assert scene.run("--case", "flying") == 2
    assert "cases.toml has no flying" in capsys.readouterr().err


def test_a_wrong_flag_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for given, said in ((["--nonsense"], "--nonsense"), ([], "run, build, report, list")):
        monkeypatch.setattr(sys, "argv", ["harness", *given])
        with pytest.raises(SystemExit, match="2"):
            command.main()
        assert said in capsys.readouterr().err
