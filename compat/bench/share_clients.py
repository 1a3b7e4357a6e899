"""The clients of the share group loads: how they are built and called, and what their output says.

franz-go in `shareload/` (Go), librdkafka's ShareConsumer in `share_rdkafka.c` with the library of confluent-kafka's
wheel, and Kafka's own `kafka-share-consumer-perf-test`. Figures come back flat, by dotted name.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from compat.bench import generator
from compat.bench.clients import ClientError
from compat.peers.kafka import java_command
from compat.tools import PROJECT

PROGRAMS = PROJECT / ".cache" / "bin"
FRANZ = PROGRAMS / "shareload"
FRANZ_SOURCE = Path(__file__).with_name("shareload")
RDKAFKA = PROGRAMS / "share_rdkafka"
RDKAFKA_SOURCE = Path(__file__).with_name("share_rdkafka.c")
GROUP = PROGRAMS / "group_rdkafka"
GROUP_SOURCE = Path(__file__).with_name("group_rdkafka.c")
RDKAFKA_HEADER = Path(__file__).with_name("rdkafka.h")


def build() -> None:
    """Compile the programs (the Go modules come from the pins of go.sum). Raises `generator.GeneratorError`."""
    go, cc = shutil.which("go"), shutil.which("cc")
    if go is None:
        raise generator.GeneratorError(
            "No Go found: shareload is a Go program (Debian: golang-go, 1.24 or newer)."
        )
    if cc is None:
        raise generator.GeneratorError("No C compiler found: share_rdkafka is a C program (Debian: gcc).")
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    with open(FRANZ.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _compile([go, "build", "-o", str(FRANZ), "."], FRANZ_SOURCE)
        for program, source in ((RDKAFKA, RDKAFKA_SOURCE), (GROUP, GROUP_SOURCE)):
            newest = max(each.stat().st_mtime for each in (source, RDKAFKA_HEADER))
            if not program.exists() or program.stat().st_mtime < newest:
                libraries = ("-ldl", "-lpthread")
                _compile([cc, "-O2", "-o", str(program), str(source), *libraries], source.parent)


def environment() -> dict[str, str]:
    """Of Go's commands: modules and objects in the checkout, in folders that can be removed like anything else."""
    cache = PROJECT / ".cache"
    return {
        **os.environ,
        "GOMODCACHE": str(cache / "go-mod"),
        "GOCACHE": str(cache / "go-build"),
        "GOFLAGS": "-modcacherw -buildvcs=false",
    }


