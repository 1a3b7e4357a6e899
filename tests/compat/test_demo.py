"""`make demo` where the machine is slow."""

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
