"""`make demo` as a process: the whole tour, and Ctrl-C in the middle of it; neither leaves anything behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compat.spark.jars import PROJECT

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def demo(scratch: Path) -> subprocess.Popen[str]:
    """The demo, with all its temporary files below `scratch`."""
    return subprocess.Popen(
        [sys.executable, "-m", "compat.demo"],
        cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def nobody_serves(data: str) -> bool:
    """Whether no process has this data folder on its command line."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if data in entry.read_text():
                return False
        except OSError:
            continue
    return True


@pytest.mark.timeout(900)
def test_the_whole_tour(tmp_path: Path) -> None:
    process = demo(tmp_path)
    try:
        said, errors = process.communicate(timeout=840)
    finally:
        process.kill()

    assert process.returncode == 0, said + errors
    for words in (
        "[1/8] Start a gateway",
        "3,000 orders were acknowledged",
        "committed offsets add up to 3,000",
        "orders-packing-DLQ holds 3 dead letters",
        "did 2,999 orders",
        "orders-shipping-DLQ, which holds 1 dead letter",
        "the counts are those that were produced",
        "archived 3,000 records",
        "Look at it in a browser: http://",
        "the same keys, values and headers, in the same order",
    ):
        assert words in " ".join(said.split())
    assert list(tmp_path.glob("magnetar-*")) == []
    assert nobody_serves(str(tmp_path))


def test_ctrl_c_cleans_up(tmp_path: Path) -> None:
    process = demo(tmp_path)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "[3/8]" in line:
                break
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
    finally:
        process.kill()

    assert process.returncode == 130, errors
    assert "Stopped; cleaning up." in errors
    assert list(tmp_path.glob("magnetar-*")) == []
    assert nobody_serves(str(tmp_path))
