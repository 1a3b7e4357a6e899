"""A folder in memory: these tests start many stores, and need no disk to be slow."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    if not MEMORY.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="magnetar-", dir=MEMORY))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
