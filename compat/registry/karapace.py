"""Karapace, a schema registry that keeps its schemas in the compacted topic `_schemas`, as a process.

It is not in the Python package index: its source comes from a Git repository, at one commit, and what it needs from the
index, by `requirements.lock`. Both lie in `.cache/karapace`, apart from the project's own environment.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compat.peers.process import free_port
from compat.tools import PROJECT, MissingToolError

VERSION = "3.15.2"
COMMIT = "800f3cbc902de6f9b7a3f9fdb9e144532db4ac28"
GIT = "https://github.com/Aiven-Open/karapace"
LOCK = Path(__file__).with_name("requirements.lock")
CACHE = PROJECT / ".cache" / "karapace"
START = 60.0
"""Seconds that a start may take."""


def ensure(git: str = GIT) -> Path:
    """The folder with its environment (`venv`) and its source, filled on the first call. Raises `MissingToolError`.

    `git` is a repository that has the commit: an address, or a folder on this machine.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp, state = CACHE / ".stamp", f"{COMMIT}\n{LOCK.read_text()}"
    with open(CACHE / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != state:
            _source(git)
            _environment()
            stamp.write_text(state)
    return CACHE


def _source(git: str) -> None:
    """Its packages at the commit, whose name is its digest: so it is the right one wherever it came from."""
    repository, source = CACHE / "git", CACHE / "source"
    shutil.rmtree(repository, ignore_errors=True)
    shutil.rmtree(source, ignore_errors=True)
    if Path(git).is_dir():
        repository = Path(git)
    else:
        _run("git", "init", "-q", "--bare", str(repository))
        _run("git", "-C", str(repository), "fetch", "-q", "--depth=1", git, COMMIT)
    packed = _run("git", "-C", str(repository), "archive", f"{COMMIT}:karapace")
    with tarfile.open(fileobj=BytesIO(packed)) as tar:
        tar.extractall(source / "karapace", filter="data")
    # what its own build writes
    (source / "karapace" / "version.py").write_text(f'__version__ = version = "{VERSION}"\n')


def _environment() -> None:
    shutil.rmtree(CACHE / "venv", ignore_errors=True)
    _run(sys.executable, "-m", "venv", str(CACHE / "venv"))
    pip = str(CACHE / "venv" / "bin" / "pip")
    _run(pip, "install", "-q", "--no-deps", "--require-hashes", "-r", str(LOCK))


def _run(*command: str) -> bytes:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-800:]
        raise MissingToolError(f"Karapace cannot be had: {' '.join(command)} said: {said}")
    return done.stdout


class Karapace:
    """One registry over `_schemas` of a server. `stop` ends it in order."""

    def __init__(self, folder: Path, bootstrap: str, directory: Path) -> None:
        """`folder` is of `ensure`; `directory` is for its configuration and its log."""
        self._folder, self._bootstrap, self._directory = folder, bootstrap, directory
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it has read its topic."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "bootstrap_uri": self._bootstrap,
            "host": "127.0.0.1",
            "advertised_hostname": "127.0.0.1",
            "port": port,
            "karapace_registry": True,
            "topic_name": "_schemas",
            "group_id": "registry",
            "client_id": "registry",
            "replication_factor": 1,
            "log_level": "WARNING",
        }
        path = self._directory / "karapace.json"
        path.write_text(json.dumps(settings))
        with open(self._directory / "karapace.log", "ab") as log:
            self._process = subprocess.Popen(
                [self._folder / "venv" / "bin" / "python", "-m", "karapace.karapace_all", path],
                env={**os.environ, "PYTHONPATH": str(self._folder / "source")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + START
        while not self._ready():
            if time.monotonic() > end or self._process.poll() is not None:
                log_end = (self._directory / "karapace.log").read_text(errors="replace")[-1000:]
                raise RuntimeError(f"Karapace does not start: {log_end}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def restart(self, bootstrap: str) -> None:
        """Stop and start; all that it knows then comes from the topic."""
        self.stop()
        self._bootstrap = bootstrap
        self.start()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One REST call; HTTP errors raise."""
        request = urllib.request.Request(f"{self.url}{path}", method=method)
        request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=30) as answer:
            return json.loads(answer.read())

    def _ready(self) -> bool:
        """Whether it is its group's primary: it says so only once the topic is read."""
        try:
            self.ask("PUT", "/config", {"compatibility": "BACKWARD"})
        except (OSError, urllib.error.HTTPError):
            return False
        return True
