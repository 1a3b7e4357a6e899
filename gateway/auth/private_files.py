"""Files that nobody but the gateway should be able to read: keys, and passwords."""

from __future__ import annotations

import stat
from pathlib import Path


def warning(path: Path) -> str | None:
    """A sentence where others can read the file or change it; None where not, or where it cannot be looked at."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    return f"{path} can be read by others: chmod 600 {path}." if mode & 0o077 else None
