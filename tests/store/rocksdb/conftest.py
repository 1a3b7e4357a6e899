"""A folder in memory: these tests start many stores, and need no disk to be slow."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c

from store.rocksdb import check

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


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each batch whose CRC was looked at."""
    found: list[int] = []

    def counted(data: bytes) -> Any:
        found.append(len(data))
        return crc32c(data)

    monkeypatch.setattr(check, "crc32c", counted)
    return found