def _compile(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise generator.GeneratorError(f"{folder.name} does not compile:\n{done.stderr.strip()}")


def franz(load: str, address: str, options: Sequence[str], timeout: float = 400) -> dict[str, float]:
    """Run a load of `shareload`. Raises `ClientError`."""
    return _figures([str(FRANZ), load, "-address", address, *options], timeout)


def librdkafka_library() -> Path:
    """The librdkafka inside confluent-kafka's wheel. Raises `ClientError`."""
    package = importlib.util.find_spec("confluent_kafka")
    if package is None or package.origin is None:
        raise ClientError("confluent-kafka is not installed: its wheel holds the librdkafka that is measured")
    found = sorted(Path(package.origin).parents[1].glob("confluent_kafka.libs/librdkafka-*.so*"))
    if not found:
        raise ClientError("confluent-kafka's wheel for this platform holds no librdkafka")
    return found[0]


@dataclass(frozen=True, slots=True)
class Window:
    """When a rate is taken: seconds, and records that the window must hold unless `limit` seconds pass before."""

    records: int
    warmup: int
    seconds: int
    at_least: int
    limit: int = 60


def rdkafka(address: str, group: str, topic: str, window: Window, release_every: int) -> dict[str, float]:
    """One ShareConsumer reads a filled topic of four partitions. Raises `ClientError`."""
    shape = (4, window.records, window.warmup, window.seconds, window.at_least, window.limit, release_every)
    return _figures(
        [str(RDKAFKA), str(librdkafka_library()), address, group, topic, *map(str, shape)], timeout=240
    )


def group(
    address: str,
    name: str,
    topic: str,
    members: int,
    commit_ms: int,
    window: Window,
    *,
    stuck: tuple[Literal["nack", "hold"], str] | None = None,
    lasts: bool = True,
) -> dict[str, float]:
    """Members of a consumer group read a filled topic. `commit_ms` 0: librdkafka commits by itself. `stuck`: one
    message of this key is nacked for longer than the window lasts, or never finished; see the program. With `lasts` a
    topic that is empty before the window ends is an error. Raises `ClientError`.
    """
    records = window.records if lasts else 0
    shape = (members, commit_ms, records, window.warmup, window.seconds, window.at_least, window.limit)
    arguments = (*map(str, shape), *(stuck or ()))
    return _figures([str(GROUP), str(librdkafka_library()), address, name, topic, *arguments], timeout=240)


def _figures(command: Sequence[str], timeout: float) -> dict[str, float]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ClientError(f"{Path(command[0]).name} did not end within {timeout:.0f} s") from None
    try:
        return generator.figures(done.stdout, done.stderr, done.returncode)
    except generator.GeneratorError as error:
        raise ClientError(str(error)) from None


def java_perf_tool(
    address: str, group: str, topic: str, window: Window, threads: int = 4
) -> dict[str, float]:
    """`kafka-share-consumer-perf-test` with progress lines each second; ended when the window is full.

    The tool's own total holds the joining, so that the rate is taken from its progress lines instead.
    """
    command = java_command(
        "org.apache.kafka.tools.ShareConsumerPerformance",
        [
            *("--bootstrap-server", address, "--topic", topic, "--group", group),
            *("--threads", str(threads), "--num-records", str(window.records)),
            *(
                "--timeout",
                "180000",
                "--hide-header",
                "--show-detailed-stats",
                "--reporting-interval",
                "1000",
            ),
        ],
        heap="512m",
    )
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        # one that says nothing would be waited for without an end
        alarm = threading.Timer(200, process.kill)
        alarm.start()
        begin = time.monotonic()
        try:
            for line in process.stdout:
                lines.append(line)
                if time.monotonic() - begin > 45 + window.warmup + window.limit:
                    break
                found = share_window(lines, threads, window.warmup)
                if found and found["seconds"] >= window.seconds and found["records"] >= window.at_least:
                    break
        finally:
            alarm.cancel()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
    found = share_window(lines, threads, window.warmup)
    if found is None or found["seconds"] < window.seconds:
        raise ClientError(f"no window of {window.seconds} s with all members:\n{''.join(lines)[-1500:]}")
    return found


PROGRESS = re.compile(
    r"^[-\d]+ [:\d]+, ([-\d]+ [:\d]+), [\d.]+, [\d.]+, [\d.]+, (\d+), \d+ for share consumer (\d+)$"
)


def share_window(lines: Iterable[str], threads: int, warmup: float) -> dict[str, float] | None:
    """Records a second of all members together, from `warmup` seconds after all have been seen to the last report of
    the one that was heard of least recently; None before that.

    A progress line says when it was made and how many records its member has had; between two of them the count is
    taken as even.
    """
    seen: dict[int, list[tuple[float, int]]] = {}
    for line in lines:
        match = PROGRESS.match(line.strip())
        if match:
            when = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S:%f").timestamp()
            seen.setdefault(int(match[3]), []).append((when, int(match[2])))
    if len(seen) < threads:
        return None
    start = max(points[0][0] for points in seen.values()) + warmup
    end = min(points[-1][0] for points in seen.values())
    if end <= start:
        return None
    records = sum(_at(points, end) - _at(points, start) for points in seen.values())
    return {"records": records, "seconds": end - start, "records_per_second": records / (end - start)}


def _at(points: Sequence[tuple[float, int]], when: float) -> float:
    before, after = points[0], points[-1]
    for point in points:
        if point[0] <= when:
            before = point
        else:
            after = point
            break
    if after[0] <= before[0]:
        return before[1]
    return before[1] + (after[1] - before[1]) * (when - before[0]) / (after[0] - before[0])
