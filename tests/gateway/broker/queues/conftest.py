"""Both stores: what holds on one must hold on the other."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "rocksdb"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where a world keeps its data; None is the memory store."""
    return tmp_path / "data" if request.param == "rocksdb" else None
