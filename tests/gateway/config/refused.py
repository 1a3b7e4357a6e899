"""What is said of settings that are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.config import Settings, SettingsError


def problems(
    *flags: str,
    toml: str | None = None,
    tmp_path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> list[str]:
    """Load what is wrong, give what is said; the file is called m.toml in the sentences."""
    file = None
    if toml is not None:
        assert tmp_path is not None
        file = tmp_path / "m.toml"
        file.write_text(toml)
    with pytest.raises(SettingsError) as caught:
        Settings.load(flags, file, environ, options)
    return [problem.replace(str(file), "m.toml") for problem in caught.value.problems]
