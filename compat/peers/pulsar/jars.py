"""The jars of Apache Pulsar: broker, bookie, metadata store and Java client.

They come from Maven by `pom.xml` beside this file, must be those of `jars.sha256`, and lie in
`<project>/.cache/jars/pulsar-<version>`.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from compat.peers import maven
from compat.peers.maven import JarsError

POM = Path(__file__).with_name("pom.xml")
CLIENT_POM = Path(__file__).with_name("client.pom.xml")
HASHES = Path(__file__).with_name("jars.sha256")


def pulsar_version() -> str:
    """The version that the pom pins, e.g. "4.2.4"."""
    match = re.search(r"<pulsar\.version>([^<]+)</pulsar\.version>", POM.read_text())
    if match is None:
        raise JarsError(f"{POM} names no pulsar.version")
    return match.group(1)


def ensure_jars() -> Path:
    """The folder with Pulsar's jars (242 MB), filled on the first call (a minute or two, needs Maven)."""
    folder = maven.JARS / f"pulsar-{pulsar_version()}"
    return maven.ensure("Pulsar", folder, POM, verify, HASHES)


def ensure_client_jars() -> Path:
    """The folder with what a client program needs of them (73 MB), filled on the first call."""
    folder = maven.JARS / f"pulsar-client-{pulsar_version()}"
    return maven.ensure("Pulsar's client", folder, CLIENT_POM, verify_client, HASHES, POM)


def client_classpath() -> str:
    """The class path of clients alone."""
    return f"{ensure_client_jars()}/*"


def classpath() -> str:
    """The class path of broker and clients."""
    return f"{ensure_jars()}/*"


def verify(folder: Path, hashes: Path = HASHES) -> None:
    """Raise `JarsError` unless the folder holds the jars of the list and no other."""
    wanted, found = _listed(hashes), _there(folder)
    _right(
        sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)), hashes
    )


def verify_client(folder: Path, hashes: Path = HASHES) -> None:
    """Raise `JarsError` if the folder holds a jar that the list does not have, or none at all."""
    wanted, found = _listed(hashes), _there(folder)
    if not found:
        raise JarsError("Maven brought no jars")
    _right(sorted(name for name in found if wanted.get(name) != found[name]), hashes)


def _listed(hashes: Path) -> dict[str, str]:
    return {name: digest for digest, name in (line.split() for line in hashes.read_text().splitlines())}


def _there(folder: Path) -> dict[str, str]:
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}


def _right(wrong: list[str], hashes: Path) -> None:
    if wrong:
        raise JarsError(
            f"Maven brought other jars than {hashes.name} names, {len(wrong)} of them: {', '.join(wrong[:5])}"
        )
