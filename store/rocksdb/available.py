"""How much memory the page cache may have: what the system calls available, within the limits of the control groups.

Linux only; elsewhere nothing is known, and nothing is given back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

SHARE = 2
"""Written pages may take one part in so many of what is available. The rest is for reads and for other programs."""

_CGROUPS = "sys/fs/cgroup"


def page_cache_bytes(root: Path = Path("/")) -> int | None:
    """Bytes of written pages that may stay; None where the system does not tell. `root` is where proc and sys lie."""
    try:
        (kilobytes,) = (
            int(line.split()[1])
            for line in (root / "proc/meminfo").read_text().splitlines()
            if line.startswith("MemAvailable:")
        )
    except (OSError, ValueError, IndexError):
        return None
    return min([kilobytes * 1024, *_groups(root)]) // SHARE


def _groups(root: Path) -> Iterator[int]:
    """What each control group above this process has left, pages of files that it could drop counted in."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, limit, used, prefix = root / _CGROUPS, "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):
            mount, limit, used = root / _CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            prefix = "total_"
        else:
            continue
        folder = mount / path.lstrip("/")
        # a container sees its own group at the mount, whatever its path is outside
        for each in (folder, *folder.parents):
            left = _left(each / limit, each / used, each / "memory.stat", prefix)
            if left is not None:
                yield left
            if each == mount:
                break


def _left(limit: Path, used: Path, stat: Path, prefix: str) -> int | None:
    try:
        most = int(limit.read_text())
        facts = dict(line.split() for line in stat.read_text().splitlines())
        files = sum(int(facts.get(f"{prefix}{state}_file", 0)) for state in ("active", "inactive"))
        return max(0, most - int(used.read_text()) + files)
    except (OSError, ValueError):
        # no such group here, or "max"
        return None
