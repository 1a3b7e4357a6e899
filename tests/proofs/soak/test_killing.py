"""Steps have their places, and a process dies at the pass that it was armed for."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.proofs.soak.steps import NUMBERS, STEPS


def run(code: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what is woven stays so, and what is armed kills."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_every_step_has_a_place_and_every_place_a_step() -> None:
    done = run(
        "from tests.proofs.soak import victim, killing; victim.place(); print(*sorted(killing.placed))"
    )
    assert done.stdout.split() == sorted(NUMBERS), done.stderr
    assert len(STEPS) == len(NUMBERS) >= 104


def test_a_step_without_a_place_is_told() -> None:
    done = run(
        "from tests.proofs.soak import victim\nvictim.NUMBERS['nowhere.at.all'] = 1000\nvictim.place()"
    )
    assert done.returncode == 1
    assert "nowhere.at.all" in done.stderr


FUNCTIONS = """
import os, sys, tempfile
from store.steps import Steps
from tests.proofs.soak.killing import arm, weave

def said(text):
    print(text, flush=True)

one = weave(lambda: said("one"), Steps("wal.before", "wal.after", within="place"))
outer = weave(lambda: one(), Steps(inside="place"))
write = weave(lambda files, descriptor, buffers, at: said("whole"), Steps(half="segment.half"))
"""


@pytest.mark.parametrize(
    ("step", "passes", "said"),
    [("wal.before", 1, ""), ("wal.after", 1, "one"), ("wal.before", 2, "one"), ("wal.after", 2, "one one")],
)
def test_it_dies_before_or_after_and_at_the_pass_that_is_asked_for(step: str, passes: int, said: str) -> None:
    done = run(f"{FUNCTIONS}arm({step!r}, {passes})\none = [outer() for _ in range(3)]")
    assert done.returncode == -signal.SIGKILL
    *printed, last = done.stdout.splitlines()
    assert printed == said.split()
    assert last == f"killed at step {NUMBERS[step]}, {step}"


def test_a_step_counts_in_its_place_only() -> None:
    done = run(f"{FUNCTIONS}arm('wal.before', 1)\none()\nouter()")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.splitlines()[0] == "one"


def test_half_of_the_bytes_are_written_before_it_dies() -> None:
    code = (
        "arm('segment.half', 1)\n"
        "file = tempfile.TemporaryFile()\n"
        "os.dup2(file.fileno(), 9)\n"
        "if os.fork() == 0:\n    write(None, 9, [b'abcd', b'efgh'], 2)\n"
        "os.wait()\nprint(os.pread(9, 100, 0))"
    )
    assert run(FUNCTIONS + code).stdout.splitlines()[-1] == repr(b"\0\0abcd")
