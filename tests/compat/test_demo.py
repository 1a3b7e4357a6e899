"""`make demo` where the machine is slow, and how it ends."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from compat import demo


@pytest.mark.parametrize("command", ["archive", "replay"])
def test_a_pipeline_that_takes_too_long_ends_the_tour_with_a_sentence(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "environment", lambda: dict(os.environ))
    monkeypatch.setattr(demo, "PIPELINE_SECONDS", 0.01)
    tour = demo.Tour(tmp_path, None, contextlib.ExitStack())

    with pytest.raises(demo.DemoError) as told:
        tour._pipeline(command, "--help")

    assert str(told.value) == f"magnetar-pipeline {command} had not ended after 0.01 s."


class At:
    """Where a gateway is."""

    admin_url = "http://127.0.0.1:1"


@pytest.mark.parametrize("terminal", [True, False])
def test_it_ends_with_the_console_and_waits_only_for_somebody_who_is_there(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", asked.append)
    monkeypatch.setattr("sys.stdin.isatty", lambda: terminal, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    tour = demo.Tour(tmp_path, None, contextlib.ExitStack())
    tour.peer = At()  # type: ignore[assignment]

    tour.console()

    assert "Look at it in a browser: http://127.0.0.1:1/ui/" in capsys.readouterr().out
    assert len(asked) == terminal


def test_a_broker_that_was_there_has_no_console_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.Tour(tmp_path, "127.0.0.1:9092", contextlib.ExitStack()).console()
    assert capsys.readouterr().out == ""
