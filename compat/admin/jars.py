"""The jars of Pulsar's own pulsar-admin.

They come from Maven by `pom.xml` beside this file, must be those of `jars.sha256`, and lie in
`<project>/.cache/jars/pulsar-admin-<version>`.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from compat.peers import maven
from compat.peers.maven import JarsError
from compat.peers.pulsar.jars import verify

POM = Path(__file__).with_name("pom.xml")
HASHES = Path(__file__).with_name("jars.sha256")


def admin_version() -> str:
    """The version that the pom pins, e.g. "4.0.8"."""
    match = re.search(r"<pulsar\.admin\.version>([^<]+)</pulsar\.admin\.version>", POM.read_text())
    if match is None:
        raise JarsError(f"{POM} names no pulsar.admin.version")
    return match.group(1)


def ensure_jars() -> Path:
    """The folder with the jars (82 MB), filled on the first call (a minute, needs Maven). Raises `JarsError`."""
    folder = maven.JARS / f"pulsar-admin-{admin_version()}"
    return maven.ensure("pulsar-admin", folder, POM, partial(verify, hashes=HASHES), HASHES)


def classpath() -> str:
    """The class path of pulsar-admin. Raises `JarsError`."""
    return f"{ensure_jars()}/*"
