"""Build a client's program: the commands of its client.toml, once for each state of its sources.

What is built lies in `.cache/compat-build/<client>`, beside it the log. Compilers get two jobs at most.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from compat.harness.catalogue import BUILDS, Client
from compat.tools import PROJECT, MissingToolError

JOBS = {
    "CARGO_BUILD_JOBS": "2",
    "GOCACHE": str(BUILDS.parent / "go-build"),
    "GOMODCACHE": str(BUILDS.parent / "go-mod"),
    "GOFLAGS": "-modcacherw -buildvcs=false",  # what is in the checkout can be removed like anything else
    "GOMAXPROCS": "2",
    "MAKEFLAGS": "-j2",
    "NPM_CONFIG_FUND": "false",
    "NPM_CONFIG_AUDIT": "false",
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
}
NOT_SOURCES = {"node_modules", "target", "__pycache__", "client.toml"}


class BuildError(MissingToolError):
    """A command of the build failed; the text names it, its last words and the log."""


def build(client: Client, say: Callable[[str], None] = lambda line: None) -> None:
    """Build unless it is built. Safe in several processes at once. Raises `tools.MissingToolError`."""
    if not client.build:
        return
    commands = client.build_lines()
    BUILDS.mkdir(parents=True, exist_ok=True)
    stamp, log = BUILDS / f"{client.name}.stamp", BUILDS / f"{client.name}.log"
    with open(BUILDS / f"{client.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = _state(client, commands)
        if _made(client) and stamp.exists() and stamp.read_text() == state:
            return
        stamp.unlink(missing_ok=True)
        client.build_folder.mkdir(exist_ok=True)
        say(f"building {client.name} (its log: {log})")
        start = time.monotonic()
        with open(log, "wb") as output:
            for command in commands:
                done = subprocess.run(
                    command,
                    cwd=client.folder,
                    env={**os.environ, **JOBS},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
                if done.returncode != 0:
                    words = log.read_text(errors="replace").strip()[-800:]
                    raise BuildError(
                        f"the program does not build: {shlex.join(command)} ended with {done.returncode}; its log "
                        f"{log.relative_to(PROJECT) if log.is_relative_to(PROJECT) else log} ends with: {words}"
                    )
        stamp.write_text(state)
        say(f"built {client.name} in {time.monotonic() - start:.0f} s")


def _made(client: Client) -> bool:
    """Nobody has removed what was built. npm insists on node_modules beside package.json."""
    modules = client.folder / "node_modules"
    return client.build_folder.is_dir() and (
        modules.is_dir() or not (client.folder / "package.json").exists()
    )


def _state(client: Client, commands: list[list[str]]) -> str:
    """A digest of everything that the build depends on."""
    digest = hashlib.sha256(repr(commands).encode())
    for folder in (client.folder, client.shared_folder):
        for path in sorted(_sources(folder)):
            digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name in NOT_SOURCES:
            continue
        if path.is_dir():
            yield from _sources(path)
        else:
            yield path
