"""The load generator: built from `loadgen/`, then run; its JSON comes back as a flat mapping of numbers."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat.tools import PROJECT

SOURCE = Path(__file__).with_name("loadgen")
PROGRAM = PROJECT / ".cache" / "bin" / "loadgen"


class GeneratorError(Exception):
    """The generator could not be built, or the load failed, or an answer was wrong."""


def build() -> Path:
    """Compile the generator (`go build` does nothing when nothing changed) and return its path."""
    go = shutil.which("go")
    if go is None:
        raise GeneratorError(
            "No Go found: the load generator is a Go program (Debian: golang-go, 1.24 or newer)."
        )
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    with open(PROGRAM.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [go, "build", "-o", str(PROGRAM), "."], cwd=SOURCE, capture_output=True, text=True
        )
    if done.returncode != 0:
        raise GeneratorError(f"The load generator does not compile:\n{done.stderr.strip()}")
    return PROGRAM


def arguments(load: str, address: str, options: Sequence[str]) -> list[str]:
    """The command line of a load."""
    return [str(PROGRAM), load, "-address", address, *options]


def run(load: str, address: str, options: Sequence[str], timeout: float) -> dict[str, float]:
    """Run a load; its figures by dotted name, e.g. "latency_ms.p99". Raises `GeneratorError`."""
    try:
        done = subprocess.run(
            arguments(load, address, options), capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise GeneratorError(f"{load} did not end within {timeout:.0f} s") from None
    return figures(done.stdout, done.stderr, done.returncode)


def figures(output: str, complaint: str, code: int) -> dict[str, float]:
    """The generator's figures; a run with errors in it has none."""
    if code != 0:
        try:
            complaint = f"errors: {json.loads(output)['error_kinds']}"
        except (ValueError, KeyError, TypeError):
            pass
        raise GeneratorError(complaint.strip() or f"exit code {code}")
    return flatten(json.loads(output))


def flatten(value: dict[str, object], prefix: str = "") -> dict[str, float]:
    """Numbers of a nested mapping by dotted name; everything else is left out."""
    flat: dict[str, float] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            flat.update(flatten(item, f"{prefix}{key}."))
        elif isinstance(item, int | float) and not isinstance(item, bool):
            flat[prefix + key] = float(item)
    return flat
