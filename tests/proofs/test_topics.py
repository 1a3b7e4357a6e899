"""A short form of `make topics`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.integration
def test_a_few_thousand_topics() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.proofs.topics", "--topics", "5000"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everything held" in done.stdout
