"""The process as Prometheus' dashboards know it: memory, processor time, open files, uptime."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.metrics import head, number

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc/self")


def lines(version: str, started_at_ms: int, now_ms: int) -> Iterator[str]:
    """Lines for a scrape. What a system does not tell (there is no /proc on macOS) is left out."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield from _one(
        "process_cpu_seconds_total", "counter", "Processor time used.", usage.ru_utime + usage.ru_stime
    )
    try:
        virtual, resident = (_PROC / "statm").read_text().split()[:2]
        yield from _one(
            "process_virtual_memory_bytes", "gauge", "Address space in use.", int(virtual) * _PAGE
        )
        yield from _one("process_resident_memory_bytes", "gauge", "Memory in use.", int(resident) * _PAGE)
        yield from _one("process_open_fds", "gauge", "Open file descriptors.", len(os.listdir(_PROC / "fd")))
    except (OSError, ValueError):
        # getrusage knows the peak only: bytes on macOS, kilobytes elsewhere
        unit = 1 if sys.platform == "darwin" else 1024
        yield from _one(
            "process_max_resident_memory_bytes", "gauge", "Memory in use at most.", usage.ru_maxrss * unit
        )
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield from _one("process_max_fds", "gauge", "File descriptors that may be open.", limit)
    yield from _one(
        "process_start_time_seconds", "gauge", "When the process began, since 1970.", started_at_ms / 1000
    )
    yield from _one(
        "magnetar_uptime_seconds", "gauge", "Time since the start.", (now_ms - started_at_ms) / 1000
    )
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield head("magnetar_build_info", "gauge", "The version that runs.")
    yield f'magnetar_build_info{{version="{version}",python="{python}"}} 1'


def _one(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield head(name, kind, text)
    yield f"{name} {number(value)}"
