"""The run of a schema registry on a gateway is `make compat-registry`; here is what it says when it cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.registry import karapace
from compat.tools import MissingToolError


def test_a_repository_without_the_commit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(karapace, "CACHE", tmp_path / "cache")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingToolError, match=f"Karapace cannot be had.*{karapace.COMMIT}"):
        karapace.ensure(str(tmp_path / "empty"))
    assert not (tmp_path / "cache" / ".stamp").exists()
