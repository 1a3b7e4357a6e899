"""The machine and the versions that figures belong to."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from compat.bench.servers import SCRATCH
from compat.peers.kafka.jars import find_java, kafka_version
from compat.tools import PROJECT


def describe() -> dict[str, str]:
    """What to print above the figures: label → text."""
    return {
        "CPU": f"{_cpu()}, {os.cpu_count()} cores",
        "memory": f"{_memory():.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(),
        "Python": platform.python_version(),
        "Apache Kafka": kafka_version(),
        "Java": _first_line([find_java(), "-version"]),
        "Go (load generator)": _first_line(["go", "version"]).removeprefix("go version "),
    }


def now() -> str:
    """The time to put beside a figure."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _cpu() -> str:
    match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match.group(1) if match else platform.machine()


def _memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _file_system() -> str:
    """The type of the file system that holds the data folders."""
    best, kind = "", "unknown"
    where = str(SCRATCH)
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point, name = line.split()[1:3]
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, name
    return kind


def commit() -> str:
    """Of the tree that is measured, and whether it holds changes that are in no commit."""
    commit = _first_line(["git", "-C", str(PROJECT), "rev-parse", "--short", "HEAD"])
    changed = _first_line(["git", "-C", str(PROJECT), "status", "--porcelain", "--untracked-files=no"])
    return f"{commit}{' with changes' if changed else ''}"


def _first_line(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError:
        return "none"
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0] if lines else ""
