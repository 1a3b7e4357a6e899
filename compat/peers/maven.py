"""Jars that Maven copies into the project's cache once, for each folder with a pom."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
JARS = PROJECT / ".cache" / "jars"


class JarsError(Exception):
    """Java, Maven or the jars cannot be had; the text says which and what to do."""


def ensure(what: str, folder: Path, pom: Path, check: Callable[[Path], None], *pins: Path) -> Path:
    """The folder with the run-time class path of a pom, filled on the first call.

    `check` raises `JarsError` if what Maven brought is not right; `what` stands in messages. A stamp holds the digest
    of the pom and the `pins`, so that a changed one fetches anew; a lock file keeps two processes apart.
    """
    stamp = folder / ".stamp"
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (pom, *pins))).hexdigest()
    if _holds(stamp, digest):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have filled it while we waited.
        if not _holds(stamp, digest):
            _copy_dependencies(what, folder, pom, check)
            stamp.write_text(digest)
    return folder


def _holds(stamp: Path, digest: str) -> bool:
    try:
        return stamp.read_text() == digest
    except FileNotFoundError:
        return False


def _copy_dependencies(what: str, folder: Path, pom: Path, check: Callable[[Path], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsError(f"No Maven found: install it (Debian: maven); {what}'s jars are fetched with it.")
    # A copy of the pom in a scratch folder, so that Maven's target/ does not land in the tree.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        shutil.copy(pom, scratch)
        fresh = Path(scratch) / "jars"
        done = subprocess.run(
            [
                maven,
                *("-q", "-B", "-f", str(Path(scratch) / pom.name)),
                "dependency:copy-dependencies",
                *("-DincludeScope=runtime", f"-DoutputDirectory={fresh}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise JarsError(f"Maven could not fetch {what}'s jars:\n{done.stdout.strip()[-2000:]}")
        check(fresh)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
