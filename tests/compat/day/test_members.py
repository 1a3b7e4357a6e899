"""The members: who plays them where a language is missing, and what becomes of their processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.day import members
from compat.day.events import Acked, Event, Held, Killed
from compat.day.members import CAST, Part, Process, prepare
from compat.harness.catalogue import Client
from compat.tools import MissingToolError


def test_each_language_plays_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "build", lambda program, say: None)
    monkeypatch.setattr(Client, "command_line", lambda program: [])

    assert prepare(lambda line: None) == list(CAST)


def test_a_language_that_is_missing_is_played_by_python_and_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(program: Client, say: Callable[[str], None]) -> None:
        if program.language == "Go":
            raise MissingToolError("Go 1.21 or newer is missing.")

    monkeypatch.setattr(members, "build", build)
    monkeypatch.setattr(Client, "command_line", lambda program: [])
    said: list[str] = []

    cast = prepare(said.append)

    assert said == ["The members in Go are in Python: Go 1.21 or newer is missing."]
    assert [part.language for part in cast] == [
        "Python" if part.language == "Go" else part.language for part in CAST
    ]
    assert [part.number for part in cast] == [part.number for part in CAST]


def play(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> tuple[Process, list[Event]]:
    """A member whose program is this Python code."""
    program = Client("day-python", "", "Python", folder, [sys.executable, "-c", script], [])
    monkeypatch.setitem(members.LANGUAGES, "Python", program)
    told: list[Event] = []
    return Process(Part(3, "Python"), "host:1", "g", "t", folder / "log", 0, told.append), told


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_member_that_is_told_to_leave_says_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import sys; sys.stdin.read(); print('acked', 2000000, 1, len(sys.argv)); print('oh', file=sys.stderr)"
    member, told = play(monkeypatch, tmp_path, script)
    assert member.code is None

    member.leave()

    assert member.gone()
    assert told == [Acked(2.0, 3, 1, 6)]
    assert (tmp_path / "log").read_text() == "oh\n"


def test_a_killed_member_is_noted_behind_all_that_it_said_and_half_a_line_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import time; print('holds 1000000 4', flush=True); print('acked 2', end='', flush=True); time.sleep(60)"
    member, told = play(monkeypatch, tmp_path, script)
    until(lambda: told)

    member.kill()

    first, last = told
    assert first == Held(1.0, 3, frozenset({4}))
    assert isinstance(last, Killed)
    assert member.code == -9


def test_a_member_that_does_not_leave_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "LEAVE_SECONDS", 0.05)
    member, _ = play(monkeypatch, tmp_path, "import time; time.sleep(60)")

    member.leave()

    assert not member.gone()
    assert member.code == -9


def test_killing_one_that_is_gone_notes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member, told = play(monkeypatch, tmp_path, "pass")
    assert member.gone()

    member.kill()

    assert told == []
