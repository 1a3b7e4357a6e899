"""The jars of Apache Pulsar: broker, bookie, metadata store and Java client.

They come from Maven by `pom.xml` beside this file, must be those of `jars.sha256`, and lie in
`<project>/.cache/jars/pulsar-<version>`. A stamp holds the digest of both files, a lock file keeps two processes apart.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from compat.peers.kafka.jars import PROJECT, JarsError

POM = Path(__file__).with_name("pom.xml")
HASHES = Path(__file__).with_name("jars.sha256")


def pulsar_version() -> str:
    """The version that the pom pins, e.g. "4.2.4"."""
    match = re.search(r"<pulsar\.version>([^<]+)</pulsar\.version>", POM.read_text())
    if match is None:
        raise JarsError(f"{POM} names no pulsar.version")
    return match.group(1)


def ensure_jars() -> Path:
    """The folder with Pulsar's jars (242 MB), filled on the first call (a minute or two, needs Maven)."""
    folder = PROJECT / ".cache" / "jars" / f"pulsar-{pulsar_version()}"
    stamp = folder / ".stamp"
    digest = hashlib.sha256(POM.read_bytes() + HASHES.read_bytes()).hexdigest()
    if _holds(stamp, digest):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have filled it while we waited.
        if not _holds(stamp, digest):
            _copy_dependencies(folder)
            stamp.write_text(digest)
    return folder


def classpath() -> str:
    """The class path of broker and clients."""
    return f"{ensure_jars()}/*"


def verify(folder: Path, hashes: Path = HASHES) -> None:
    """Raise `JarsError` unless the folder holds the jars of the list and no other."""
    wanted = {name: digest for digest, name in (line.split() for line in hashes.read_text().splitlines())}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if wrong:
        raise JarsError(
            f"Maven brought other jars than {hashes.name} names, {len(wrong)} of them: {', '.join(wrong[:5])}"
        )


def _holds(stamp: Path, digest: str) -> bool:
    try:
        return stamp.read_text() == digest
    except FileNotFoundError:
        return False


def _copy_dependencies(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsError("No Maven found: install it (Debian: maven); Pulsar's jars are fetched with it.")
    # A copy of the pom in a scratch folder, so that Maven's target/ does not land in the tree.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        shutil.copy(POM, scratch)
        fresh = Path(scratch) / "jars"
        done = subprocess.run(
            [
                maven,
                *("-q", "-B", "-f", str(Path(scratch) / POM.name)),
                "dependency:copy-dependencies",
                *("-DincludeScope=runtime", f"-DoutputDirectory={fresh}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise JarsError(f"Maven could not fetch Pulsar's jars:\n{done.stdout.strip()[-2000:]}")
        verify(fresh)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
