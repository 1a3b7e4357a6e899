"""The harness against programs of a few lines: what it gathers, and what it does when one misbehaves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compat.harness import run as run_module
from compat.harness.catalogue import Client
from compat.harness.run import Outcome, Results, run
from compat.tools import MissingToolError

GOOD = """
import json, sys
print(json.dumps({"client": "good", "version": "1.2"}), flush=True)
print("noise that is not JSON", flush=True)
print(json.dumps({"case": "acks", "ok": True, "detail": sys.argv[2], "ms": 3}), flush=True)
if "restart_it" in sys.argv or "--case" not in sys.argv:
    print(json.dumps({"waiting": "restart"}), flush=True)
    words = sys.stdin.readline().split()
    print(json.dumps({"case": "restart_it", "ok": True, "detail": " ".join(words), "ms": 4}), flush=True)
"""

DYING = """
import json, sys
print(json.dumps({"client": "dying", "version": "0"}), flush=True)
print(json.dumps({"case": "acks", "ok": False, "detail": "no", "ms": 1}), flush=True)
sys.exit("it hurts")
"""

HANGING = """
import time
time.sleep(60)
"""


STUCK = """
import faulthandler, json, signal, time
faulthandler.register(signal.SIGQUIT)
def stuck_here():
    time.sleep(600)
print(json.dumps({"client": "stuck", "version": "0"}), flush=True)
print(json.dumps({"case": "acks", "ok": True, "ms": 1}), flush=True)
stuck_here()
"""


def program(folder: Path, name: str, source: str, cases: list[str], limit: float = Client.limit) -> Client:
    (folder / f"{name}.py").write_text(source)
    return Client(name, name, "Python", folder, [sys.executable, f"{name}.py"], cases, limit=limit)


def test_a_program_is_told_what_it_is_to_be_told(tmp_path: Path) -> None:
    source = GOOD.replace("sys.argv[2]", "os.environ['TOLD']").replace("import json", "import os, json")
    client = program(tmp_path, "told", source, ["acks", "restart_it"])
    results = run("HOST:1", [client], cases=["acks"], environment={"TOLD": "a secret"})
    assert results.outcomes["told", "acks"].detail == "a secret"


def test_outcomes_and_one_restart_for_all(tmp_path: Path) -> None:
    clients = [program(tmp_path, name, GOOD, ["acks", "restart_it"]) for name in ("one", "two", "three")]
    restarts: list[str] = []

    def restart() -> str:
        restarts.append("restarted")
        return "127.0.0.1:2"

    results = run("127.0.0.1:1", clients, restart=restart, jobs=2)

    assert len(restarts) == 1
    assert results.versions == {"one": "1.2", "two": "1.2", "three": "1.2"}
    for client in clients:
        assert results.outcomes[client.name, "acks"].detail == "127.0.0.1:1"
        assert results.outcomes[client.name, "restart_it"].detail == "restarted 127.0.0.1:2"
    assert all(outcome.ok for outcome in results.outcomes.values())


def test_without_a_restart_those_cases_are_left_out(tmp_path: Path) -> None:
    results = run("127.0.0.1:1", [program(tmp_path, "one", GOOD, ["acks", "restart_it"])])
    assert list(results.outcomes) == [("one", "acks")]


def test_a_program_that_dies_fails_what_it_has_not_reported(tmp_path: Path) -> None:
    results = run("127.0.0.1:1", [program(tmp_path, "dying", DYING, ["acks", "headers"])])
    assert results.outcomes["dying", "acks"] == Outcome("dying", "acks", ok=False, detail="no", ms=1)
    assert not results.outcomes["dying", "headers"].ok
    assert "it hurts" in results.outcomes["dying", "headers"].detail


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    results = run("127.0.0.1:1", [program(tmp_path, "hanging", HANGING, ["acks"])], limit=0.5)
    assert "did not end" in results.outcomes["hanging", "acks"].detail


def test_one_that_stands_still_says_where_and_keeps_no_other_from_its_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "MARGIN", 2.0)
    stuck = program(tmp_path, "stuck", STUCK, ["acks", "headers", "restart_it"], limit=1.0)
    good = program(tmp_path, "good", GOOD, ["acks", "restart_it"])
    results = run("127.0.0.1:1", [stuck, good], restart=lambda: "127.0.0.1:2")

    assert results.outcomes["stuck", "acks"].ok
    for case in ("headers", "restart_it"):
        assert not results.outcomes["stuck", case].ok
        assert "said nothing for 3 s" in results.outcomes["stuck", case].detail
        assert "in stuck_here" in results.outcomes["stuck", case].detail
    assert results.outcomes["good", "restart_it"].detail == "restarted 127.0.0.1:2"


def test_one_that_stood_still_once_runs_its_other_cases_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "MARGIN", 2.0)
    first = 'import pathlib\nif not pathlib.Path("been").exists():\n    pathlib.Path("been").touch()\n'
    source = (
        first
        + "".join(f"    {line}\n" for line in STUCK.strip().replace("acks", "headers").splitlines())
        + GOOD
    )
    said: list[str] = []
    once = program(tmp_path, "once", source, ["acks", "headers", "restart_it"], limit=1.0)
    results = run("127.0.0.1:1", [once], restart=lambda: "127.0.0.1:2", say=said.append)

    assert all(outcome.ok for outcome in results.outcomes.values())
    assert "again" not in results.outcomes["once", "headers"].detail
    assert run_module.AGAIN in results.outcomes["once", "acks"].detail
    assert "restarted 127.0.0.1:2" in results.outcomes["once", "restart_it"].detail
    assert any("in stuck_here" in line and "2 cases run again" in line for line in said)


def test_a_missing_tool_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(client: Client) -> list[str]:
        raise MissingToolError("kcat is missing: install it.")

    monkeypatch.setattr(Client, "command_line", missing)
    results = run("127.0.0.1:1", [program(tmp_path, "one", GOOD, ["acks"])])
    assert results.outcomes["one", "acks"].detail == "kcat is missing: install it."


def test_results_are_saved_over_those_of_earlier_runs(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "magnetar.json"
    first = Results({"one": "1"}, {})
    first.add(Outcome("one", "acks", ok=False, detail="before"))
    first.add(Outcome("one", "headers", ok=True))
    first.save(path)
    second = Results({"one": "2"}, {})
    second.add(Outcome("one", "acks", ok=True, refused="no"))
    second.save(path)

    merged = Results.load(path)
    assert merged.versions == {"one": "2"}
    assert merged.outcomes["one", "acks"] == Outcome("one", "acks", ok=True, refused="no")
    assert merged.outcomes["one", "headers"].ok
    assert Results.load(tmp_path / "none.json").outcomes == {}
