"""What the Python programs share: the lines they print, time limits, the wait for a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat.harness.catalogue import CLIENTS

PROGRAM = f"""
import sys, time
sys.path.insert(0, {str(CLIENTS)!r})
import common
from common import Context, case, codec_cases, restart_case

@codec_cases
def any_name(ctx, codec):
    ctx.detail = codec

@case
def passes(ctx):
    ctx.closing(lambda: sys.stderr.write("closed"))

@case
async def is_a_coroutine(ctx):
    ctx.refused = "not yet"

@case
def fails(ctx):
    common.same(1, 2, "number")

@case
def hangs(ctx):
    time.sleep(60)

@case
def gives_up(ctx):
    for _ in ctx.wait("Godot"):
        pass

@restart_case
def restart_it(ctx):
    before = ctx.bootstrap
    ctx.restart()
    ctx.detail = f"{{before}} {{ctx.bootstrap}}"

@restart_case
def restart_fails_before(ctx):
    raise ValueError("early")

common.main("test", "1.0")
"""


def run(folder: Path, *arguments: str, stdin: str = "") -> tuple[list[dict[str, Any]], str]:
    program = folder / "client.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), "--bootstrap", "host:1", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def outcomes(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {line["case"]: line for line in lines if "case" in line}


def only(*names: str) -> list[str]:
    return [part for name in names for part in ("--case", name)]


def test_a_line_for_each_case(tmp_path: Path) -> None:
    lines, errors = run(tmp_path, *only("passes", "is_a_coroutine", "fails", "produce_zstd"))
    assert lines[0] == {"client": "test", "version": "1.0"}
    found = outcomes(lines)
    assert found["passes"]["ok"] is True
    assert errors.startswith("closed")
    assert found["is_a_coroutine"]["refused"] == "not yet"
    assert found["fails"]["ok"] is False
    assert found["fails"]["detail"].startswith("AssertionError: number: got 1, expected 2")
    assert found["produce_zstd"]["detail"] == "zstd"


def test_a_case_past_its_time_is_reported_and_left_behind(tmp_path: Path) -> None:
    found = outcomes(run(tmp_path, *only("hangs", "gives_up", "passes"), "--limit", "0.3")[0])
    assert "no end" in found["hangs"]["detail"]
    assert "gave up waiting for Godot" in found["gives_up"]["detail"]
    assert found["passes"]["ok"] is True


def test_restart_cases_wait_for_the_harness(tmp_path: Path) -> None:
    lines, _ = run(
        tmp_path, *only("passes", "restart_it", "restart_fails_before"), stdin="restarted host:2\n"
    )
    assert "waiting" in lines[-2], "what can be told before the restart is told before"
    found = outcomes(lines)
    assert found["restart_it"]["detail"] == "host:1 host:2"
    assert "early" in found["restart_fails_before"]["detail"]


def test_restart_cases_can_be_left_out(tmp_path: Path) -> None:
    found = outcomes(run(tmp_path, *only("passes", "restart_it"), "--skip-restart")[0])
    assert list(found) == ["passes"]


@pytest.mark.parametrize("arguments", [only("no_such_case"), ["--no-such-flag"]])
def test_wrong_arguments_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    lines, errors = run(tmp_path, *arguments)
    assert not lines
    assert "no_such_case" in errors or "--no-such-flag" in errors
