"""A gateway in a process of its own, as `magnetar serve` starts it: for programs that bring their own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


class LaunchError(Exception):
    """The gateway did not start; the message is its last line."""


@contextlib.contextmanager
def started_gateway(arguments: Sequence[str], log: Path) -> Iterator[str]:
    """Run `magnetar ARGUMENTS` for the length of the block; its address as "host:port".

    `log` takes what it says on standard error. At the end it gets SIGTERM, and SIGKILL 15 s later.
    """
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli.main", *arguments],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # A Ctrl-C in the terminal is for the program that holds the block.
            start_new_session=True,
        )
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("listening on "):
            # Read on in the background, so that a full pipe never holds the gateway up.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return line.split()[2]
    process.wait(10)
    reason = log.read_text(errors="replace").strip().splitlines()
    raise LaunchError(
        f"the gateway did not start: {reason[-1] if reason else f'exit code {process.returncode}'}"
    )
